//! Helm values: from the values in a Bundle to the values of a cluster.
//!
//! 1. A string `global.fleet.clusterLabels.<label>` is replaced by the value of the Cluster's label, or by an empty string.
//! 2. Unless `disablePreProcess` is set, all values are rendered as one [template](gotmpl::Template). Each of `templateValues`
//!    is rendered too, and replaces the top-level value of its name.
//!
//! As in Fleet, the values of a Cluster without labels (other than those of tools) are not processed. Rendering them would
//! change what is deployed there when the controller changes.

mod check;
mod labels;
mod limits;
mod preprocess;
mod syntax;

pub use self::{
    check::{ProblemKind, TemplateProblem, check, check_budget},
    labels::{clean, clean_except},
    limits::{ValuesLimitExceeded, limits},
    preprocess::{VALUES, ValuesError, ValuesErrorKind, ValuesSource, template_labels},
};

#[cfg(test)]
mod tests;
