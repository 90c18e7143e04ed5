//! Deployments for tests.

use helmops_api::{BundleDeployment, Decoded, labels, status::BundleSummary};
use helmops_model::deployment_state::DeploymentState;
use serde_json::{Value, json};

use super::deployments::{Deployment, by_cluster};

/// A deployment with this state on the cluster `f/CLUSTER`, with more fields in its status.
pub fn deployment(cluster: &str, state: DeploymentState, more: &Value) -> Decoded<BundleDeployment> {
    let (staged, mut status) = match state {
        DeploymentState::Ready => ("a", json!({ "ready": true, "nonModified": true })),
        DeploymentState::NotReady => ("a", json!({})),
        DeploymentState::Pending => ("b", json!({ "appliedDeploymentID": "" })),
        DeploymentState::OutOfSync => ("b", json!({ "ready": true })),
        DeploymentState::Modified => ("a", json!({ "ready": true })),
        DeploymentState::WaitApplied => ("a", json!({ "appliedDeploymentID": "old" })),
        DeploymentState::WaitingForDependency => (
            "a",
            json!({ "appliedDeploymentID": "old", "conditions": [
                { "type": "Deployed", "status": "False", "reason": "WaitingForDependency" },
            ] }),
        ),
        DeploymentState::ErrApplied => (
            "a",
            json!({ "appliedDeploymentID": "old", "conditions": [{ "type": "Deployed", "status": "False" }] }),
        ),
    };
    let fields = status.as_object_mut().unwrap();
    fields.entry("appliedDeploymentID").or_insert(json!("a"));
    fields.extend(more.as_object().unwrap().clone());
    let object = json!({
        "metadata": {
            "name": "web",
            "namespace": format!("cluster-{cluster}"),
            "labels": { labels::CLUSTER_NAMESPACE: "f", labels::CLUSTER: cluster }
        },
        "spec": { "deploymentID": if state == DeploymentState::Pending { "" } else { "a" }, "stagedDeploymentID": staged },
        "status": status,
    });
    let decoded: Decoded<BundleDeployment> = serde_json::from_str(&object.to_string()).unwrap();
    assert_eq!(by_cluster(&[&decoded])[0].state, state);
    decoded
}

/// A deployment that does not decode.
pub fn invalid(cluster: &str) -> Decoded<BundleDeployment> {
    let labels = json!({ labels::CLUSTER_NAMESPACE: "f", labels::CLUSTER: cluster });
    let object = json!({ "metadata": { "name": "web", "labels": labels }, "status": { "ready": "maybe" } });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// Deployments sorted by cluster.
pub fn sorted(deployments: &[Decoded<BundleDeployment>]) -> Vec<Deployment<'_>> {
    by_cluster(&deployments.iter().collect::<Vec<_>>())
}

/// A summary as in the status of a Bundle.
#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
pub fn summary(object: Value) -> BundleSummary {
    serde_json::from_str(&object.to_string()).unwrap()
}
