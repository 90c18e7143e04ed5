//! Why a reconciliation of the agent fails, what is reported of it, and when it is retried.

use std::time::Duration;

use helmops_helm::{
    account::AccountError,
    outcome::{self, Failure, FailureReason},
    values_from::ValuesFromError,
};
use helmops_model::reason::Reason;
use helmops_release::{
    dependencies::Unmet,
    names::ReleaseKey,
    report::{Blocked, Conflict, DeployOutcome},
    state::{ForeignOwner, Pending},
};
use helmops_runtime::{
    client::{ApiError, CallError},
    error_class::{Class, Classified, ClassifiedError, classified},
    workers::Interrupted,
};
use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use crate::{
    charts::ChartError,
    helm::Crash,
    monitor::{InstalledError, MonitorError},
    owned::{OWNED, RememberError},
    records::RecordStoreError,
    release_tests::TestError,
    upstream::GuardError,
};

/// Why a reconciliation fails.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The API server of one of the clusters could not be called.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A record cannot be used.
    #[error(transparent)]
    Record(Box<RecordStoreError>),
    /// Something is missing.
    #[error(transparent)]
    Lacking(Box<Lacking>),
    /// Other Bundles have to be deployed first.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// An object has to be ready first.
    #[error("{unmet}")]
    AwaitsObject {
        /// Which one, and why it is not.
        unmet: Unmet,
        /// What ends the wait.
        class: Class,
    },
    /// The chart cannot be fetched.
    #[error(transparent)]
    Chart(ChartError),
    /// Helm failed.
    #[error(transparent)]
    Helm(Box<Failure>),
    /// Another client is changing the release.
    #[error(
        "release {release} is in status {} since revision {}: another Helm is changing it; if none is, delete Secret {}/{}",
        pending.status, pending.revision, release.storage, helmops_release::record::secret_name(&release.name, pending.revision)
    )]
    Busy {
        /// The release.
        release: ReleaseKey,
        /// The operation.
        pending: Pending,
    },
    /// The release belongs to another owner.
    #[error("{}", refused(release, owner))]
    Foreign {
        /// The release.
        release: ReleaseKey,
        /// Its owner.
        owner: ForeignOwner,
    },
    /// The records are those of a release in another namespace, which may be an earlier one of the same BundleDeployment.
    #[error(
        "the records {} are those of release {namespace}/{}, and Helm cannot move it to namespace {}: change helm.releaseName or \
         lifecycle.storageNamespace as well, or set the namespace of the release to {namespace}",
        release.records(), release.name, release.namespace
    )]
    OtherNamespace {
        /// The release that is wanted.
        release: ReleaseKey,
        /// The namespace of the release that has the records.
        namespace: String,
    },
    /// The objects are those of a release whose records are elsewhere. Helm does not see that, and both would own them.
    #[error(
        "release {release} exists with its records in namespace {}, not in {storage}, and {}: the same objects would belong to two \
         releases; choose another helm.releaseName, or uninstall the other release",
        release.storage, owned_by(owner)
    )]
    OtherRecords {
        /// The release that exists.
        release: ReleaseKey,
        /// Its owner.
        owner: ForeignOwner,
        /// The namespace of the records that are wanted.
        storage: String,
    },
    /// The BundleDeployment of the release does not exist, and this agent has not deployed it.
    #[error(
        "release {release} was made for BundleDeployment {deployment}, which does not exist, and is not among those that this agent has \
         deployed (ConfigMap {agent_namespace}/{OWNED}): it is not uninstalled; if nothing needs it, run: helm uninstall {} \
         --namespace {}",
        release.name, release.storage
    )]
    NotOwned {
        /// The release.
        release: ReleaseKey,
        /// The BundleDeployment that its record names.
        deployment: String,
        /// The namespace of the agent.
        agent_namespace: String,
    },
    /// The account that deploys may not take over the release of a user's Helm.
    #[error(transparent)]
    AdoptionForbidden(Box<AdoptionForbidden>),
    /// The release is deployed, but its namespace may not be changed.
    #[error("{error}")]
    NamespaceForbidden {
        /// The release, with its revision.
        release: String,
        /// What is forbidden.
        error: String,
    },
    /// The objects cannot be compared.
    #[error(transparent)]
    Monitor(Box<MonitorError>),
    /// An attempt failed, and what follows is decided by the backoff.
    #[error("{0}")]
    AttemptFailed(String),
    /// It is not certain that a BundleDeployment was deleted.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// No client for the account that deploys.
    #[error("cannot create a client for the account that deploys: {0}")]
    Client(String),
    /// The process stops, or is no longer the leader.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The last runs of Helm for this deployment ended with the agent.
    #[error(
        "the agent was killed {} times while Helm deployed this release, most likely because its container was out of memory: give the agent \
         a larger memory limit, or make the chart smaller. The next attempt follows at {}",
        .0.count, .0.until
    )]
    Crashed(Crash),
}

