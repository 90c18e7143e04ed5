//! What ends runs from outside.

use tokio_util::sync::CancellationToken;

/// What ends a run before its own end. Helm records such an end as an interruption, which is no failed attempt.
#[derive(Clone, Debug)]
pub struct Stop {
    /// Cancelled when the agent stops.
    pub agent: CancellationToken,
    /// Cancelled when the result of the run is of no use any more. A run that takes only seconds ends by itself all the same.
    pub superseded: CancellationToken,
}

impl Stop {
    /// Nothing but the end of the agent.
    pub fn of_agent(agent: &CancellationToken) -> Self {
        Self {
            agent: agent.clone(),
            superseded: CancellationToken::new(),
        }
    }
}
