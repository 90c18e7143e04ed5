//! The debounce: how long changes of an object are collected before it is reconciled.
//!
//! Each reconciliation after a change of a deployment writes a status, and each status is a change for the next controller. What
//! a user waits for, a new spec or a result, is reconciled immediately. What will change again by itself, because an agent is at
//! work, is reported twice a second, and that of many clusters less often.

use std::time::Duration;

use helmops_api::{Bundle, BundleDeployment, Cluster, Decoded};
use helmops_kube::ObjectCache;
use helmops_model::deployment_state::DeploymentState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    watch::{Stores, same_name_as},
    work::{BundleKey, ClusterKey, HelmOpKey, Work},
};

/// The minimum: several writes of one client are one change.
const MIN: Duration = Duration::from_millis(20);
/// The debounce per deployment of an object: the time of a reconciliation grows with their number, and each of them causes
/// events.
const PER_DEPLOYMENT: Duration = Duration::from_millis(1);
/// The maximum.
const MAX: Duration = Duration::from_secs(2);
/// The debounce while agents are at work. Also the minimum for a Cluster, whose status counts everything that is deployed on it, and that
/// of a Schedule, whose status lists all Clusters that it selects.
const PROGRESS: Duration = Duration::from_millis(500);
/// The debounce of a Cluster per Cluster: a rollout of several Bundles changes each of them several times, and takes longer with their
/// number. Nothing waits for these counts, and of a rollout over many clusters their writes are a third of the API server's work.
const PER_CLUSTER: Duration = Duration::from_millis(10);
/// The maximum for a Cluster.
const MAX_CLUSTER: Duration = Duration::from_mins(1);

/// The debounce of a change of an object.
pub fn of(work: &Work, stores: &Stores) -> Duration {
    let bundle = match work {
        Work::HelmOp(key) => same_name_as(key),
        Work::Bundle(key) => key.clone(),
        Work::Cluster(key) => return of_cluster(key, stores),
        Work::Schedule(_) | Work::Contents => return PROGRESS,
        // A cluster administrator waits.
        Work::Import(_) | Work::Token(_) | Work::Registrations(_) => return MIN,
    };
    let count = stores.deployments.count(&bundle);
    let is_in_progress = || match work {
        Work::HelmOp(key) => is_helmop_in_progress(key, &bundle, stores),
        _ => is_bundle_in_progress(&bundle, stores),
    };
    let min = if depends_on_states(count) && is_in_progress() {
        PROGRESS
    } else {
        MIN
    };
    by_count(count).clamp(min, MAX)
}

/// A Cluster without a namespace is new, and its agent waits.
fn of_cluster(key: &ClusterKey, stores: &Stores) -> Duration {
    let clusters = stores.delivery.as_ref().map(|delivery| &delivery.clusters.all);
    let is_new = |cluster: &Decoded<Cluster>| {
        let cluster = cluster.valid();
        cluster.is_none_or(|cluster| cluster.status.namespace.is_empty())
    };
    let known = clusters.filter(|all| all.get(key).is_some_and(|cluster| !is_new(&cluster)));
    by_clusters(known.map_or(0, ObjectCache::len))
}

fn by_clusters(count: usize) -> Duration {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    PER_CLUSTER.saturating_mul(count).clamp(PROGRESS, MAX_CLUSTER)
}

