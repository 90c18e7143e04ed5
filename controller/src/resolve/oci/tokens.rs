//! What registries were satisfied with before, so that they need not be asked for it again.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_shared::runtime::lock;
use reqwest::header::HeaderValue;

/// Tokens that are kept. One serves a repository and a login; a new one costs a request.
const MAX_TOKENS: usize = 1024;

/// Who asks for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Scheme, host and port of the registry, and the name of the repository.
    pub place: String,
    /// Whose credentials and trust; see [`crate::resolve::access::Access::identity`].
    pub identity: [u8; 32],
}

/// Values of `Authorization` that a registry took.
#[derive(Debug, Default)]
pub struct Tokens {
    known: Mutex<HashMap<Key, Token>>,
}

struct Token {
    authorization: HeaderValue,
    until: Instant,
}

/// Tokens stay out of logs.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Tokens {
    /// What to send, if it is known.
    pub fn get(&self, key: &Key, now: Instant) -> Option<HeaderValue> {
        let known = lock(&self.known);
        let token = known.get(key).filter(|token| token.until > now)?;
        Some(token.authorization.clone())
    }

    /// Keeps what the registry took, for as long as it says.
    pub fn put(&self, key: Key, authorization: HeaderValue, lifetime: Duration, now: Instant) {
        let mut known = lock(&self.known);
        if known.len() >= MAX_TOKENS {
            known.retain(|_, token| token.until > now);
        }
        if known.len() >= MAX_TOKENS {
            known.clear();
        }
        let until = now + lifetime;
        known.insert(key, Token { authorization, until });
    }

    /// Forgets what the registry no longer takes, unless somebody has another one already.
    pub fn forget(&self, key: &Key, refused: &HeaderValue) {
        let mut known = lock(&self.known);
        if known
            .get(key)
            .is_some_and(|token| token.authorization == *refused)
        {
            known.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn key(place: &str) -> Key {
        Key {
            place: place.to_owned(),
            identity: [0; 32],
        }
    }

    #[test]
    fn kept_until_the_end() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let value = HeaderValue::from_static("Bearer x");
        tokens.put(key("a"), value.clone(), MINUTE, now);
        assert_eq!(tokens.get(&key("a"), now), Some(value.clone()));
        assert_eq!(tokens.get(&key("b"), now), None);
        assert_eq!(tokens.get(&key("a"), now + MINUTE), None);
        tokens.forget(&key("a"), &HeaderValue::from_static("Bearer older"));
        assert!(tokens.get(&key("a"), now).is_some());
        tokens.forget(&key("a"), &value);
        assert_eq!(tokens.get(&key("a"), now), None);
    }

    #[test]
    fn their_number_is_bounded() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        for number in 0..3 * MAX_TOKENS {
            let value = HeaderValue::from_static("Bearer x");
            tokens.put(key(&number.to_string()), value, MINUTE, now);
        }
        assert!(lock(&tokens.known).len() <= MAX_TOKENS);
    }
}
