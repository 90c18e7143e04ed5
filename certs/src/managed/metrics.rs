//! What Prometheus sees of the care for certificates.

use helmops_shared::runtime::metrics::registered;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

use super::plan::Step;

/// What is done to the Secret or a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Anew,
    Renew,
    Prepare,
    Switch,
    Retire,
    Inject,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Done,
    /// Another replica, or an admin, was quicker.
    Overtaken,
    Failed,
}

impl Action {
    const ALL: [Self; 6] = [
        Self::Anew,
        Self::Renew,
        Self::Prepare,
        Self::Switch,
        Self::Retire,
        Self::Inject,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Anew => "issue_all",
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
            Step::Anew { .. } => Self::Anew,
            Step::Renew { .. } => Self::Renew,
            Step::Prepare => Self::Prepare,
            Step::Switch => Self::Switch,
            Step::Retire => Self::Retire,
        }
    }
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Done, Self::Overtaken, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Overtaken => "conflict",
            Self::Failed => "error",
        }
    }
}

/// The metrics.
#[derive(Clone, Debug)]
pub struct ManagedMetrics {
    authority_expiry: IntGauge,
    actions: IntCounterVec,
}

impl ManagedMetrics {
    /// Makes the metrics and registers them, with every label value that can occur.
    ///
    /// # Errors
    /// Where one of them is registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let authority_expiry = registered(
            registry,
            IntGauge::new(
                "helmops_webhook_ca_expiry_timestamp_seconds",
                "Unix time at which the CA of the serving certificate in the Secret expires.",
            )?,
        )?;
        let actions = registered(
            registry,
            IntCounterVec::new(
                Opts::new(
                    "helmops_webhook_certificate_actions_total",
                    "Changes of the certificate Secret and of caBundle by action and result (success, conflict, error).",
                ),
                &["action", "result"],
            )?,
        )?;
        for action in Action::ALL {
            for outcome in Outcome::ALL {
                actions.with_label_values(&[action.as_str(), outcome.as_str()]);
            }
        }
        Ok(Self {
            authority_expiry,
            actions,
        })
    }

    pub(crate) fn authority_expires(&self, not_after: i64) {
        self.authority_expiry.set(not_after);
    }

    pub(crate) fn acted(&self, action: Action, outcome: Outcome) {
        self.actions
            .with_label_values(&[action.as_str(), outcome.as_str()])
            .inc();
    }
}