fn by_count(count: usize) -> Duration {
    PER_DEPLOYMENT.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Whether the states of so many deployments decide on the debounce. The number alone decides if it is large, and there is no
/// progress to wait for without any.
fn depends_on_states(count: usize) -> bool {
    count > 0 && by_count(count) < PROGRESS
}

fn is_helmop_in_progress(key: &HelmOpKey, bundle: &BundleKey, stores: &Stores) -> bool {
    let (Some(helmop), Some(found)) = (stores.helmops.get(key), stores.bundles.get(bundle)) else {
        return false;
    };
    let (Some(helmop), Some(found)) = (helmop.valid(), found.valid()) else {
        return false;
    };
    let observed = helmop
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    if !is_observed(&helmop.metadata, observed) {
        return false;
    }
    let states = states(bundle, stores);
    !is_settled(&states) || !is_counted(found, &states)
}

fn is_bundle_in_progress(key: &BundleKey, stores: &Stores) -> bool {
    let bundle = stores.bundles.get(key);
    let Some(bundle) = bundle.as_ref().and_then(|bundle| bundle.valid()) else {
        return false;
    };
    let observed = bundle
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    if !is_observed(&bundle.metadata, observed) {
        return false;
    }
    let states = states(key, stores);
    // What has become ready since may let the rollout continue.
    !is_settled(&states) && is_counted(bundle, &states)
}

/// Whether the spec was reconciled already: a change of the spec does not wait.
fn is_observed(metadata: &ObjectMeta, observed_generation: Option<i64>) -> bool {
    observed_generation == metadata.generation
}

fn states(bundle: &BundleKey, stores: &Stores) -> Vec<DeploymentState> {
    let deployments = stores.deployments.of_bundle(bundle);
    let valid = deployments.iter().filter_map(|deployment| deployment.valid());
    valid
        .map(|deployment: &BundleDeployment| DeploymentState::of(deployment))
        .collect()
}

/// Whether no agent is at work on a deployment. One that is pending or out of sync waits for the controller itself.
fn is_settled(states: &[DeploymentState]) -> bool {
    use DeploymentState::{
        ErrApplied, Modified, NotReady, OutOfSync, Pending, Ready, WaitApplied, WaitingForDependency,
    };
    states.iter().all(|state| match state {
        Ready | ErrApplied | WaitingForDependency | Modified | OutOfSync | Pending => true,
        NotReady | WaitApplied => false,
    })
}

/// Whether the Bundle counts the deployments that are ready. Otherwise its status is about to change, and a HelmOp is not ready
/// before that.
fn is_counted(bundle: &Bundle, states: &[DeploymentState]) -> bool {
    let ready = states
        .iter()
        .filter(|state| **state == DeploymentState::Ready)
        .count();
    let counted = bundle.status.as_ref().and_then(|status| status.summary.as_ref());
    counted.and_then(|summary| summary.ready).unwrap_or_default() == i64::try_from(ready).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(status: &Value) -> Bundle {
        let bundle = json!({ "metadata": { "generation": 2 }, "spec": {}, "status": status });
        serde_json::from_str(&bundle.to_string()).unwrap()
    }

    #[test]
    fn what_agents_are_at_work_on_is_progress() {
        for state in DeploymentState::ALL {
            let expected = !matches!(state.as_str(), "NotReady" | "WaitApplied");
            assert_eq!(
                is_settled(&[DeploymentState::Ready, state]),
                expected,
                "{state:?}"
            );
        }
        assert!(is_settled(&[]));
    }

    #[test]
    fn a_bundle_that_does_not_count_what_is_ready_is_progress() {
        let states = [DeploymentState::Ready, DeploymentState::ErrApplied];
        for (status, expected) in [
            (json!(null), false),
            (json!({ "summary": { "ready": 0 } }), false),
            (json!({ "summary": { "ready": 1 } }), true),
            (json!({ "summary": { "ready": 2 } }), false),
        ] {
            assert_eq!(is_counted(&bundle(&status), &states), expected, "{status}");
        }
        assert!(is_counted(&bundle(&json!(null)), &[]));
    }

    #[test]
    fn a_new_spec_is_no_progress() {
        for (status, expected) in [
            (json!(null), false),
            (json!({ "observedGeneration": 1 }), false),
            (json!({ "observedGeneration": 2 }), true),
        ] {
            let bundle = bundle(&status);
            let observed = bundle
                .status
                .as_ref()
                .and_then(|status| status.observed_generation);
            assert_eq!(is_observed(&bundle.metadata, observed), expected, "{status}");
        }
    }

    #[test]
    fn the_counts_of_clusters_wait_longer_the_more_clusters_there_are() {
        for (clusters, expected) in [(0, 500), (50, 500), (1_000, 10_000), (10_000, 60_000)] {
            assert_eq!(by_clusters(clusters).as_millis(), expected, "{clusters}");
        }
    }

    #[test]
    fn many_deployments_decide_by_their_number() {
        assert!(!depends_on_states(0));
        assert!(depends_on_states(499));
        assert!(!depends_on_states(500));
    }
}
