//! What servers can do, from their greetings: with it, the next request needs none.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use helmops_git::wire::Capabilities;
use helmops_process::lock;
use reqwest::Url;

/// Repositories whose greetings are kept. Another one costs a request.
const MAX_GREETINGS: usize = 1024;

/// How long one is believed: servers are updated, and reconfigured.
const MAX_AGE: Duration = Duration::from_hours(1);

/// A repository, and the access to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RepositoryKey {
    /// Its URL, without credentials.
    pub url: String,
    /// Digest of credentials and trust; see [`crate::access::Access::identity`].
    pub identity: [u8; 32],
}

/// What a server can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Where the repository is, behind redirects.
    pub url: Url,
    /// Whether it is there by a redirect, which may be for a while only. Then references are not requested there without the redirect,
    /// because that decides which commit is deployed. Packs are: their objects are those of the commit, wherever they come from.
    pub is_redirected: bool,
    /// What its server can do.
    pub capabilities: Capabilities,
}

/// The greetings of servers.
#[derive(Debug, Default)]
pub struct Greetings(Mutex<HashMap<RepositoryKey, (Greeting, Instant)>>);

impl Greetings {
    /// That for a repository, if it is known and not too old.
    pub fn get(&self, key: &RepositoryKey, now: Instant) -> Option<Greeting> {
        let greetings = lock(&self.0);
        let (greeting, since) = greetings.get(key)?;
        (now.saturating_duration_since(*since) < MAX_AGE).then(|| greeting.clone())
    }

    /// Keeps one of this time.
    pub fn put(&self, key: RepositoryKey, greeting: Greeting, now: Instant) {
        let mut greetings = lock(&self.0);
        if greetings.len() >= MAX_GREETINGS && !greetings.contains_key(&key) {
            // Any of them: each is one request.
            let other = greetings.keys().next().cloned();
            other.and_then(|other| greetings.remove(&other));
        }
        greetings.insert(key, (greeting, now));
    }

    /// Forgets one that does not hold any more.
    pub fn remove(&self, key: &RepositoryKey) {
        lock(&self.0).remove(key);
    }
}

impl RepositoryKey {
    /// Size of its text, in bytes.
    pub const fn bytes(&self) -> usize {
        self.url.len()
    }
}

#[cfg(test)]
mod tests {
    use helmops_git::{ObjectFormat, wire::Version};

    use super::*;

    #[test]
    fn a_greeting_is_believed_for_an_hour() {
        let key = RepositoryKey {
            url: "https://h/n.git".to_owned(),
            identity: [0; 32],
        };
        let greeting = Greeting {
            url: Url::parse(&key.url).unwrap(),
            is_redirected: false,
            capabilities: Capabilities {
                version: Version::Two,
                has_filter: true,
                format: ObjectFormat::Sha1,
                names_format: true,
            },
        };
        let (greetings, now) = (Greetings::default(), Instant::now());
        greetings.put(key.clone(), greeting.clone(), now);
        let almost = now + MAX_AGE.saturating_sub(Duration::from_secs(1));
        assert_eq!(greetings.get(&key, almost), Some(greeting));
        assert_eq!(greetings.get(&key, now + MAX_AGE), None);
    }
}
