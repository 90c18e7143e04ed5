//! The condition types that Fleet's controllers know, and the states that they mean.
//!
//! A list of conditions does not say which value of each is the normal one. So there is a table for each way to read one.

/// What the state is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateWord {
    /// A word.
    Word(&'static str),
    /// The reason of the condition.
    Reason,
}

use StateWord::{Reason, Word};

/// Conditions that are steps to completion: `False` is an error, `Unknown` means that the step is in progress.
const STEPS: [(&str, &str); 38] = [
    ("Active", "activating"),
    ("AddonDeploy", "provisioning"),
    ("AgentDeployed", "provisioning"),
    ("BackingNamespaceCreated", "configuring"),
    ("Built", "building"),
    ("CertsGenerated", "provisioning"),
    ("ConfigOK", "configuring"),
    ("Created", "creating"),
    ("CreatorMadeOwner", "configuring"),
    ("DefaultNamespaceAssigned", "configuring"),
    ("DefaultNetworkPolicyCreated", "configuring"),
    ("DefaultProjectCreated", "configuring"),
    ("DockerProvisioned", "provisioning"),
    ("Deployed", "deploying"),
    ("Drained", "draining"),
    ("Downloaded", "downloading"),
    ("etcd", "provisioning"),
    ("Inactive", "deactivating"),
    ("Initialized", "initializing"),
    ("Installed", "installing"),
    ("NodesCreated", "provisioning"),
    ("Pending", "pending"),
    ("PodScheduled", "scheduling"),
    ("Provisioned", "provisioning"),
    ("Reconciled", "reconciling"),
    ("Refreshed", "refreshed"),
    ("Registered", "registering"),
    ("Removed", "removing"),
    ("Saved", "saving"),
    ("Updated", "updating"),
    ("Updating", "updating"),
    ("Upgraded", "upgrading"),
    ("Waiting", "waiting"),
    ("InitialRolesPopulated", "activating"),
    ("ScalingActive", "pending"),
    ("AbleToScale", "pending"),
    ("RunCompleted", "running"),
    ("Processed", "processed"),
];

/// The state of a condition that is a step to completion.
pub fn step(r#type: &str) -> Option<&'static str> {
    let row = STEPS.iter().find(|(known, _)| *known == r#type);
    row.map(|(_, state)| *state)
}

/// The state of a condition that is `True` while the object is changing.
pub fn activity(r#type: &str) -> Option<&'static str> {
    (r#type == "Reconciling").then_some("reconciling")
}

/// The state of a condition that is `True` when the object is ready: `False` means that it is changing, `Unknown` is an error.
pub fn goal(r#type: &str) -> Option<StateWord> {
    Some(match r#type {
        "Completed" => Word("activating"),
        "Ready" => Word("unavailable"),
        "Available" => Word("updating"),
        "BootstrapReady" | "InfrastructureReady" | "NodeHealthy" => Reason,
        _ => return None,
    })
}

/// Whether a condition means nothing for this kind, although its type is in a table. Autoscalers have `ScalingActive` `False` on
/// purpose when the workload has no replicas.
pub fn is_normal(kind: &str, r#type: &str, status: &str, reason: &str) -> bool {
    (kind, r#type, status, reason)
        == (
            "HorizontalPodAutoscaler",
            "ScalingActive",
            "False",
            "ScalingDisabled",
        )
}
