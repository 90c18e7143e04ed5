//! When the controller takes the version that would be selected now.

use helmops_api::{Bundle, HelmOp};
use helmops_core::{
    admit::ValidHelmOp,
    bundle::RequestedChart,
    poll::{self, PollHistory, PollRequest, Schedule},
    status::timestamp,
};
use helmops_model::chart::resolved::ChartVersion;
use jiff::Timestamp;
use serde::Serialize;

use super::subject::Origin;
use crate::terminal::age;

/// When, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Uptake {
    /// Whether the recorded version is another one.
    pub differs: bool,
    /// When a poll takes it; `None` if none is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    pub message: String,
}

/// What the uptake depends on.
pub struct UptakeInput<'a> {
    /// Where the HelmOp comes from.
    pub origin: Origin,
    pub valid: &'a ValidHelmOp<'a>,
    pub bundle: Option<&'a Bundle>,
    /// The repository whose schedule is used.
    pub repo: Option<&'a str>,
    pub now: Timestamp,
}

impl UptakeInput<'_> {
    /// When the selected version of a chart is taken; `None` if there is no HelmOp.
    pub fn of(&self, chart: &RequestedChart<'_, '_>, selected: &ChartVersion) -> Option<Uptake> {
        let message = |differs: bool, message: &str| Uptake {
            differs,
            at: None,
            message: message.to_owned(),
        };
        if self.origin == Origin::Flags {
            return None;
        }
        let Some(recorded) = &chart.version else {
            return Some(message(
                true,
                match self.origin {
                    Origin::Cluster => "with the next reconciliation: no version is recorded yet",
                    Origin::File | Origin::Flags => "when the file is applied",
                },
            ));
        };
        let is_republished = !recorded.digest.is_empty() && recorded.digest != selected.digest;
        if recorded.version == selected.version && !is_republished {
            return Some(message(false, "already: it is the recorded version"));
        }
        if chart.holds(recorded, selected) {
            let held = if chart.request.packed.is_some() {
                "never: the chart has changed without another version in its Chart.yaml; reconcileStrategy: Revision in spec.chartSource takes it"
            } else {
                "never: it was published again with another content, and what is recorded stays; spec.onDigestChange: Follow takes it"
            };
            return Some(message(true, held));
        }
        if !chart.request.is_polled() {
            return Some(message(
                true,
                "never: an exact version is not polled, and the recorded one stays until the request changes",
            ));
        }
        Some(self.by_poll())
    }

    fn by_poll(&self) -> Uptake {
        let (at, message) = match self.next_poll() {
            poll::Due::Never => (None, self.off()),
            poll::Due::Now { .. } => (None, "by a poll that is due now".to_owned()),
            poll::Due::At(time) | poll::Due::First(time) => {
                let (at, wait) = (timestamp(time), age::age(self.now, time));
                let message = format!("by the next poll, in {wait} ({at})");
                (Some(at), message)
            }
        };
        Uptake {
            differs: true,
            at,
            message,
        }
    }

    /// When the next poll is due.
    pub fn next_poll(&self) -> poll::Due {
        let repo = self.repo.unwrap_or_default();
        let schedule = self.valid.polling.map(|interval| Schedule::new(interval, repo));
        let helmop: &HelmOp = self.valid.helmop;
        let is_requested = PollRequest::of(helmop, self.bundle).is_pending();
        poll::due(
            schedule,
            PollHistory::of(helmop.status.as_ref()),
            is_requested,
            self.now,
        )
    }

    fn off(&self) -> String {
        let metadata = &self.valid.helmop.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref();
        let namespace = namespace.map(|name| format!(" -n {name}")).unwrap_or_default();
        format!(
            "never: polling is off (spec.pollingInterval); for one poll run: kubectl helmop poll {name}{namespace}"
        )
    }
}
