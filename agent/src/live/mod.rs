//! The live objects of releases, as watches of their kinds show them.
//!
//! ```text
//! kinds of all releases ─► one watch per kind, selected by the label of releases ─► observed ─► objects of a release
//!                          (streams)                                              health, hash
//! ```
//!
//! Nothing keeps a whole object: what a release needs of it is computed when an event shows it.

mod kinds;
mod object_text;
mod objects;
mod observed;
mod streams;

pub use self::{
    kinds::{Kinds, ResourceKind, Served, group_of_crd},
    objects::{Metadata, Objects, api},
    observed::{Observed, Rules, RulesOf, content, whole},
    streams::{LiveObjects, NotSynced},
};

#[cfg(test)]
mod tests;
