//! The files of a chart or a Bundle, as Content objects of the management cluster have them.
//!
//! ```text
//! files ─► Manifest ─► JSON ─► gzip ─► one Content, named by the ID          (Fleet's format)
//!                       │        └───► parts of it, and a Content that lists them (only helmops reads this)
//!                       └─► SHA-256 ─► ID
//! ```
//!
//! JSON and ID are those of Fleet, byte for byte. Whatever is read is verified against the ID, which a deployment ID starts with, so it does
//! not matter who wrote the objects. Everything that is read has [`Limits`].
//!
//! Nothing here needs a client, a clock or a file.

#![warn(missing_docs)]

mod chart;
mod digest;
mod encoded;
mod error;
mod gunzip;
mod id;
mod limits;
mod manifest;
mod opened;
mod resource;

pub use chart::{ChartContentError, of_chart};
pub use encoded::{BYTES_IN_OBJECT, Encoded};
pub use error::{ContentError, PathProblem};
pub use id::{ContentId, deployment_content};
pub use limits::Limits;
pub use manifest::Manifest;
pub use opened::{Opened, Parts, open};
pub use resource::Resource;

#[cfg(test)]
mod tests;
