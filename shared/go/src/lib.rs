#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod duration;
pub mod json;
pub mod number;
pub mod quantity;
pub mod regexp;
pub mod strvals;
pub mod url;
pub mod yaml;
