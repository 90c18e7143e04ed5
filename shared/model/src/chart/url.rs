//! URLs of repositories and charts as they are written, for admission, records and messages. Module `location` has those that
//! are fetched.

mod text;

use go_formats::url::Parts;
use thiserror::Error;

pub use self::text::redacted_urls;
use super::digest::short_sha256_hex;

/// Why a text is not a URL from which a chart can be fetched.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum UrlError {
    /// No `scheme://` prefix.
    #[error("not an absolute URL: it must begin with https://, http:// or oci://")]
    Relative,
    /// No host between `//` and the path.
    #[error("the URL names no host")]
    NoHost,
    /// The host has characters that are not allowed in a host name.
    #[error("the host in the URL has characters that are not allowed in a host name")]
    BadHost,
    /// The port is not a number up to 65535.
    #[error("the port in the URL is not a number from 0 to 65535")]
    BadPort,
    /// A control character, such as a line break.
    #[error("the URL contains a control character, such as a line break")]
    ControlCharacter,
}

/// The parts of an absolute URL with a host.
///
/// Its `Display` is for messages. It omits the user part and the query, which may hold credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// The text before `://`, as written.
    pub scheme: &'a str,
    /// The text before `@`, such as `user:password`.
    pub userinfo: Option<&'a str>,
    /// Host name or address, and the port if one is given.
    pub host: &'a str,
    /// Path, beginning with `/`, or empty.
    pub path: &'a str,
    /// The text after `?`.
    pub query: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Parses a URL.
    ///
    /// Its parts are those of Go's `net/url`, with which Fleet and Helm parse it. User information and escapes are not checked.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &'a str) -> Result<Self, UrlError> {
        if text.chars().any(char::is_control) {
            return Err(UrlError::ControlCharacter);
        }
        let parts = Parts::of(text).map_err(|_| UrlError::Relative)?;
        let (scheme, userinfo, path, query) = (parts.scheme, parts.user, parts.path, parts.query);
        let host = parts
            .host
            .filter(|_| !scheme.is_empty())
            .ok_or(UrlError::Relative)?;
        check_host(host)?;
        Ok(Self {
            scheme,
            userinfo,
            host,
            path,
            query,
        })
    }

    /// Whether the scheme is `scheme`, in any case.
    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }
}

impl std::fmt::Display for Url<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.path)?;
        if self.query.is_some() {
            f.write_str("?…")
        } else {
            Ok(())
        }
    }
}

/// Whether a text is an address for `git clone`, which no registry or repository can have: `git@host:path`, or one with a
/// scheme of git.
pub fn is_git(text: &str) -> bool {
    match text.split_once("://") {
        Some((scheme, _)) => ["git", "ssh", "git+ssh", "git+https", "git+http", "git+file"]
            .iter()
            .any(|git| scheme.eq_ignore_ascii_case(git)),
        None => text.starts_with("git@") && text.contains(':'),
    }
}

/// A text that may be a URL, for messages: without the user part and the query, which may hold credentials.
pub fn redacted(text: &str) -> String {
    match Url::parse(text) {
        // A path can hold a second URL, with a user part of its own: `https://a,https://user:password@b`.
        Ok(url) if !(url.path.contains("//") && url.path.contains('@')) => url.to_string(),
        _ => redacted_text(text),
    }
}

/// A text that is not one URL, without everything that could be a user part, a query or a fragment.
fn redacted_text(text: &str) -> String {
    let (head, tail) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    if tail.contains('@') {
        // The user part may extend beyond the question mark: `user:pass?word@host`.
        return "…".to_owned();
    }
    let shown = match head.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => head.to_owned(),
    };
    if tail.starts_with('?') {
        shown + "?…"
    } else {
        shown
    }
}

/// Identifies a repository in a record: the URL without user part and fragment, and with a digest in place of the query,
/// which may hold a credential.
///
/// Two URLs that differ only in the query are two repositories. Without a query it is the same text as [`redacted`].
pub fn identity(text: &str) -> String {
    let shown = redacted(text);
    match Url::parse(text).ok().and_then(|url| url.query) {
        // 64 bits are enough to distinguish a few queries, and a token cannot be recovered from them.
        Some(query) => format!("{shown}#{}", short_sha256_hex(query.as_bytes(), 16)),
        None => shown,
    }
}

/// An [`identity`] as it was recorded before it had a digest of the query.
pub fn identity_without_digest(identity: &str) -> &str {
    identity.split_once('#').map_or(identity, |(shown, _)| shown)
}

fn check_host(host: &str) -> Result<(), UrlError> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(UrlError::BadHost)?;
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(UrlError::BadHost);
            }
            (address, port)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if name.is_empty() {
        return Err(UrlError::NoHost);
    }
    if name.contains(|c: char| c.is_whitespace() || "<>\"{}|\\^`@".contains(c)) {
        return Err(UrlError::BadHost);
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(()),
        // An empty port is allowed (RFC 3986) and means the default port of the scheme.
        Some(digits) if digits.is_empty() || is_port(digits) => Ok(()),
        _ => Err(UrlError::BadPort),
    }
}

fn is_port(digits: &str) -> bool {
    digits.bytes().all(|c| c.is_ascii_digit()) && digits.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests;
