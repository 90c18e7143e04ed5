//! Which attempt wrote a revision.

use std::{fmt, str::FromStr};

/// Between a deployment ID and the digest of values. No deployment ID has it.
const VALUES: char = '#';
/// Digits of the digest of values.
const DIGITS: usize = 16;

/// What is deployed: a deployment ID, with the digest of values that it does not cover, those of references; empty if there are none.
pub fn input(deployment_id: &str, values: &str) -> String {
    if values.is_empty() {
        return deployment_id.to_owned();
    }
    let digest: String = values.chars().take(DIGITS).collect();
    format!("{deployment_id}{VALUES}{digest}")
}

/// The deployment ID of what is deployed.
pub fn deployment_id(input: &str) -> &str {
    input.split_once(VALUES).map_or(input, |(id, _)| id)
}

/// Whether what is deployed shows its values.
pub fn has_values(input: &str) -> bool {
    input.contains(VALUES)
}

/// Whether the same is deployed. Without a digest of values, any are meant: records of earlier versions have none, and those of releases for
/// which a change of values counts only with the next one.
pub fn is_same_input(one: &str, other: &str) -> bool {
    if has_values(one) && has_values(other) {
        one == other
    } else {
        deployment_id(one) == deployment_id(other)
    }
}

/// Which attempt to deploy a BundleDeployment wrote a revision.
///
/// Helm shows it as the description of the revision (`helm history`), unless it failed: then Helm's own text is there. So it is
/// an annotation of the chart too ([`ATTEMPT`](crate::marks::ATTEMPT)), which is in every record.
///
/// ```
/// use helmops_release::record::{Attempt, AttemptAction, Cause};
///
/// let attempt = Attempt {
///     action: AttemptAction::Upgrade,
///     deployment_id: ":4f2a".to_owned(),
///     cause: Cause::Change,
///     number: 2,
/// };
/// assert_eq!(attempt.to_string(), "Upgrade to deployment :4f2a, because of a change, attempt 2");
/// assert_eq!(attempt.to_string().parse(), Ok(attempt));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What Helm does.
    pub action: AttemptAction,
    /// The deployment ID that is applied, or the [`input`] with the digest of values.
    pub deployment_id: String,
    /// Why the release is changed.
    pub cause: Cause,
    /// Counts the attempts with this action for this deployment ID that failed one after the other, and this one: from 1.
    pub number: u32,
}

/// What an attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptAction {
    /// Installs the release.
    Install,
    /// Upgrades the release.
    Upgrade,
}

impl AttemptAction {
    const ALL: [Self; 2] = [Self::Install, Self::Upgrade];

    /// As in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Install => "Install deployment ",
            Self::Upgrade => "Upgrade to deployment ",
        }
    }
}

/// Why a release is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// There is another deployment ID.
    Change,
    /// References have other values.
    Values,
    /// The release or its record does not exist any more.
    Missing,
    /// Its objects differ from the record.
    Drift,
    /// A previous attempt failed, and this one restores what was before it.
    Remediation,
    /// A user requested it.
    Request,
}

impl Cause {
    const ALL: [Self; 6] = [
        Self::Change,
        Self::Values,
        Self::Missing,
        Self::Drift,
        Self::Remediation,
        Self::Request,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::Change => "a change",
            Self::Values => "changed values",
            Self::Missing => "a missing release",
            Self::Drift => "drift",
            Self::Remediation => "a failed attempt",
            Self::Request => "a request",
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (action, id, cause) = (self.action.text(), &self.deployment_id, self.cause.text());
        write!(f, "{action}{id}, because of {cause}, attempt {}", self.number)
    }
}

/// The text is not one of an [`Attempt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAttempt;

impl FromStr for Attempt {
    type Err = NoAttempt;

    fn from_str(text: &str) -> Result<Self, NoAttempt> {
        let parts = AttemptAction::ALL.into_iter().find_map(|action| {
            let (id, rest) = text.strip_prefix(action.text())?.split_once(", because of ")?;
            Some((action, id, rest.split_once(", attempt ")?))
        });
        let (action, id, (cause, number)) = parts.ok_or(NoAttempt)?;
        let cause = Cause::ALL.into_iter().find(|known| known.text() == cause);
        Ok(Self {
            action,
            deployment_id: id.to_owned(),
            cause: cause.ok_or(NoAttempt)?,
            number: number.parse().map_err(|_| NoAttempt)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_the_deployment_id_and_the_values() {
        assert_eq!(input(":4f2a", ""), ":4f2a");
        let with_values = input(":4f2a", &"0123456789abcdef".repeat(4));
        assert_eq!(with_values, ":4f2a#0123456789abcdef");
        assert_eq!(
            (deployment_id(&with_values), deployment_id(":4f2a")),
            (":4f2a", ":4f2a")
        );
        for (one, other, expected) in [
            (":a", ":a", true),
            (":a", ":b", false),
            (":a#1", ":a#1", true),
            (":a#1", ":a#2", false),
            (":a#1", ":a", true),
            (":a", ":a#1", true),
            (":a#1", ":b", false),
        ] {
            assert_eq!(is_same_input(one, other), expected, "{one} {other}");
        }
    }
}
