//! Charts in Git repositories: which commit a reference names, what a folder of it contains, and the archive of the chart in it.
//!
//! ```text
//! reference ─► wire: list of references ─► commit ─► wire: pack of trees ─► chart: unchanged? ─► wire: pack of files ─► archive
//!                                                       └─► pack ─► object ◄───────────────────────────────┘
//! ```
//!
//! Values in, values out: [`wire`] writes requests and reads responses, and the user of this crate exchanges them.
//! Everything that is read comes from a server that may be hostile, and is bounded by [`Limits`] and by a
//! [`Meter`](helm_index::Meter) for the memory.
//!
//! What a chart is follows from the hash that Git has for its folder ([`chart::Content`]): a commit that changes nothing in there,
//! and in no folder that the chart includes by `file://`, changes no release. `helmops_chart` packs it.
//!
//! Packs are read here and not by a library: only some trees and files of one commit are needed, and these out of memory. The
//! libraries write packs with their indexes to files, have no bound for a delta, and bring dozens of crates.

#![warn(missing_docs)]

pub mod chart;
mod limits;
mod location;
mod object;
mod pack;
#[cfg(test)]
mod recorded;
mod reference;
mod request;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wire;

pub use self::{
    limits::Limits,
    location::{GIT_PREFIX, Location, LocationError, SshLocation},
    object::{ObjectFormat, ObjectId, ObjectKind},
    pack::{CACHE, Objects, Pack, PackError},
    reference::{Reference, ReferenceError, ReferenceFields, SelectError, Selected},
    request::GitChart,
};
