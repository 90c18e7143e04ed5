//! The copies of `downstreamResources`: made before a release is deployed, and deleted once it does without them.

use std::collections::BTreeSet;

use helmops_api::BundleDeployment;
use helmops_release::names::{ReleaseKey, name_of};

use crate::{
    context::Context,
    error::AgentError,
    inputs::{self, Copies, CopyChanges, CopyId, ExistingCopy},
    session::ReleaseSession,
};

/// Makes the copies of the downstream resources what they should be, as the account that deploys: its permissions decide in which namespaces
/// they are. Returns whether the content of an existing one was changed.
///
/// # Errors
/// If a source is missing, or a copy cannot be read or written.
pub async fn update(session: &ReleaseSession<'_>) -> Result<bool, AgentError> {
    if session.deployment.spec.options.downstream_resources.is_empty() {
        return Ok(false);
    }
    let (_, deployer) = session.deployer().await?;
    let copies = Copies {
        upstream: &session.context.upstream,
        deployer: &deployer,
        deployment: session.deployment,
        namespace: &session.release.namespace,
        agent_namespace: &session.context.namespace,
    };
    let CopyChanges { outdated, content } = copies.compare().await?;
    if outdated.is_empty() {
        return Ok(false);
    }
    if session.settings().creates_namespace {
        let downstream = &session.context.downstream;
        inputs::create_namespace(downstream, &deployer, &session.release.namespace).await?;
    }
    copies.write(outdated).await?;
    Ok(content)
}

/// Deletes the copies that the settled release does without: its `downstreamResources` do not name them any more, or it is in another
/// namespace now. `known` are those that were wanted before. Of what was wanted before this process was started, the garbage collection takes care
/// at an interval.
///
/// # Errors
/// If one cannot be deleted.
pub async fn clear(
    session: &ReleaseSession<'_>,
    known: &mut Option<BTreeSet<CopyId>>,
) -> Result<(), AgentError> {
    let Some(wanted) = inputs::wanted_copies(session.deployment) else {
        return Ok(());
    };
    if known.as_ref().is_some_and(|known| !known.is_subset(&wanted)) {
        let (context, deployment) = (session.context, session.name());
        let namespaces = &context.release_namespaces;
        let own = Some(deployment);
        let copies = inputs::agent_copies(&context.downstream, &context.namespace, own, namespaces);
        let copies = copies.await?.remove(deployment).unwrap_or_default();
        prune(context, session.deployment, &copies).await?;
    }
    *known = Some(wanted);
    Ok(())
}

/// Deletes, of these copies of a deployment, those that it does without.
///
/// # Errors
/// If one cannot be deleted.
pub async fn prune(
    context: &Context,
    deployment: &BundleDeployment,
    copies: &[ExistingCopy],
) -> Result<(), AgentError> {
    let Some(wanted) = inputs::wanted_copies(deployment) else {
        return Ok(());
    };
    if copies.iter().all(|copy| wanted.contains(&copy.id)) {
        return Ok(());
    }
    let options = &deployment.spec.options;
    let present = ReleaseKey::of(name_of(deployment), options).namespace;
    let owned = context.owned.of_deployment(name_of(deployment)).await?;
    let namespaces = owned.iter().map(|owned| &*owned.release.namespace);
    let others = namespaces.filter(|other| *other != present).collect();
    let (_, deployer) = context.accounts.deployer(&options.service_account).await?;
    inputs::prune_copies(&deployer, copies, &wanted, &others).await?;
    Ok(())
}
