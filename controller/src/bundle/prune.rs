//! Deletes what a Bundle does not need any more: BundleDeployments, and copies that no deployment owns.

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use helmops_api::{Bundle, BundleDeployment, Decoded, NamespacedName, labels};
use helmops_core::targeting::{
    cluster_of,
    copies::CopyRef,
    delivery::{self, leftovers, may_be_of},
};
use helmops_kube::name_of;
use kube::{Resource, ResourceExt};

use super::{CONCURRENCY, DeliveryError, apply, observe, observe::ClusterSnapshot};
use crate::{context::Context, watch::Copies, work::BundleKey};

/// Deletes everything that a Bundle has deployed, and then removes its finalizer. The copies without an owner are deleted after
/// their deployment: an agent never has a deployment without its values.
pub async fn finalize(
    context: &Context,
    copies: &Copies,
    key: &BundleKey,
    bundle: &Decoded<Bundle>,
) -> Result<(), DeliveryError> {
    if !bundle
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == labels::BUNDLE_FINALIZER)
    {
        return Ok(());
    }
    // Its deletion is final, but a new Bundle with its name may have taken its deployments over.
    let name = name_of(key);
    let current = observe::metadata::<Bundle>(context, &name).await?;
    if current.is_some_and(|current| current.uid != bundle.meta().uid) {
        return Err(DeliveryError::Stale(format!("Bundle {name}")));
    }
    // The deletion of the last deployment triggers the next reconciliation.
    if delete_all(context, copies, key, "the Bundle is being deleted").await? {
        apply::remove_finalizer(context, bundle).await?;
    }
    Ok(())
}

/// Deletes what is left of a Bundle that is not in the cache, unless the API server still has the Bundle.
pub async fn delete_leftovers(
    context: &Context,
    copies: &Copies,
    key: &BundleKey,
) -> Result<(), DeliveryError> {
    let has_nothing = context.stores.deployments.of_bundle(key).is_empty()
        && copies.without_owner(key, |_| true).is_empty();
    if !has_nothing
        && observe::metadata::<Bundle>(context, &name_of(key))
            .await?
            .is_none()
    {
        delete_all(context, copies, key, "the Bundle does not exist any more").await?;
    }
    Ok(())
}

/// Deletes all deployments of a Bundle, and the copies of those that do not exist any more. Returns whether there is none left. An
/// error with one does not stop the others.
async fn delete_all(
    context: &Context,
    copies: &Copies,
    key: &BundleKey,
    reason: &str,
) -> Result<bool, DeliveryError> {
    let deployments = context.stores.deployments.of_bundle(key);
    let deletions = deployments
        .iter()
        .map(|deployment| delete_found(context, deployment, reason).boxed());
    let first_error = errors_of(deletions).await.into_iter().next();
    let errors = prune_unowned(context, copies, key, |_| false).await;
    match first_error.or_else(|| errors.into_iter().next()) {
        Some(error) => Err(error),
        None => Ok(context.stores.deployments.of_bundle(key).is_empty()),
    }
}

async fn delete_found(
    context: &Context,
    deployment: &Decoded<BundleDeployment>,
    reason: &str,
) -> Result<(), DeliveryError> {
    match deployment {
        Decoded::Valid(deployment) => apply::delete_deployment(context, deployment, reason).await,
        Decoded::Invalid { metadata, .. } => {
            let deployment = BundleDeployment {
                metadata: (**metadata).clone(),
                ..BundleDeployment::default()
            };
            apply::delete_deployment(context, &deployment, reason).await
        }
    }
}

/// Runs deletions, several at a time: an agent waits only for a while for the deletion of what depends on something that is deleted. Returns
/// the errors: one does not stop the others. No more than run at a time are in memory, of thousands.
pub fn errors_of<'d>(
    deletions: impl IntoIterator<Item = BoxFuture<'d, Result<(), DeliveryError>>, IntoIter: Send + 'd>,
) -> BoxFuture<'d, Vec<DeliveryError>> {
    let running = stream::iter(deletions).buffer_unordered(CONCURRENCY);
    let errors = running.filter_map(async |result| result.err());
    errors.collect().boxed()
}

/// Deletes the copies of a Bundle that have no owner and whose deployment does not exist, except those in namespaces where it
/// `is_desired`. Returns the errors: one does not stop the others.
pub async fn prune_unowned(
    context: &Context,
    copies: &Copies,
    key: &BundleKey,
    is_desired: impl Fn(&str) -> bool,
) -> Vec<DeliveryError> {
    let bundle_namespace = key.namespace.as_deref().unwrap_or_default();
    let has_deployment = |namespace: &str| {
        let found = context.stores.deployments.get(namespace, &key.name);
        found.is_some_and(|found| may_be_of(bundle_namespace, &key.name, found.meta()))
    };
    let unowned = copies.without_owner(key, |namespace| !is_desired(namespace));
    let leftovers = leftovers(unowned, has_deployment);
    let pruned = leftovers
        .iter()
        .map(|copy| prune_copy(context, copies, key, copy).boxed());
    errors_of(pruned).await
}

