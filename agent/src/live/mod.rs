//! The live objects of releases, as watches of their kinds show them.
//!
//! ```text
//! kinds of all releases ─► one watch per kind, selected by the label of releases ─► observed ─► objects of a release
//!                          (streams)                                              health, hash
//! ```
//!
//! Nothing keeps a whole object: what a release needs of it is computed when an event shows it.

mod delete;
mod kinds;
mod observed;
mod streams;

pub use self::{
    delete::{delete, find},
    kinds::{KindError, Kinds, ResourceKind},
    observed::{Observed, Rules, RulesOf, content, whole},
    streams::{LiveObjects, NotSynced},
};
