//! The token server's response.

use std::{fmt, time::Duration};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

/// The longest response that is read, in bytes. Tokens that list a user's groups reach some ten KiB.
pub const MAX_LEN: usize = 64 * 1024;

/// The lifetime of a token if the server does not send one, by the token specification.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(1);

/// How long a token is kept at most. Some are valid for half a day; since a new one is requested every hour, a revoked
/// permission takes effect within that time, and an absurd lifetime does not keep a token forever.
const MAX_LIFETIME: Duration = Duration::from_hours(1);

/// A bearer token for a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    secret: String,
    lifetime: Duration,
    issued_at: Option<Timestamp>,
}

/// Why the token server's response is unusable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// The response is too long.
    #[error("the token server's response is longer than {MAX_LEN} bytes")]
    TooLong,
    /// Not a JSON object.
    #[error("the token server's response is not a JSON object with a token")]
    NotJson,
    /// Neither `token` nor `access_token`.
    #[error("the token server's response holds no token")]
    NoToken,
    /// The token cannot be sent in a header.
    #[error("the token server's response holds a token with characters that no header can carry")]
    BadToken,
}

/// Parses the body of the token server's response.
///
/// `token` takes precedence over `access_token`; by the specification they are equal if both are present. `expires_in` is 60
/// seconds if it is missing or not a positive number.
///
/// # Errors
/// When there is no usable token.
pub fn decode(body: &[u8]) -> Result<Token, TokenError> {
    if body.len() > MAX_LEN {
        return Err(TokenError::TooLong);
    }
    let Ok(Value::Object(response)) = serde_json::from_slice(body) else {
        return Err(TokenError::NotJson);
    };
    let secret = ["token", "access_token"]
        .into_iter()
        .filter_map(|field| response.get(field)?.as_str())
        .find(|secret| !secret.is_empty())
        .ok_or(TokenError::NoToken)?;
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::BadToken);
    }
    Ok(Token {
        secret: secret.to_owned(),
        lifetime: response
            .get("expires_in")
            .and_then(seconds)
            .unwrap_or(DEFAULT_LIFETIME),
        issued_at: response
            .get("issued_at")
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok()),
    })
}

/// A positive number of seconds, at most [`MAX_LIFETIME`]. Some servers send it as a string.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds: f64 = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    let is_positive = seconds > 0.0;
    is_positive.then(|| Duration::from_secs_f64(seconds.min(MAX_LIFETIME.as_secs_f64())))
}

impl Token {
    /// The text after `Bearer` in the header `Authorization`. It must not appear in logs or messages.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// How long the token can be used after `received`, the time of the server's response.
    ///
    /// Its lifetime starts when the server issued it, which is earlier if the server returns the same token several times; but
    /// not later than it was received, in case the clocks differ. A quarter of the lifetime is a margin for the request that
    /// uses it. Zero if it must be used immediately or not at all.
    pub fn fresh_for(&self, received: Timestamp) -> Duration {
        let age = self
            .issued_at
            .map(|issued| received.duration_since(issued))
            .and_then(|age| Duration::try_from(age).ok())
            .unwrap_or_default();
        self.lifetime.saturating_sub(age) / 4 * 3
    }
}

/// The token itself stays out of logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("lifetime", &self.lifetime)
            .field("issued_at", &self.issued_at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetime(field: &str) -> Duration {
        let body = format!("{{\"token\":\"t\"{field}}}");
        decode(body.as_bytes()).unwrap().lifetime
    }

    #[test]
    fn the_token_is_taken_from_either_field() {
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
    fn the_lifetime_is_that_of_the_server_within_bounds() {
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
            assert_eq!(lifetime(field), Duration::from_secs(seconds), "{field}");
        }
    }

    #[test]
    fn the_lifetime_starts_at_the_time_of_issue() {
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
    fn the_secret_is_not_in_the_debug_output() {
        let token = decode(br#"{"token":"s3cret"}"#).unwrap();
        assert!(!format!("{token:?}").contains("s3cret"));
    }
}
