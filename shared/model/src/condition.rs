//! Conditions whose times change only with their content.

use bounded_text::excerpt;
use helmops_api::Condition;

use crate::reason::Reason;

/// Maximum length of a message of a condition or of a deployment, in bytes: a few lines for a person. It bounds texts that a server controls.
pub const MAX_MESSAGE: usize = 1024;

/// The conditions of a HelmOp, a Bundle or a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    /// The HelmOp is valid, its version is known and its Bundle is written.
    Accepted,
    /// The deployed version is marked as deprecated in its repository. Present only while it is true.
    ChartDeprecated,
    /// The version that was deployed before the last poll is not in its repository any more. Present only while it is true.
    ChartWithdrawn,
    /// A version or a tag of the chart has another digest than the one that is deployed, which is held. Present only while it is true.
    DigestChanged,
    /// The agent of a Cluster with `spec.kubeConfigSecret` is installed as the Cluster describes it.
    Imported,
    /// The ClusterRegistration is granted: its agent has access to its Cluster.
    Granted,
    /// The repository has a newer release than the requested range allows. Present only while it is true.
    NewVersionOutsideRange,
    /// The last poll succeeded. Present only if polling is on, or if a requested poll failed.
    Polled,
    /// Everything is deployed and ready on all target clusters.
    Ready,
    /// Work is in progress and expected to complete. Present only while it is true, as the kstatus convention requires; Fleet
    /// leaves a condition that is `False`, which is removed.
    Reconciling,
    /// No progress is possible until a user changes something. Present only while it is true.
    Stalled,
}

impl ConditionType {
    /// What polls report about charts: nothing that fails.
    pub const NOTICES: [Self; 3] = [
        Self::NewVersionOutsideRange,
        Self::ChartDeprecated,
        Self::ChartWithdrawn,
    ];

    /// The type as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::ChartDeprecated => "ChartDeprecated",
            Self::ChartWithdrawn => "ChartWithdrawn",
            Self::DigestChanged => "DigestChanged",
            Self::Imported => "Imported",
            Self::Granted => "Granted",
            Self::NewVersionOutsideRange => "NewVersionOutsideRange",
            Self::Polled => "Polled",
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
        }
    }
}

/// Status, reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionState {
    /// `True`, without a message.
    True(Reason),
    /// `True`, with a message.
    TrueWithMessage(Reason, String),
    /// `False`.
    False(Reason, String),
    /// `Unknown`.
    Unknown(Reason, String),
}

impl ConditionState {
    const fn status(&self) -> &'static str {
        match self {
            Self::True(_) | Self::TrueWithMessage(..) => "True",
            Self::False(..) => "False",
            Self::Unknown(..) => "Unknown",
        }
    }

    /// The reason.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::True(reason)
            | Self::TrueWithMessage(reason, _)
            | Self::False(reason, _)
            | Self::Unknown(reason, _) => *reason,
        }
    }

    /// The message; empty for `True`, as in Fleet.
    pub fn message(&self) -> &str {
        match self {
            Self::True(_) => "",
            Self::TrueWithMessage(_, message) | Self::False(_, message) | Self::Unknown(_, message) => {
                message
            }
        }
    }
}

/// Sets a condition. Other conditions stay, and times change only with the content that they are for.
pub fn set(
    conditions: &mut Vec<Condition>,
    r#type: ConditionType,
    state: &ConditionState,
    generation: Option<i64>,
    now: &str,
) {
    let position = conditions
        .iter()
        .position(|condition| condition.r#type == r#type.as_str());
    let old = position.map(|at| conditions.remove(at));
    let mut new = Condition {
        r#type: r#type.as_str().to_owned(),
        status: state.status().to_owned(),
        reason: state.reason().to_string(),
        message: excerpt(state.message(), MAX_MESSAGE),
        observed_generation: generation,
        last_update_time: now.to_owned(),
        last_transition_time: now.to_owned(),
        ..Condition::default()
    };
    if let Some(old) = old {
        new.unknown = old.unknown;
        if old.status == new.status && !old.last_transition_time.is_empty() {
            new.last_transition_time = old.last_transition_time;
        }
        if (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message) {
            new.last_update_time = old.last_update_time;
        }
    }
    conditions.insert(position.unwrap_or(conditions.len()), new);
}

/// Removes a condition, even if another controller wrote it.
pub fn clear(conditions: &mut Vec<Condition>, r#type: ConditionType) {
    conditions.retain(|condition| condition.r#type != r#type.as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_only_with_the_status_or_message() {
        let mut conditions = vec![Condition {
            r#type: "Polled".into(),
            ..Condition::default()
        }];
        let refused = |message: &str| ConditionState::False(Reason::ChartNotFound, message.to_owned());
        let mut set_at = |state: ConditionState, generation, now: &str| {
            set(
                &mut conditions,
                ConditionType::Accepted,
                &state,
                Some(generation),
                now,
            );
            assert_eq!(conditions[0].r#type, "Polled", "other conditions stay");
            let accepted = &conditions[1];
            (
                accepted.last_transition_time.clone(),
                accepted.last_update_time.clone(),
            )
        };
        assert_eq!(set_at(refused("a"), 1, "t1"), ("t1".into(), "t1".into()));
        assert_eq!(set_at(refused("a"), 2, "t2"), ("t1".into(), "t1".into()));
        assert_eq!(set_at(refused("b"), 2, "t3"), ("t1".into(), "t3".into()));
        assert_eq!(
            set_at(ConditionState::True(Reason::Accepted), 2, "t4"),
            ("t4".into(), "t4".into())
        );
        assert_eq!(conditions.len(), 2);
        clear(&mut conditions, ConditionType::Accepted);
        assert_eq!((conditions.len(), &*conditions[0].r#type), (1, "Polled"));
    }

    #[test]
    fn unknown_fields_of_conditions_stay() {
        let text = r#"[{"type":"Accepted","newer":1},{"type":"Other","newer":2}]"#;
        let mut conditions: Vec<Condition> = serde_json::from_str(text).unwrap();
        let state = ConditionState::True(Reason::Accepted);
        set(&mut conditions, ConditionType::Accepted, &state, None, "t");
        let encoded = serde_json::to_value(&conditions).unwrap();
        assert_eq!(
            (&encoded[0]["newer"], &encoded[1]["newer"]),
            (&1.into(), &2.into())
        );
    }

    #[test]
    fn a_condition_has_status_reason_and_message_of_its_state() {
        let long = "m".repeat(2000);
        for (state, status, message) in [
            (ConditionState::True(Reason::Ready), "True", ""),
            (
                ConditionState::TrueWithMessage(Reason::Progressing, "why".to_owned()),
                "True",
                "why",
            ),
            (
                ConditionState::False(Reason::NotReady, "why".to_owned()),
                "False",
                "why",
            ),
            (
                ConditionState::False(Reason::NotReady, long.clone()),
                "False",
                &long[..MAX_MESSAGE - 3],
            ),
        ] {
            let mut conditions = Vec::new();
            set(&mut conditions, ConditionType::Stalled, &state, None, "t");
            let set = &conditions[0];
            assert_eq!(
                (&*set.r#type, &*set.status, &*set.reason),
                ("Stalled", status, state.reason().as_str())
            );
            assert_eq!(set.message.trim_end_matches('…'), message);
        }
    }
}
