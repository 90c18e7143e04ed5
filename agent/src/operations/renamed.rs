//! Releases that a BundleDeployment had under other names: its `releaseName`, its namespace, or that of its records, has changed.
//!
//! The release of the new name takes over what both have. The one of the old name stays until the new one is settled: deployed, ready
//! and tested. Until then nothing is uninstalled, since objects may be those of both.
//!
//! Only what this agent has deployed counts: a record alone is no proof, as at the end of a BundleDeployment ([`crate::owned`]).

use std::slice;

use helmops_api::BundleDeployment;
use helmops_process::exit::with_causes;
use helmops_release::{
    gate::Held,
    names::{ReleaseKey, name_of},
    record::{OnDelete, OnDeletePolicy, Status},
};

use super::prune::{Kept, prune};
use crate::{context::Context, error::AgentError, inputs, owned::OwnedRelease};

/// What becomes of a release of another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It stays as it is.
    Stay,
    /// Only its records are deleted.
    Forget,
    /// The objects that the present release does not have are deleted.
    Prune {
        /// Whether its records stay.
        keeps_history: bool,
    },
}

impl End {
    /// As when the BundleDeployment was deleted, without hooks: a release that still runs under another name is not to be shut down.
    const fn of(on_delete: OnDelete, keeps_objects: bool, is_uninstalled: bool) -> Self {
        let keeps_history = on_delete.keep_history;
        match on_delete.policy {
            OnDeletePolicy::Keep => Self::Stay,
            OnDeletePolicy::Forget => Self::Forget,
            OnDeletePolicy::Uninstall if keeps_objects => Self::Forget,
            OnDeletePolicy::Uninstall if is_uninstalled && keeps_history => Self::Stay,
            OnDeletePolicy::Uninstall if is_uninstalled => Self::Forget,
            OnDeletePolicy::Uninstall => Self::Prune { keeps_history },
        }
    }
}

/// The releases with records that a BundleDeployment has under any name, as far as this agent has deployed them.
///
/// # Errors
/// If a record or the ConfigMap of the agent cannot be read.
pub async fn own_releases(context: &Context, deployment: &str) -> Result<Vec<OwnedRelease>, AgentError> {
    let recorded = context.records.of_deployment(deployment).await?;
    if recorded.is_empty() {
        return Ok(Vec::new());
    }
    let mut owned = context.owned.of_deployment(deployment).await?;
    owned.retain(|owned| recorded.contains(&owned.release.records()));
    Ok(owned)
}

/// Whether a BundleDeployment has a release of another name.
pub fn is_renamed(deployment: &BundleDeployment, releases: &[OwnedRelease]) -> bool {
    let present = ReleaseKey::of(name_of(deployment), &deployment.spec.options);
    releases.iter().any(|owned| is_other(owned, &present))
}

/// Whether a release is not the present one. With the same records it is, also if its objects were in another namespace.
fn is_other(owned: &OwnedRelease, present: &ReleaseKey) -> bool {
    owned.release.records() != present.records()
}

/// Removes the releases that a BundleDeployment has under other names, once the present one is settled.
///
/// The caller holds the lock of the BundleDeployment. What fails is logged, and tried again by the garbage collection: it does not
/// concern the present release.
pub async fn remove_renamed(context: &Context, deployment: &BundleDeployment, releases: &[OwnedRelease]) {
    let present = ReleaseKey::of(name_of(deployment), &deployment.spec.options);
    let others = releases.iter().filter(|owned| is_other(owned, &present));
    if Held::of(&deployment.spec).is_some() {
        return;
    }
    let mut replacement = None;
    for other in others {
        let removed = async {
            if replacement.is_none() {
                replacement = settled(context, name_of(deployment), &present).await?;
            }
            match &replacement {
                Some(replacement) => remove(context, name_of(deployment), other, replacement).await,
                None => Ok(()),
            }
        };
        if let Err(error) = removed.await {
            let (release, error) = (&other.release, with_causes(&error));
            tracing::warn!(%release, %present, error, "cannot remove the release that was renamed; it is tried again");
        }
    }
}

