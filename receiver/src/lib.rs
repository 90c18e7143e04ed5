//! The receiver: the only process of helmops that is exposed outside of the cluster.
//!
//! ```text
//! registry ──HTTP──► router ──► table: which Receiver ──► body ──► gate: proof, announcements, replay, rate ──► recorder ──► status.pushes
//!                                 ▲
//! Secret helmops-receivers ──► entries
//! ```
//!
//! It knows what one Secret says, and writes the status of Receivers. It cannot read another Secret, and cannot change a HelmOp: the
//! notifier, which is not exposed, does what a push requests.

mod args;
mod entries;
mod gate;
mod limits;
mod metrics;
mod recorder;
mod reference;
mod router;
mod run;
mod status_writer;
mod table;

pub use args::Args;
pub use reference::reference;
pub use run::run;
