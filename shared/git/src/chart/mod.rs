//! The chart in a folder of a commit: its content, whether that has changed, and its archive.
//!
//! ```text
//! commit ─► locate (the folder) ─► content (changed?) ─► files (with .helmignore) ─► dependency (file://) ─► archive
//! ```

mod archive;
mod content;
mod dependency;
mod error;
mod files;
mod glob;
mod ignore;
mod locate;
mod metadata;
mod path;

pub use self::{
    archive::{PackedChart, Strategy, pack},
    content::Content,
    error::ChartError,
    files::{Assembly, ChartFiles, assemble},
    path::{ChartPath, ChartPathError},
};

#[cfg(test)]
mod tests;
