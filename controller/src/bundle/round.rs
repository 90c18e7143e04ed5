//! One round of a rollout.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::{FutureExt, StreamExt, stream::FuturesOrdered};
use gotmpl::{Budget, Exceeded};
use helmops_api::{Bundle, BundleDeployment, Decoded, NamespacedName, timestamp::until};
use helmops_core::{
    policy::Policies,
    status::{RolloutRound, TargetStatus},
    targeting::{self, GateRequest, Member, Rollout, Target, TargetError, delivery::BundleDelivery},
};
use helmops_kube::key;
use helmops_model::reason::Reason;
use helmops_runtime::{compute, queue::RequeueAfter, workers};
use k8s_openapi::jiff::Timestamp;

use super::{
    CONCURRENCY, DeliveryError, apply,
    deliver::{Delivered, Delivery},
    error::{BundleBlocked, check},
    gates::{self, Planned},
    is_terminating,
    observe::{self, ClusterSnapshot},
    prune, sources,
};
use crate::{
    context::Context,
    schedule,
    watch::{Clusters, DeliveryStores},
    work::BundleKey,
};

/// Processor time for rendering the values of one Bundle, in addition to a time for each of its clusters: other Bundles of its
/// namespace wait meanwhile.
const MAX_VALUES_TIME: Duration = Duration::from_secs(2);

/// The values for all clusters are in memory until the last cluster is done. Bundles with larger values than this, in bytes, are
/// deployed one at a time in a namespace.
const LARGE_VALUES: usize = 4 << 20;

/// See [`max_writes`]: about as many as are written in five seconds.
const MIN_WRITES: usize = 500;

pub struct BundleReconciliation<'r> {
    pub key: &'r BundleKey,
    pub bundle: &'r Bundle,
    pub stores: &'r DeliveryStores,
    pub context: &'r Context,
}

/// A round that was done.
pub struct Round {
    /// The errors of single clusters.
    pub errors: Vec<DeliveryError>,
    /// When the next one is due, although nothing may have changed.
    pub next: RequeueAfter,
    /// Whether all clusters had their turn.
    pub is_complete: bool,
}

/// The round, or why nothing was deployed.
type RoundResult = Result<Round, BundleBlocked>;

/// How far an attempt at a round has come. What it had in memory is dropped.
enum Attempt {
    /// To its end.
    Done(RoundResult),
    /// Its values are large, and need the permit for that.
    IsLarge,
    /// It depends on a gate that an endpoint decides.
    Requires(Box<GateRequest>),
}

