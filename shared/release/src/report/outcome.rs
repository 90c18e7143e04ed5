//! The outcome of the deployment step, and what it changes in the status.

use std::{borrow::Cow, fmt};

use bounded_text::excerpt;
use helmops_api::bundle_deployment::{BundleDeploymentSpec, BundleDeploymentStatus};
use helmops_model::reason::Reason;

use super::{
    MAX_MESSAGE,
    blocked::Blocked,
    conditions::{ConditionType, Conditions, ERROR},
    lifecycle::Progress,
    set_false,
};
use crate::{gate::Held, history::History};

/// The outcome of the deployment step of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeployOutcome {
    /// The release is as desired: it was installed or upgraded, or it was so already.
    Deployed {
        /// The release, as `namespace/name:revision`.
        release: String,
    },
    /// It was deployed, but the account that deploys may not change the labels or annotations of the namespace.
    NamespaceForbidden {
        /// The release, as `namespace/name:revision`.
        release: String,
        /// What is forbidden, and to whom; [`Blocked::namespace_forbidden`] has a text.
        error: String,
    },
    /// The installation or upgrade failed in a way that another attempt cannot repair. It is final for this deployment ID.
    Captured {
        /// The error of Helm.
        error: String,
    },
    /// Something that the deployment needs is missing. It is not attempted.
    Blocked(Blocked),
    /// A field or object belongs to another manager. The deployment is attempted again.
    Conflict(Conflict),
    /// Any other error. The deployment is attempted again.
    Failed {
        /// The error.
        error: String,
    },
    /// The last attempt failed, and what was deployed before runs again.
    RolledBack {
        /// The release, as `namespace/name:revision`.
        release: String,
        /// What runs; `None` if it is not known.
        deployment_id: Option<String>,
        /// What failed, and what comes next.
        error: String,
    },
    /// There was no attempt now: the last one failed, and the next one is due later. What was reported of it stays.
    Unchanged,
    /// Nothing may be done now. The status stays as it is.
    Held(Held),
}

/// Fields that another manager owns, so that the API server rejects the release's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The object, such as `configmap.v1 shop/web`.
    pub object: String,
    /// The fields. Empty if the API server named none.
    pub fields: Vec<ConflictingField>,
    /// The error of Helm or of the API server, for what the other fields do not say.
    pub error: String,
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictingField {
    /// For example `.spec.replicas`.
    pub path: String,
    /// The field manager, such as `kubectl-edit`.
    pub manager: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict on {}: ", self.object)?;
        if self.fields.is_empty() {
            return f.write_str(&self.error);
        }
        for (index, ConflictingField { path, manager }) in self.fields.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{path} is owned by {manager:?}")?;
        }
        // Not helm.force: it replaces every object of the release, and fails for those that cannot be replaced, such as bound volumes.
        f.write_str("; remove the field from the chart's values, make the other manager give it up, or set lifecycle.drift.mode to enabled, which overwrites it")
    }
}

/// Applies the outcome to the status.
pub fn apply(
    status: &mut BundleDeploymentStatus,
    spec: &BundleDeploymentSpec,
    outcome: &DeployOutcome,
    progress: &Progress<'_>,
    now: &str,
) {
    match outcome {
        DeployOutcome::Deployed { .. } | DeployOutcome::Blocked(_) => status.failed_deployment_id.clear(),
        DeployOutcome::Unchanged | DeployOutcome::Held(_) => {}
        // Such as a repository that is away: the next attempt may succeed, and a rollout must not halt for that.
        DeployOutcome::Failed { .. } if progress.without_attempt => {}
        _ => status.failed_deployment_id.clone_from(&spec.deployment_id),
    }
    match outcome {
        DeployOutcome::Deployed { release } => {
            applied(status, spec, release);
            let mut conditions = Conditions::new(&mut status.conditions, now);
            conditions.set_true(ConditionType::Installed);
            conditions.set_true(ConditionType::Deployed);
        }
        DeployOutcome::NamespaceForbidden { release, error } => {
            applied(status, spec, release);
            not_installed(status, error, now);
        }
        DeployOutcome::Captured { error } => {
            applied(status, spec, "");
            not_installed(status, &with_running(error, progress.history), now);
        }
        DeployOutcome::RolledBack {
            release,
            deployment_id,
            error,
        } => {
            release.clone_into(&mut status.release);
            if let Some(id) = deployment_id {
                status.applied_deployment_id.clone_from(id);
            }
            not_deployed(status, error, now);
        }
        DeployOutcome::Blocked(blocked) => {
            not_deployed_because(status, blocked.reason(), &blocked.to_string(), now);
        }
        DeployOutcome::Conflict(conflict) => not_deployed(status, &conflict.to_string(), now),
        DeployOutcome::Failed { error } => not_deployed(status, error, now),
        DeployOutcome::Unchanged | DeployOutcome::Held(_) => {}
    }
}

/// What is awaited, in place of the result of an earlier attempt. Before the other conditions: `kubectl get` shows the first one that is
/// not true.
pub fn awaited(status: &mut BundleDeploymentStatus, waiting: &str, now: &str) {
    let message = excerpt(&format!("waiting: {waiting}"), MAX_MESSAGE);
    let mut conditions = Conditions::new(&mut status.conditions, now);
    conditions.write(
        ConditionType::Deployed,
        "Unknown",
        Reason::Progressing.as_str(),
        message,
    );
}

fn applied(status: &mut BundleDeploymentStatus, spec: &BundleDeploymentSpec, release: &str) {
    release.clone_into(&mut status.release);
    status.applied_deployment_id.clone_from(&spec.deployment_id);
}

/// An error of an upgrade, and what runs still.
fn with_running<'e>(error: &'e str, history: Option<&History>) -> Cow<'e, str> {
    let Some(running) = history.and_then(History::deployed) else {
        return Cow::Borrowed(error);
    };
    let (number, chart) = (running.number, &running.chart);
    Cow::Owned(format!(
        "{error}\nRevision {number} runs: chart {} {}.",
        chart.name, chart.version
    ))
}

/// The deployment is not ready, and its objects are not monitored: what was reported of them is about an earlier one.
fn not_installed(status: &mut BundleDeploymentStatus, error: &str, now: &str) {
    status.ready = false;
    status.non_modified = true;
    status.non_ready_status = Vec::new();
    status.modified_status = Vec::new();
    status.incomplete_state = false;
    let mut conditions = Conditions::new(&mut status.conditions, now);
    set_false(
        &mut conditions,
        ConditionType::Ready,
        format!("not ready: {error}"),
    );
    set_false(
        &mut conditions,
        ConditionType::Installed,
        format!("not installed: {error}"),
    );
    // As in Fleet: the step itself is done.
    conditions.set_true(ConditionType::Deployed);
}

/// The previous deployment stays in place, with its state.
fn not_deployed(status: &mut BundleDeploymentStatus, error: &str, now: &str) {
    not_deployed_because(status, ERROR, error, now);
}

fn not_deployed_because(status: &mut BundleDeploymentStatus, reason: &str, error: &str, now: &str) {
    let mut conditions = Conditions::new(&mut status.conditions, now);
    let message = excerpt(error, MAX_MESSAGE);
    conditions.write(ConditionType::Deployed, "False", reason, message);
}
