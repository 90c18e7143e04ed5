//! The copies of `downstreamResources`: made before a release is deployed, and deleted once it does without them.

use std::collections::BTreeSet;

use helmops_api::BundleDeployment;
use helmops_core::targeting::copies::SourceRef;
use helmops_release::{history::History, names::ReleaseKey, state::ReleaseState};
use kube::Client;

use super::deployment::{Deployment, name};
use crate::{
    context::Context,
    error::AgentError,
    inputs::{self, Copies, CopyChanges, CopyId, ExistingCopy},
};

impl Deployment<'_> {
    /// Compares the copies of the downstream resources with their sources, as the account that deploys: its permissions decide in which
    /// namespaces they are.
    pub(super) async fn compare_copies(&self) -> Result<CopyChanges, AgentError> {
        if self.wanted.spec.options.downstream_resources.is_empty() {
            return Ok(CopyChanges::default());
        }
        let (_, deployer) = self.deployer().await?;
        self.copies(&deployer).compare().await
    }

    /// Makes the copies of these sources what they should be.
    pub(super) async fn write_copies(&self, outdated: Vec<SourceRef>) -> Result<(), AgentError> {
        if outdated.is_empty() {
            return Ok(());
        }
        let (_, deployer) = self.deployer().await?;
        if self.settings().creates_namespace {
            let downstream = &self.context.downstream;
            inputs::create_namespace(downstream, &deployer, &self.release.namespace).await?;
        }
        self.copies(&deployer).write(outdated).await
    }

    fn copies<'c>(&'c self, deployer: &'c Client) -> Copies<'c> {
        Copies {
            upstream: &self.context.upstream,
            deployer,
            deployment: self.wanted,
            namespace: &self.release.namespace,
            agent_namespace: &self.context.namespace,
        }
    }

    /// Whether what is deployed was deployed with other copies. They are no part of the deployment ID. Their generation counts, and not
    /// that they were changed just now: a reconciliation may change them before the controller has written the new generation, and
    /// after an attempt that did not begin they are changed already.
    pub(super) fn has_undeployed_copies(&self, copies: bool, history: &History) -> bool {
        let (spec, status) = (&self.wanted.spec, &self.wanted.status);
        let ReleaseState::Current { revision } = self.state(history) else {
            return false;
        };
        if spec.options.downstream_resources.is_empty() {
            return false;
        }
        let recorded = history.get(revision).and_then(|revision| revision.copies);
        // Fleet's agent records nothing of them.
        let reported = Some(status.downstream_resources_generation).filter(|_| !status.release.is_empty());
        recorded.or(reported).map_or(copies, |deployed| {
            deployed != spec.downstream_resources_generation
        })
    }

    /// Deletes the copies that the settled release does without: its `downstreamResources` do not name them any more, or it is in another
    /// namespace now. `known` are those that were wanted before. Of what was wanted before this process was started, the collection takes care
    /// ([`crate::collect`]).
    ///
    /// # Errors
    /// If one cannot be deleted.
    pub(super) async fn clear_copies(&self, known: &mut Option<BTreeSet<CopyId>>) -> Result<(), AgentError> {
        let Some(wanted) = inputs::wanted_copies(self.wanted) else {
            return Ok(());
        };
        if known.as_ref().is_some_and(|known| !known.is_subset(&wanted)) {
            let (context, deployment) = (self.context, name(self.wanted));
            let namespaces = &context.release_namespaces;
            let own = Some(deployment);
            let copies = inputs::agent_copies(&context.downstream, &context.namespace, own, namespaces);
            let copies = copies.await?.remove(deployment).unwrap_or_default();
            prune_copies(context, self.wanted, &copies).await?;
        }
        *known = Some(wanted);
        Ok(())
    }
}

/// Deletes, of these copies of a deployment, those that it does without.
///
/// # Errors
/// If one cannot be deleted.
pub async fn prune_copies(
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
    let present = ReleaseKey::of(name(deployment), options).namespace;
    let owned = context.owned.of_deployment(name(deployment)).await?;
    let namespaces = owned.iter().map(|owned| &*owned.release.namespace);
    let others = namespaces.filter(|other| *other != present).collect();
    let (_, deployer) = context.accounts.deployer(&options.service_account).await?;
    inputs::prune_copies(&deployer, copies, &wanted, &others).await?;
    Ok(())
}
