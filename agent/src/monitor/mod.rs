//! Compares the objects of a release with its manifest, and corrects them.
//!
//! ```text
//! record ─► manifest ─► installed (which objects, of which kinds) ─► live objects ─► verify (only those that changed) ─► drift
//! ```

mod correct;
mod installed;
mod verify;

#[cfg(test)]
pub use self::installed::Exceptions;
pub use self::{
    correct::{Corrections, correct},
    installed::{DesiredObject, Installed, InstalledError, record_of, recorded_ids},
    verify::{FIELD_MANAGER, Monitor, MonitorError, Monitored},
};
