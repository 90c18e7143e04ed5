//! What runs of Helm belong to.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// The namespace of the Bundle: whose share a run uses.
pub type Tenant = Arc<str>;

/// Whose share of Helm's processes a run uses, and what ends it before its own end. Helm records such an end as an interruption, which is
/// no failed attempt.
#[derive(Clone, Debug)]
pub struct RunScope {
    /// The namespace of the Bundle; empty if it is not known.
    pub tenant: Tenant,
    /// Cancelled when the agent stops.
    pub agent: CancellationToken,
    /// Cancelled when the result of the run is of no use any more. A run that takes only seconds ends by itself all the same.
    pub superseded: CancellationToken,
}

impl RunScope {
    /// Nothing but the end of the agent ends the run.
    pub fn of_agent(agent: &CancellationToken, tenant: &str) -> Self {
        Self {
            tenant: Arc::from(tenant),
            agent: agent.clone(),
            superseded: CancellationToken::new(),
        }
    }
}
