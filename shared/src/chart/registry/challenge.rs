//! `WWW-Authenticate`: how a registry wants to be asked (RFC 9110, section 11).
//!
//! A response may hold the field several times, each value several challenges, and each challenge a list of parameters,
//! all of them separated by commas:
//!
//! ```text
//! Bearer realm="https://auth.example.com/token",service="registry",scope="repository:a:pull,push", Basic realm="x"
//! ```
//!
//! Nothing here fails: a challenge that cannot be read is passed over together with the rest of its value, and [`pick`]
//! says what is missing. A value of any length and content costs time in proportion to its length, and bounded memory.

use thiserror::Error;

use super::header::{Cursor, Fault, text};
use crate::text::cut;

/// The longest value that is read, in bytes. HTTP servers send no longer headers; longer values are passed over.
const MAX_VALUE_LEN: usize = 16 * 1024;

/// How many challenges are read, in all values together. Registries send one or two.
const MAX_CHALLENGES: usize = 16;

/// How many parameters of a challenge are kept. Bearer has five.
const MAX_PARAMETERS: usize = 16;

/// What stands between challenges, and between parameters.
const COMMA: &[u8] = b",";

/// How much of the registry's own words fits into a message, in bytes.
const MAX_TOLD: usize = 128;

/// One way to authenticate, out of those that a registry offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Name of the scheme as written; it means the same in any case.
    pub scheme: String,
    /// Data that stands in place of parameters, as some schemes have it.
    pub token68: Option<String>,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Whether its scheme is `scheme`, in any case.
    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// The value of a parameter, whose name means the same in any case.
    ///
    /// A parameter must not occur twice. Where it does the last one counts, as for the library that Fleet and Helm use.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let (_, value) = self
            .parameters
            .iter()
            .rev()
            .find(|(written, _)| written.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// A parameter that says something.
    fn filled(&self, name: &str) -> Option<String> {
        self.parameter(name)
            .filter(|value| !value.trim().is_empty())
            .map(str::to_owned)
    }
}

/// What a registry wants, of what we can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A token, from a server that the registry names.
    Bearer(Bearer),
    /// User name and password with every request.
    Basic,
}

/// Where a token is had, and for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bearer {
    /// URL of the token server, as written: [`super::realm::token_url`] says whether it may be asked.
    pub realm: String,
    /// What the token server calls the registry.
    pub service: Option<String>,
    /// What the token must allow, separated by blanks.
    pub scope: Option<String>,
    /// What was wrong with the token that was sent, such as `invalid_token` or `insufficient_scope`; cut to what fits
    /// into a message.
    pub error: Option<String>,
}

/// Why a registry that wants credentials cannot have them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChallengeError {
    /// It does not say how.
    #[error(
        "the registry wants credentials but does not say in which form: its answer has no WWW-Authenticate header that can be read; is a proxy in front of it?"
    )]
    None,
    /// It wants something that we cannot do.
    #[error("the registry wants credentials in the form {schemes}; Bearer and Basic are supported")]
    Unsupported {
        /// The schemes that it names.
        schemes: String,
    },
    /// It wants a token, but does not say from where.
    #[error("the registry wants a token but does not say from where: its Bearer challenge has no realm")]
    NoRealm,
}

/// Reads the values of all `WWW-Authenticate` fields of a response.
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

/// Chooses a challenge: a token before a password, since the former can be had without credentials and says less.
///
/// # Errors
/// Where none of them can be met.
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
        schemes: cut(schemes.join(", "), MAX_TOLD),
    })
}

impl Bearer {
    fn of(challenge: &Challenge) -> Option<Self> {
        Some(Self {
            realm: challenge.filled("realm")?,
            service: challenge.filled("service"),
            scope: challenge.filled("scope"),
            error: challenge.filled("error").map(|error| cut(error, MAX_TOLD)),
        })
    }
}

/// Reads the next challenge of a value; `None` at the end or a fault.
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

/// Reads the data of a challenge that has no parameters: `1*(letter, digit or one of -._~+/) *"="` up to a comma or the
/// end. Nothing is read where something else stands there.
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

/// Reads the next parameter of a challenge; `None` where another challenge or the end comes instead.
fn parameter(cursor: &mut Cursor<'_>) -> Result<Option<(String, String)>, Fault> {
    let mut ahead = *cursor;
    ahead.skip_to_element();
    // A name without a value is that of the next scheme.
    let Some((name, Some(value))) = ahead.parameter(COMMA)? else {
        return Ok(None);
    };
    *cursor = ahead;
    Ok(Some((name.to_owned(), value)))
}

#[cfg(test)]
mod tests;
