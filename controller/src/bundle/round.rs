//! One round of a roll-out.

use std::{collections::HashMap, time::Duration};

use futures::{FutureExt, StreamExt, stream};
use helmops_shared::{
    api::{Bundle, BundleDeployment, Decoded},
    policy::Policies,
    reason::Reason,
    status::{RolloutRound, TargetStatus},
    targeting::{
        self, Rollout, Target,
        template::{Budget, Exceeded, Limits},
    },
};

use super::{
    AT_ONCE, DeliveryError, apply,
    deliver::{Delivered, Delivery},
    error::{Refusal, check},
    is_leaving,
    observe::{self, ClusterSnapshot},
    sources::Sources,
};
use crate::{
    compute,
    context::Context,
    watch::DeliveryStores,
    work::{BundleKey, key},
    workers,
};

/// How much processor time the values of one Bundle may take, besides a time for each of its clusters: other Bundles of its
/// namespace wait meanwhile.
const MAX_VALUES_TIME: Duration = Duration::from_secs(2);

/// Values for all clusters are in memory until the last cluster has its own. Bundles with more than this, in bytes, are brought
/// to their clusters one at a time in a namespace.
const LARGE_VALUES: usize = 4 << 20;

/// A Bundle that is worked on.
pub struct Run<'r> {
    pub key: &'r BundleKey,
    pub bundle: &'r Bundle,
    pub reach: &'r DeliveryStores,
    pub context: &'r Context,
}

/// What went wrong with some clusters, or why nothing was done at all.
type Outcome = Result<Vec<DeliveryError>, Refusal>;