impl BundleReconciliation<'_> {
    /// Applies the next step of the rollout to each cluster, and updates the status.
    pub async fn roll_out(&self, permit: &mut workers::WorkerPermit) -> Result<RoundResult, DeliveryError> {
        let mut has_requested = false;
        loop {
            match self.attempt(has_requested, permit).await? {
                Attempt::Done(result) => return Ok(result),
                // Both take as long as the deployment of another Bundle, or longer: the targets may be stale then.
                Attempt::IsLarge => permit.acquire_large().await?,
                Attempt::Requires(request) => {
                    gates::request(self.context, self.key, self.bundle, &request, permit).await?;
                    has_requested = true;
                }
            }
            self.check_current()?;
        }
    }

    async fn attempt(
        &self,
        has_requested: bool,
        permit: &mut workers::WorkerPermit,
    ) -> Result<Attempt, DeliveryError> {
        // First, because it may wait: the caches are read after that.
        let compute_permit = self.context.compute.permit(permit).await?;
        let policies = observe::policies(self.context, self.bundle)?;
        let snapshot = observe::snapshot(self.context, &self.stores.clusters, self.key, self.bundle);
        let existing = snapshot.existing();
        let compute_targets = || {
            let known = &self.stores.clusters.known_windows;
            let members = snapshot.scheduled_members(Timestamp::now(), known);
            targets(self.bundle, &policies, members, &existing)
        };
        let computed = compute::run(&compute_permit, compute_targets);
        drop(compute_permit);
        let is_large = computed
            .as_ref()
            .is_ok_and(|computed| computed.bytes > LARGE_VALUES);
        if is_large && !permit.is_large() {
            return Ok(Attempt::IsLarge);
        }
        self.check_current()?;
        self.deploy(computed, &snapshot, &existing, has_requested).await
    }

    /// Checks that the Bundle has not changed since the reconciliation started.
    fn check_current(&self) -> Result<(), DeliveryError> {
        if observe::is_current(self.context, self.key, self.bundle) {
            Ok(())
        } else {
            Err(DeliveryError::Stale(format!("Bundle {}", self.key.name)))
        }
    }

    async fn deploy(
        &self,
        computed: Result<ComputedTargets<'_>, BundleBlocked>,
        snapshot: &ClusterSnapshot,
        existing: &[&BundleDeployment],
        has_requested: bool,
    ) -> Result<Attempt, DeliveryError> {
        let reason = "another client has deleted it; it is created again if a target matches its Cluster";
        let terminating = existing.iter().filter(|deployment| is_terminating(deployment));
        let deletions =
            terminating.map(|deployment| apply::delete_deployment(self.context, deployment, reason).boxed());
        let mut errors = prune::errors_of(deletions).await;
        let ComputedTargets {
            targets, exceeded, ..
        } = match computed {
            Ok(computed) => computed,
            Err(blocked) => return first_error_or(blocked, errors),
        };
        // Retrying does not help against the other limits: the input must change first.
        if let Some(exceeded @ Exceeded::Time { .. }) = exceeded {
            errors.push(DeliveryError::RenderTimeout(exceeded.into()));
        }
        let sources = sources::read(self.context, self.bundle, &targets).await;
        let delivery = Delivery {
            context: self.context,
            copies: &self.stores.copies,
            decisions: &BundleDelivery::new(self.bundle, &sources),
        };
        // Before the plan: a cluster that is blocked must not use up the limits of the rollout.
        let targets: Vec<_> = targets
            .into_iter()
            .map(|target| {
                let blocked = delivery.blocked(&target);
                target.or_blocked(blocked)
            })
            .collect();
        errors.extend(targets.iter().filter_map(retried));
        let rollout = match gates::plan(self.context, self.key, self.bundle, &targets, has_requested) {
            Ok(Planned::Round(rollout)) => rollout,
            Ok(Planned::Requires(request)) => return Ok(Attempt::Requires(request)),
            Err(error) => {
                return first_error_or(BundleBlocked::new(Reason::InvalidRollout, &error), errors);
            }
        };
        let (delivered, is_complete) = deliver(&delivery, &targets, &rollout).await;
        let held_until = self.prune(snapshot, &targets, existing, &mut errors).await;
        let strays = targeting::strays(&targets, existing);
        // What is due next does not wait for it.
        let reported = self.update_status(&targets, &rollout, &delivered, &strays).await;
        errors.extend(reported.err());
        errors.extend(delivered.into_iter().filter_map(|delivered| delivered.error));
        // The status of a Cluster changes later, and not at all if a window is shorter than that takes.
        let windows = targets.iter().filter_map(|target| target.member.schedule_changes);
        let now = Timestamp::now();
        let rest = (!is_complete).then_some(now);
        let next = windows
            .chain(held_until)
            .chain(rollout.next_round)
            .chain(rest)
            .min();
        let next = next.map(|at| until(now, at));
        Ok(Attempt::Done(Ok(Round {
            errors,
            next,
            is_complete,
        })))
    }

    /// Deletes the deployments of clusters that are not targets any more, and the copies of deployments that do not exist. Adds the
    /// errors, and returns when a deployment may be deleted that stays until then.
    async fn prune(
        &self,
        snapshot: &ClusterSnapshot,
        targets: &[Target<'_>],
        existing: &[&BundleDeployment],
        errors: &mut Vec<DeliveryError>,
    ) -> Option<Timestamp> {
        let orphans = targeting::orphans(targets, existing);
        let (orphans, held_until) = deletable(&self.stores.clusters, orphans, Timestamp::now());
        if let Some(error) = snapshot.decode_error().filter(|_| !orphans.is_empty()) {
            tracing::warn!("{error}; no BundleDeployment is deleted until it decodes");
        } else if !orphans.is_empty() {
            errors.extend(prune::delete_orphans(self.context, self.bundle, snapshot, &orphans).await);
        }
        let namespaces: HashSet<&str> = targets.iter().filter_map(Target::namespace).collect();
        let is_desired = |namespace: &str| namespaces.contains(namespace);
        errors.extend(prune::prune_unowned(self.context, &self.stores.copies, self.key, is_desired).await);
        held_until
    }

    async fn update_status(
        &self,
        targets: &[Target<'_>],
        rollout: &Rollout,
        delivered: &[Delivered],
        strays: &HashMap<usize, String>,
    ) -> Result<(), DeliveryError> {
        let unassigned = |index: usize| {
            let is_unassigned = rollout.unassigned.contains(&index);
            is_unassigned.then_some("no partition of spec.rolloutStrategy has this cluster; add it to one")
        };
        let statuses: Vec<_> = targets
            .iter()
            .zip(delivered)
            .enumerate()
            .map(|(index, (target, delivered))| TargetStatus {
                target,
                deployment: delivered.deployment.as_ref().or(target.existing),
                problem: delivered
                    .problem
                    .as_deref()
                    .or_else(|| unassigned(index))
                    .or_else(|| strays.get(&index).map(String::as_str)),
            })
            .collect();
        let round = RolloutRound::Done(rollout, &statuses);
        Ok(apply::status(self.context, self.bundle, round).await?)
    }
}

/// The deployments that may be deleted at a time, and when another one may be: nothing is deleted on a cluster whose Schedules do not allow
/// changes.
fn deletable<'a>(
    clusters: &Clusters,
    orphans: Vec<&'a BundleDeployment>,
    now: Timestamp,
) -> (Vec<&'a BundleDeployment>, Option<Timestamp>) {
    let cluster = |orphan: &&BundleDeployment| {
        let (namespace, name) = targeting::cluster_of(orphan)?;
        clusters.all.get(&key(namespace, name))
    };
    let found: Vec<_> = orphans.iter().map(cluster).collect();
    let valid = found.iter().filter_map(|cluster| cluster.as_ref()?.valid());
    let valid: Vec<_> = valid.collect();
    let decided = schedule::windows_of(clusters, valid.iter().copied(), now);
    let names = valid.iter().map(|cluster| NamespacedName::of(&cluster.metadata));
    let windows: HashMap<_, _> = names.zip(decided).collect();
    let (mut deletable, mut held_until) = (Vec::new(), None);
    for (orphan, cluster) in orphans.into_iter().zip(&found) {
        let (is_held, until) = match cluster.as_deref() {
            None => (false, None),
            Some(Decoded::Invalid { .. }) => (orphan.spec.off_schedule, None),
            Some(Decoded::Valid(cluster)) => match windows.get(&NamespacedName::of(&cluster.metadata)) {
                Some(Some(windows)) => (windows.is_out_of_schedule(), windows.again),
                // It is not certain which Schedules select the cluster: what was decided before stays.
                _ => (cluster.status.is_out_of_schedule(), None),
            },
        };
        if is_held {
            held_until = held_until.into_iter().chain(until).min();
        } else {
            deletable.push(orphan);
        }
    }
    (deletable, held_until)
}

