//! Prometheus metrics of the managed certificate.

use helmops_process::metrics::{counters, registered};
use prometheus::{IntCounterVec, IntGauge, Registry};

use super::plan::Step;

/// An action on the Secret or a webhook configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    IssueAll,
    Renew,
    Prepare,
    Switch,
    Retire,
    Inject,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ActionResult {
    Success,
    /// Another replica or a user changed the object first.
    Conflict,
    Error,
}

impl Action {
    const ALL: [Self; 6] = [
        Self::IssueAll,
        Self::Renew,
        Self::Prepare,
        Self::Switch,
        Self::Retire,
        Self::Inject,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::IssueAll => "issue_all",
            Self::Renew => "renew_certificate",
            Self::Prepare => "prepare_ca",
            Self::Switch => "switch_ca",
            Self::Retire => "retire_ca",
            Self::Inject => "inject",
        }
    }
}

impl From<&Step> for Action {
    fn from(step: &Step) -> Self {
        match step {
            Step::IssueAll { .. } => Self::IssueAll,
            Step::Renew { .. } => Self::Renew,
            Step::Prepare => Self::Prepare,
            Step::Switch => Self::Switch,
            Step::Retire => Self::Retire,
        }
    }
}

impl ActionResult {
    const ALL: [Self; 3] = [Self::Success, Self::Conflict, Self::Error];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Conflict => "conflict",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Debug)]
pub struct ManagedMetrics {
    authority_expiry: IntGauge,
    actions: IntCounterVec,
}

impl ManagedMetrics {
    /// Creates and registers the metrics, with every label value that can occur.
    ///
    /// # Errors
    /// If one of them is registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let authority_expiry = registered(
            registry,
            IntGauge::new(
                "helmops_webhook_ca_expiry_timestamp_seconds",
                "Unix time at which the CA of the serving certificate in the Secret expires.",
            )?,
        )?;
        let actions = counters(
            registry,
            "helmops_webhook_certificate_actions_total",
            "Changes of the certificate Secret and of caBundle by action and result (success, conflict, error).",
            &["action", "result"],
        )?;
        for action in Action::ALL {
            for result in ActionResult::ALL {
                actions.with_label_values(&[action.as_str(), result.as_str()]);
            }
        }
        Ok(Self {
            authority_expiry,
            actions,
        })
    }

    pub(crate) fn set_ca_expiry(&self, not_after: i64) {
        self.authority_expiry.set(not_after);
    }

    pub(crate) fn record(&self, action: Action, result: ActionResult) {
        self.actions
            .with_label_values(&[action.as_str(), result.as_str()])
            .inc();
    }
}
