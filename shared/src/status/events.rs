//! What a change of a status is worth an event.

use super::condition::ConditionType;
use crate::{
    api::{Condition, HelmOpStatus, bundle::BundleStatus},
    reason::Reason,
};

/// Something that happened to a HelmOp, as `kubectl describe` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether somebody should look at it.
    pub is_warning: bool,
    /// What happened, in a word.
    pub reason: String,
    /// What was being done, in a word.
    pub action: &'static str,
    /// What happened, in a sentence.
    pub note: String,
}

/// Looking for a version, as Fleet names it.
const GET_VERSION: &str = "GetNewChartVersion";
/// Holding a HelmOp to the Policies, as Fleet names it.
const APPLY_POLICIES: &str = "ApplyPolicyRestrictions";
/// Everything else that is done about a HelmOp.
const RECONCILE: &str = "Reconcile";

/// What happened between two statuses. What is as it was is told no second time, and a first version is no event: the
/// HelmOp itself tells of it.
pub fn events(old: &HelmOpStatus, new: &HelmOpStatus) -> Vec<Event> {
    [new_version(old, new), failed_look(old, new), verdict(old, new)]
        .into_iter()
        .flatten()
        .collect()
}

/// Events of a Bundle: it became ready, or is not for another reason than before. Progress is no event.
pub fn bundle_events(old: &BundleStatus, new: &BundleStatus) -> Vec<Event> {
    let ready = |status: &BundleStatus| {
        let mut conditions = status.conditions.iter();
        conditions
            .find(|condition| condition.r#type == ConditionType::Ready.as_str())
            .cloned()
    };
    let Some(now) = ready(new) else {
        return Vec::new();
    };
    let before = ready(old).map(|condition| condition.reason);
    let is_progress = now.reason.is_empty() || now.reason == Reason::Progressing.as_str();
    if is_progress || before.as_ref() == Some(&now.reason) {
        return Vec::new();
    }
    let is_ready = now.status == "True";
    let clusters = new.display.as_ref().map(|display| &*display.ready_clusters);
    vec![Event {
        is_warning: !is_ready,
        reason: now.reason,
        action: RECONCILE,
        note: if is_ready {
            format!("{} clusters are ready", clusters.unwrap_or_default())
        } else {
            now.message
        },
    }]
}

/// A HelmOp cannot be read, which its status cannot say.
pub fn unreadable(error: String) -> Event {
    Event {
        is_warning: true,
        reason: Reason::DecodeError.to_string(),
        action: RECONCILE,
        note: error,
    }
}

fn new_version(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let is_new = !old.version.is_empty() && !new.version.is_empty() && old.version != new.version;
    is_new.then(|| Event {
        is_warning: false,
        reason: Reason::GotNewChartVersion.to_string(),
        action: GET_VERSION,
        note: format!("{} (before: {})", new.version, old.version),
    })
}

fn failed_look(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let told = changed(old, new, ConditionType::Polled)?;
    (told.status == "False").then(|| Event {
        is_warning: true,
        reason: Reason::FailedToGetNewChartVersion.to_string(),
        action: GET_VERSION,
        note: told.message.clone(),
    })
}

fn verdict(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let told = changed(old, new, ConditionType::Accepted)?;
    let is_warning = told.status == "False";
    let was_refused = of(old, ConditionType::Accepted).is_some_and(|before| before.status == "False");
    if !is_warning && !was_refused {
        return None;
    }
    Some(Event {
        is_warning,
        reason: told.reason.clone(),
        action: if told.reason == Reason::PolicyViolation.as_str() {
            APPLY_POLICIES
        } else {
            RECONCILE
        },
        note: if is_warning {
            told.message.clone()
        } else {
            "accepted again".to_owned()
        },
    })
}

/// The condition as it is now, if it says something else than before.
fn changed<'s>(old: &HelmOpStatus, new: &'s HelmOpStatus, r#type: ConditionType) -> Option<&'s Condition> {
    let now = of(new, r#type)?;
    let says = |condition: &Condition| {
        (
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        )
    };
    (of(old, r#type).map(says) != Some(says(now))).then_some(now)
}

fn of(status: &HelmOpStatus, r#type: ConditionType) -> Option<&Condition> {
    let mut conditions = status.base.conditions.iter();
    conditions.find(|condition| condition.r#type == r#type.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn status(version: &str, conditions: Value) -> HelmOpStatus {
        let status = json!({ "version": version, "conditions": conditions });
        serde_json::from_str(&status.to_string()).unwrap()
    }

    fn told(old: &HelmOpStatus, new: &HelmOpStatus) -> Vec<(bool, String, &'static str)> {
        events(old, new)
            .into_iter()
            .map(|event| {
                (
                    event.is_warning,
                    format!("{}: {}", event.reason, event.note),
                    event.action,
                )
            })
            .collect()
    }

    #[test]
    fn a_first_version_is_no_event_and_a_newer_one_is() {
        let none = HelmOpStatus::default();
        let first = status("1.0.0", json!([]));
        let second = status("1.1.0", json!([]));
        assert_eq!(told(&none, &first), []);
        let expected = (
            false,
            "GotNewChartVersion: 1.1.0 (before: 1.0.0)".to_owned(),
            "GetNewChartVersion",
        );
        assert_eq!(told(&first, &second), [expected]);
        assert_eq!(told(&second, &second), []);
    }

    #[test]
    fn failures_are_told_when_they_begin_or_change() {
        let failed = |r#type: &str, reason: &str, message: &str| {
            status(
                "1.0.0",
                json!([{ "type": r#type, "status": "False", "reason": reason, "message": message }]),
            )
        };
        let well = status(
            "1.0.0",
            json!([{ "type": "Accepted", "status": "True", "reason": "Accepted" }]),
        );
        let look = failed("Polled", "Timeout", "slow");
        let of_look = "FailedToGetNewChartVersion: slow".to_owned();
        assert_eq!(told(&well, &look), [(true, of_look, "GetNewChartVersion")]);
        assert_eq!(told(&look, &look), []);

        let refused = failed("Accepted", "ChartNotFound", "gone");
        let of_refusal = "ChartNotFound: gone".to_owned();
        assert_eq!(told(&well, &refused), [(true, of_refusal, "Reconcile")]);
        assert_eq!(told(&refused, &refused), []);
        let again = "Accepted: accepted again".to_owned();
        assert_eq!(told(&refused, &well), [(false, again, "Reconcile")]);
        let forbidden = failed("Accepted", "PolicyViolation", "no");
        let of_policy = "PolicyViolation: no".to_owned();
        assert_eq!(
            told(&refused, &forbidden),
            [(true, of_policy, "ApplyPolicyRestrictions")]
        );
    }

    #[test]
    fn a_bundle_has_an_event_for_each_reason_but_progress() {
        let status = |status: &str, reason: &str, message: &str| -> BundleStatus {
            let json = serde_json::json!({
                "conditions": [{ "type": "Ready", "status": status, "reason": reason, "message": message }],
                "display": { "readyClusters": "2/2" },
            });
            serde_json::from_str(&json.to_string()).unwrap()
        };
        let none = BundleStatus::default();
        let progress = status("False", "Progressing", "1 of 2 clusters are ready");
        let conflict = status("False", "BundleConflict", "taken");
        let ready = status("True", "Ready", "");
        let notes = |old: &BundleStatus, new: &BundleStatus| -> Vec<_> {
            let events = bundle_events(old, new).into_iter();
            events.map(|event| (event.is_warning, event.note)).collect()
        };
        assert!(notes(&none, &progress).is_empty());
        assert_eq!(notes(&progress, &conflict), [(true, "taken".to_owned())]);
        assert!(notes(&conflict, &status("False", "BundleConflict", "other")).is_empty());
        assert_eq!(
            notes(&conflict, &ready),
            [(false, "2/2 clusters are ready".to_owned())]
        );
        assert!(notes(&ready, &ready).is_empty());
        assert!(notes(&ready, &none).is_empty());
    }
}
