//! The schedule loop: the status of each Schedule, and what the Schedules of a namespace decide about its clusters.
//!
//! The loop of Clusters writes that into the status of the Cluster, and the loop of Bundles passes it on to agents. Each decides itself, from
//! the same caches: a status is written later than what it follows from changes. All that is kept in memory follows from a Schedule and the
//! clock, so a restart in a window changes nothing.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use helmops_api::{Cluster, ClusterGroup, Decoded, Schedule, labels, timestamp::until};
use helmops_core::{
    schedule::{ClusterWindows, ScheduleIndex, next_status},
    targeting::{Group, Member},
};
use helmops_kube::name_of;
use helmops_runtime::{
    client::CallError,
    error_class::{Classified, ClassifiedError},
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, api::ObjectMeta};
use thiserror::Error;
use tracing::Span;

use crate::{
    context::Context,
    metrics,
    watch::{Clusters, DeliveryStores, in_namespaces},
    work::ScheduleKey,
    writes::MANAGER,
};

/// The reconciler of Schedules.
pub struct Schedules<'c> {
    pub context: &'c Context,
    /// The stores with Clusters and groups.
    pub stores: &'c DeliveryStores,
}

/// Why a Schedule could not be reconciled.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ScheduleError(#[from] CallError);

impl ClassifiedError for ScheduleError {
    fn classify(&self) -> Classified {
        self.0.classify()
    }
}

impl Reconciler for Schedules<'_> {
    type Object = Schedule;
    type Error = ScheduleError;
    const CONTROLLER: Controller = metrics::SCHEDULES;

    fn get(&self, key: &ScheduleKey) -> Option<Arc<Decoded<Schedule>>> {
        self.stores.clusters.schedules.get(key)
    }

    fn retry_state(&self) -> &RetryState<ScheduleKey> {
        &self.context.retries.schedules
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &ScheduleKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", schedule = name_of(key).to_string())
    }

    /// Removes the finalizer of Fleet's own controller: the Clusters are free as soon as the Schedule is being deleted.
    async fn finalize(
        &self,
        key: &ScheduleKey,
        schedule: &Decoded<Schedule>,
        _: &mut WorkerPermit,
    ) -> Result<(), ScheduleError> {
        let name = name_of(key);
        let api = Api::<Decoded<Schedule>>::namespaced(self.context.client.clone(), &name.namespace);
        let removed = MANAGER
            .remove_finalizer(&api, schedule, labels::SCHEDULE_FINALIZER)
            .await;
        let object = format_args!("Schedule {name}");
        Ok(removed.map_err(CallError::of("remove Fleet's finalizer from", object))?)
    }

    async fn reconcile(
        &self,
        _: &ScheduleKey,
        schedule: &Schedule,
        _: &mut WorkerPermit,
    ) -> Result<Done, ScheduleError> {
        let now = Timestamp::now();
        let namespace = schedule.metadata.namespace.as_deref().unwrap_or_default();
        let clusters = in_namespaces(&self.stores.clusters.all, &[namespace]);
        let groups = in_namespaces(&self.stores.clusters.groups, &[namespace]);
        let groups = groups_of(&groups);
        let existing = clusters.iter().filter_map(|cluster| cluster.valid());
        let existing = existing.filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
        let members = existing.map(|cluster| Member::new(cluster, &groups));
        let (next, changes_at) = next_status(schedule, members, now);
        let pending_writes = &self.context.retries.schedules.pending_writes;
        MANAGER
            .write_status(
                &self.context.client,
                pending_writes,
                schedule,
                &schedule.status,
                &next,
            )
            .await?;
        Ok(Done {
            requeue_after: wait(changes_at, now),
            ..Done::UNTIL_CHANGE
        })
    }
}

/// The time until a window begins or ends.
pub fn wait(changes_at: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    changes_at.map(|time| until(now, time))
}

