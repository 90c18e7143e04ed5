//! Computes the Bundle of a HelmOp from its spec and the resolved versions.

mod desired;
mod lookup;
mod pins;
mod plan;
mod requested;

pub use self::{
    desired::MissingVersion,
    lookup::Lookup,
    plan::{BundleInputs, OwnershipConflict, Plan, check_owner, plan},
    requested::{RequestedChart, RequestedCharts},
};

#[cfg(test)]
mod tests;
