//! The proof that a request comes from a sender with the token.

use std::time::Duration;

use super::{
    credentials::{Credentials, ProofError},
    headers::Headers,
    identity_token::{self, GoogleKeys},
    receiver_type::ReceiverType,
    secret::{Hash, Token},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::jiff::Timestamp;

/// How far the time in a signature may be from now.
const MAX_AGE: Duration = Duration::from_mins(10);

/// Verifies the proof of a request. Returns the time that the sender has signed, in seconds, if it has signed one.
///
/// # Errors
/// What is missing or wrong.
pub fn verify(
    receiver_type: ReceiverType,
    credentials: &Credentials,
    keys: &GoogleKeys,
    headers: &Headers<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Option<i64>, ProofError> {
    use ReceiverType as T;
    let token = &credentials.token;
    let proved = match receiver_type {
        T::GenericHmac => return generic_hmac(token, headers, body, now),
        T::GitHub => signed_with_prefix(token, headers, "X-Hub-Signature-256", body),
        T::Bitbucket => signed_with_prefix(token, headers, "X-Hub-Signature", body),
        T::Gitea => {
            // Gogs has its own header, which Gitea and Forgejo send too.
            let header = match headers.one("X-Gitea-Signature")? {
                Some(_) => "X-Gitea-Signature",
                None if headers.one("X-Gogs-Signature")?.is_some() => "X-Gogs-Signature",
                None => return Err(ProofError::Missing("X-Gitea-Signature")),
            };
            signed(token, Hash::Sha256, body, headers.required(header)?, header)
        }
        T::Nexus => {
            let digits = headers.required("X-Nexus-Webhook-Signature")?;
            signed(token, Hash::Sha1, body, digits, "X-Nexus-Webhook-Signature")
        }
        T::GitLab => is_token(token, headers.required("X-Gitlab-Token")?),
        T::Gcr => {
            let bearer = headers
                .required("Authorization")?
                .strip_prefix(b"Bearer ")
                .ok_or(ProofError::Malformed("Authorization"))?;
            identity_token::verify(bearer, credentials, keys, now)
        }
        // Harbor sends the header as its user has written it, so the token alone is accepted too.
        T::Harbor => match headers.one("Authorization")? {
            Some(value) if token.is(value) && headers.one("X-Helmops-Token")?.is_none() => Ok(()),
            _ => token_of_any_form(token, headers),
        },
        T::DockerHub | T::Quay | T::Acr | T::CdEvents | T::Distribution | T::Generic => {
            token_of_any_form(token, headers)
        }
    };
    proved.map(|()| None)
}

fn is_token(token: &Token, text: &[u8]) -> Result<(), ProofError> {
    token.is(text).then_some(()).ok_or(ProofError::Wrong)
}

/// A token in a header: as bearer token, as password, or in a header of its own.
fn token_of_any_form(token: &Token, headers: &Headers<'_>) -> Result<(), ProofError> {
    const MALFORMED: ProofError = ProofError::Malformed("Authorization");
    match (headers.one("Authorization")?, headers.one("X-Helmops-Token")?) {
        (None, None) => Err(ProofError::NoToken),
        (Some(_), Some(_)) => Err(ProofError::TwoTokens),
        (None, Some(text)) => is_token(token, text),
        (Some(value), None) => {
            let (scheme, text) = split(value, b' ').ok_or(MALFORMED)?;
            if scheme.eq_ignore_ascii_case(b"Bearer") {
                is_token(token, text)
            } else if scheme.eq_ignore_ascii_case(b"Basic") {
                let decoded = STANDARD.decode(text).map_err(|_| MALFORMED)?;
                let (_, password) = split(&decoded, b':').ok_or(MALFORMED)?;
                is_token(token, password)
            } else {
                Err(MALFORMED)
            }
        }
    }
}

/// `X-Signature` over the body, or `X-Helmops-Signature` over the time and the body, which cannot be replayed later.
fn generic_hmac(
    token: &Token,
    headers: &Headers<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Option<i64>, ProofError> {
    const TIMED: &str = "X-Helmops-Signature";
    let (header, message, signed_time);
    match headers.one("X-Helmops-Timestamp")? {
        // What was signed with a time, sent as a body without it, would never expire.
        None if starts_with_time(body) => return Err(ProofError::Missing("X-Helmops-Timestamp")),
        None => {
            header = "X-Signature";
            message = None;
            signed_time = None;
        }
        Some(time) => {
            let seconds = str::from_utf8(time)
                .ok()
                .and_then(|text| text.parse::<i64>().ok());
            let seconds = seconds.ok_or(ProofError::Malformed("X-Helmops-Timestamp"))?;
            if seconds.abs_diff(now.as_second()) > MAX_AGE.as_secs() {
                return Err(ProofError::Expired);
            }
            header = TIMED;
            signed_time = Some(seconds);
            message = Some([time, b".", body].concat());
        }
    }
    let message = message.as_deref().unwrap_or(body);
    let (function, digits) = split(headers.required(header)?, b'=').ok_or(ProofError::Malformed(header))?;
    let hash = match function {
        b"sha256" => Hash::Sha256,
        b"sha512" => Hash::Sha512,
        _ => return Err(ProofError::Algorithm),
    };
    signed(token, hash, message, digits, header)?;
    Ok(signed_time)
}

/// Whether a body starts as the message of a signed time does. No JSON object does.
fn starts_with_time(body: &[u8]) -> bool {
    let time = split(body, b'.').and_then(|(time, _)| str::from_utf8(time).ok());
    time.is_some_and(|time| time.parse::<i64>().is_ok())
}

/// `sha256=HEX` over the body.
fn signed_with_prefix(
    token: &Token,
    headers: &Headers<'_>,
    header: &'static str,
    body: &[u8],
) -> Result<(), ProofError> {
    let signature = headers.required(header)?;
    let digits = signature.strip_prefix(b"sha256=");
    let digits = digits.ok_or(ProofError::Malformed(header))?;
    signed(token, Hash::Sha256, body, digits, header)
}

fn signed(
    token: &Token,
    hash: Hash,
    message: &[u8],
    digits: &[u8],
    header: &'static str,
) -> Result<(), ProofError> {
    let signature = unhex(digits).ok_or(ProofError::Malformed(header))?;
    let is_signed = token.has_signed(hash, message, &signature);
    is_signed.then_some(()).ok_or(ProofError::Wrong)
}

fn split(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == separator)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Hexadecimal digits of a signature of at most 64 bytes.
fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.len() > 128 || !digits.len().is_multiple_of(2) || digits.is_empty() {
        return None;
    }
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    digits
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[high, low]| Some(value(*high)? << 4 | value(*low)?))
        .collect()
}

#[cfg(test)]
mod tests;