impl Run<'_> {
    /// Brings each cluster what it is its turn for, and tells of it. Gives what went wrong with some of them, or why nothing
    /// was done at all.
    pub async fn round(&self, place: &mut workers::WorkerPermit) -> Result<Outcome, DeliveryError> {
        loop {
            // First, since it may take a while: what is looked at then is what is acted on.
            let permit = self.context.compute.permit(place).await?;
            let policies = observe::policies(self.context, self.bundle)?;
            let surroundings =
                observe::surroundings(self.context, &self.reach.clusters, self.key, self.bundle);
            let existing = surroundings.existing();
            let found = || targets(self.bundle, &policies, &surroundings, &existing);
            let found = compute::run(&permit, found);
            drop(permit);
            if found.as_ref().is_ok_and(|found| found.bytes > LARGE_VALUES) && !place.is_alone() {
                drop(found);
                // That takes as long as another one's clusters do: what was found may be out of date then.
                place.alone().await?;
                self.check_current()?;
                continue;
            }
            self.check_current()?;
            return self.sync(found, &surroundings, &existing).await;
        }
    }

    /// Checks that the Bundle is still what it was when work on it began.
    fn check_current(&self) -> Result<(), DeliveryError> {
        if observe::is_current(self.context, self.key, self.bundle) {
            Ok(())
        } else {
            Err(DeliveryError::Behind(format!("Bundle {}", self.key.name)))
        }
    }

    /// Brings what was found to the clusters.
    async fn sync(
        &self,
        found: Result<Found<'_>, Refusal>,
        surroundings: &ClusterSnapshot,
        existing: &[&BundleDeployment],
    ) -> Result<Outcome, DeliveryError> {
        let mut failures = Vec::new();
        for leaving in existing.iter().filter(|deployment| is_leaving(deployment)) {
            // It is created again when it is gone.
            failures.extend(apply::withdraw_one(self.context, leaving).await.err());
        }
        let Found {
            mut targets,
            exceeded,
            ..
        } = match found {
            Ok(found) => found,
            Err(refusal) => return refused(refusal, failures),
        };
        // The other limits are exceeded by the same work each time, until somebody changes something.
        if let Some(exceeded @ Exceeded::Time { .. }) = exceeded {
            failures.push(DeliveryError::Overtime(exceeded));
        }
        let sources = Sources::read(self.context, self.bundle, &targets).await;
        let delivery = Delivery {
            context: self.context,
            copies: &self.reach.copies,
            bundle: self.bundle,
            sources: &sources,
        };
        // Before the plan: who cannot be given anything takes nobody's turn.
        failures.extend(targets.iter_mut().filter_map(|target| delivery.check(target)));
        let rollout = match targeting::plan(&self.bundle.spec, &targets) {
            Ok(rollout) => rollout,
            Err(error) => return refused(Refusal::new(Reason::InvalidRollout, &error), failures),
        };
        let delivered = deliver(&delivery, &targets, &rollout).await;
        failures.extend(self.prune(surroundings, &targets, existing).await);
        let strays = targeting::strays(&targets, existing);
        self.tell(&targets, &rollout, &delivered, &strays).await?;
        failures.extend(delivered.into_iter().filter_map(|delivered| delivered.failure));
        Ok(Ok(failures))
    }

    /// Withdraws the Bundle from clusters that it does not go to any more.
    async fn prune(
        &self,
        surroundings: &ClusterSnapshot,
        targets: &[Target<'_>],
        existing: &[&BundleDeployment],
    ) -> Vec<DeliveryError> {
        let orphans = targeting::orphans(targets, existing, |deployment| {
            self.is_out_of_schedule(deployment)
        });
        if orphans.is_empty() {
            return Vec::new();
        }
        if let Some(odd) = surroundings.odd() {
            tracing::warn!("{odd}: no BundleDeployment is deleted until it can be read");
            return Vec::new();
        }
        let mut failures = Vec::new();
        for orphan in orphans {
            let withdrawn = apply::withdraw_orphan(self.context, surroundings, orphan).await;
            failures.extend(withdrawn.err());
        }
        failures
    }

    /// Whether a deployment is on a cluster that waits for its time: nothing is removed there before.
    fn is_out_of_schedule(&self, deployment: &BundleDeployment) -> bool {
        let cluster = targeting::cluster_of(deployment)
            .and_then(|(namespace, name)| self.reach.clusters.all.get(&key(namespace, name)));
        cluster.is_some_and(|cluster| match &*cluster {
            Decoded::Valid(cluster) => cluster.status.is_out_of_schedule(),
            Decoded::Invalid { .. } => deployment.spec.off_schedule,
        })
    }

    async fn tell(
        &self,
        targets: &[Target<'_>],
        rollout: &Rollout,
        delivered: &[Delivered],
        strays: &HashMap<usize, String>,
    ) -> Result<(), DeliveryError> {
        let left_out = |place: usize| {
            let is_left_out = rollout.unassigned.contains(&place);
            is_left_out.then_some("no partition of spec.rolloutStrategy has this cluster; add it to one")
        };
        let places: Vec<_> = targets
            .iter()
            .zip(delivered)
            .enumerate()
            .map(|(place, (target, delivered))| TargetStatus {
                target,
                deployment: delivered.deployment.as_ref().or(target.existing),
                problem: delivered
                    .problem
                    .as_deref()
                    .or_else(|| left_out(place))
                    .or_else(|| strays.get(&place).map(String::as_str)),
            })
            .collect();
        apply::status(
            self.context,
            self.key,
            self.bundle,
            RolloutRound::Done(rollout, &places),
        )
        .await
    }
}

/// A round in which nothing was done. What failed before is tried again first: the refusal is found once more then.
fn refused(refusal: Refusal, failures: Vec<DeliveryError>) -> Result<Outcome, DeliveryError> {
    failures.into_iter().next().map_or(Ok(Err(refusal)), Err)
}

/// The clusters of a Bundle with their values.
struct Found<'a> {
    targets: Vec<Target<'a>>,
    /// The limit that ended the rendering of values.
    exceeded: Option<Exceeded>,
    /// What all values and options take.
    bytes: usize,
}

fn targets<'a>(
    bundle: &Bundle,
    policies: &Policies,
    surroundings: &'a ClusterSnapshot,
    existing: &[&'a BundleDeployment],
) -> Result<Found<'a>, Refusal> {
    check(bundle, policies)?;
    let forbids = policies.forbid_namespace_creation();
    let start = compute::processor_time();
    let clock = move || compute::processor_time().saturating_sub(start);
    let budget = Budget::new(Limits::within(MAX_VALUES_TIME), clock);
    let targets = targeting::targets(bundle, surroundings.members(), existing, forbids, &budget)
        .map_err(|error| Refusal::new(Reason::InvalidSelector, &error))?;
    Ok(Found {
        targets,
        exceeded: budget.exceeded(),
        bytes: budget.kept(),
    })
}

/// Brings each cluster what it is its turn for.
async fn deliver(delivery: &Delivery<'_>, targets: &[Target<'_>], rollout: &Rollout) -> Vec<Delivered> {
    let turns = targets.iter().zip(&rollout.turns);
    let each: Vec<_> = turns
        .map(|(target, turn)| delivery.to(target, *turn).boxed())
        .collect();
    stream::iter(each).buffered(AT_ONCE).collect().await
}