/// The error of a target that is blocked, if it is to be retried.
fn retried(target: &Target<'_>) -> Option<DeliveryError> {
    match &target.desired {
        Err(TargetError::Blocked(blocked)) => DeliveryError::of_blocked(blocked),
        _ => None,
    }
}

/// The result of a round that is blocked. An earlier error takes precedence, so that it is retried: the retry is blocked again.
fn first_error_or(blocked: BundleBlocked, errors: Vec<DeliveryError>) -> Result<Attempt, DeliveryError> {
    let blocked = Attempt::Done(Err(blocked));
    errors.into_iter().next().map_or(Ok(blocked), Err)
}

/// The targets of a Bundle with their values.
struct ComputedTargets<'a> {
    targets: Vec<Target<'a>>,
    /// The limit that stopped the rendering of values.
    exceeded: Option<Exceeded>,
    /// Memory of all values and options.
    bytes: usize,
}

fn targets<'a>(
    bundle: &Bundle,
    policies: &Policies,
    members: Vec<Member<'a>>,
    existing: &[&'a BundleDeployment],
) -> Result<ComputedTargets<'a>, BundleBlocked> {
    check(bundle, policies)?;
    let forbids_namespaces = policies.forbid_namespace_creation();
    let start = compute::cpu_time();
    let clock = move || compute::cpu_time().saturating_sub(start);
    let budget = Budget::new(targeting::values::limits(MAX_VALUES_TIME), clock);
    let targets = targeting::targets(bundle, members, existing, forbids_namespaces, &budget)
        .map_err(|error| BundleBlocked::new(Reason::InvalidSelector, &error))?;
    Ok(ComputedTargets {
        targets,
        exceeded: budget.exceeded(),
        bytes: budget.retained(),
    })
}

