//! `status --watch`: changes as they happen. A terminal shows the newest state; otherwise each change is a line.

mod list;
mod page;
mod screen;
mod watched;

pub use self::{list::list, page::page, screen::Screen, watched::Watched};
