#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod constraint;
mod version;

pub use self::{
    constraint::{
        BoundError, Condition, Constraint, ConstraintError, Expected, MAX_CONSTRAINT_GROUPS,
        MAX_CONSTRAINT_LEN, Operator, Precision, Unmet,
    },
    version::{MAX_VERSION_LEN, Version, VersionError},
};