/// Applies the next step of the rollout to each cluster, up to [`max_writes`] that are written. Returns whether that were all.
async fn deliver(
    delivery: &Delivery<'_>,
    targets: &[Target<'_>],
    rollout: &Rollout,
) -> (Vec<Delivered>, bool) {
    let max_writes = max_writes(targets.len());
    let (mut running, mut done) = (FuturesOrdered::new(), Vec::with_capacity(targets.len()));
    let mut written = 0;
    for (target, step) in targets.iter().zip(&rollout.steps) {
        // No more than these are in memory, of thousands.
        if running.len() == CONCURRENCY
            && let Some(delivered) = running.next().await
        {
            let delivered: Delivered = delivered;
            written += usize::from(delivered.deployment.is_some());
            done.push(delivered);
        }
        if written >= max_writes {
            break;
        }
        running.push_back(delivery.deliver_to(target, *step).boxed());
    }
    while let Some(delivered) = running.next().await {
        done.push(delivered);
    }
    let is_complete = done.len() == targets.len();
    done.resize_with(targets.len(), Delivered::default);
    (done, is_complete)
}

/// How many deployments are written before the targets of a Bundle are computed again, with what has changed meanwhile, and its status shows
/// the progress. A share of the targets, so that their computation costs a constant part of the writes, however many there are.
fn max_writes(targets: usize) -> usize {
    (targets / 4).max(MIN_WRITES)
}

#[cfg(test)]
mod tests {
    use helmops_api::labels;
    use helmops_kube::{Fold, ObjectCache};
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;

    fn cache<K, F>(objects: &[Value]) -> ObjectCache<Decoded<K>, F>
    where
        K: Resource<DynamicType = ()> + Clone,
        Decoded<K>: serde::de::DeserializeOwned,
        ObjectCache<Decoded<K>, F>: FromIterator<Decoded<K>>,
        F: Fold<std::sync::Arc<Decoded<K>>>,
    {
        let decoded = objects
            .iter()
            .map(|object| serde_json::from_str::<Decoded<K>>(&object.to_string()).unwrap());
        decoded.collect()
    }

    #[test]
    fn a_deployment_is_deleted_when_the_schedules_of_its_cluster_allow_it_whatever_its_status_says() {
        let metadata =
            |name: &str, env: &str| json!({ "namespace": "fleet", "name": name, "labels": { "env": env } });
        let mut clusters = Clusters::new();
        clusters.all = cache(&[
            json!({ "metadata": metadata("prod", "prod") }),
            json!({ "metadata": metadata("test", "test"), "status": { "scheduled": true } }),
            json!({ "metadata": metadata("odd", "prod"), "spec": 5 }),
        ]);
        let targets = json!({ "clusters": [{ "clusterSelector": { "matchLabels": { "env": "prod" } } }] });
        let spec = json!({ "schedule": "0 0 2 * * ?", "duration": "2h", "targets": targets });
        clusters.schedules = cache(&[json!({ "metadata": metadata("night", ""), "spec": spec })]);
        let orphans = [("prod", false), ("test", true), ("odd", true), ("gone", true)];
        let orphans = orphans.map(|(cluster, off_schedule)| -> BundleDeployment {
            let labels = json!({ labels::CLUSTER_NAMESPACE: "fleet", labels::CLUSTER: cluster });
            let metadata =
                json!({ "namespace": format!("cluster-{cluster}"), "name": "web", "labels": labels });
            let object = json!({ "metadata": metadata, "spec": { "offSchedule": off_schedule } });
            serde_json::from_str(&object.to_string()).unwrap()
        });
        let deleted_at = |time: &str| {
            let (deletable, until) = deletable(&clusters, orphans.iter().collect(), time.parse().unwrap());
            let namespaces = deletable
                .iter()
                .map(|one| one.metadata.namespace.clone().unwrap());
            (namespaces.collect::<Vec<_>>(), until.map(|time| time.to_string()))
        };
        let (deleted, until) = deleted_at("2026-01-01T01:00:00Z");
        assert_eq!(deleted, ["cluster-test", "cluster-gone"]);
        assert_eq!(until.as_deref(), Some("2026-01-01T02:00:00Z"));
        let (deleted, until) = deleted_at("2026-01-01T02:00:00Z");
        assert_eq!(deleted, ["cluster-prod", "cluster-test", "cluster-gone"]);
        assert_eq!(until, None);
    }

    #[test]
    fn a_bundle_needs_few_rounds_however_many_targets_it_has() {
        for (targets, writes) in [(0, 500), (500, 500), (2_000, 500), (10_000, 2_500)] {
            assert_eq!(max_writes(targets), writes, "{targets}");
        }
    }
}