/// What a release has, if it is settled.
async fn settled(
    context: &Context,
    deployment: &str,
    release: &ReleaseKey,
) -> Result<Option<Kept>, AgentError> {
    let history = context.records.current_history(release).await?;
    match history.settled(deployment) {
        Some(settled) => Ok(Some(Kept::of(context, release, settled.number).await?)),
        None => Ok(None),
    }
}

async fn remove(
    context: &Context,
    deployment: &str,
    OwnedRelease {
        release,
        service_account,
        ..
    }: &OwnedRelease,
    replacement: &Kept,
) -> Result<(), AgentError> {
    // What the cache shows may be older.
    let (history, on_delete) = context.records.current_end(release).await?;
    let Some(newest) = history.newest_of(deployment) else {
        return Ok(());
    };
    let is_uninstalled = newest.status == Status::Uninstalled;
    let end = End::of(
        on_delete.unwrap_or_default(),
        newest.keeps_objects,
        is_uninstalled,
    );
    if end == End::Stay {
        return Ok(());
    }
    tracing::info!(%release, present = %replacement.release, ?end, "removing the release that was renamed");
    if end == End::Forget && !is_uninstalled && release.namespace != replacement.release.namespace {
        // The objects that stay may use them.
        let namespaces = slice::from_ref(&release.namespace);
        inputs::keep_copies(&context.downstream, deployment, namespaces).await?;
    }
    if let End::Prune { .. } = end {
        let set = context.set_of(deployment);
        // As the account that has deployed it: it need not be that of the present release.
        let (_, deployer) = context.accounts.deployer(service_account).await?;
        prune(context, &deployer, &set, (release, newest.number), replacement).await?;
    }
    if end == (End::Prune { keeps_history: true }) {
        context.records.set_uninstalled(release, newest.number).await?;
    } else {
        context.records.delete_all(release, &history).await?;
    }
    context.owned.forget(deployment, [release.clone()]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_renamed_release_ends_as_that_of_a_deleted_bundledeployment() {
        let history = |keep_history| OnDelete {
            keep_history,
            ..OnDelete::default()
        };
        let keep = OnDelete {
            policy: OnDeletePolicy::Keep,
            ..OnDelete::default()
        };
        let prune = |keeps_history| End::Prune { keeps_history };
        for (on_delete, keeps_objects, is_uninstalled, expected) in [
            (history(false), false, false, prune(false)),
            (history(true), false, false, prune(true)),
            // Its objects are gone already.
            (history(true), false, true, End::Stay),
            (history(false), false, true, End::Forget),
            (history(false), true, false, End::Forget),
            (history(true), true, false, End::Forget),
            (keep, false, false, End::Stay),
            (keep, true, false, End::Stay),
            (history(true).with_keep_resources(true), false, false, End::Forget),
        ] {
            let end = End::of(on_delete, keeps_objects, is_uninstalled);
            assert_eq!(end, expected, "{on_delete} {keeps_objects} {is_uninstalled}");
        }
    }

    #[test]
    fn a_release_of_another_namespace_is_another_one() {
        let mut deployment = BundleDeployment::default();
        deployment.metadata.name = Some("web".to_owned());
        let set = |deployment: &mut BundleDeployment, namespace: &str| {
            Arc::make_mut(&mut deployment.spec.options).default_namespace = namespace.to_owned();
        };
        set(&mut deployment, "shop");
        let release = |namespace: &str| {
            let mut deployment = deployment.clone();
            set(&mut deployment, namespace);
            OwnedRelease::of(&deployment)
        };
        assert!(!is_renamed(&deployment, &[release("shop")]));
        assert!(is_renamed(&deployment, &[release("shop"), release("other")]));
        assert!(is_renamed(&deployment, &[release("other")]));
        assert!(!is_renamed(&deployment, &[]));
        let stored = |release: OwnedRelease, storage: &str| OwnedRelease {
            release: release.release.stored_in(storage),
            ..release
        };
        assert!(is_renamed(&deployment, &[stored(release("shop"), "flux")]));
        // The present records are not those of a renamed release, whatever namespace its objects were in.
        assert!(!is_renamed(&deployment, &[stored(release("other"), "shop")]));
    }
}
