//! The records of releases: Secrets in the namespaces of releases, which Helm writes.
//!
//! ```text
//! watch of metadata ─► which revisions a release has, and their statuses ─► read and decoded once, if more is needed
//! ```

mod memory;
mod recent;
mod release;
mod store;
mod watched;

pub use self::{
    memory::Reserved,
    release::ReleaseRecords,
    store::{AdoptError, RecordStoreError, Records},
};
