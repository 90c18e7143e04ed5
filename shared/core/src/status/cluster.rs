//! The status of a Cluster: its namespace, and its deployments.

use std::collections::BTreeMap;

use helmops_api::{
    BundleDeployment, Cluster, Decoded,
    cluster::{ClusterDisplay, ClusterStatus},
    condition::Condition,
    status::number,
    timestamp::timestamp,
};
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    deployment_state::DeploymentState,
    reason::Reason,
};
use k8s_openapi::jiff::Timestamp;
use kube_core::Resource;

use super::{
    deployments::{by_bundle, helmop_of},
    ready_message::of_summary,
    resources, summary,
};
use crate::{agents::Contact, targeting::NamespaceRefused};

/// State of a cluster whose agent has never reported, or reports no more, in `kubectl get`.
const NO_AGENT: &str = "WaitCheckIn";

/// The new status. `namespace` is that of the cluster, and `deployments` are those in it; `now` is a time in RFC 3339.
///
/// What agents and other controllers report stays as it is. If the agent is silent, the counts are those of its last report, and
/// the condition is unknown, as that of a node without a kubelet.
pub fn cluster(
    cluster: &Cluster,
    namespace: &str,
    deployments: &[&Decoded<BundleDeployment>],
    contact: Contact,
    now: &str,
) -> ClusterStatus {
    let mut status = cluster.status.clone();
    namespace.clone_into(&mut status.namespace);
    let [ready, desired] = helmops(deployments);
    let deployments = by_bundle(deployments);
    let summary = summary::of_deployments(&deployments);
    status.ready_helm_ops = Some(ready);
    status.desired_ready_helm_ops = Some(desired);
    status.resource_counts = Some(resources::counts(&deployments));
    let worst = summary::worst(&summary).map_or("", DeploymentState::as_str);
    let is_missing = last_seen(&status).is_empty() || matches!(contact, Contact::Silent(_));
    status.display = Some(ClusterDisplay {
        ready_bundles: summary::ready_of_all(&summary),
        state: if is_missing { NO_AGENT } else { worst }.to_owned(),
    });
    let ready = match contact {
        Contact::Silent(last) => silent(last),
        Contact::Unknown | Contact::Reporting(_) => of_summary(&summary, "Bundle"),
    };
    status.summary = Some(summary);
    let generation = cluster.metadata.generation;
    condition::set(
        &mut status.conditions,
        ConditionType::Ready,
        &ready,
        generation,
        now,
    );
    status
}

/// The status of a cluster that nothing is delivered to, because no namespace certainly belongs to it. Everything else stays: it
/// is the state of the cluster.
pub fn refused_cluster(cluster: &Cluster, refused: &NamespaceRefused, now: &str) -> ClusterStatus {
    let mut status = cluster.status.clone();
    let state = ConditionState::False(Reason::NamespaceConflict, refused.to_string());
    let generation = cluster.metadata.generation;
    condition::set(
        &mut status.conditions,
        ConditionType::Ready,
        &state,
        generation,
        now,
    );
    status
}

/// The message does not change while the agent is silent, so that the status is written once.
fn silent(last: Timestamp) -> ConditionState {
    let message = format!(
        "the agent of the cluster last reported at {}; its Bundles are shown as they were then; check the agent and its connection \
         to this API server",
        timestamp(last)
    );
    ConditionState::Unknown(Reason::AgentSilent, message)
}

/// Whether the status of a cluster reports that nothing is delivered to it.
pub fn is_refused(status: &ClusterStatus) -> bool {
    is_ready_for(status, Reason::NamespaceConflict)
}

/// Whether the status of a cluster reports that its agent is silent.
pub fn is_silent(status: &ClusterStatus) -> bool {
    is_ready_for(status, Reason::AgentSilent)
}

/// Whether the condition `Ready` has this reason.
fn is_ready_for(status: &ClusterStatus, reason: Reason) -> bool {
    let is_it = |condition: &Condition| {
        condition.r#type == ConditionType::Ready.as_str() && condition.reason == reason.as_str()
    };
    status.conditions.iter().any(is_it)
}

/// When the agent last reported; empty if it never has.
pub fn last_seen(status: &ClusterStatus) -> &str {
    status.agent.as_ref().map_or("", |agent| &agent.last_seen)
}

