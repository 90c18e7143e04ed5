//! Whether a BundleDeployment may be applied now.

use helmops_api::bundle_deployment::BundleDeploymentSpec;

/// Why a BundleDeployment is left as it is: neither Helm nor the correction of drift changes anything, and its status stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The BundleDeployment is paused.
    Paused,
    /// The schedule of the cluster does not allow deployments now.
    OffSchedule,
    /// The Secret with its values does not exist yet.
    WaitingForValues,
    /// The rollout has not reached this cluster.
    NotPromoted,
    /// It is suspended by its life cycle.
    Suspended,
}

impl Held {
    /// What ends it, for the status of a release that was being deployed.
    pub const fn awaits(self) -> &'static str {
        match self {
            Self::Paused => "it is paused (spec.paused of the HelmOp or of the Cluster)",
            Self::OffSchedule => "no Schedule of the cluster has a window now",
            Self::WaitingForValues => "the controller has not written its values yet",
            Self::NotPromoted => "the rollout has not reached this cluster",
            Self::Suspended => "spec.lifecycle.suspend is set",
        }
    }

    /// Why a BundleDeployment is held; `None` if it may be applied.
    pub fn of(spec: &BundleDeploymentSpec) -> Option<Self> {
        let lifecycle = spec.lifecycle.as_ref();
        if lifecycle.and_then(|lifecycle| lifecycle.suspend) == Some(true) {
            Some(Self::Suspended)
        } else if spec.paused {
            Some(Self::Paused)
        } else if spec.off_schedule {
            Some(Self::OffSchedule)
        } else if spec.waiting_for_values {
            Some(Self::WaitingForValues)
        } else if spec.deployment_id.is_empty() {
            Some(Self::NotPromoted)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_deployment_is_held_while_it_is_paused_off_schedule_incomplete_or_not_promoted() {
        let held = |spec: Value| Held::of(&serde_json::from_value(spec).unwrap());
        for (spec, expected) in [
            (json!({ "deploymentID": ":a" }), None),
            (
                json!({ "deploymentID": ":a", "paused": true }),
                Some(Held::Paused),
            ),
            (
                json!({ "deploymentID": ":a", "offSchedule": true }),
                Some(Held::OffSchedule),
            ),
            (
                json!({ "deploymentID": ":a", "waitingForValues": true }),
                Some(Held::WaitingForValues),
            ),
            (json!({ "stagedDeploymentID": ":a" }), Some(Held::NotPromoted)),
            (
                json!({ "deploymentID": ":a", "paused": true, "offSchedule": true }),
                Some(Held::Paused),
            ),
        ] {
            assert_eq!(held(spec.clone()), expected, "{spec}");
        }
    }
}
