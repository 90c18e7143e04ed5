//! Conditions that move only when something changes.

use crate::{api::Condition, reason::Reason, text::cut};

/// Longest message of a condition, in bytes: a few lines for a person, and nothing that a server could blow up.
const MAX_MESSAGE: usize = 1024;

/// The conditions of a HelmOp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    /// The HelmOp is valid, its version is known and its Bundle is written.
    Accepted,
    /// The last look for newer versions succeeded. Present only where polling is on, or a look that was asked for failed.
    Polled,
    /// Everything that is targeted is deployed and ready.
    Ready,
    /// Something is under way that is expected to end by itself. Present only when it is true, as the kstatus
    /// convention asks; Fleet leaves one that is `False`, which is removed.
    Reconciling,
    /// Nothing will happen before somebody changes something. Present only when it is true.
    Stalled,
}

impl ConditionType {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Polled => "Polled",
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
        }
    }
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It holds.
    True(Reason),
    /// It holds, and there is something to say of it.
    TrueFor(Reason, String),
    /// It does not, and why.
    False(Reason, String),
    /// Nobody can tell yet, and why.
    Unknown(Reason, String),
}

impl State {
    const fn status(&self) -> &'static str {
        match self {
            Self::True(_) | Self::TrueFor(..) => "True",
            Self::False(..) => "False",
            Self::Unknown(..) => "Unknown",
        }
    }

    /// Why.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::True(reason)
            | Self::TrueFor(reason, _)
            | Self::False(reason, _)
            | Self::Unknown(reason, _) => *reason,
        }
    }

    /// Why, in a sentence; empty for what simply holds, as Fleet has it.
    pub fn message(&self) -> &str {
        match self {
            Self::True(_) => "",
            Self::TrueFor(_, message) | Self::False(_, message) | Self::Unknown(_, message) => message,
        }
    }
}

/// Sets a condition. Other conditions stay, whoever wrote them, and times move only with what they tell of.
pub fn set(
    conditions: &mut Vec<Condition>,
    r#type: ConditionType,
    state: &State,
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
        message: cut(state.message().to_owned(), MAX_MESSAGE),
        observed_generation: generation,
        last_update_time: now.to_owned(),
        last_transition_time: now.to_owned(),
    };
    if let Some(old) = old {
        if old.status == new.status && !old.last_transition_time.is_empty() {
            new.last_transition_time = old.last_transition_time;
        }
        if (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message) {
            new.last_update_time = old.last_update_time;
        }
    }
    conditions.insert(position.unwrap_or(conditions.len()), new);
}

/// Removes a condition, whoever wrote it.
pub fn clear(conditions: &mut Vec<Condition>, r#type: ConditionType) {
    conditions.retain(|condition| condition.r#type != r#type.as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_only_with_what_they_tell_of() {
        let mut conditions = vec![Condition {
            r#type: "Polled".into(),
            ..Condition::default()
        }];
        let refused = |message: &str| State::False(Reason::ChartNotFound, message.to_owned());
        let mut set_at = |state: State, generation, now: &str| {
            set(
                &mut conditions,
                ConditionType::Accepted,
                &state,
                Some(generation),
                now,
            );
            assert_eq!(conditions[0].r#type, "Polled", "others stay");
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
            set_at(State::True(Reason::Accepted), 2, "t4"),
            ("t4".into(), "t4".into())
        );
        assert_eq!(conditions.len(), 2);
        clear(&mut conditions, ConditionType::Accepted);
        assert_eq!((conditions.len(), &*conditions[0].r#type), (1, "Polled"));
    }

    #[test]
    fn a_condition_says_what_its_state_does() {
        let long = "m".repeat(2000);
        for (state, status, message) in [
            (State::True(Reason::Ready), "True", ""),
            (
                State::TrueFor(Reason::Progressing, "why".to_owned()),
                "True",
                "why",
            ),
            (State::False(Reason::NotReady, "why".to_owned()), "False", "why"),
            (
                State::False(Reason::NotReady, long.clone()),
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
