//! What a run leaves in its workspace if the process ends during it, without a chance to remove it.

use serde::{Deserialize, Serialize};

/// The mark of a run, in its workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMark {
    /// The release, as `namespace/name`.
    pub release: String,
    /// What is deployed.
    pub deployment_id: String,
    /// How many runs of this deployment have ended with the agent before.
    pub crashes: u32,
}