/// The account that deploys may not take over the release of a user's Helm.
#[derive(Debug, Error)]
#[error(
    "release {release} exists and was not made by this agent, and {account} may not take it over: it lacks the permission to update \
     Secret {secret}, the record of the release; grant it the verb update for secrets in namespace {}, or choose another \
     helm.releaseName: {source}",
    .release.storage
)]
pub struct AdoptionForbidden {
    /// The release.
    pub release: ReleaseKey,
    /// The account that deploys.
    pub account: String,
    /// The Secret of its record, with the namespace.
    pub secret: String,
    /// What the API server says.
    pub source: ApiError,
}

/// Something that a deployment needs, and that is missing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Lacking {
    /// What the status of Fleet has a text for.
    #[error("{0}")]
    Blocked(Blocked),
    /// An object of `valuesFrom`.
    #[error("{0}")]
    ValuesFrom(String),
    /// The ServiceAccount.
    #[error("{0}")]
    ServiceAccount(String),
    /// An object that would be overwritten by a copy.
    #[error(
        "{object} exists and is no copy of this BundleDeployment; delete or rename it, or remove it from downstreamResources"
    )]
    ForeignCopy {
        /// The object.
        object: String,
    },
    /// The Bundle deploys another agent.
    #[error(
        "this Bundle deploys Fleet's agent, which this agent replaces, so it is left as it is; to end it, set the label \
         fleet.cattle.io/non-managed-agent of the Cluster"
    )]
    FleetsAgent,
    /// A namespace of the release that can exist.
    #[error(
        "namespace {namespace:?} of the release is {invalid}; correct namespace, defaultNamespace or lifecycle.storageNamespace of the Bundle"
    )]
    NamespaceName {
        /// The namespace.
        namespace: String,
        /// What is wrong.
        invalid: &'static str,
    },
    /// The namespace of the records.
    #[error(
        "namespace {namespace:?} (lifecycle.storageNamespace) does not exist, and the records of the release are kept there; create it, or \
         remove storageNamespace to keep them in the namespace of the release"
    )]
    StorageNamespace {
        /// Its name.
        namespace: String,
    },
    /// Room to remember the release, without which it would never be uninstalled.
    #[error("{0}")]
    Room(String),
}

/// What follows a release in a sentence.
fn owned_by(owner: &ForeignOwner) -> String {
    match owner {
        ForeignOwner::Unmanaged => "was not made by this agent".to_owned(),
        ForeignOwner::BundleDeployment(name) => format!("belongs to BundleDeployment {name}"),
    }
}

fn refused(release: &ReleaseKey, owner: &ForeignOwner) -> String {
    match owner {
        ForeignOwner::BundleDeployment(name) if release.has_records_elsewhere() => format!(
            "the records {} belong to BundleDeployment {name}, so release {release} would overwrite them; choose another helm.releaseName \
             or lifecycle.storageNamespace for one of them",
            release.records()
        ),
        ForeignOwner::Unmanaged => format!(
            "release {release} exists and was not made by this agent; set helm.takeOwnership to take it over, or choose another \
             helm.releaseName"
        ),
        ForeignOwner::BundleDeployment(name) => format!(
            "release {release} belongs to BundleDeployment {name}; choose another helm.releaseName or namespace for one of them"
        ),
    }
}

