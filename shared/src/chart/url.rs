//! URLs of repositories and charts, taken apart no further than admission and messages need.

use thiserror::Error;

use crate::text::hex;

/// Why a text is not a URL that a chart can be fetched from.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum UrlError {
    /// No `scheme://` in front.
    #[error("not an absolute URL: it must begin with https://, http:// or oci://")]
    Relative,
    /// Nothing between `//` and the path.
    #[error("the URL names no host")]
    NoHost,
    /// Characters that no host name has.
    #[error("the host in the URL holds characters that no host name has")]
    BadHost,
    /// The port is no number up to 65535.
    #[error("the port in the URL is not a number from 0 to 65535")]
    BadPort,
    /// Line breaks and the like.
    #[error("the URL holds a control character, such as a line break")]
    ControlCharacter,
}

/// An absolute URL with a host, in its parts.
///
/// Its `Display` is for people: without credentials, which may stand in the user part and in the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// What stands before `://`, as written.
    pub scheme: &'a str,
    /// What stands before `@`, such as `user:password`.
    pub userinfo: Option<&'a str>,
    /// Host name or address, and the port if one is given.
    pub host: &'a str,
    /// Path, beginning with `/`, or empty.
    pub path: &'a str,
    /// What stands behind `?`.
    pub query: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Takes a URL apart.
    ///
    /// It refuses only what Go's `net/url` refuses too, besides URLs without scheme or host.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &'a str) -> Result<Self, UrlError> {
        if text.chars().any(char::is_control) {
            return Err(UrlError::ControlCharacter);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Relative)?;
        if !is_scheme(scheme) {
            return Err(UrlError::Relative);
        }
        let rest = rest.split_once('#').map_or(rest, |(before, _fragment)| before);
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
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

    /// The URL to ask for: with its query, without user part and fragment.
    pub fn without_credentials(&self) -> String {
        let mut text = format!("{}://{}{}", self.scheme, self.host, self.path);
        if let Some(query) = self.query {
            text.push('?');
            text.push_str(query);
        }
        text
    }

    /// What `reference` means where it stands in the document at this URL: an absolute URL, without user part and
    /// fragment (RFC 3986, section 5.2).
    ///
    /// # Errors
    /// Where the reference is itself absolute, or names a host, and is wrong.
    pub fn join(&self, reference: &str) -> Result<String, UrlError> {
        let reference = reference
            .split_once('#')
            .map_or(reference, |(before, _fragment)| before);
        if reference.chars().any(char::is_control) {
            return Err(UrlError::ControlCharacter);
        }
        if reference.starts_with("//") {
            let absolute = format!("{}:{reference}", self.scheme);
            return Url::parse(&absolute).map(|url| url.with_plain_path());
        }
        if has_own_scheme(reference) {
            return Url::parse(reference).map(|url| url.with_plain_path());
        }
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (reference, None),
        };
        let merged = match path {
            "" => self.path.to_owned(),
            _ if path.starts_with('/') => path.to_owned(),
            _ => {
                let (folder, _) = self.path.rsplit_once('/').unwrap_or_default();
                format!("{folder}/{path}")
            }
        };
        let query = if path.is_empty() {
            query.or(self.query)
        } else {
            query
        };
        let joined = Url {
            path: &merged,
            query,
            ..*self
        };
        Ok(joined.with_plain_path())
    }

    /// Whether scheme, host and port are the same. The port of `https` and `http` may be left out.
    pub fn is_same_origin(&self, other: &Url<'_>) -> bool {
        let (name, port) = self.name_and_port();
        let (other_name, other_port) = other.name_and_port();
        other.has_scheme(self.scheme) && name.eq_ignore_ascii_case(other_name) && port == other_port
    }

    /// Host without port, and the port that is meant.
    fn name_and_port(&self) -> (&str, Option<u16>) {
        let (name, port) = match self.host.rsplit_once(':') {
            // Not the colons inside of an address.
            Some((name, port)) if !port.ends_with(']') => (name, port),
            _ => (self.host, ""),
        };
        let implied = || match self.scheme {
            _ if self.has_scheme("https") => Some(443),
            _ if self.has_scheme("http") => Some(80),
            _ => None,
        };
        (name, port.parse().ok().or_else(implied))
    }

    /// The same without `.` and `..` in the path.
    fn with_plain_path(&self) -> String {
        let path = without_dots(self.path);
        Url { path: &path, ..*self }.without_credentials()
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

/// Whether a text is an address that `git clone` takes and no registry or repository has: `git@host:path`, or one with a
/// scheme of git's.
pub fn is_git(text: &str) -> bool {
    match text.split_once("://") {
        Some((scheme, _)) => ["git", "ssh", "git+ssh", "git+https", "git+http", "git+file"]
            .iter()
            .any(|git| scheme.eq_ignore_ascii_case(git)),
        None => text.starts_with("git@") && text.contains(':'),
    }
}

/// A text that may be a URL, for people: without credentials, which may stand in the user part and in the query.
pub fn redacted(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => url.to_string(),
        Err(_) => redacted_text(text),
    }
}

/// A text that is too broken to take apart: without all that could be a user part, a query or a fragment.
fn redacted_text(text: &str) -> String {
    let (head, tail) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    if tail.contains('@') {
        // The user part may reach beyond the question mark: `user:pass?word@host`.
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

/// What tells one repository from another in a record: the URL without user part and fragment, and a digest in place of
/// the query, which may hold a credential.
///
/// Two URLs that differ only in the query are two repositories. Without a query it is the same text as [`redacted`].
pub fn identity(text: &str) -> String {
    let shown = redacted(text);
    match Url::parse(text).ok().and_then(|url| url.query) {
        Some(query) => format!("{shown}#{}", short_digest(query)),
        None => shown,
    }
}

/// An [`identity`] as it was recorded before it had a digest of the query.
pub fn identity_without_digest(identity: &str) -> &str {
    identity.split_once('#').map_or(identity, |(shown, _)| shown)
}

/// 64 bits of SHA-256: enough to tell a few queries apart, and no way back to a token.
fn short_digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let (short, _) = digest.as_ref().split_at(8);
    hex(short)
}

/// Whether a reference begins with a scheme, and so is absolute.
fn has_own_scheme(reference: &str) -> bool {
    reference
        .split_once(':')
        .is_some_and(|(before, _)| is_scheme(before))
}

/// A path without its `.` and `..` (RFC 3986, section 5.2.4). There is no way up from the root.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => {
                kept.push(segment);
                continue;
            }
        }
        // `/a/..` is the folder `/`, not `/a` without an end.
        if is_last {
            kept.push("");
        }
    }
    if path.is_empty() {
        return String::new();
    }
    format!("/{}", kept.join("/"))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.'))
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
        // An empty port is allowed (RFC 3986) and means the scheme's own.
        Some(digits) if digits.is_empty() || is_port(digits) => Ok(()),
        _ => Err(UrlError::BadPort),
    }
}

fn is_port(digits: &str) -> bool {
    digits.bytes().all(|c| c.is_ascii_digit()) && digits.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests;
