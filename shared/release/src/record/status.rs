//! The status of a revision.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The status of a revision of a release. Helm has these nine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum Status {
    /// Helm does not know it. A status that this agent does not know is one of these, too.
    #[default]
    Unknown,
    /// The current revision.
    Deployed,
    /// A previous revision.
    Superseded,
    /// Its installation, upgrade or rollback failed.
    Failed,
    /// Its removal was started.
    Uninstalling,
    /// It is removed, and its history was kept.
    Uninstalled,
    /// An installation is in progress, or was interrupted.
    PendingInstall,
    /// An upgrade is in progress, or was interrupted.
    PendingUpgrade,
    /// A rollback is in progress, or was interrupted.
    PendingRollback,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Unknown,
        Self::Deployed,
        Self::Superseded,
        Self::Failed,
        Self::Uninstalling,
        Self::Uninstalled,
        Self::PendingInstall,
        Self::PendingUpgrade,
        Self::PendingRollback,
    ];

    /// Reads the label `status` of a Secret.
    pub fn parse(text: &str) -> Self {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.unwrap_or_default()
    }

    /// Helm's text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::Uninstalled => "uninstalled",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
        }
    }

    /// Whether Helm refuses to change the release in this status: another Helm may be at work.
    pub const fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

impl From<String> for Status {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

impl From<Status> for &'static str {
    fn from(status: Status) -> Self {
        status.as_str()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
