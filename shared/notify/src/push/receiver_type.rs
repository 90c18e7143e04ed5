//! The types of Receivers.

use std::fmt;

/// Who calls a Receiver: it decides how a request proves who sent it, and how its body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReceiverType {
    /// Harbor.
    Harbor,
    /// Docker Hub.
    DockerHub,
    /// Quay.
    Quay,
    /// GitHub: packages, pushes to Git repositories, and other events.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea, Forgejo and Gogs: pushes to Git repositories.
    Gitea,
    /// Bitbucket Cloud and Data Center: pushes to Git repositories.
    Bitbucket,
    /// Sonatype Nexus Repository.
    Nexus,
    /// Azure Container Registry.
    Acr,
    /// Google's registries, by Pub/Sub.
    Gcr,
    /// Anything that sends CDEvents.
    CdEvents,
    /// The registry of the CNCF, and those built on it.
    Distribution,
    /// Anything that can send a token.
    Generic,
    /// Anything that can sign the body.
    GenericHmac,
}

impl ReceiverType {
    /// Every type, in the order of the documentation.
    pub const ALL: [Self; 14] = [
        Self::Harbor,
        Self::DockerHub,
        Self::Quay,
        Self::GitHub,
        Self::GitLab,
        Self::Gitea,
        Self::Bitbucket,
        Self::Nexus,
        Self::Acr,
        Self::Gcr,
        Self::CdEvents,
        Self::Distribution,
        Self::Generic,
        Self::GenericHmac,
    ];

    /// The name in `spec.type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Harbor => "harbor",
            Self::DockerHub => "dockerhub",
            Self::Quay => "quay",
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Gitea => "gitea",
            Self::Bitbucket => "bitbucket",
            Self::Nexus => "nexus",
            Self::Acr => "acr",
            Self::Gcr => "gcr",
            Self::CdEvents => "cdevents",
            Self::Distribution => "distribution",
            Self::Generic => "generic",
            Self::GenericHmac => "generic-hmac",
        }
    }

    /// The type of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|receiver_type| receiver_type.as_str() == name)
    }

    /// Whether requests of this type name their event, so that `spec.events` can select some.
    pub const fn names_events(self) -> bool {
        matches!(self, Self::GitHub | Self::GitLab | Self::CdEvents)
    }
}

impl fmt::Display for ReceiverType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_name_of_its_own() {
        for receiver_type in ReceiverType::ALL {
            assert_eq!(ReceiverType::parse(receiver_type.as_str()), Some(receiver_type));
        }
        assert_eq!(ReceiverType::parse("Harbor"), None);
        assert_eq!(ReceiverType::parse(""), None);
    }
}
