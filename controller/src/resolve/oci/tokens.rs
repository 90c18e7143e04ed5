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

impl Key {
    /// What its text takes, in bytes.
    pub const fn bytes(&self) -> usize {
        self.place.len()
    }
}

/// Values of `Authorization` that a registry took.
#[derive(Debug, Default)]
pub struct Tokens {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    tokens: HashMap<Key, Token>,
    uses: u64,
}

struct Token {
    authorization: HeaderValue,
    until: Instant,
    last_used: u64,
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
        let mut known = lock(&self.known);
        known.uses += 1;
        let uses = known.uses;
        let token = known.tokens.get_mut(key).filter(|token| token.until > now)?;
        token.last_used = uses;
        Some(token.authorization.clone())
    }

    /// Keeps what the registry took, for as long as it says. What has not been used for the longest time makes room.
    pub fn put(&self, key: Key, authorization: HeaderValue, lifetime: Duration, now: Instant) {
        let mut known = lock(&self.known);
        if known.tokens.len() >= MAX_TOKENS && !known.tokens.contains_key(&key) {
            // Beside the request that the token was had by, going through all of them is nothing.
            let oldest = known.tokens.iter().min_by_key(|(_, token)| token.last_used);
            if let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) {
                known.tokens.remove(&oldest);
            }
        }
        known.uses += 1;
        let token = Token {
            authorization,
            until: now + lifetime,
            last_used: known.uses,
        };
        known.tokens.insert(key, token);
    }

    /// Forgets what the registry no longer takes, unless somebody has another one already.
    pub fn forget(&self, key: &Key, refused: &HeaderValue) {
        let mut known = lock(&self.known);
        if known
            .tokens
            .get(key)
            .is_some_and(|token| token.authorization == *refused)
        {
            known.tokens.remove(key);
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
            assert!(tokens.get(&key("0"), now).is_some(), "what is in use stays");
        }
        assert_eq!(lock(&tokens.known).tokens.len(), MAX_TOKENS);
    }
}
