//! When a HelmOp was polled, and when it is polled next: computed as in the controller.

use std::time::Duration;

use helmops_api::{Bundle, HelmOp, timestamp::timestamp};
use helmops_core::{
    admit::ValidHelmOp,
    bundle::RequestedCharts,
    poll::{Due, MIN_INTERVAL, PollHistory, PollRequest, Schedule, due},
};
use helmops_model::reason::Reason;
use jiff::Timestamp;
use serde::Serialize;

use super::times::relative;

/// The polls of a HelmOp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Polling {
    /// `spec.pollingInterval`, if polling is on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub interval: String,
    /// When the last poll started.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last: String,
    /// Whether there is a next one.
    pub state: PollState,
    /// When it is due, if that is later.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next: String,
}

/// Whether a HelmOp is polled again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum PollState {
    /// Polling is off, or could find nothing: the version is exact, or the HelmOp is invalid.
    #[default]
    Off,
    /// At a known time.
    Scheduled,
    /// Now.
    Due,
    /// The last poll failed, and is retried after a backoff that only the controller knows.
    Retrying,
}

impl Polling {
    /// The polls of a HelmOp. The Bundle records which requested poll was handled.
    pub fn of(helmop: &HelmOp, bundle: Option<&Bundle>, now: Timestamp) -> Self {
        let last = helmop
            .status
            .as_ref()
            .map(|status| &*status.last_polling_triggered);
        let polling = Self {
            last: last.unwrap_or_default().to_owned(),
            ..Self::default()
        };
        let Ok(valid) = ValidHelmOp::try_from(helmop) else {
            return polling;
        };
        if condition(helmop, "Accepted").is_some_and(|(_, reason)| reason == Reason::PolicyViolation.as_str())
        {
            return polling;
        }
        let (state, next) = match next(&valid, bundle, MIN_INTERVAL, now) {
            Due::Never => (PollState::Off, String::new()),
            Due::Now { .. } if has_failed(helmop) => (PollState::Retrying, String::new()),
            Due::Now { .. } => (PollState::Due, String::new()),
            Due::At(time) | Due::First(time) => (PollState::Scheduled, timestamp(time)),
        };
        let interval = valid.polling.and(helmop.spec.polling_interval.clone());
        Self {
            interval: interval.unwrap_or_default(),
            state,
            next,
            ..polling
        }
    }

    /// The next poll, in words.
    pub fn next_in_words(&self, now: Timestamp) -> String {
        match self.state {
            PollState::Off => String::new(),
            PollState::Scheduled => relative(&self.next, now),
            PollState::Due => "due".to_owned(),
            PollState::Retrying => "retrying".to_owned(),
        }
    }
}

fn next(valid: &ValidHelmOp<'_>, bundle: Option<&Bundle>, min_interval: Duration, now: Timestamp) -> Due {
    let charts = RequestedCharts::of(valid, bundle);
    let schedule = Schedule::of_helmop(valid.polling, min_interval, charts.first_repo());
    let history = PollHistory::of(valid.helmop.status.as_ref()).seen_since(now, valid.polling);
    let request = PollRequest::of(valid.helmop, bundle);
    due(schedule, history, request.is_pending(), now)
}

fn has_failed(helmop: &HelmOp) -> bool {
    ["Polled", "Accepted"]
        .iter()
        .any(|name| condition(helmop, name).is_some_and(|(status, _)| status == "False"))
}

fn condition<'h>(helmop: &'h HelmOp, name: &str) -> Option<(&'h str, &'h str)> {
    let mut conditions = helmop.status.iter().flat_map(|status| &status.base.conditions);
    let found = conditions.find(|condition| condition.r#type == name)?;
    Some((&found.status, &found.reason))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::fixture::{NOW, helmop, merged, now};

    fn polling(change: &serde_json::Value, handled: Option<&str>) -> Polling {
        let helmop = helmop(change);
        let bundle = json!({ "metadata": { "annotations": {
            "helmops.fleet.cattle.io/last-handled-poll": handled.unwrap_or_default()
        } } });
        let bundle: Bundle = serde_json::from_value(bundle).unwrap();
        Polling::of(&helmop, Some(&bundle), now())
    }

    #[test]
    fn the_next_poll_is_that_of_the_controller() {
        let base = json!({ "spec": { "pollingInterval": "15m" }, "status": { "lastPollingTriggered": "2026-03-01T11:52:00Z" } });
        let polled = |status: &str| {
            json!({ "status": { "conditions": [
                { "type": "Accepted", "status": "True", "reason": "Accepted" },
                { "type": "Polled", "status": status, "reason": "Polled", "lastUpdateTime": "2026-03-01T11:52:00Z" }
            ] } })
        };
        let requested =
            json!({ "metadata": { "annotations": { "helmops.fleet.cattle.io/poll-requested-at": "2" } } });
        let refused = json!({ "status": { "conditions": [{ "type": "Accepted", "status": "False", "reason": "PolicyViolation" }] } });
        for (change, handled, expected) in [
            (json!({}), None, PollState::Scheduled),
            (polled("True"), None, PollState::Scheduled),
            (polled("False"), None, PollState::Retrying),
            (merged(&polled("True"), &requested), Some("1"), PollState::Due),
            (
                merged(&polled("True"), &requested),
                Some("2"),
                PollState::Scheduled,
            ),
            (
                json!({ "spec": { "pollingInterval": "0s" } }),
                None,
                PollState::Off,
            ),
            (
                json!({ "spec": { "helm": { "version": "1.0.0" } } }),
                None,
                PollState::Off,
            ),
            (
                json!({ "spec": { "helm": { "version": "latest version" } } }),
                None,
                PollState::Off,
            ),
            (refused, None, PollState::Off),
        ] {
            let polling = polling(&merged(&base, &change), handled);
            assert_eq!(polling.state, expected, "{change}");
            assert_eq!(
                polling.next.is_empty(),
                expected != PollState::Scheduled,
                "{change}"
            );
            assert_eq!(polling.last, "2026-03-01T11:52:00Z");
        }
    }

    #[test]
    fn the_time_follows_from_the_schedule_of_the_repository() {
        let change = json!({
            "spec": { "pollingInterval": "15m" },
            "status": {
                "lastPollingTriggered": "2026-03-01T11:52:00Z",
                "conditions": [{ "type": "Polled", "status": "True", "lastUpdateTime": "2026-03-01T11:52:00Z" }]
            }
        });
        let schedule = Schedule::new(Duration::from_mins(15), "https://charts.example.com");
        let expected = timestamp(schedule.next_after_poll("2026-03-01T11:52:00Z".parse().unwrap()));
        assert_eq!(polling(&change, None).next, expected);
        assert!(&*expected > NOW, "{expected}");
    }
}
