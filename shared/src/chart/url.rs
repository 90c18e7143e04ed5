//! URLs of repositories and charts, taken apart no further than admission and messages need.

use thiserror::Error;

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

/// A text that may be a URL, for people: without credentials.
pub fn redacted(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => url.to_string(),
        // Too broken to take apart, so everything up to a possible `@` goes.
        Err(_) => match text.rsplit_once('@') {
            Some((_, rest)) => format!("…@{rest}"),
            None => text.to_owned(),
        },
    }
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
mod tests {
    use super::*;

    #[test]
    fn takes_apart() {
        let url = Url::parse("HTTPS://u:p@ss@h.example:8443/charts/a?token=x#f").unwrap();
        assert_eq!(url.userinfo, Some("u:p@ss"));
        assert_eq!(
            (url.host, url.path, url.query),
            ("h.example:8443", "/charts/a", Some("token=x"))
        );
        assert!(url.has_scheme("https"));
        assert_eq!(url.to_string(), "HTTPS://h.example:8443/charts/a?…");
        assert_eq!(Url::parse("http://[::1]:80").unwrap().host, "[::1]:80");
    }

    #[test]
    fn refuses() {
        use UrlError::{BadHost, BadPort, ControlCharacter, NoHost, Relative};
        for (text, error) in [
            ("", Relative),
            ("charts.example.com", Relative),
            ("//charts.example.com", Relative),
            ("1http://a", Relative),
            ("https://", NoHost),
            ("https:///charts", NoHost),
            ("https://user@/charts", NoHost),
            ("https://:443/", NoHost),
            ("https://a b/", BadHost),
            ("https://[::1/", BadHost),
            ("https://[zz]/", BadHost),
            ("https://a:b/", BadPort),
            ("https://a:65536/", BadPort),
            ("https://a:-1/", BadPort),
            ("https://a\n/", ControlCharacter),
        ] {
            assert_eq!(Url::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn never_shows_credentials() {
        for text in [
            "https://u:secret@h/x?sig=secret",
            "u:secret@h",
            "https://u:secret@h:bad/x",
        ] {
            assert!(!redacted(text).contains("secret"), "{text}");
        }
        assert_eq!(redacted("not a url"), "not a url");
    }
}
