//! Which attempt wrote a revision.

use std::{fmt, str::FromStr};

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
    /// The deployment ID that is applied.
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
    const ALL: [Self; 5] = [
        Self::Change,
        Self::Missing,
        Self::Drift,
        Self::Remediation,
        Self::Request,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::Change => "a change",
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
