//! Polls that a user requests with an annotation, independent of the interval.

use bounded_text::cut;
use helmops_api::{Bundle, HelmOp, labels};

/// Longest token in bytes; the rest of a longer one is ignored. Times, numbers and UUIDs are far shorter.
const MAX_TOKEN: usize = 256;

/// The requested poll, from the annotations of a HelmOp and its Bundle.
///
/// The HelmOp has a token of the user's choice; the Bundle records the last token that was handled. Each token requests one
/// poll, and the record survives a restart and a lost status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollRequest {
    token: Option<String>,
    handled: Option<String>,
}

impl PollRequest {
    /// Reads the annotations.
    pub fn of(helmop: &HelmOp, bundle: Option<&Bundle>) -> Self {
        let token = labels::annotation(&helmop.metadata, labels::POLL_REQUESTED_AT);
        let handled =
            bundle.and_then(|bundle| labels::annotation(&bundle.metadata, labels::LAST_HANDLED_POLL));
        Self {
            token: token
                .filter(|token| !token.is_empty())
                .map(|token| cut(token.to_owned(), MAX_TOKEN)),
            handled: handled.map(str::to_owned),
        }
    }

    /// Whether a poll is requested that was not handled yet.
    pub fn is_pending(&self) -> bool {
        self.token.is_some() && self.token != self.handled
    }

    /// What the Bundle is to record: the token if it `is_handled`, otherwise the previous one.
    pub fn record(&self, is_handled: bool) -> Option<&str> {
        match (&self.token, is_handled) {
            (None, _) => None,
            (Some(token), true) => Some(token),
            (Some(_), false) => self.handled.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: Option<&str>, handled: Option<&str>) -> PollRequest {
        let annotations =
            |key: &str, value: Option<&str>| value.map(|value| [(key.into(), value.into())].into());
        let (mut helmop, mut bundle) = (HelmOp::default(), Bundle::default());
        helmop.metadata.annotations = annotations(labels::POLL_REQUESTED_AT, token);
        bundle.metadata.annotations = annotations(labels::LAST_HANDLED_POLL, handled);
        PollRequest::of(&helmop, Some(&bundle))
    }

    #[test]
    fn each_token_requests_one_poll() {
        for (token, handled, is_open, before, after) in [
            (Some("2"), None, true, None, Some("2")),
            (Some("2"), Some("1"), true, Some("1"), Some("2")),
            (Some("2"), Some("2"), false, Some("2"), Some("2")),
            (None, Some("1"), false, None, None),
            (Some(""), Some("1"), false, None, None),
        ] {
            let request = request(token, handled);
            assert_eq!(request.is_pending(), is_open, "{token:?} {handled:?}");
            assert_eq!(request.record(false), before, "{token:?} {handled:?}");
            assert_eq!(request.record(true), after, "{token:?} {handled:?}");
        }
    }

    #[test]
    fn a_long_token_is_recorded_in_part() {
        let long = "x".repeat(100_000);
        let open = request(Some(&long), None);
        let record = open.record(true).unwrap();
        assert!(record.len() <= MAX_TOKEN, "{}", record.len());
        assert!(!request(Some(&long), Some(record)).is_pending());
    }
}
