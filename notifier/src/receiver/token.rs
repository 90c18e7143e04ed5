//! The Secret of a Receiver.

use helmops_notify::push::{MIN_TOKEN, ReceiverType};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use thiserror::Error;

/// Bytes of a text of the Secret. All Receivers share one Secret of 1 MiB.
const MAX_TEXT: usize = 512;

/// What the Secret of a Receiver has.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretContent {
    /// The shared secret.
    pub token: String,
    /// For `gcr`: the ServiceAccount of Google.
    pub email: String,
    /// For `gcr`: the audience.
    pub audience: String,
}

/// Why a Secret cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// A key is missing.
    #[error("the key {0:?} is missing; add it")]
    Missing(&'static str),
    /// The token can be guessed.
    #[error(
        "the key \"token\" has {0} bytes; use at least {MIN_TOKEN}, such as the output of `openssl rand -hex 32`"
    )]
    TooShort(usize),
    /// A text is too long.
    #[error("the key {0:?} has more than {MAX_TEXT} bytes; shorten it")]
    TooLong(&'static str),
    /// Not what a header can contain.
    #[error(
        "the key {0:?} has other characters than printable ASCII, such as a line break at its end; remove them"
    )]
    Characters(&'static str),
}

impl SecretContent {
    /// Reads a Secret.
    ///
    /// # Errors
    /// What is wrong with it, and the fix.
    pub fn of(secret: &Secret, receiver_type: &str) -> Result<Self, TokenError> {
        let token = text(secret, "token")?;
        if token.len() < MIN_TOKEN {
            return Err(TokenError::TooShort(token.len()));
        }
        let is_gcr = receiver_type == ReceiverType::Gcr.as_str();
        let of_gcr = |key| {
            if is_gcr {
                text(secret, key)
            } else {
                Ok(String::new())
            }
        };
        Ok(Self {
            token,
            email: of_gcr("email")?,
            audience: of_gcr("audience")?,
        })
    }
}

fn text(secret: &Secret, key: &'static str) -> Result<String, TokenError> {
    let data = secret.data.as_ref();
    let ByteString(bytes) = data
        .and_then(|data| data.get(key))
        .ok_or(TokenError::Missing(key))?;
    if bytes.len() > MAX_TEXT {
        return Err(TokenError::TooLong(key));
    }
    // Senders put it into a header, and a registry with a field for it drops a line break that is easily added here.
    if !bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
        return Err(TokenError::Characters(key));
    }
    String::from_utf8(bytes.clone()).map_err(|_| TokenError::Characters(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(data: &[(&str, &str)]) -> Secret {
        Secret {
            data: Some(
                data.iter()
                    .map(|(key, value)| ((*key).into(), ByteString(value.as_bytes().into())))
                    .collect(),
            ),
            ..Secret::default()
        }
    }

    #[test]
    fn a_token_cannot_be_guessed_and_fits_into_a_header() {
        let of =
            |token: &str| SecretContent::of(&secret(&[("token", token)]), "harbor").map(|token| token.token);
        assert_eq!(of("0123456789abcdef").unwrap(), "0123456789abcdef");
        assert_eq!(of("short"), Err(TokenError::TooShort(5)));
        assert_eq!(of("0123456789abcdef\n"), Err(TokenError::Characters("token")));
        assert_eq!(of("0123456789abcdeä"), Err(TokenError::Characters("token")));
        assert_eq!(of(&"x".repeat(513)), Err(TokenError::TooLong("token")));
        assert_eq!(
            SecretContent::of(&Secret::default(), "harbor").err(),
            Some(TokenError::Missing("token"))
        );
    }

    #[test]
    fn google_needs_an_email_and_an_audience() {
        let token = ("token", "0123456789abcdef");
        assert_eq!(
            SecretContent::of(&secret(&[token]), "gcr").err(),
            Some(TokenError::Missing("email"))
        );
        assert_eq!(
            SecretContent::of(&secret(&[token, ("email", "a@b")]), "gcr").err(),
            Some(TokenError::Missing("audience"))
        );
        let all = secret(&[token, ("email", "a@b"), ("audience", "https://h")]);
        assert_eq!(SecretContent::of(&all, "gcr").unwrap().audience, "https://h");
        assert_eq!(SecretContent::of(&all, "harbor").unwrap().audience, "");
    }
}
