//! The conditions of a BundleDeployment.

use helmops_api::Condition;

/// A condition that the agent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    /// The deployment step succeeded, or its failure is final and reported by `Installed`.
    Deployed,
    /// The release was installed or upgraded.
    Installed,
    /// Every object is ready, and none was changed.
    Ready,
    /// The state of the objects is known.
    Monitored,
}

impl ConditionType {
    /// The type as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployed => "Deployed",
            Self::Installed => "Installed",
            Self::Ready => "Ready",
            Self::Monitored => "Monitored",
        }
    }
}

/// Whether a condition is `False`.
pub fn is_false(conditions: &[Condition], r#type: ConditionType) -> bool {
    let found = conditions
        .iter()
        .find(|condition| condition.r#type == r#type.as_str());
    found.is_some_and(|condition| condition.status == "False")
}

/// Conditions that are being set, in the order of their first use.
pub struct Conditions<'c> {
    list: &'c mut Vec<Condition>,
    now: &'c str,
}

impl<'c> Conditions<'c> {
    /// `now` is a time in RFC 3339.
    pub fn new(list: &'c mut Vec<Condition>, now: &'c str) -> Self {
        Self { list, now }
    }

    /// Sets a condition to `True`, or to `False` because of an error. As in Fleet, the reason is `Error` or none. The time changes only
    /// with the rest.
    pub fn set(&mut self, r#type: ConditionType, error: Option<String>) {
        let (status, reason) = match error {
            Some(_) => ("False", "Error"),
            None => ("True", ""),
        };
        let message = error.unwrap_or_default();
        let position = self
            .list
            .iter()
            .position(|condition| condition.r#type == r#type.as_str());
        if position.is_none() {
            self.list.push(Condition {
                r#type: r#type.as_str().to_owned(),
                ..Condition::default()
            });
        }
        let at = position.unwrap_or(self.list.len() - 1);
        let Some(condition) = self.list.get_mut(at) else {
            return;
        };
        if (&*condition.status, &*condition.reason, &condition.message) != (status, reason, &message) {
            status.clone_into(&mut condition.status);
            reason.clone_into(&mut condition.reason);
            condition.message = message;
            self.now.clone_into(&mut condition.last_update_time);
        }
    }

    /// Sets a condition to `True`, without a message.
    pub fn set_true(&mut self, r#type: ConditionType) {
        self.set(r#type, None);
    }
}
