//! Versions and constraints with the rules of `Masterminds/semver` version 3, the Go library that Helm and Fleet use.
//!
//! A chart's version that Helm accepts is accepted here, one that a constraint selects in Helm is selected here, and nothing
//! else: [`Version`] and [`Constraint`] are tested against tables that the Go library itself wrote.

mod constraint;
mod version;

pub use self::{
    constraint::{
        BoundError, Constraint, ConstraintError, Expected, MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN,
    },
    version::{MAX_VERSION_LEN, Version, VersionError},
};