async fn prune_copy(
    context: &Context,
    copies: &Copies,
    key: &BundleKey,
    copy: &CopyRef,
) -> Result<(), DeliveryError> {
    // The version that is deleted is read first, so that a later write of the copy is not lost.
    let Some(metadata) = observe::copy_metadata(context, copies, copy).await? else {
        return Ok(());
    };
    let deployment = NamespacedName::new(&*copy.name.namespace, &*key.name);
    let bundle_namespace = key.namespace.as_deref().unwrap_or_default();
    let found = observe::metadata::<BundleDeployment>(context, &deployment).await?;
    if found.is_some_and(|found| may_be_of(bundle_namespace, &key.name, &found)) {
        return Err(DeliveryError::Stale(format!("BundleDeployment {deployment}")));
    }
    let action = delivery::release(copy, &metadata, None);
    let applied = apply::execute(context, copies, action.as_slice()).await;
    applied.error.map_or(Ok(()), |failed| Err(failed.error))
}

/// Deletes the deployments of clusters that are not targets any more according to the caches. Each cache has a watch of its own, which may
/// be behind the others, and a deletion is hard to undo. So what the plan was made from is compared with the API server first. Returns the
/// errors: that of one deployment does not stop the others.
pub async fn delete_orphans(
    context: &Context,
    bundle: &Bundle,
    snapshot: &ClusterSnapshot,
    orphans: &[&BundleDeployment],
) -> Vec<DeliveryError> {
    if let Err(error) = snapshot.confirm(context, bundle).await {
        return vec![error];
    }
    let orphans = orphans.iter().copied();
    let (owned, unowned): (Vec<_>, Vec<_>) = orphans.partition(|orphan| cluster_of(orphan).is_some());
    let owned = owned
        .iter()
        .filter_map(|orphan| Some((*orphan, cluster_of(orphan)?)));
    let deletions = owned.map(|(orphan, (namespace, name))| {
        let cluster = NamespacedName::new(namespace, name);
        delete_orphan(context, snapshot, orphan, cluster).boxed()
    });
    let mut errors = errors_of(deletions).await;
    errors.extend(delete_unowned(context, snapshot, &unowned).await);
    errors
}

/// Deletes a deployment whose labels name its Cluster.
async fn delete_orphan(
    context: &Context,
    snapshot: &ClusterSnapshot,
    orphan: &BundleDeployment,
    cluster: NamespacedName,
) -> Result<(), DeliveryError> {
    let cluster = &cluster;
    let namespace = &cluster.namespace;
    let reason = if snapshot.includes(namespace) {
        let is_there = snapshot.confirm_cluster(context, cluster).await?;
        snapshot.why_no_target(cluster, is_there)
    } else {
        format!("the Bundle does not target clusters in namespace {namespace} any more")
    };
    apply::delete_deployment(context, orphan, &reason).await
}

/// Deletes deployments without the labels of a Cluster. Any Cluster may be theirs, so all are compared with the API server, once.
async fn delete_unowned(
    context: &Context,
    snapshot: &ClusterSnapshot,
    orphans: &[&BundleDeployment],
) -> Vec<DeliveryError> {
    if orphans.is_empty() {
        return Vec::new();
    }
    if let Err(error) = snapshot.confirm_clusters(context).await {
        return vec![error];
    }
    let reason = "no target of the Bundle has this namespace any more";
    let deletions = orphans
        .iter()
        .map(|orphan| apply::delete_deployment(context, orphan, reason).boxed());
    errors_of(deletions).await
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::{sync::Barrier, time::timeout};

    use super::*;

    /// Each of these ends only when all of a round have started.
    #[tokio::test(start_paused = true)]
    async fn deletions_run_together_within_a_bound_and_an_error_stops_none() {
        let (barrier, running, most) = (
            Barrier::new(CONCURRENCY),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        let delete = async |number: usize| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let together = timeout(Duration::from_secs(10), barrier.wait()).await;
            assert!(together.is_ok(), "deletion {number} waits alone");
            running.fetch_sub(1, Ordering::SeqCst);
            let is_stale = number.is_multiple_of(CONCURRENCY);
            let error = || DeliveryError::Stale(number.to_string());
            if is_stale { Err(error()) } else { Ok(()) }
        };
        let deletions = (0..3 * CONCURRENCY).map(|number| delete(number).boxed());
        assert_eq!(errors_of(deletions).await.len(), 3);
        assert_eq!(most.into_inner(), CONCURRENCY);
    }
}
