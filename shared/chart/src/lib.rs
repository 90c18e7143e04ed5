//! The chart in a folder of files: its content, whether that has changed, and its archive.
//!
//! ```text
//! FileTree ─► locate (the folder) ─► content (changed?) ─► files (with .helmignore) ─► dependency (file://) ─► archive
//! ```
//!
//! In place of a chart, it can be manifests of objects: all files of the folder but hidden ones.
//!
//! What stores the files is a [`FileTree`]: the folders of a commit, or [`ListedFiles`], such as the objects of a bucket. What a chart
//! consists of follows from the names that the tree has for its folders and files ([`Content`]), so a file is read only when the chart has
//! changed. Values in, values out.

#![warn(missing_docs)]

mod archive;
mod content;
mod dependency;
mod error;
mod files;
mod glob;
mod ignore;
mod listed;
mod locate;
mod manifests;
mod metadata;
mod path;
mod step;
mod tree;

pub use self::{
    archive::{PackedChart, Strategy, as_is, pack},
    content::Content,
    error::ChartError,
    files::{Assembly, ChartFiles, assemble},
    listed::{EntryId, ListedFile, ListedFiles, ListedFilesError, ListedFolders, TooManyFolders},
    manifests::assemble_manifests,
    path::{ChartPath, ChartPathError},
    step::{MAX_STEPS, PackRequest, Step},
    tree::{Entry, EntryKind, FileError, FileTree},
};

/// What a chart of listed files consists of.
pub type ListedContent = Content<EntryId>;
/// Why a folder of listed files cannot be deployed as a chart.
pub type ListedChartError = ChartError<ListedFilesError>;
/// A chart that is packed from listed files.
pub type PackedListedChart = PackedChart<EntryId>;
