//! What a change of a status is worth an event.

use super::condition::ConditionType;
use crate::{
    api::{Condition, HelmOpStatus},
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
}
