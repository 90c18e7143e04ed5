//! Computes the Bundle of a HelmOp from its spec and the resolved versions.

mod desired;
mod lookup;
mod owner;
mod pins;
mod plan;
mod requested;
mod requested_chart;
mod requests;
mod withheld;

pub(crate) use self::pins::satisfies;
pub use self::{
    desired::MissingVersion,
    lookup::Lookup,
    owner::{OwnershipConflict, check_owner},
    plan::{BundleInputs, Plan, plan},
    requested::RequestedCharts,
    requested_chart::{PolledChart, RequestedChart},
    withheld::{deployed_charts, rollout_status, withheld_charts},
};

#[cfg(test)]
mod tests;
