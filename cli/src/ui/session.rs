//! The secrets of one run of the command: who has them is the user who started it.
//!
//! A link has a key in its fragment, which browsers never send. The page exchanges it for two others: a cookie, which no script can
//! read, and a page key, which no other port can read. Requests for data need both: browsers send cookies of 127.0.0.1 to programs on
//! other ports too, and scripts of other origins can add no header.

use std::{
    net::SocketAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use helmops_process::lock;
use ring::rand::{SecureRandom, SystemRandom};

use crate::failure::Failure;

/// 256 bits cannot be guessed, at any rate of requests.
const BYTES: usize = 32;
/// How long the key that is passed to the browser is valid. Other users of the computer can read arguments of processes.
const BROWSER_KEY: Duration = Duration::from_secs(30);

/// The secrets, and the address that they are valid for.
pub struct Session {
    address: SocketAddr,
    /// The key of the printed link: valid as long as the command runs.
    key: String,
    /// The key that is passed to the browser: valid once, for a short time.
    browser_key: Mutex<Option<(String, Instant)>>,
    cookie: String,
    page_key: String,
}

/// What the key of a link is exchanged for.
#[derive(Debug, PartialEq, Eq)]
pub struct Exchanged<'s> {
    /// The header `Set-Cookie`.
    pub set_cookie: String,
    /// The page key.
    pub page_key: &'s str,
}

impl Session {
    /// New secrets, for the address that the server listens on.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn new(address: SocketAddr) -> Result<Self, Failure> {
        Ok(Self {
            address,
            key: secret()?,
            browser_key: Mutex::new(Some((secret()?, Instant::now() + BROWSER_KEY))),
            cookie: secret()?,
            page_key: secret()?,
        })
    }

    /// The link for the terminal.
    pub fn link(&self) -> String {
        self.link_with(&self.key)
    }

    /// The link for the browser: it works once.
    pub fn link_for_browser(&self) -> String {
        let key = lock(&self.browser_key);
        let key = key.as_ref().map(|(key, _)| &**key).unwrap_or_default();
        self.link_with(key)
    }

    fn link_with(&self, key: &str) -> String {
        format!("{}/#key={key}", self.origin())
    }

    /// The only value of `Host` that the server accepts.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The origin of the pages.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Exchanges the key of a link; `None` if it is not valid.
    pub fn exchange(&self, key: &str, now: Instant) -> Option<Exchanged<'_>> {
        let is_valid = equal(key, &self.key) || self.takes_browser_key(key, now);
        is_valid.then(|| Exchanged {
            set_cookie: format!(
                "{}={}; Path=/; HttpOnly; SameSite=Strict",
                self.cookie_name(),
                self.cookie
            ),
            page_key: &self.page_key,
        })
    }

    fn takes_browser_key(&self, key: &str, now: Instant) -> bool {
        let mut browser_key = lock(&self.browser_key);
        let is_valid = browser_key
            .as_ref()
            .is_some_and(|(valid, until)| now < *until && equal(key, valid));
        if is_valid {
            *browser_key = None;
        }
        is_valid
    }

    /// Whether a request has both secrets: in the header `Cookie`, and as page key.
    pub fn is_valid(&self, cookies: Option<&str>, page_key: Option<&str>) -> bool {
        let cookie = cookies.and_then(|cookies| {
            let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
            pairs.find_map(|(name, value)| (name == self.cookie_name()).then_some(value))
        });
        let has = |given: Option<&str>, expected: &str| given.is_some_and(|given| equal(given, expected));
        has(cookie, &self.cookie) && has(page_key, &self.page_key)
    }

    /// Two runs at a time have cookies of different names.
    fn cookie_name(&self) -> String {
        format!("helmop-ui-{}", self.address.port())
    }
}

/// A random text that can be a part of a URL, a header and a cookie.
fn secret() -> Result<String, Failure> {
    let mut bytes = [0; BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Failure::unable("the operating system has no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Compares in a time that does not depend on where the texts differ.
fn equal(given: &str, expected: &str) -> bool {
    let pairs = given.bytes().zip(expected.bytes());
    given.len() == expected.len() && pairs.fold(0, |different, (one, other)| different | (one ^ other)) == 0
}

#[cfg(test)]
impl Session {
    /// The header `Cookie` and the page key of a valid request.
    pub fn credentials(&self) -> (String, String) {
        (
            format!("{}={}", self.cookie_name(), self.cookie),
            self.page_key.clone(),
        )
    }

    /// The key of the printed link.
    pub fn key(&self) -> &str {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::new("127.0.0.1:8090".parse().unwrap()).unwrap()
    }

    #[test]
    fn secrets_are_long_and_differ_from_each_other_and_between_runs() {
        let (one, other) = (session(), session());
        let link = one.link_for_browser();
        let all = [
            &one.key,
            &one.cookie,
            &one.page_key,
            &other.key,
            &other.cookie,
            &other.page_key,
        ];
        for (index, secret) in all.iter().enumerate() {
            assert_eq!(secret.len(), 43);
            assert!(all[index + 1..].iter().all(|next| next != secret));
            assert!(!link.contains(&***secret), "the browser gets a key of its own");
        }
        assert!(
            one.link().starts_with("http://127.0.0.1:8090/#key="),
            "{}",
            one.link()
        );
    }

    #[test]
    fn the_key_of_the_terminal_is_exchanged_any_time_and_others_never() {
        let session = session();
        let now = Instant::now();
        for _ in 0..2 {
            let exchanged = session.exchange(&session.key, now + BROWSER_KEY * 100).unwrap();
            assert_eq!(exchanged.page_key, session.page_key);
            let (pair, attributes) = exchanged.set_cookie.split_once("; ").unwrap();
            assert_eq!(pair, format!("helmop-ui-8090={}", session.cookie));
            assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict");
        }
        let shorter = &session.key[1..];
        for key in [
            "",
            "x",
            shorter,
            &format!("{}x", session.key),
            &session.cookie,
            &session.page_key,
        ] {
            assert_eq!(session.exchange(key, now), None, "{key}");
        }
    }

    #[test]
    fn the_key_of_the_browser_is_exchanged_once_and_soon() {
        let now = Instant::now();
        let key = |session: &Session| session.link_for_browser().split_once('=').unwrap().1.to_owned();
        let (in_time, late) = (session(), session());
        let first = key(&in_time);
        assert!(in_time.exchange(&first, now).is_some());
        assert!(in_time.exchange(&first, now).is_none(), "a second time");
        assert!(in_time.exchange("", now).is_none());
        assert!(
            late.exchange(&key(&late), now + BROWSER_KEY * 2).is_none(),
            "too late"
        );
    }

    #[test]
    fn a_request_needs_the_cookie_and_the_page_key() {
        let session = session();
        let (cookie, page_key) = session.credentials();
        let others = format!("a=b; {cookie}; helmop-ui-1=x");
        let (cookie, others, page_key) = (Some(&*cookie), Some(&*others), Some(&*page_key));
        for (cookies, key, expected) in [
            (cookie, page_key, true),
            (others, page_key, true),
            (cookie, None, false),
            (None, page_key, false),
            (None, None, false),
            (page_key, cookie, false),
            (Some("helmop-ui-8090="), page_key, false),
            (cookie, Some(""), false),
            (cookie, Some(&session.key), false),
            (Some("helmop-ui-8091=x"), page_key, false),
        ] {
            assert_eq!(session.is_valid(cookies, key), expected, "{cookies:?} {key:?}");
        }
    }
}
