//! The debounce: how long changes of an object are collected before it is reconciled.
//!
//! Each reconciliation after a change of a deployment writes a status, and each status is a change for the next controller. What
//! a user waits for, a new spec or a result, is reconciled immediately. What will change again by itself, because an agent is at
//! work, is reported twice a second, and that of many clusters less often: the API server reads and writes a whole status for each change of it.

use std::time::Duration;

use helmops_api::{Bundle, BundleDeployment, Cluster, Decoded};
use helmops_kube::ObjectCache;
use helmops_model::deployment_state::DeploymentState;

use crate::{
    watch::{Stores, same_name_as},
    work::{BundleKey, Cause, ClusterKey, Work},
};

/// The minimum: several writes of one client are one change.
const MIN: Duration = Duration::from_millis(20);
/// The debounce while agents are at work. Also the minimum for a Cluster, whose status counts everything that is deployed on it, and that
/// of a Schedule, whose status lists all Clusters that it selects.
const PROGRESS: Duration = Duration::from_millis(500);
/// The debounce of a Bundle: the time of a reconciliation grows with the number of deployments, and a rollout waits for it.
const OF_BUNDLE: PerObject = PerObject {
    one: Duration::from_millis(1),
    max: Duration::from_secs(2),
};
/// That of a HelmOp. Nothing waits for its status, which has the counts of each cluster: with 2,000 of them the API server takes a tenth of a
/// second for a write of it, as for a hundred other objects.
const OF_HELMOP: PerObject = PerObject {
    one: Duration::from_millis(5),
    max: Duration::from_secs(10),
};
/// That of a Cluster, by the number of Clusters: a rollout of several Bundles changes each of them several times, and takes longer with their
/// number. Nothing waits for these counts, and of a rollout over many clusters their writes are a third of the API server's work.
const OF_CLUSTER: PerObject = PerObject {
    one: Duration::from_millis(10),
    max: Duration::from_mins(1),
};

/// A debounce that grows with a number of objects.
#[derive(Clone, Copy)]
struct PerObject {
    one: Duration,
    max: Duration,
}

impl PerObject {
    fn of(self, count: usize) -> Duration {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.one.saturating_mul(count).min(self.max)
    }
}

/// The debounce of a change of an object.
pub fn of(work: &Work, cause: Cause, stores: &Stores) -> Duration {
    let bundle = match work {
        Work::HelmOp(key) => same_name_as(key),
        Work::Bundle(key) => key.clone(),
        Work::Cluster(key) => return of_cluster(key, stores),
        Work::Schedule(_) | Work::Contents => return PROGRESS,
        // A cluster administrator waits.
        Work::Import(_) | Work::Token(_) | Work::Registrations(_) => return MIN,
    };
    // A user waits.
    if cause == Cause::Request {
        return MIN;
    }
    let count = stores.deployments.count(&bundle);
    let (by_count, is_in_progress) = match work {
        Work::HelmOp(_) => (OF_HELMOP.of(count), is_helmop_in_progress as fn(&_, &_) -> _),
        _ => (OF_BUNDLE.of(count), is_bundle_in_progress as fn(&_, &_) -> _),
    };
    // The number alone decides if it is large, and there is no progress to wait for without any.
    let depends_on_states = count > 0 && by_count < PROGRESS;
    if depends_on_states && is_in_progress(&bundle, stores) {
        PROGRESS
    } else {
        by_count.max(MIN)
    }
}

/// A Cluster without a namespace is new, and its agent waits.
fn of_cluster(key: &ClusterKey, stores: &Stores) -> Duration {
    let clusters = stores.delivery.as_ref().map(|delivery| &delivery.clusters.all);
    let is_new = |cluster: &Decoded<Cluster>| {
        let cluster = cluster.valid();
        cluster.is_none_or(|cluster| cluster.status.namespace.is_empty())
    };
    let known = clusters.filter(|all| all.get(key).is_some_and(|cluster| !is_new(&cluster)));
    OF_CLUSTER.of(known.map_or(0, ObjectCache::len)).max(PROGRESS)
}

fn is_helmop_in_progress(bundle: &BundleKey, stores: &Stores) -> bool {
    let Some(found) = stores.bundles.get(bundle) else {
        return false;
    };
    let Some(found) = found.valid() else { return false };
    let states = states(bundle, stores);
    !is_settled(&states) || !is_counted(found, &states)
}

fn is_bundle_in_progress(key: &BundleKey, stores: &Stores) -> bool {
    let bundle = stores.bundles.get(key);
    let Some(bundle) = bundle.as_ref().and_then(|bundle| bundle.valid()) else {
        return false;
    };
    let states = states(key, stores);
    // What has become ready since may let the rollout continue.
    !is_settled(&states) && is_counted(bundle, &states)
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
    fn the_counts_of_clusters_wait_longer_the_more_clusters_there_are() {
        for (clusters, expected) in [(0, 500), (50, 500), (1_000, 10_000), (10_000, 60_000)] {
            let debounce = OF_CLUSTER.of(clusters).max(PROGRESS);
            assert_eq!(debounce.as_millis(), expected, "{clusters}");
        }
    }

    #[test]
    fn many_deployments_decide_by_their_number() {
        for (count, of_bundle, of_helmop) in [
            (0, 0, 0),
            (100, 100, 500),
            (2_000, 2_000, 10_000),
            (9_000, 2_000, 10_000),
        ] {
            let found = [OF_BUNDLE, OF_HELMOP].map(|by_count| by_count.of(count).as_millis());
            assert_eq!(found, [of_bundle, of_helmop], "{count}");
        }
    }
}
