//! Rollouts from beginning to end, with agents that are slow or fail, and a controller that is killed at any time: a round knows the
//! objects that are stored, and nothing else.

use std::collections::{HashMap, HashSet};

use gotmpl::Budget;
use helmops_api::{Bundle, BundleDeployment, Cluster, labels};
use k8s_openapi::{
    apimachinery::pkg::util::intstr::IntOrString,
    jiff::{SignedDuration, Timestamp},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::targeting::rollout::{
    id::rollout_id,
    partition_gate::{GateState, Verdict},
};
use crate::{
    status::{RolloutRound, TargetStatus},
    targeting::{
        criteria::Member,
        target::{Target, targets},
    },
};

/// The time between two rounds.
const TICK: i64 = 120;
/// The soak of each partition.
const SOAK: i64 = 600;
/// A rollout takes less than this many rounds, or stands still.
const MAX_ROUNDS: usize = 1_000;

/// Random numbers that a seed repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % count.max(1)
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Every fourth partition has a gate.
const fn has_gate(partition: usize) -> bool {
    partition % 4 == 3
}

/// What the API server stores, and the state of the clusters.
struct Fleet {
    bundle: Bundle,
    clusters: Vec<Cluster>,
    /// The partition of each cluster.
    partition_of: Vec<usize>,
    deployments: Vec<Option<BundleDeployment>>,
    now: i64,
    /// When every cluster of a partition was up to date and ready for the first time, as the clusters know it.
    finished: HashMap<usize, i64>,
    /// The partitions that a person has approved.
    approved: HashSet<usize>,
    /// The partitions whose gate was open when it decided on them.
    opened: HashSet<usize>,
    /// How often each cluster was promoted.
    promotions: Vec<usize>,
    /// On which share of clusters a deployment fails, in percent.
    failing: u64,
    random: Random,
}

impl Fleet {
    /// A fleet with partitions of this many clusters.
    fn new(sizes: &[usize], strategy: &Value, seed: u64) -> Self {
        let partition_of: Vec<_> = sizes
            .iter()
            .enumerate()
            .flat_map(|(partition, size)| vec![partition; *size])
            .collect();
        let clusters: Vec<Cluster> = partition_of
            .iter()
            .enumerate()
            .map(|(index, partition)| {
                decoded(&json!({
                    "metadata": { "name": format!("c{index:04}"), "namespace": "fleet", "labels": { "partition": partition.to_string() } },
                    "status": { "namespace": format!("cluster-{index}") },
                }))
            })
            .collect();
        let mut strategy = strategy.clone();
        strategy["partitions"] = (0..sizes.len())
            .map(|partition| {
                let labels = json!({ "partition": partition.to_string() });
                // Every second one needs an approval.
                let approval = if partition.is_multiple_of(2) { "" } else { "Manual" };
                let gate = has_gate(partition).then(|| json!({ "expression": "now > 0" }));
                json!({ "name": format!("p{partition}"), "approval": approval, "gate": gate, "clusterSelector": { "matchLabels": labels } })
            })
            .collect();
        let bundle = decoded(&json!({
            "metadata": { "name": "web", "namespace": "fleet", "labels": { labels::HELM_NAME: "web" } },
            "spec": {
                "rolloutStrategy": strategy, "helm": { "chart": "web", "version": "1.0.0" }, "targets": [{ "clusterSelector": {} }],
            },
        }));
        Self {
            deployments: vec![None; clusters.len()],
            promotions: vec![0; clusters.len()],
            bundle,
            clusters,
            partition_of,
            now: 1_800_000_000,
            finished: HashMap::new(),
            approved: HashSet::new(),
            opened: HashSet::new(),
            failing: 0,
            random: Random(seed.wrapping_mul(2).wrapping_add(0x9E37_79B9_7F4A_7C15)),
        }
    }

    fn set_version(&mut self, version: &str) {
        let helm = self.bundle.spec.options.helm.as_mut().unwrap();
        version.clone_into(&mut helm.version);
        self.finished.clear();
        self.approved.clear();
        self.opened.clear();
        self.promotions.fill(0);
    }

    /// Every cluster has what is desired.
    fn install(&mut self) {
        let clusters = self.clusters.clone();
        let members = clusters.iter().map(|cluster| Member::new(cluster, []));
        let found = targets(&self.bundle, members, &[], false, &Budget::default()).unwrap();
        for (index, target) in found.iter().enumerate() {
            self.promote(index, &target.desired.as_ref().unwrap().id);
        }
        for deployment in self.deployments.iter_mut().flatten() {
            let id = &deployment.spec.deployment_id;
            deployment.status.applied_deployment_id.clone_from(id);
            deployment.status.ready = true;
        }
    }

    /// Plans, with gates that are open at times.
    fn planned(&mut self, found: &[Target<'_>], now: Timestamp) -> Rollout {
        let mut gates = GateStates::default();
        loop {
            let rollout = plan(&self.bundle, found, &gates, now).unwrap();
            let Some(request) = &rollout.required_gate else {
                return rollout;
            };
            assert!(gates.get(request.partition).is_none(), "it is evaluated twice");
            let verdict = if self.random.happens(40) {
                self.opened.insert(request.partition);
                Verdict::Open
            } else {
                Verdict::Closed("closed".to_owned())
            };
            gates.add(request.partition, GateState { verdict, again: None });
        }
    }

    /// One round of the controller. If it is killed, only some clusters get their step, and the status is not written.
    fn round(&mut self, is_killed: bool) {
        let deployments = self.deployments.clone();
        let existing: Vec<_> = deployments.iter().flatten().collect();
        let clusters = std::mem::take(&mut self.clusters);
        let members = clusters.iter().map(|cluster| Member::new(cluster, []));
        let found = targets(&self.bundle, members, &existing, false, &Budget::default()).unwrap();
        let now = Timestamp::from_second(self.now).unwrap();
        let rollout = self.planned(&found, now);
        self.learn_finished(&found, &rollout);
        let reached = if is_killed {
            usize::try_from(self.random.below(found.len() as u64)).unwrap()
        } else {
            found.len()
        };
        let mut updated = Vec::new();
        for (index, (target, step)) in found.iter().zip(&rollout.steps).enumerate().take(reached) {
            if *step == RolloutStep::Promote {
                self.assert_admitted(&rollout, index);
                if target.existing.is_some_and(|one| !is_unavailable(one)) {
                    updated.push(index);
                }
                let id = &target.desired.as_ref().unwrap().id;
                self.promote(index, id);
            }
        }
        self.assert_limits(&rollout, &updated);
        if !is_killed {
            let statuses: Vec<_> = found
                .iter()
                .zip(&self.deployments)
                .map(|(target, deployment)| TargetStatus {
                    target,
                    deployment: deployment.as_ref(),
                    problem: None,
                })
                .collect();
            let round = RolloutRound::Done(&rollout, &statuses);
            let status = crate::status::bundle(&self.bundle, round, &now.to_string());
            self.bundle.status = Some(Box::new(status));
        }
        self.clusters = clusters;
    }

    /// One round of the controller, with any partitions.
    fn plan(&mut self) {
        let deployments = self.deployments.clone();
        let existing: Vec<_> = deployments.iter().flatten().collect();
        let clusters = self.clusters.clone();
        let members = clusters.iter().map(|cluster| Member::new(cluster, []));
        let found = targets(&self.bundle, members, &existing, false, &Budget::default()).unwrap();
        let now = Timestamp::from_second(self.now).unwrap();
        let rollout = self.planned(&found, now);
        for (index, (target, step)) in found.iter().zip(&rollout.steps).enumerate() {
            if *step == RolloutStep::Promote {
                self.promote(index, &target.desired.as_ref().unwrap().id);
            }
        }
        let statuses: Vec<_> = found
            .iter()
            .map(|target| TargetStatus {
                target,
                deployment: target.existing,
                problem: None,
            })
            .collect();
        let round = RolloutRound::Done(&rollout, &statuses);
        let status = crate::status::bundle(&self.bundle, round, &now.to_string());
        self.bundle.status = Some(Box::new(status));
    }

    fn promote(&mut self, index: usize, id: &str) {
        let namespace = self.clusters.get(index).map_or_else(
            || format!("cluster-{index}"),
            |cluster| cluster.status.namespace.clone(),
        );
        let deployment = self.deployments[index].get_or_insert_with(|| {
            decoded(&json!({ "metadata": { "name": "web", "namespace": namespace } }))
        });
        id.clone_into(&mut deployment.spec.deployment_id);
        id.clone_into(&mut deployment.spec.staged_deployment_id);
        self.promotions[index] += 1;
    }

    fn learn_finished(&mut self, found: &[Target<'_>], rollout: &Rollout) {
        for (number, partition) in rollout.partitions.iter().enumerate() {
            let unfinished = partition.members.iter().filter(|index| {
                let (target, deployment) = (&found[**index], &self.deployments[**index]);
                let id = &target.desired.as_ref().unwrap().id;
                deployment
                    .as_ref()
                    .is_none_or(|one| one.spec.deployment_id != *id || is_unavailable(one))
            });
            let max = usize::try_from(partition.status.max_unavailable).unwrap();
            let tolerated = if max < partition.members.len() { max } else { 0 };
            if unfinished.count() <= tolerated {
                self.finished.entry(number).or_insert(self.now);
            }
        }
    }

    /// A person approves what waits, after a while.
    fn approve(&mut self) {
        let rollout = self
            .bundle
            .status
            .as_ref()
            .and_then(|status| status.rollout.clone());
        let Some(rollout) = rollout.filter(|rollout| rollout.waits_for == "Approval") else {
            return;
        };
        if !self.random.happens(30) {
            return;
        }
        let value = format!("{}/{}", rollout.id, rollout.partition);
        let annotations = self.bundle.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::APPROVED_ROLLOUT.to_owned(), value);
        // One of an earlier version is still in the status until the next round: it must not count.
        if rollout.id == rollout_id(&self.bundle) {
            let partition = rollout.partition.trim_start_matches('p');
            self.approved.insert(partition.parse().unwrap());
        }
    }

    /// A cluster is promoted only after the earlier partitions were complete for the time of the soak.
    fn assert_admitted(&self, rollout: &Rollout, index: usize) {
        let own = self.partition_of[index];
        assert!(
            own.is_multiple_of(2) || self.approved.contains(&own),
            "cluster {index} without approval"
        );
        assert!(
            !has_gate(own) || self.opened.contains(&own),
            "cluster {index} before its gate was open"
        );
        for earlier in 0..own {
            if rollout.partitions[earlier].members.is_empty() {
                continue;
            }
            let since = self.finished.get(&earlier);
            let since =
                since.unwrap_or_else(|| panic!("cluster {index} before partition {earlier} is complete"));
            assert!(
                self.now - since >= SOAK,
                "cluster {index}, {} s after partition {earlier}",
                self.now - since
            );
        }
    }

    /// No partition with a cluster that was available and is `updated` has more unavailable ones than allowed.
    fn assert_limits(&self, rollout: &Rollout, updated: &[usize]) {
        for (number, partition) in rollout.partitions.iter().enumerate() {
            if !updated.iter().any(|index| self.partition_of[*index] == number) {
                continue;
            }
            let deployments = partition
                .members
                .iter()
                .filter_map(|index| self.deployments[*index].as_ref());
            let unavailable = deployments.filter(|one| is_unavailable(one)).count();
            let max = usize::try_from(partition.status.max_unavailable).unwrap();
            assert!(unavailable <= max, "{unavailable}: {:?}", partition.status);
        }
    }

    /// Agents deploy after some time.
    fn agents(&mut self) {
        for deployment in self.deployments.iter_mut().flatten() {
            if is_unavailable(deployment) && self.random.happens(60) {
                if self.random.happens(self.failing) {
                    deployment
                        .status
                        .failed_deployment_id
                        .clone_from(&deployment.spec.deployment_id);
                    continue;
                }
                deployment.status.failed_deployment_id.clear();
                deployment
                    .status
                    .applied_deployment_id
                    .clone_from(&deployment.spec.deployment_id);
                // Not always ready immediately.
                deployment.status.ready = self.random.happens(80);
                deployment.status.non_modified = true;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.promotions.iter().all(|count| *count > 0)
            && self
                .deployments
                .iter()
                .all(|one| one.as_ref().is_some_and(|one| !is_unavailable(one)))
    }

    /// Rolls out until every cluster is up to date and ready. `kills` is the share of rounds that are not completed, in percent.
    fn roll_out(&mut self, version: &str, kills: u64) {
        self.set_version(version);
        for _ in 0..MAX_ROUNDS {
            let is_killed = self.random.happens(kills);
            self.round(is_killed);
            if self.is_done() {
                assert!(
                    self.promotions.iter().all(|count| *count == 1),
                    "a cluster was promoted twice"
                );
                return;
            }
            self.agents();
            self.approve();
            self.now += TICK;
        }
        let rollout = self.bundle.status.as_ref().unwrap().rollout.clone();
        panic!("version {version} stands still: {rollout:?}");
    }
}

fn decoded<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn strategy(max_unavailable: &Value) -> Value {
    json!({ "maxUnavailable": max_unavailable, "soak": format!("{SOAK}s"), "maxNew": 100 })
}

/// A new version on 2,000 clusters.
#[test]
fn two_thousand_clusters_are_updated_within_the_limits_and_after_each_soak() {
    let mut fleet = Fleet::new(&[20, 180, 600, 1200], &strategy(&json!("10%")), 7);
    fleet.install();
    fleet.roll_out("1.1.0", 10);
}

/// A version that fails everywhere, while the controller is killed: it reaches a few clusters, and the version after it all of them.
#[test]
fn a_version_that_fails_on_two_thousand_clusters_is_halted_and_the_next_one_is_not() {
    let strategy = json!({ "maxUnavailable": "2%", "onFailure": { "maxFailed": 2 }, "maxNew": 100, "soak": format!("{SOAK}s") });
    let mut fleet = Fleet::new(&[200, 1800], &strategy, 11);
    fleet.install();
    fleet.failing = 100;
    fleet.set_version("1.1.0");
    for _ in 0..100 {
        let is_killed = fleet.random.happens(30);
        fleet.round(is_killed);
        fleet.agents();
        fleet.now += TICK;
    }
    fleet.round(false);
    let rollout = fleet.bundle.status.as_ref().unwrap().rollout.clone().unwrap();
    assert_eq!(rollout.waits_for, "Halt", "{rollout:?}");
    let reached = fleet.promotions.iter().filter(|count| **count > 0).count();
    // 2% of the first partition.
    assert_eq!(reached, 4, "at most as many as may be unavailable");
    fleet.failing = 0;
    fleet.roll_out("1.1.1", 10);
}

/// The status that is left of an earlier version must not open a gate of the next one: the controller is killed between the promotion
/// and the status, and the agents are faster than its successor.
#[test]
fn a_soak_is_not_over_because_an_earlier_version_has_soaked() {
    let mut fleet = Fleet::new(&[1, 1], &strategy(&Value::Null), 1);
    fleet.roll_out("1.0.0", 0);
    fleet.now += SignedDuration::from_hours(24).as_secs();
    fleet.set_version("1.1.0");
    let status = fleet.bundle.status.clone();
    fleet.round(false);
    fleet.bundle.status = status;
    let first = fleet.deployments[0].as_mut().unwrap();
    first
        .status
        .applied_deployment_id
        .clone_from(&first.spec.deployment_id);
    fleet.round(false);
    assert_eq!(fleet.promotions, [1, 0]);
    let status = fleet.bundle.status.as_ref().unwrap();
    let rollout = status.rollout.as_ref().unwrap();
    let until = Timestamp::from_second(fleet.now + SOAK).unwrap().to_string();
    assert_eq!(
        (&*rollout.waits_for, &*rollout.partition, &*rollout.until),
        ("Soak", "p1", &*until)
    );
    assert_eq!(
        rollout.message,
        format!("partition \"p1\" waits until {until} (soak of \"p0\")")
    );
}

/// Each cluster of a partition is up to date and ready.
fn make_ready(deployment: &mut BundleDeployment) {
    let id = &deployment.spec.deployment_id;
    deployment.status.applied_deployment_id.clone_from(id);
    deployment.status.ready = true;
}

fn rollout_of(fleet: &Fleet) -> RolloutStatus {
    let status = fleet.bundle.status.as_ref().unwrap();
    status.rollout.clone().unwrap()
}

/// The next partition has started: what happens in the first one later is no reason to stop it.
#[test]
fn a_soak_that_is_over_stays_over() {
    let mut fleet = Fleet::new(&[2, 0, 2], &strategy(&Value::Null), 1);
    fleet.install();
    fleet.set_version("1.1.0");
    fleet.round(false);
    fleet.deployments.iter_mut().flatten().for_each(make_ready);
    fleet.round(false);
    let completed = |fleet: &Fleet| {
        fleet.bundle.status.as_ref().unwrap().partitions[0]
            .completed_at
            .clone()
    };
    let since = completed(&fleet);
    assert!(!since.is_empty());
    // Not over yet: it starts again.
    fleet.now += SOAK / 2;
    fleet.deployments[0].as_mut().unwrap().status.ready = false;
    fleet.round(false);
    assert_eq!(completed(&fleet), "");
    fleet.deployments.iter_mut().flatten().for_each(make_ready);
    fleet.round(false);
    let since = completed(&fleet);
    fleet.now += SOAK;
    fleet.deployments[0].as_mut().unwrap().status.ready = false;
    fleet.round(false);
    assert_eq!(completed(&fleet), since);
    assert_eq!(fleet.promotions, [1, 1, 1, 1]);
    assert_eq!(rollout_of(&fleet).waits_for, "");
}

/// The names of automatic partitions are their ranges.
#[test]
fn a_soak_of_an_automatic_partition_survives_a_cluster_that_joins() {
    let of = |size: &str, joins: usize| {
        let mut fleet = Fleet::new(&[10], &strategy(&Value::Null), 1);
        let own = fleet.bundle.spec.rollout_strategy.as_mut().unwrap();
        own.partitions.clear();
        own.auto_partition_threshold = Some(1);
        own.auto_partition_size = Some(IntOrString::String("20%".to_owned()));
        fleet.install();
        fleet.set_version("1.1.0");
        for _ in 0..2 {
            fleet.plan();
            fleet.deployments.iter_mut().flatten().for_each(make_ready);
        }
        assert_eq!(fleet.promotions[..3], [1, 1, 0]);
        fleet.now += SOAK;
        let own = fleet.bundle.spec.rollout_strategy.as_mut().unwrap();
        own.auto_partition_size = Some(IntOrString::String(size.to_owned()));
        for number in 0..joins {
            let name = format!("a{number}");
            let cluster = decoded(
                &json!({ "metadata": { "name": name, "namespace": "fleet" }, "status": { "namespace": format!("cluster-{name}") } }),
            );
            fleet.clusters.insert(0, cluster);
            fleet.deployments.insert(0, None);
            fleet.promotions.insert(0, 0);
        }
        fleet.plan();
        fleet.promotions.iter().filter(|count| **count > 0).count()
    };
    // The two of the first partition, those that join, and the rest of the second one; then a soak again.
    assert_eq!(of("20%", 0), 4);
    assert_eq!(of("20%", 1), 4);
    assert_eq!(of("20%", 5), 7);
    assert_eq!(of("50%", 0), 5, "another size makes other partitions");
}

/// A person looks at what is being updated before the approval, but not at what nothing reaches, and the request comes once.
#[test]
fn an_approval_is_awaited_since_nothing_is_being_updated() {
    let mut fleet = Fleet::new(&[2, 1], &json!({}), 1);
    fleet.install();
    fleet.set_version("1.1.0");
    fleet.round(false);
    let waits = rollout_of(&fleet);
    assert_eq!((&*waits.waits_for, &*waits.since), ("Approval", ""));
    fleet
        .deployments
        .iter_mut()
        .take(1)
        .flatten()
        .for_each(make_ready);
    fleet.round(false);
    assert_eq!(rollout_of(&fleet).since, "");
    fleet.clusters[1].status.scheduled = true;
    fleet.round(false);
    let since = Timestamp::from_second(fleet.now).unwrap().to_string();
    assert_eq!(rollout_of(&fleet).since, since);
    fleet.now += TICK;
    fleet.clusters[1].status.scheduled = false;
    fleet.round(false);
    assert_eq!(rollout_of(&fleet).since, since);
}

/// What was completed once waits for nothing when the clusters go back to it.
#[test]
fn a_version_that_fails_goes_back_to_the_last_one_that_was_completed() {
    let strategy = json!({ "maxUnavailable": 1, "onFailure": { "maxFailed": 0, "action": "Rollback" }, "maxNew": 100, "soak": format!("{SOAK}s") });
    let mut fleet = Fleet::new(&[2, 2, 2], &strategy, 3);
    fleet.roll_out("1.0.0", 10);
    fleet.round(false);
    let completed = |fleet: &Fleet| fleet.bundle.status.as_ref().unwrap().completed.clone().unwrap();
    let first = completed(&fleet);
    assert_eq!(first.id, rollout_id(&fleet.bundle));
    fleet.set_version("1.1.0");
    // Every cluster has it, and one fails.
    fleet.install();
    let first_cluster = fleet.deployments[0].as_mut().unwrap();
    let failed = std::mem::take(&mut first_cluster.status.applied_deployment_id);
    first_cluster.status.failed_deployment_id = failed;
    fleet.plan();
    let rollout = rollout_of(&fleet);
    assert_eq!(rollout.waits_for, "Halt");
    let expected = "(spec.rolloutStrategy.onFailure.maxFailed); its clusters go back to what was completed before; correct";
    assert!(rollout.message.contains(expected), "{}", rollout.message);
    assert_eq!(completed(&fleet), first);
    // The Bundle has the earlier version then, and no approval is there.
    fleet.set_version("1.0.0");
    let failed = json!({ "failed": [{ "id": rollout.id }], "withheld": { "id": rollout.id } });
    let annotations = fleet.bundle.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::FAILED_ROLLOUTS.to_owned(), failed.to_string());
    for _ in 0..10 {
        fleet.plan();
        fleet.deployments.iter_mut().flatten().for_each(make_ready);
    }
    assert_eq!(rollout_of(&fleet).waits_for, "");
    assert!(fleet.deployments.iter().flatten().all(|one| !is_unavailable(one)));
    let id = |fleet: &Fleet, index: usize| {
        fleet.deployments[index]
            .as_ref()
            .unwrap()
            .spec
            .deployment_id
            .clone()
    };
    assert_eq!(id(&fleet, 0), id(&fleet, 5));
}

#[test]
fn what_every_cluster_has_goes_back_too_if_it_has_failed() {
    let strategy = json!({ "maxUnavailable": 1, "onFailure": { "action": "Rollback" } });
    let mut fleet = Fleet::new(&[1], &strategy, 3);
    fleet.install();
    fleet.plan();
    fleet.set_version("1.1.0");
    fleet.plan();
    let id = fleet.deployments[0].as_ref().unwrap().spec.deployment_id.clone();
    fleet.deployments[0].as_mut().unwrap().status.failed_deployment_id = id;
    fleet.plan();
    let rollout = rollout_of(&fleet);
    assert_eq!((&*rollout.waits_for, &*rollout.partition), ("Halt", ""));
    assert!(!rollout.since.is_empty());
    let expected = "; its clusters go back to what was completed before; correct";
    assert!(rollout.message.contains(expected), "{}", rollout.message);
}

fn fail(fleet: &mut Fleet, index: usize) {
    let deployment = fleet.deployments[index].as_mut().unwrap();
    let id = deployment.spec.deployment_id.clone();
    deployment.status.applied_deployment_id.clear();
    deployment.status.failed_deployment_id = id;
}

fn completed_id(fleet: &Fleet) -> Option<String> {
    let completed = fleet.bundle.status.as_ref().unwrap().completed.as_ref();
    completed.map(|completed| completed.id.clone())
}

/// Nothing would end a halt that keeps no cluster waiting and cannot go back.
#[test]
fn a_first_installation_that_has_failed_is_complete_when_every_cluster_is_ready() {
    let strategy = json!({ "maxUnavailable": 1, "onFailure": { "action": "Rollback" } });
    let mut fleet = Fleet::new(&[2, 1], &strategy, 3);
    fleet.plan();
    fail(&mut fleet, 0);
    fleet.plan();
    let rollout = rollout_of(&fleet);
    assert_eq!((&*rollout.waits_for, &*rollout.partition), ("Halt", "p1"));
    let expected = "; nothing is rolled back: no version has been completed on these clusters";
    assert!(rollout.message.contains(expected), "{}", rollout.message);
    fleet.deployments.iter_mut().flatten().for_each(make_ready);
    fleet.plan();
    assert_eq!(
        (&*rollout_of(&fleet).waits_for, completed_id(&fleet)),
        ("Halt", None)
    );
    let mut fleet = Fleet::new(&[2], &strategy, 3);
    fleet.plan();
    fail(&mut fleet, 0);
    fleet.plan();
    let rollout = rollout_of(&fleet);
    assert_eq!((&*rollout.waits_for, rollout.failed), ("", 1));
    assert_eq!(completed_id(&fleet), None);
    fleet.deployments.iter_mut().flatten().for_each(make_ready);
    fleet.plan();
    assert_eq!(completed_id(&fleet), Some(rollout.id));
}

#[test]
fn a_bundle_without_a_helmop_does_not_go_back() {
    let strategy = json!({ "maxUnavailable": 1, "onFailure": { "action": "Rollback" } });
    let mut fleet = Fleet::new(&[3], &strategy, 3);
    fleet.bundle.metadata.labels = None;
    fleet.install();
    fleet.plan();
    fleet.set_version("1.1.0");
    fleet.plan();
    fail(&mut fleet, 0);
    fleet.plan();
    let rollout = rollout_of(&fleet);
    let expected = "; nothing is rolled back: the Bundle is not that of a HelmOp";
    assert!(rollout.message.contains(expected), "{}", rollout.message);
}

/// What was completed on some clusters may fail on those that join.
#[test]
fn clusters_that_join_what_was_completed_are_gated() {
    let strategy = json!({ "maxUnavailable": 1, "onFailure": { "action": "Rollback" } });
    let mut fleet = Fleet::new(&[1, 1], &strategy, 3);
    fleet.install();
    fleet.plan();
    assert!(completed_id(&fleet).is_some());
    fleet.deployments[1] = None;
    fleet.plan();
    assert_eq!(rollout_of(&fleet).waits_for, "Approval");
    fail(&mut fleet, 0);
    fleet.plan();
    let rollout = rollout_of(&fleet);
    assert_eq!((&*rollout.waits_for, &*rollout.partition), ("Halt", "p1"));
    let expected = "; nothing is rolled back: it is the last one that was completed";
    assert!(rollout.message.contains(expected), "{}", rollout.message);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn kills_break_no_soak_and_no_limit(
        sizes in prop::collection::vec(0..6_usize, 1..5), max in 1..4, seed in any::<u64>(), kills in 0..60_u64,
    ) {
        let mut fleet = Fleet::new(&sizes, &strategy(&json!(max)), seed);
        for version in ["1.0.0", "1.1.0", "1.2.0"] {
            fleet.roll_out(version, kills);
        }
    }
}
