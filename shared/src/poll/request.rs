//! A look that somebody asks for, whatever the interval.

use crate::{
    api::{Bundle, HelmOp, labels},
    text::cut,
};

/// Longest token that is told apart, in bytes. Times, numbers and UUIDs are far shorter.
const MAX_TOKEN: usize = 256;

/// What the annotations of a HelmOp and its Bundle say of looks that were asked for.
///
/// The HelmOp names a token of its user's choice; the Bundle records the last one that has had its look. Each token has
/// one, and what has had it survives a restart and a lost status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    token: Option<String>,
    done: Option<String>,
}

impl Request {
    /// Reads the annotations.
    pub fn of(helmop: &HelmOp, bundle: Option<&Bundle>) -> Self {
        let token = helmop.metadata.annotations.as_ref();
        let token = token.and_then(|annotations| annotations.get(labels::POLL_REQUESTED_AT));
        let done = bundle.and_then(|bundle| bundle.metadata.annotations.as_ref());
        Self {
            token: token
                .filter(|token| !token.is_empty())
                .map(|token| cut(token.clone(), MAX_TOKEN)),
            done: done
                .and_then(|annotations| annotations.get(labels::LAST_HANDLED_POLL))
                .cloned(),
        }
    }

    /// Whether a look is asked for that has not been had.
    pub fn is_open(&self) -> bool {
        self.token.is_some() && self.token != self.done
    }

    /// What the Bundle is to record: the token once it `has_had` its look, and before that the one before.
    pub fn record(&self, has_had: bool) -> Option<&str> {
        match (&self.token, has_had) {
            (None, _) => None,
            (Some(token), true) => Some(token),
            (Some(_), false) => self.done.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: Option<&str>, done: Option<&str>) -> Request {
        let annotations =
            |key: &str, value: Option<&str>| value.map(|value| [(key.into(), value.into())].into());
        let (mut helmop, mut bundle) = (HelmOp::default(), Bundle::default());
        helmop.metadata.annotations = annotations(labels::POLL_REQUESTED_AT, token);
        bundle.metadata.annotations = annotations(labels::LAST_HANDLED_POLL, done);
        Request::of(&helmop, Some(&bundle))
    }

    #[test]
    fn a_token_asks_for_one_look() {
        for (token, done, is_open, before, after) in [
            (Some("2"), None, true, None, Some("2")),
            (Some("2"), Some("1"), true, Some("1"), Some("2")),
            (Some("2"), Some("2"), false, Some("2"), Some("2")),
            (None, Some("1"), false, None, None),
            (Some(""), Some("1"), false, None, None),
        ] {
            let request = request(token, done);
            assert_eq!(request.is_open(), is_open, "{token:?} {done:?}");
            assert_eq!(request.record(false), before, "{token:?} {done:?}");
            assert_eq!(request.record(true), after, "{token:?} {done:?}");
        }
    }

    #[test]
    fn a_token_is_no_place_to_keep_things() {
        let long = "x".repeat(100_000);
        let open = request(Some(&long), None);
        let record = open.record(true).unwrap();
        assert!(record.len() <= MAX_TOKEN, "{}", record.len());
        assert!(!request(Some(&long), Some(record)).is_open());
    }
}
