//! Credentials that registries accepted, cached for the next requests.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_process::lock;
use reqwest::header::HeaderValue;

/// Maximum number of cached tokens. One is valid for a repository and a login; a new one costs a request.
const MAX_TOKENS: usize = 1024;

/// A repository in a registry, and the access to it. Also the cache key of its tags and digests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistryKey {
    /// URL of the tag list: scheme, host and port of the registry, and the name of the repository.
    pub repository_url: String,
    /// Digest of credentials and trust; see [`crate::access::Access::identity`].
    pub identity: [u8; 32],
}

impl RegistryKey {
    /// Size of its text, in bytes.
    pub const fn bytes(&self) -> usize {
        self.repository_url.len()
    }
}

/// Values of `Authorization` that registries accepted.
#[derive(Debug, Default)]
pub struct Tokens {
    cache: Mutex<TokenCache>,
}

#[derive(Debug, Default)]
struct TokenCache {
    tokens: HashMap<RegistryKey, Token>,
    uses: u64,
}

struct Token {
    authorization: HeaderValue,
    expires_at: Instant,
    last_used: u64,
}

/// Tokens stay out of logs.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Tokens {
    /// The cached value for a repository.
    pub fn get(&self, key: &RegistryKey, now: Instant) -> Option<HeaderValue> {
        let mut cache = lock(&self.cache);
        cache.uses += 1;
        let uses = cache.uses;
        let token = cache.tokens.get_mut(key).filter(|token| token.expires_at > now)?;
        token.last_used = uses;
        Some(token.authorization.clone())
    }

    /// Caches an accepted value for its lifetime. The least recently used value is evicted.
    pub fn put(&self, key: RegistryKey, authorization: HeaderValue, lifetime: Duration, now: Instant) {
        let mut cache = lock(&self.cache);
        if cache.tokens.len() >= MAX_TOKENS && !cache.tokens.contains_key(&key) {
            // Compared with the request for the token, the time to iterate over all of them is negligible.
            let oldest = cache.tokens.iter().min_by_key(|(_, token)| token.last_used);
            if let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) {
                cache.tokens.remove(&oldest);
            }
        }
        cache.uses += 1;
        let token = Token {
            authorization,
            expires_at: now + lifetime,
            last_used: cache.uses,
        };
        cache.tokens.insert(key, token);
    }

    /// Removes a value that the registry no longer accepts, unless it has been replaced already.
    pub fn remove(&self, key: &RegistryKey, refused: &HeaderValue) {
        let mut cache = lock(&self.cache);
        if cache
            .tokens
            .get(key)
            .is_some_and(|token| token.authorization == *refused)
        {
            cache.tokens.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn key(repository_url: &str) -> RegistryKey {
        RegistryKey {
            repository_url: repository_url.to_owned(),
            identity: [0; 32],
        }
    }

    #[test]
    fn a_token_is_cached_until_it_expires() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let value = HeaderValue::from_static("Bearer x");
        tokens.put(key("a"), value.clone(), MINUTE, now);
        assert_eq!(tokens.get(&key("a"), now), Some(value.clone()));
        assert_eq!(tokens.get(&key("b"), now), None);
        assert_eq!(tokens.get(&key("a"), now + MINUTE), None);
        tokens.remove(&key("a"), &HeaderValue::from_static("Bearer older"));
        assert!(tokens.get(&key("a"), now).is_some());
        tokens.remove(&key("a"), &value);
        assert_eq!(tokens.get(&key("a"), now), None);
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        for number in 0..3 * MAX_TOKENS {
            let value = HeaderValue::from_static("Bearer x");
            tokens.put(key(&number.to_string()), value, MINUTE, now);
            assert!(tokens.get(&key("0"), now).is_some(), "a token in use stays");
        }
        assert_eq!(lock(&tokens.cache).tokens.len(), MAX_TOKENS);
    }
}
