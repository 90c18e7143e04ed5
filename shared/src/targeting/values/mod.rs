//! Helm values, from what stands in a Bundle to what a cluster gets.
//!
//! 1. A text that is `global.fleet.clusterLabels.<label>` becomes the value of the Cluster's label, or empty.
//! 2. Unless `disablePreProcess` is set, all values are rendered as a [template](super::template), in one text, and so is
//!    each of `templateValues`, which then takes the place of the top-level value of its name.
//!
//! As in Fleet nothing of this is done for a Cluster without any label that counts; its values stay as they are written.
//! Rendering them would change what is deployed there when the controller changes.

mod check;
mod labels;
mod preprocess;
pub mod yaml;

pub use self::{
    check::{ProblemKind, TemplateProblem, check, check_budget},
    labels::{clean, with_fleets},
    preprocess::{Fault, Source, VALUES, ValuesError, labels_of},
};

#[cfg(test)]
mod tests;
