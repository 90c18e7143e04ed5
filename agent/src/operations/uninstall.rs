//! Uninstalls a release.

use std::time::Duration;

use helmops_helm::{
    request::{self, Request, Uninstall},
    run_scope::RunScope,
};
use helmops_release::{
    history::{History, Owner},
    names::ReleaseKey,
    record::Propagation,
};

use super::recorded::{PreparedRecord, RecordedObjects, Role};
use crate::{context::Context, error::AgentError};

/// How a release is uninstalled.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the records stay.
    pub keeps_history: bool,
    /// Whether the hooks of the chart do not run.
    pub skips_hooks: bool,
    /// What happens with the dependents of deleted objects.
    pub propagation: Propagation,
    /// How long each hook may take.
    pub timeout: Option<Duration>,
    /// The description of the newest record, if it stays.
    pub description: String,
}

/// The uninstallation of a release.
pub struct Uninstallation<'u> {
    /// What it uses.
    pub context: &'u Context,
    /// The BundleDeployment of the release.
    pub deployment: &'u str,
    /// The release.
    pub release: &'u ReleaseKey,
    /// Who uninstalls it; empty for the agent. It is not the account that a record names: everyone who may write Secrets could choose it
    /// then.
    pub account: &'u str,
}

impl Uninstallation<'_> {
    /// Uninstalls the release. An object that cannot be read does not keep the others from being deleted, but then the release is
    /// still to be uninstalled.
    ///
    /// # Errors
    /// If Helm fails, or an object cannot be read.
    pub async fn run(&self, history: &History, options: Options, stop: &RunScope) -> Result<(), AgentError> {
        let Self { context, release, .. } = *self;
        let newest = history.newest();
        let Some(newest) = newest.filter(|newest| newest.origin.owner != Owner::Other) else {
            return Ok(());
        };
        let (identity, deployer) = context.accounts.deployer(self.account).await?;
        let recorded = RecordedObjects {
            context,
            deployer: &deployer,
            writer: &context.downstream,
            release,
            set: context.set_of(self.deployment),
        };
        let PreparedRecord {
            unread,
            was_incomplete,
        } = recorded.prepare(newest.number, Role::Uninstalled).await?;
        let request = Request {
            release: release.clone(),
            identity,
            action: request::Action::Uninstall(Uninstall {
                keeps_history: options.keeps_history || unread.is_some(),
                description: options.description,
                // They have run, and may need what is deleted.
                runs_hooks: !options.skips_hooks && !was_incomplete,
                propagation: options.propagation,
            }),
            hook_timeout: options.timeout.unwrap_or(request::DEFAULT_HOOK_TIMEOUT),
        };
        let kubeconfig = context.kubeconfig()?;
        let run = context.helm.run(request, kubeconfig, stop).await;
        let is_deleted = context.deployments.get(&context.key(self.deployment)).is_none();
        run.map_err(|failure| AgentError::from(failure.of_uninstallation(is_deleted)))?;
        unread.map_or(Ok(()), |error| Err(error.into()))
    }
}
