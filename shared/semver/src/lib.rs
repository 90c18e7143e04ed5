#![doc = include_str!("../README.md")]

mod constraint;
mod version;

pub use self::{
    constraint::{
        BoundError, Constraint, ConstraintError, Expected, MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN,
    },
    version::{MAX_VERSION_LEN, Version, VersionError},
};
