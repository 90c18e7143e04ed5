//! Computes the Bundle of a HelmOp from its spec and the resolved versions.

mod desired;
mod lookup;
mod owner;
mod pins;
mod plan;
mod requested;
mod requested_chart;
mod requests;

pub use self::{
    desired::MissingVersion,
    lookup::Lookup,
    owner::{OwnershipConflict, check_owner},
    plan::{BundleInputs, Plan, plan},
    requested::RequestedCharts,
    requested_chart::{PolledChart, RequestedChart},
};

#[cfg(test)]
mod tests;