impl AgentError {
    /// Whether an API server is away, or too busy, for a while.
    pub fn is_interruption(&self) -> bool {
        self.reason() == Reason::APIError && self.class().is_transient()
    }

    /// What the status shows of it.
    pub fn reported(&self) -> DeployOutcome {
        match self {
            Self::Lacking(lacking) => match &**lacking {
                Lacking::Blocked(blocked) => DeployOutcome::Blocked(blocked.clone()),
                lacking => DeployOutcome::Failed {
                    error: lacking.to_string(),
                },
            },
            Self::Unmet(unmet) | Self::AwaitsObject { unmet, .. } => {
                DeployOutcome::Blocked(Blocked::Dependencies(unmet.clone()))
            }
            Self::Helm(failure) if failure.is_captured() => DeployOutcome::Captured {
                error: failure.to_string(),
            },
            Self::Helm(failure) if failure.reason == FailureReason::Conflict => {
                DeployOutcome::Conflict(conflict(failure))
            }
            Self::NamespaceForbidden { release, error } => DeployOutcome::NamespaceForbidden {
                release: release.clone(),
                error: error.clone(),
            },
            // Nothing has failed: the next reconciliation has what is wanted now.
            error if error.reason() == Reason::Progressing => DeployOutcome::Unchanged,
            error => DeployOutcome::Failed {
                error: error.to_string(),
            },
        }
    }
}

fn conflict(failure: &Failure) -> Conflict {
    Conflict {
        object: failure
            .object
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        fields: failure.conflicts.clone(),
        error: failure.message.clone(),
    }
}

impl ClassifiedError for AgentError {
    fn classify(&self) -> Classified {
        match self {
            Self::Call(error) | Self::Guard(GuardError::Call(error)) => error.classify(),
            Self::Record(error) => record_class(error),
            Self::Lacking(_) => classified(Reason::DeploymentBlocked, Class::Absent),
            Self::Guard(_) => classified(Reason::RemovalRefused, Class::Absent),
            // A change of a dependency enqueues those that depend on it.
            Self::Unmet(_) => classified(Reason::DeploymentBlocked, Class::Permanent),
            Self::AwaitsObject { class, .. } => classified(Reason::DeploymentBlocked, *class),
            Self::Chart(error) => error.classify(),
            Self::Helm(failure) if failure.reason == FailureReason::Superseded => {
                classified(Reason::Progressing, Class::Conflict)
            }
            Self::Helm(failure) => classified(Reason::HelmFailed, class_of(failure.class())),
            Self::AttemptFailed(_) => classified(Reason::HelmFailed, Class::Absent),
            Self::Busy { .. } => classified(Reason::ReleaseBusy, Class::Absent),
            Self::Foreign { .. }
            | Self::OtherNamespace { .. }
            | Self::OtherRecords { .. }
            | Self::NotOwned { .. }
            | Self::AdoptionForbidden(_) => classified(Reason::ForeignRelease, Class::Absent),
            Self::NamespaceForbidden { .. } | Self::Client(_) => classified(Reason::APIError, Class::Absent),
            Self::Monitor(error) => monitor_class(error),
            Self::Interrupted(interrupted) => interrupted.classify(),
            Self::Crashed(crash) => classified(Reason::HelmFailed, Class::Postponed(until(crash.until))),
        }
    }
}

/// The time until something is due; at least a second.
pub fn until(at: Timestamp) -> Duration {
    let until = at.duration_since(Timestamp::now());
    Duration::try_from(until)
        .unwrap_or_default()
        .max(Duration::from_secs(1))
}

/// After a record was not read because others take the memory: they are read in a moment.
const NO_MEMORY: Duration = Duration::from_secs(2);

fn record_class(error: &RecordStoreError) -> Classified {
    match error {
        RecordStoreError::Call(error) => error.classify(),
        RecordStoreError::NoMemory { .. } => classified(Reason::Progressing, Class::Postponed(NO_MEMORY)),
        RecordStoreError::Damaged { .. } => classified(Reason::InvalidRecord, Class::Absent),
    }
}

