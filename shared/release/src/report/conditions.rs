//! The conditions of a BundleDeployment.

use helmops_api::Condition;

/// The reason of a condition that is `False`: as in Fleet.
pub const ERROR: &str = "Error";

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
    /// The last attempt to install or upgrade the release succeeded.
    Released,
    /// The Helm tests of the release succeeded.
    TestSuccess,
    /// A failed attempt was rolled back or uninstalled.
    Remediated,
}

impl ConditionType {
    /// The type as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployed => "Deployed",
            Self::Installed => "Installed",
            Self::Ready => "Ready",
            Self::Monitored => "Monitored",
            Self::Released => "Released",
            Self::TestSuccess => "TestSuccess",
            Self::Remediated => "Remediated",
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

    /// Sets a condition to `True`, or to `False` because of an error. As in Fleet, the reason is `Error` or none.
    pub fn set(&mut self, r#type: ConditionType, error: Option<String>) {
        match error {
            Some(error) => self.write(r#type, "False", ERROR, error),
            None => self.write(r#type, "True", "", String::new()),
        }
    }

    /// Sets a condition. The time changes only with the rest.
    pub fn write(&mut self, r#type: ConditionType, status: &str, reason: &str, message: String) {
        let is_own = |condition: &Condition| condition.r#type == r#type.as_str();
        let position = self.list.iter().position(is_own);
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

    /// Removes a condition.
    pub fn remove(&mut self, r#type: ConditionType) {
        self.list.retain(|condition| condition.r#type != r#type.as_str());
    }

    /// Sets a condition to `True`, without a message.
    pub fn set_true(&mut self, r#type: ConditionType) {
        self.set(r#type, None);
    }
}
