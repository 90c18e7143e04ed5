//! The token server's answer.

use std::{fmt, time::Duration};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

/// The longest answer that is read, in bytes. Tokens that list a user's groups reach some ten KiB.
pub const MAX_LEN: usize = 64 * 1024;

/// How long a token lives where the server does not say: the token specification's.
const DEFAULT_LIFE: Duration = Duration::from_mins(1);

/// The longest that a token is kept. Some live for half a day; asked for again every hour, a right that was taken away is
/// noticed within that time, and a nonsensical figure keeps no token for ever.
const MAX_LIFE: Duration = Duration::from_hours(1);

/// A token that a registry takes as proof.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    secret: String,
    life: Duration,
    issued_at: Option<Timestamp>,
}

/// Why the token server's answer is of no use.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// More than is read.
    #[error("the token server's answer is longer than {MAX_LEN} bytes")]
    TooLong,
    /// No JSON object.
    #[error("the token server's answer is not a JSON object, as a token comes in")]
    NotJson,
    /// Neither `token` nor `access_token`.
    #[error("the token server's answer holds no token")]
    NoToken,
    /// It could not be sent in a header.
    #[error("the token server's answer holds a token with characters that no header can carry")]
    BadToken,
}

/// Reads the body of the token server's answer.
///
/// `token` comes before `access_token`; where both are given they are equivalent by the specification. `expires_in` is 60
/// seconds where it is missing or no number of seconds above zero.
///
/// # Errors
/// Where it gives no token that can be used.
pub fn decode(body: &[u8]) -> Result<Token, TokenError> {
    if body.len() > MAX_LEN {
        return Err(TokenError::TooLong);
    }
    let Ok(Value::Object(answer)) = serde_json::from_slice(body) else {
        return Err(TokenError::NotJson);
    };
    let secret = ["token", "access_token"]
        .into_iter()
        .filter_map(|field| answer.get(field)?.as_str())
        .find(|secret| !secret.is_empty())
        .ok_or(TokenError::NoToken)?;
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::BadToken);
    }
    Ok(Token {
        secret: secret.to_owned(),
        life: answer.get("expires_in").and_then(seconds).unwrap_or(DEFAULT_LIFE),
        issued_at: answer
            .get("issued_at")
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok()),
    })
}

/// A number of seconds above zero, cut to what a token is kept for. Some servers write it as a text.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds: f64 = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    let is_above_zero = seconds > 0.0;
    is_above_zero.then(|| Duration::from_secs_f64(seconds.min(MAX_LIFE.as_secs_f64())))
}

impl Token {
    /// What stands behind `Bearer` in the header `Authorization`. It has no place in a log or a message.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// How long the token can be used from `received` on, which is when the server's answer came.
    ///
    /// Its life begins where the server says that it was issued, which is earlier where the server gives one token out
    /// several times; but never later than it was received, should the clocks differ. A quarter of it is left as a margin
    /// for the request that it is used in. Zero where it must be used at once or not at all.
    pub fn fresh_for(&self, received: Timestamp) -> Duration {
        let age = self
            .issued_at
            .map(|issued| received.duration_since(issued))
            .and_then(|age| Duration::try_from(age).ok())
            .unwrap_or_default();
        self.life.saturating_sub(age) / 4 * 3
    }
}

/// The token itself stays out of logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("life", &self.life)
            .field("issued_at", &self.issued_at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(field: &str) -> Duration {
        let body = format!("{{\"token\":\"t\"{field}}}");
        decode(body.as_bytes()).unwrap().life
    }

    #[test]
    fn reads() {
        for (body, secret) in [
            (r#"{"token":"a.b-c_d~e+f/g="}"#, "a.b-c_d~e+f/g="),
            (r#"{"access_token":"b"}"#, "b"),
            (r#"{"token":"a","access_token":"b"}"#, "a"),
            (r#"{"token":"","access_token":"b"}"#, "b"),
            (r#"{"token":null,"access_token":"b","refresh_token":"c"}"#, "b"),
            ("\n{\"token\": \"a\"} ", "a"),
        ] {
            assert_eq!(decode(body.as_bytes()).unwrap().secret(), secret, "{body}");
        }
        for (body, error) in [
            ("", TokenError::NotJson),
            ("<html>", TokenError::NotJson),
            ("[]", TokenError::NotJson),
            (r#"{"token":"a""#, TokenError::NotJson),
            ("{}", TokenError::NoToken),
            (r#"{"token":1}"#, TokenError::NoToken),
            (r#"{"token":""}"#, TokenError::NoToken),
            (r#"{"token":"a\r\nX: y"}"#, TokenError::BadToken),
            (r#"{"token":"a b"}"#, TokenError::BadToken),
            (r#"{"token":"ä"}"#, TokenError::BadToken),
        ] {
            assert_eq!(decode(body.as_bytes()), Err(error), "{body}");
        }
        assert_eq!(decode(&vec![b' '; MAX_LEN + 1]), Err(TokenError::TooLong));
    }

    #[test]
    fn lives_as_long_as_the_server_says() {
        for (field, seconds) in [
            ("", 60),
            (r#","expires_in":300"#, 300),
            (r#","expires_in":30"#, 30),
            (r#","expires_in":300.0"#, 300),
            (r#","expires_in":"300""#, 300),
            (r#","expires_in":null"#, 60),
            (r#","expires_in":0"#, 60),
            (r#","expires_in":-5"#, 60),
            (r#","expires_in":"soon""#, 60),
            (r#","expires_in":"NaN""#, 60),
            (r#","expires_in":43200"#, 3600),
            (r#","expires_in":1e300"#, 3600),
            (r#","expires_in":"inf""#, 3600),
        ] {
            assert_eq!(life(field), Duration::from_secs(seconds), "{field}");
        }
    }

    #[test]
    fn its_life_begins_when_it_was_issued() {
        let received: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        for (issued, fresh) in [
            ("2026-01-01T12:00:00Z", 300),
            ("2026-01-01T13:00:00.5+01:00", 300),
            ("2026-01-01T11:55:00Z", 75),
            ("2026-01-01T11:53:20Z", 0),
            ("2020-01-01T00:00:00Z", 0),
            ("2027-01-01T00:00:00Z", 300),
            ("yesterday", 300),
            ("", 300),
        ] {
            let body = format!(r#"{{"token":"t","expires_in":400,"issued_at":"{issued}"}}"#);
            let token = decode(body.as_bytes()).unwrap();
            assert_eq!(token.fresh_for(received), Duration::from_secs(fresh), "{issued}");
        }
    }

    #[test]
    fn is_not_printed() {
        let token = decode(br#"{"token":"geheim"}"#).unwrap();
        assert!(!format!("{token:?}").contains("geheim"));
    }
}