/// What the Schedules of its namespace decide about each of these clusters, as the caches have them.
///
/// `None` if one of them, or a group, does not decode or has no room in memory: then it is not certain which of them select the cluster, and
/// what was decided before stays.
#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn windows_of<'c>(
    clusters: &Clusters,
    of: impl IntoIterator<Item = &'c Cluster>,
    now: Timestamp,
) -> Vec<Option<ClusterWindows>> {
    let of: Vec<_> = of.into_iter().collect();
    let namespaces = of.iter().filter_map(|one| one.metadata.namespace.as_deref());
    let namespaces: Vec<_> = namespaces.collect::<BTreeSet<_>>().into_iter().collect();
    let schedules = in_namespaces(&clusters.schedules, &namespaces);
    let groups = in_namespaces(&clusters.groups, &namespaces);
    let known = &clusters.known_windows;
    let index = ScheduleIndex::new(
        schedules.iter().map(|schedule| &**schedule),
        groups.iter().map(|group| &**group),
        known,
    );
    let groups = groups_of(&groups);
    of.into_iter()
        .map(|cluster| index.of_cluster(&Member::new(cluster, &groups), now, known))
        .collect()
}

/// The valid groups.
pub fn groups_of(groups: &[Arc<Decoded<ClusterGroup>>]) -> Vec<Group<'_>> {
    let groups = groups.iter().filter_map(|group| group.valid());
    groups.filter_map(Group::of).collect()
}

#[cfg(test)]
mod tests {
    use helmops_kube::ObjectCache;
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;

    fn decoded<K>(objects: &[Value]) -> ObjectCache<Decoded<K>>
    where
        K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned,
        Decoded<K>: serde::de::DeserializeOwned,
    {
        let decoded = objects
            .iter()
            .map(|object| serde_json::from_str(&object.to_string()).unwrap());
        decoded.collect::<Vec<Decoded<K>>>().into_iter().collect()
    }

    fn schedule(namespace: &str, group: &str) -> Value {
        let targets = json!({ "clusters": [{ "clusterGroup": group }] });
        json!({
            "metadata": { "namespace": namespace, "name": "night" },
            "spec": { "schedule": "0 0 2 * * ?", "duration": "2h", "targets": targets },
        })
    }

    /// What is decided about a Cluster of the namespace `fleet` at 01:00.
    fn decide(schedules: &[Value], groups: &[Value]) -> Option<ClusterWindows> {
        let mut clusters = Clusters::new();
        clusters.schedules = decoded(schedules);
        clusters.groups = decoded(groups);
        let cluster =
            json!({ "metadata": { "namespace": "fleet", "name": "c1", "labels": { "env": "prod" } } });
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let decided = windows_of(&clusters, [&cluster], "2026-01-01T01:00:00Z".parse().unwrap());
        let [decided] = <[_; 1]>::try_from(decided).unwrap();
        decided
    }

    #[test]
    fn the_schedules_and_groups_of_its_namespace_decide_about_a_cluster() {
        let group = |namespace: &str, name: &str, selector: Value| json!({ "metadata": { "namespace": namespace, "name": name }, "spec": { "selector": selector } });
        let groups = [
            group("fleet", "prod", json!({ "matchLabels": { "env": "prod" } })),
            group("fleet", "test", json!({ "matchLabels": { "env": "test" } })),
            group("other", "all", json!({})),
        ];
        for (schedules, is_open) in [
            (vec![], true),
            (vec![schedule("fleet", "prod")], false),
            (vec![schedule("fleet", "test")], true),
            (vec![schedule("fleet", "all")], true),
            (vec![schedule("other", "prod")], true),
        ] {
            let windows = decide(&schedules, &groups).unwrap();
            assert_eq!(windows.schedules.is_empty(), is_open, "{schedules:?}");
            if !is_open {
                let wait = wait(windows.again, "2026-01-01T01:00:00Z".parse().unwrap());
                assert_eq!(
                    wait,
                    Some(Duration::from_hours(1)),
                    "it is reconciled at the start of the window"
                );
            }
        }
    }

    /// Otherwise a Schedule that has no room in memory would not restrict its clusters any more.
    #[test]
    fn an_unreadable_schedule_or_group_changes_nothing() {
        let unreadable = json!({ "metadata": { "namespace": "fleet", "name": "bad" }, "spec": 1 });
        let elsewhere = json!({ "metadata": { "namespace": "other", "name": "bad" }, "spec": 1 });
        assert_eq!(
            decide(&[schedule("fleet", "prod"), unreadable.clone()], &[]),
            None
        );
        assert_eq!(
            decide(&[schedule("fleet", "prod")], std::slice::from_ref(&unreadable)),
            None
        );
        assert!(
            decide(&[], &[unreadable]).is_some(),
            "no Schedule depends on groups"
        );
        assert!(decide(std::slice::from_ref(&elsewhere), std::slice::from_ref(&elsewhere)).is_some());
    }
}
