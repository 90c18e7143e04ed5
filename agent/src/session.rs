//! What one reconciliation of a release works with.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_api::{BundleDeployment, lifecycle::Requests};
use helmops_helm::{request::Identity, settings::HelmSettings};
use helmops_process::lock;
use helmops_release::{
    drift::DriftMode,
    lifecycle::{self, Policy, Requested},
    names::{ReleaseKey, SetId, name_of},
    plan::DesiredRelease,
    record,
};
use helmops_runtime::{error_class::ClassifiedError, retry_state::RetryKey};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use crate::{
    context::Context, error::AgentError, inputs::ObservedValues, records::ReleaseRecords, running::Work,
};

/// One reconciliation of a release: what is wanted of it, and with what it is observed and changed.
pub struct ReleaseSession<'s> {
    pub context: &'s Context,
    /// What is wanted.
    pub deployment: &'s BundleDeployment,
    pub release: ReleaseKey,
    /// What is to be deployed: the deployment ID, with the digest of the values of references. They are read again when they are deployed.
    input: Mutex<String>,
    /// Whether these values have changed since they were first seen.
    values_changed: bool,
    pub records: ReleaseRecords<'s>,
    pub policy: Policy,
    /// The requests that were not handled yet.
    pub requested: Requested,
    /// What ends the work for it early.
    pub work: &'s Work,
    /// The BundleDeployment as this reconciliation has written or read it since it began; `None` before that.
    latest: Mutex<Option<Arc<BundleDeployment>>>,
}

impl<'s> ReleaseSession<'s> {
    /// `values` are those of references. `handled` are the requests that were handled already.
    pub fn new(
        context: &'s Context,
        deployment: &'s BundleDeployment,
        work: &'s Work,
        values: &ObservedValues,
        handled: &Requests,
    ) -> Self {
        let options = &deployment.spec.options;
        let release = ReleaseKey::of(name_of(deployment), options);
        Self {
            context,
            deployment,
            input: Mutex::new(record::input(&deployment.spec.deployment_id, &values.digest)),
            values_changed: values.have_changed,
            records: ReleaseRecords::new(&context.records, release.clone()),
            release,
            policy: Policy::of(options, deployment.spec.lifecycle.as_deref()),
            requested: Requested::of(lifecycle::requests(deployment), handled),
            work,
            latest: Mutex::default(),
        }
    }

    /// The BundleDeployment as this reconciliation has written or read it since it began; `None` before that.
    pub fn latest(&self) -> Option<Arc<BundleDeployment>> {
        lock(&self.latest).clone()
    }

    /// The BundleDeployment was written or read.
    pub fn set_latest(&self, deployment: BundleDeployment) {
        *lock(&self.latest) = Some(Arc::new(deployment));
    }

    /// What is wanted, for the plan.
    pub fn desired(&self) -> DesiredRelease<'_> {
        DesiredRelease {
            release: &self.release,
            deployment: self.deployment,
            input: self.input(),
            values_changed: self.values_changed,
            policy: &self.policy,
            requested: self.requested,
        }
    }

    /// What is to be deployed.
    pub fn input(&self) -> String {
        lock(&self.input).clone()
    }

    /// The input of an attempt with the values that it deploys. They may be newer than those that the plan follows from.
    pub fn deploys_values(&self, digest: &str) -> String {
        let input = record::input(&self.deployment.spec.deployment_id, digest);
        let mut planned = lock(&self.input);
        if record::has_values(&planned) {
            planned.clone_from(&input);
        }
        input
    }

    /// The name of the BundleDeployment.
    pub fn name(&self) -> &str {
        name_of(self.deployment)
    }

    /// The identity of its objects.
    pub fn set(&self) -> SetId {
        self.context.set_of(self.name())
    }

    /// How Helm is run.
    pub fn settings(&self) -> HelmSettings {
        let spec = &self.deployment.spec;
        let settings = HelmSettings::of(&spec.options, spec.lifecycle.as_deref());
        if DriftMode::overrides_managers(spec) {
            settings.overriding()
        } else {
            settings
        }
    }

    /// Who deploys, and the cluster as this account.
    ///
    /// # Errors
    /// If the account does not exist.
    pub async fn deployer(&self) -> Result<(Identity, Client), AgentError> {
        let account = &self.deployment.spec.options.service_account;
        self.context.accounts.deployer(account).await
    }

    /// Counts the failure of an attempt. The reconciliation may end with another error, such as a conflict in the report, which is no
    /// reason for the next attempt. At its end, the same failure does not count again.
    pub fn failed(&self, error: &AgentError) {
        if let Some(policy) = error.class().backoff_policy() {
            let key = self.context.key(self.name());
            self.context.retries.failed(&key, self.retry_key(), policy);
        }
    }

    /// The rest of the time after the last failure, whatever else has changed meanwhile.
    ///
    /// # Errors
    /// If the last runs of Helm ended with the agent.
    pub fn backoff(&self) -> Result<Option<Duration>, AgentError> {
        let (context, deployment) = (self.context, self.deployment);
        let crash = context.helm.crash(&self.release, &deployment.spec.deployment_id);
        if let Some(crash) = crash.filter(|crash| crash.until > Timestamp::now()) {
            return Err(AgentError::Crashed(crash));
        }
        let key = context.key(self.name());
        Ok(context.retries.remaining(&key, &self.retry_key()))
    }

    fn retry_key(&self) -> RetryKey {
        RetryKey::of(&self.deployment.metadata, &[])
    }
}
