//! The commands.

pub mod completion;
pub mod explain;
pub mod export;
pub mod logs;
pub mod values;
pub mod version;