const fn class_of(class: outcome::Class) -> Class {
    match class {
        // Retried all the same: what is wrong may be fixed on the cluster, and nothing reports that.
        outcome::Class::Chart | outcome::Class::Cluster | outcome::Class::Hook => Class::Absent,
        outcome::Class::InProgress | outcome::Class::Passing => Class::TRANSIENT,
    }
}

fn monitor_class(error: &MonitorError) -> Classified {
    match error {
        MonitorError::Call(error) | MonitorError::Installed(InstalledError::Call(error)) => error.classify(),
        MonitorError::Installed(InstalledError::Record(error)) => record_class(error),
        MonitorError::Installed(_) | MonitorError::NotSynced(_) => {
            classified(Reason::MonitorFailed, Class::TRANSIENT)
        }
    }
}

impl From<Lacking> for AgentError {
    fn from(lacking: Lacking) -> Self {
        Self::Lacking(Box::new(lacking))
    }
}

impl From<RememberError> for AgentError {
    fn from(error: RememberError) -> Self {
        match error {
            RememberError::Call(error) => error.into(),
            RememberError::Full { .. } => Lacking::Room(error.to_string()).into(),
        }
    }
}

impl From<AdoptionForbidden> for AgentError {
    fn from(error: AdoptionForbidden) -> Self {
        Self::AdoptionForbidden(Box::new(error))
    }
}

impl From<AccountError> for AgentError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Call(error) => error.into(),
            error @ AccountError::Missing { .. } => Lacking::ServiceAccount(error.to_string()).into(),
        }
    }
}

impl From<ValuesFromError> for AgentError {
    fn from(error: ValuesFromError) -> Self {
        match error {
            ValuesFromError::Call(error) => error.into(),
            error @ (ValuesFromError::Missing(_) | ValuesFromError::TooLarge { .. }) => {
                Lacking::ValuesFrom(error.to_string()).into()
            }
        }
    }
}

impl From<Failure> for AgentError {
    fn from(failure: Failure) -> Self {
        Self::Helm(Box::new(failure))
    }
}

impl From<TestError> for AgentError {
    fn from(error: TestError) -> Self {
        match error {
            TestError::Record(error) => error.into(),
            TestError::Call(error) => error.into(),
            TestError::Helm(error) => error.into(),
        }
    }
}

impl From<MonitorError> for AgentError {
    fn from(error: MonitorError) -> Self {
        Self::Monitor(Box::new(error))
    }
}

impl From<ChartError> for AgentError {
    fn from(error: ChartError) -> Self {
        match error {
            ChartError::Patches(failure) => Self::Helm(failure),
            error => Self::Chart(error),
        }
    }
}

impl From<RecordStoreError> for AgentError {
    fn from(error: RecordStoreError) -> Self {
        Self::Record(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use helmops_fetch::DownloadError;

    use super::*;

    #[test]
    fn metrics_have_the_reason_of_every_error() {
        let errors: [AgentError; 6] = [
            ChartError::NoChart.into(),
            ChartError::Storage(io::Error::from(io::ErrorKind::StorageFull)).into(),
            ChartError::from(DownloadError::Write(io::Error::from(io::ErrorKind::StorageFull))).into(),
            Lacking::FleetsAgent.into(),
            AgentError::AttemptFailed(String::new()),
            AgentError::Client(String::new()),
        ];
        assert!(!Lacking::FleetsAgent.to_string().contains("  "));
        let of_errors = errors.iter().map(ClassifiedError::reason);
        // Those of downloads from repositories and registries, and of their Secrets.
        let of_downloads = [Reason::RESOLUTION, Reason::DOWNLOAD].concat();
        let known = (crate::metrics::BUNDLE_DEPLOYMENTS.failures)();
        for reason in of_errors.chain(of_downloads) {
            assert!(known.contains(&reason), "{reason}");
        }
    }
}
