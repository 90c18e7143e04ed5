//! The status of a HelmOp.

use super::{
    condition::{self, ConditionType, State},
    ready::ready,
};
use crate::{
    api::{Bundle, HelmOp, HelmOpStatus, ResolvedChart},
    reason::Reason,
    text::cut,
};

/// Longest message of a condition, in bytes: a few lines for a person, and nothing that a server could blow up.
const MAX_MESSAGE: usize = 1024;

/// What came of a reconciliation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The Bundle is as the HelmOp asks.
    Accepted {
        /// The version of the HelmOp's own chart; empty for an archive.
        version: String,
        /// What was looked up, and what it came to.
        resolved: Vec<ResolvedChart>,
    },
    /// It is not, and why. What was deployed before stays.
    Refused {
        /// Why, in a word.
        reason: Reason,
        /// Why, in a sentence.
        message: String,
    },
}

/// The status that follows. `bundle` is the HelmOp's Bundle as it is now, and `now` a time in RFC 3339.
///
/// Fields that this controller does not know of, and conditions of others, stay as they are.
pub fn next(helmop: &HelmOp, bundle: Option<&Bundle>, outcome: &Outcome, now: &str) -> HelmOpStatus {
    let generation = helmop.metadata.generation;
    let mut status = helmop.status.clone().unwrap_or_default();
    status.observed_generation = generation;
    let (accepted, ready) = match outcome {
        Outcome::Accepted { version, resolved } => {
            version.clone_into(&mut status.version);
            resolved.clone_into(&mut status.resolved);
            (State::True(Reason::Accepted), ready(helmop, bundle))
        }
        Outcome::Refused { reason, message } => {
            let refused = State::False(*reason, cut(message.clone(), MAX_MESSAGE));
            (refused.clone(), refused)
        }
    };
    let conditions = &mut status.base.conditions;
    condition::set(conditions, ConditionType::Accepted, &accepted, generation, now);
    condition::set(conditions, ConditionType::Ready, &ready, generation, now);
    status
}

/// What is left of a status in a cluster whose definition of HelmOp lacks the fields that Fleet's own does.
pub fn without_extras(mut status: HelmOpStatus) -> HelmOpStatus {
    status.observed_generation = None;
    status.resolved.clear();
    for condition in &mut status.base.conditions {
        condition.observed_generation = None;
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn helmop() -> HelmOp {
        let object = json!({
            "metadata": { "name": "web", "namespace": "fleet-default", "generation": 2 },
            "spec": {},
            "status": {
                "version": "1.0.0",
                "readyClusters": 3,
                "conditions": [{ "type": "Polled", "status": "True" }]
            }
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn bundle(generation: i64, status: serde_json::Value) -> Bundle {
        let object = json!({ "metadata": { "generation": generation }, "status": status });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn accepted() -> Outcome {
        Outcome::Accepted {
            version: "1.2.3".to_owned(),
            resolved: Vec::new(),
        }
    }

    fn condition<'s>(status: &'s HelmOpStatus, r#type: &str) -> (&'s str, &'s str, &'s str) {
        let condition = status
            .base
            .conditions
            .iter()
            .find(|condition| condition.r#type == r#type)
            .unwrap();
        (&condition.status, &condition.reason, &condition.message)
    }

    #[test]
    fn accepted_is_not_yet_ready() {
        let status = next(&helmop(), None, &accepted(), "t");
        assert_eq!(
            (status.version.as_str(), status.observed_generation),
            ("1.2.3", Some(2))
        );
        assert_eq!(condition(&status, "Accepted"), ("True", "Accepted", ""));
        assert_eq!(condition(&status, "Ready").1, "Progressing");
        assert_eq!(
            condition(&status, "Polled").0,
            "True",
            "conditions of others stay"
        );
        assert_eq!(status.base.ready_clusters, Some(3), "fields of others stay");
    }

    #[test]
    fn a_refusal_keeps_the_version_and_is_never_ready() {
        let outcome = Outcome::Refused {
            reason: Reason::ChartNotFound,
            message: "no chart".to_owned(),
        };
        let whole = bundle(
            1,
            json!({ "observedGeneration": 1, "summary": { "ready": 1, "desiredReady": 1 } }),
        );
        let status = next(&helmop(), Some(&whole), &outcome, "t");
        assert_eq!(status.version, "1.0.0");
        assert_eq!(
            condition(&status, "Accepted"),
            ("False", "ChartNotFound", "no chart")
        );
        assert_eq!(
            condition(&status, "Ready"),
            ("False", "ChartNotFound", "no chart")
        );
    }

    #[test]
    fn ready_follows_the_bundle() {
        for (bundle, expected) in [
            (
                bundle(2, json!({ "observedGeneration": 1 })),
                ("False", "Progressing"),
            ),
            (
                bundle(1, json!({ "observedGeneration": 1 })),
                ("False", "NoClusters"),
            ),
            (
                bundle(
                    1,
                    json!({ "observedGeneration": 1, "summary": { "ready": 1, "desiredReady": 2 } }),
                ),
                ("False", "NotReady"),
            ),
            (
                bundle(
                    1,
                    json!({ "observedGeneration": 1, "summary": { "ready": 2, "desiredReady": 2 } }),
                ),
                ("True", "Ready"),
            ),
        ] {
            let status = next(&helmop(), Some(&bundle), &accepted(), "t");
            let (holds, reason, _) = condition(&status, "Ready");
            assert_eq!((holds, reason), expected);
        }
    }
}
