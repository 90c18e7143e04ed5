//! Which messages an Alert sends.

/// Which messages an Alert sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// Failures, and their end.
    #[default]
    Error,
    /// Also each version that is ready.
    Info,
}

impl Severity {
    /// The severity of a spec. Empty is `error`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "error" => Some(Self::Error),
            "info" => Some(Self::Info),
            _ => None,
        }
    }
}