/// Number of HelmOps that are ready on the cluster, and of all HelmOps that target it.
fn helmops(deployments: &[&Decoded<BundleDeployment>]) -> [i64; 2] {
    let mut helmops = BTreeMap::new();
    for deployment in deployments {
        let is_ready =
            matches!(deployment, Decoded::Valid(one) if DeploymentState::of(one) == DeploymentState::Ready);
        if let Some(helmop) = helmop_of(deployment.meta()) {
            *helmops.entry(helmop).or_insert(false) |= is_ready;
        }
    }
    let ready = helmops.values().filter(|is_ready| **is_ready).count();
    [ready, helmops.len()].map(number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use helmops_api::labels;

    fn deployment(bundle: &str, helmop: &str, status: &Value) -> Decoded<BundleDeployment> {
        let labels = json!({
            labels::BUNDLE_NAMESPACE: "fleet", labels::BUNDLE_NAME: bundle, labels::HELM_NAME: helmop
        });
        let object = json!({
            "metadata": { "name": bundle, "namespace": "cluster-a", "labels": labels },
            "spec": { "deploymentID": ":a", "stagedDeploymentID": ":a" },
            "status": status,
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn of(agent: &Value, deployments: &[Decoded<BundleDeployment>]) -> ClusterStatus {
        with_contact(agent, deployments, Contact::Unknown)
    }

    fn with_contact(
        agent: &Value,
        deployments: &[Decoded<BundleDeployment>],
        contact: Contact,
    ) -> ClusterStatus {
        let object = json!({
            "metadata": { "name": "a", "namespace": "fleet", "generation": 1 },
            "status": { "agent": agent, "apiServerURL": "kept" },
        });
        let object: Cluster = serde_json::from_str(&object.to_string()).unwrap();
        let deployments: Vec<_> = deployments.iter().collect();
        cluster(&object, "cluster-a", &deployments, contact, "now")
    }

    #[test]
    fn bundles_and_helmops_are_counted() {
        let counts = json!({ "ready": 2, "desiredReady": 3 });
        let ready = json!({ "appliedDeploymentID": ":a", "ready": true, "nonModified": true, "resourceCounts": counts });
        let deployments = [
            deployment("web", "web", &ready),
            deployment("by-hand", "", &ready),
            deployment("db", "db", &json!({})),
        ];
        let status = of(&json!({ "lastSeen": "2026-01-01T00:00:00Z" }), &deployments);
        assert_eq!(
            [status.ready_helm_ops, status.desired_ready_helm_ops],
            [Some(1), Some(2)]
        );
        let display = status.display.unwrap();
        assert_eq!([&*display.ready_bundles, &*display.state], ["2/3", "WaitApplied"]);
        assert_eq!(status.conditions[0].message, "WaitApplied(1) [Bundle fleet/db]");
        let counts = status.resource_counts.unwrap();
        assert_eq!([counts.ready, counts.desired_ready], [Some(4), Some(6)]);
        assert_eq!(
            [&*status.namespace, &*status.api_server_url],
            ["cluster-a", "kept"]
        );
    }

    #[test]
    fn a_cluster_with_a_silent_agent_is_unknown() {
        let ready = json!({ "appliedDeploymentID": ":a", "ready": true, "nonModified": true });
        let deployments = [deployment("web", "web", &ready)];
        let agent = json!({ "lastSeen": "2026-01-01T00:00:00Z" });
        let reporting = with_contact(
            &agent,
            &deployments,
            Contact::Reporting(std::time::Duration::ZERO),
        );
        assert_eq!(reporting.conditions[0].status, "True");
        assert!(!is_silent(&reporting));
        let last = "2026-01-01T00:00:00Z".parse().unwrap();
        let silent = with_contact(&agent, &deployments, Contact::Silent(last));
        assert!(is_silent(&silent));
        let ready = &silent.conditions[0];
        assert_eq!([&*ready.status, &*ready.reason], ["Unknown", "AgentSilent"]);
        assert!(
            ready.message.contains("last reported at 2026-01-01T00:00:00Z;"),
            "{}",
            ready.message
        );
        let display = silent.display.unwrap();
        assert_eq!(
            [&*display.ready_bundles, &*display.state],
            ["1/1", "WaitCheckIn"],
            "as last reported"
        );
    }

    #[test]
    fn a_cluster_without_agent_report_waits_for_check_in() {
        assert_eq!(of(&json!({}), &[]).display.unwrap().state, "WaitCheckIn");
    }
}
