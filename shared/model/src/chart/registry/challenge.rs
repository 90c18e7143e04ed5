//! `WWW-Authenticate`: how to authenticate to a registry (RFC 9110, section 11).
//!
//! A response may have the header several times, each value several challenges, and each challenge a list of parameters, all
//! of them separated by commas:
//!
//! ```text
//! Bearer realm="https://auth.example.com/token",service="registry",scope="repository:a:pull,push", Basic realm="x"
//! ```
//!
//! Parsing does not fail: an invalid challenge is skipped together with the rest of its value, and [`pick`] reports what is
//! missing. Any value takes time linear in its length and bounded memory.

use bounded_text::cut;
use thiserror::Error;

use super::header::{Cursor, Malformed, text};

/// The longest value that is parsed, in bytes. HTTP servers do not send longer headers; longer values are skipped.
const MAX_VALUE_LEN: usize = 16 * 1024;

/// How many challenges are kept, over all values. Registries send one or two.
const MAX_CHALLENGES: usize = 16;

/// How many parameters of a challenge are kept. Bearer has five.
const MAX_PARAMETERS: usize = 16;

/// The separator of challenges and of parameters.
const COMMA: &[u8] = b",";

/// How much of the registry's text is quoted in a message, in bytes.
const MAX_QUOTED: usize = 128;

/// One of the authentication schemes that a registry offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Name of the scheme as written; it is case-insensitive.
    pub scheme: String,
    /// Data in place of parameters, which some schemes use.
    pub token68: Option<String>,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Whether its scheme is `scheme`, in any case.
    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// The value of a parameter. Its name is case-insensitive.
    ///
    /// A parameter must not occur twice. If it does, the last one is used, as in the library of Fleet and Helm.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let (_, value) = self
            .parameters
            .iter()
            .rev()
            .find(|(written, _)| written.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The value of a parameter that is not blank.
    fn non_blank(&self, name: &str) -> Option<String> {
        self.parameter(name)
            .filter(|value| !value.trim().is_empty())
            .map(str::to_owned)
    }
}

/// The authentication scheme to use, of those that are supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A token from a server that the registry names.
    Bearer(Bearer),
    /// User name and password with every request.
    Basic,
}

/// Where to request a token, and for which access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bearer {
    /// URL of the token server, as written: [`super::realm::token_url`] checks whether it may be used.
    pub realm: String,
    /// Name of the registry at the token server.
    pub service: Option<String>,
    /// What the token must allow, separated by spaces.
    pub scope: Option<String>,
    /// What was wrong with the token that was sent, such as `invalid_token` or `insufficient_scope`; truncated
    /// for messages.
    pub error: Option<String>,
}

/// Why it is not possible to authenticate to a registry that requires it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChallengeError {
    /// No valid challenge.
    #[error(
        "the registry requires credentials but does not say in which form: its response has no valid WWW-Authenticate header; is a proxy in front of it?"
    )]
    None,
    /// Only challenges with unsupported schemes.
    #[error("the registry requires credentials in the form {schemes}; Bearer and Basic are supported")]
    Unsupported {
        /// The schemes of its challenges.
        schemes: String,
    },
    /// It requires a token, but does not name the token server.
    #[error(
        "the registry requires a token but does not name a token server: its Bearer challenge has no realm"
    )]
    NoRealm,
}

/// Parses the values of all `WWW-Authenticate` fields of a response.
pub fn parse(values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<Challenge> {
    let mut found = Vec::new();
    for value in values {
        let value = value.as_ref();
        if value.len() > MAX_VALUE_LEN {
            continue;
        }
        let mut cursor = Cursor::new(value);
        while found.len() < MAX_CHALLENGES
            && let Some(challenge) = challenge(&mut cursor)
        {
            found.push(challenge);
        }
    }
    found
}

/// Chooses a challenge: Bearer before Basic, since a token may be issued without credentials and discloses less.
///
/// # Errors
/// When none of them is supported.
pub fn pick(challenges: &[Challenge]) -> Result<Scheme, ChallengeError> {
    let bearer = challenges
        .iter()
        .filter(|challenge| challenge.has_scheme("Bearer"));
    if let Some(bearer) = bearer.clone().find_map(Bearer::of) {
        return Ok(Scheme::Bearer(bearer));
    }
    if challenges.iter().any(|challenge| challenge.has_scheme("Basic")) {
        return Ok(Scheme::Basic);
    }
    if bearer.count() > 0 {
        return Err(ChallengeError::NoRealm);
    }
    if challenges.is_empty() {
        return Err(ChallengeError::None);
    }
    let schemes: Vec<&str> = challenges
        .iter()
        .map(|challenge| challenge.scheme.as_str())
        .collect();
    Err(ChallengeError::Unsupported {
        schemes: cut(schemes.join(", "), MAX_QUOTED),
    })
}

impl Bearer {
    fn of(challenge: &Challenge) -> Option<Self> {
        Some(Self {
            realm: challenge.non_blank("realm")?,
            service: challenge.non_blank("service"),
            scope: challenge.non_blank("scope"),
            error: challenge.non_blank("error").map(|error| cut(error, MAX_QUOTED)),
        })
    }
}

/// Parses the next challenge of a value; `None` at the end or at a syntax error.
fn challenge(cursor: &mut Cursor<'_>) -> Option<Challenge> {
    cursor.skip_to_element();
    let mut challenge = Challenge {
        scheme: cursor.token()?.to_owned(),
        token68: None,
        parameters: Vec::new(),
    };
    if !cursor.is_before(COMMA) {
        return None;
    }
    challenge.token68 = token68(cursor);
    if challenge.token68.is_none() {
        while let Some(parameter) = parameter(cursor).ok()? {
            if challenge.parameters.len() < MAX_PARAMETERS {
                challenge.parameters.push(parameter);
            }
        }
    }
    Some(challenge)
}

/// Parses the data of a challenge without parameters: `1*(letter, digit or one of -._~+/) *"="` up to a comma or the end.
/// Consumes nothing if something else is there.
fn token68(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    ahead.skip_blanks();
    let mut data = ahead
        .take_while(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/')
        })
        .to_vec();
    data.extend_from_slice(ahead.take_while(|byte| byte == b'='));
    ahead.skip_blanks();
    if data.is_empty() || !ahead.is_before(COMMA) {
        return None;
    }
    *cursor = ahead;
    Some(text(&data))
}

/// Parses the next parameter of a challenge; `None` at the next challenge or the end.
fn parameter(cursor: &mut Cursor<'_>) -> Result<Option<(String, String)>, Malformed> {
    let mut ahead = *cursor;
    ahead.skip_to_element();
    // A name without a value is the next scheme.
    let Some((name, Some(value))) = ahead.parameter(COMMA)? else {
        return Ok(None);
    };
    *cursor = ahead;
    Ok(Some((name.to_owned(), value)))
}

#[cfg(test)]
mod tests;
