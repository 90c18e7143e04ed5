//! The formats of messages: the types of AlertProviders.

/// The format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// JSON with the fields that Flux sends.
    Generic,
    /// The same, with a signature.
    GenericHmac,
    /// Slack.
    Slack,
    /// Microsoft Teams.
    MsTeams,
    /// Discord.
    Discord,
    /// Alertmanager.
    Alertmanager,
    /// CDEvents.
    CdEvents,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] = [
        Self::Generic,
        Self::GenericHmac,
        Self::Slack,
        Self::MsTeams,
        Self::Discord,
        Self::Alertmanager,
        Self::CdEvents,
    ];

    /// The format as in `spec.type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::GenericHmac => "generic-hmac",
            Self::Slack => "slack",
            Self::MsTeams => "msteams",
            Self::Discord => "discord",
            Self::Alertmanager => "alertmanager",
            Self::CdEvents => "cdevents",
        }
    }

    /// The format with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == text)
    }
}
