//! `make demo`: the main job, step by step, with the commands that a user would type and what they print.

mod session;
mod story;

pub use story::tell;
