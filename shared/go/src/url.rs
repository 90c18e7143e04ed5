//! Parses and formats URLs as Go's package `net/url` does.

use std::{
    fmt::{self, Write as _},
    net::Ipv6Addr,
};

use thiserror::Error;

/// Why Go does not parse a text as a URL.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum UrlError {
    /// A control character.
    #[error("it contains a control character")]
    ControlCharacter,
    /// A colon without a scheme before it.
    #[error("it starts with a colon")]
    NoScheme,
    /// A relative path that looks as if it had a scheme.
    #[error("its first segment contains a colon")]
    ColonInFirstSegment,
    /// A character that is not allowed in the user information.
    #[error("its user or password contains a character that must be escaped with %")]
    User,
    /// A `[` that does not begin the host.
    #[error("its host contains a [ in the middle")]
    BracketInHost,
    /// A `[` without a `]`.
    #[error("its host has no ]")]
    UnclosedBracket,
    /// Brackets around something else than an IPv6 address.
    #[error("its host is not an IPv6 address")]
    Address,
    /// A character that is not allowed in the host.
    #[error("its host contains a character that is not allowed there")]
    Host,
    /// The text after the colon that follows the host is not a number.
    #[error("the text after its host is not a port")]
    Port,
    /// A `%` without two hexadecimal digits, or with those of a byte that must not be escaped.
    #[error("it contains a % that is not followed by two hexadecimal digits of an allowed byte")]
    Escape,
    /// The decoded bytes are not UTF-8. Go accepts them.
    #[error("its decoded bytes are not UTF-8")]
    Encoding,
}

/// The parts of a URL as Go separates them, as they are written: neither decoded nor checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The text before the first colon; empty for a relative URL.
    pub scheme: &'a str,
    /// What follows the scheme if it is not a path, as in `mailto:`.
    pub opaque: &'a str,
    /// The text before the last `@` of what is between `//` and the path.
    pub user: Option<&'a str>,
    /// The rest of what is between `//` and the path: the host with its port. `None` without `//`.
    pub host: Option<&'a str>,
    /// The path, which begins with `/` after a host.
    pub path: &'a str,
    /// The text after `?`.
    pub query: Option<&'a str>,
    /// The text after `#`.
    pub fragment: &'a str,
}

impl<'a> Parts<'a> {
    /// Separates the parts of a URL, which may be relative.
    ///
    /// # Errors
    /// If Go does not find a scheme or a path in the text, or it contains a control character.
    pub fn of(text: &'a str) -> Result<Self, UrlError> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if text.contains(|c: char| c.is_ascii_control()) {
            return Err(UrlError::ControlCharacter);
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let mut parts = Self {
            scheme,
            query,
            fragment,
            ..Self::default()
        };
        if !rest.starts_with('/') && !scheme.is_empty() {
            parts.opaque = rest;
            return Ok(parts);
        }
        let first = rest.split('/').next();
        if first.is_some_and(|segment| segment.contains(':')) {
            return Err(UrlError::ColonInFirstSegment);
        }
        parts.path = match rest.strip_prefix("//") {
            Some(after) if !scheme.is_empty() || !after.starts_with('/') => {
                let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                parts.set_authority(authority);
                path
            }
            _ => rest,
        };
        Ok(parts)
    }

    fn set_authority(&mut self, authority: &'a str) {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.user = user;
        self.host = Some(host);
    }
}

/// The parts of a URL, without the delimiters, and decoded where Go decodes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case.
    pub scheme: String,
    /// What follows the scheme if it is not a path, as in `mailto:`.
    pub opaque: String,
    /// The user information.
    pub user: Option<User>,
    /// With the port.
    pub host: String,
    /// The path, which begins with `/` after a host.
    pub path: String,
    /// Not decoded.
    pub query: String,
    /// What follows `#`.
    pub fragment: String,
}

/// The user information of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    password: Option<String>,
}

impl Url {
    /// Parses a URL, which may be relative.
    ///
    /// # Errors
    /// If Go does not parse it, or a decoded part is not UTF-8.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let parts = Parts::of(text)?;
        let scheme = parts.scheme.to_ascii_lowercase();
        let fragment = decode(parts.fragment, Part::Fragment)?;
        Ok(Self {
            host: parse_host(&scheme, parts.host.unwrap_or_default())?,
            user: parts.user.map(User::parse).transpose()?,
            path: decode(parts.path, Part::Path)?,
            scheme,
            opaque: parts.opaque.to_owned(),
            query: parts.query.unwrap_or_default().to_owned(),
            fragment,
        })
    }

    /// The host without its port, and an IPv6 address without its brackets.
    pub fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if is_port(port) => host,
            _ => &self.host,
        };
        let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inside.unwrap_or(host)
    }

    fn hierarchy(&self) -> String {
        let mut out = String::new();
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if has_authority || !(self.scheme.is_empty() || self.path.is_empty()) {
            out.push_str("//");
        }
        if let Some(user) = &self.user {
            out.push_str(&user.to_string());
            out.push('@');
        }
        out.push_str(&encode(&self.host, Part::Host));
        let path = match &*self.path {
            "*" => "*".to_owned(),
            path => encode(path, Part::Path),
        };
        if !self.host.is_empty() && !path.is_empty() && !path.starts_with('/') {
            out.push('/');
        }
        // Otherwise it would be parsed as a scheme.
        let has_colon = path
            .split('/')
            .next()
            .is_some_and(|segment| segment.contains(':'));
        if out.is_empty() && self.scheme.is_empty() && has_colon {
            out.push_str("./");
        }
        out + &path
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            f.write_str(&self.hierarchy())?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", encode(&self.fragment, Part::Fragment))?;
        }
        Ok(())
    }
}

impl User {
    fn parse(text: &str) -> Result<Self, UrlError> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !text.chars().all(is_allowed) {
            return Err(UrlError::User);
        }
        let (name, password) = match text.split_once(':') {
            Some((name, password)) => (name, Some(password)),
            None => (text, None),
        };
        Ok(Self {
            name: decode(name, Part::User)?,
            password: password.map(|text| decode(text, Part::User)).transpose()?,
        })
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.name, Part::User))?;
        match &self.password {
            Some(password) => write!(f, ":{}", encode(password, Part::User)),
            None => Ok(()),
        }
    }
}

/// Escapes a key or a value of a query as `url.QueryEscape` does: with `+` for a space.
pub fn query(text: &str) -> String {
    encode(text, Part::Query).replace("%20", "+")
}

/// Splits off the scheme, if there is one.
fn split_scheme(text: &str) -> Result<(&str, &str), UrlError> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Ok(("", text));
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    match scheme {
        "" => Err(UrlError::NoScheme),
        scheme if is_scheme => Ok((scheme, rest)),
        _ => Ok(("", text)),
    }
}

fn parse_host(scheme: &str, host: &str) -> Result<String, UrlError> {
    match host.rfind('[') {
        Some(0) => return parse_address(host),
        Some(_) => return Err(UrlError::BracketInHost),
        None => {}
    }
    // URLs of databases can contain several hosts, each with a port.
    let port = if matches!(scheme, "http" | "https") {
        host.split_once(':')
    } else {
        host.rsplit_once(':')
    };
    if let Some((_, port)) = port {
        check_port(port)?;
    }
    decode(host, Part::Host)
}

/// An IPv6 address in brackets, optionally with a zone and a port.
fn parse_address(host: &str) -> Result<String, UrlError> {
    let (address, after) = host.rsplit_once(']').ok_or(UrlError::UnclosedBracket)?;
    let address = address.strip_prefix('[').unwrap_or(address);
    match after.strip_prefix(':') {
        Some(port) => check_port(port)?,
        None if after.is_empty() => {}
        None => return Err(UrlError::Port),
    }
    let (address, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
    if address.parse::<Ipv6Addr>().is_err() || zone == "%25" {
        return Err(UrlError::Address);
    }
    Ok(format!("[{address}{}]{after}", decode(zone, Part::Zone)?))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn check_port(text: &str) -> Result<(), UrlError> {
    if is_port(text) {
        Ok(())
    } else {
        Err(UrlError::Port)
    }
}

/// The parts of a URL, which differ in the characters that need no escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    User,
    Host,
    /// The zone of an IPv6 address.
    Zone,
    Path,
    /// A key or a value in the query.
    Query,
    Fragment,
}

impl Part {
    /// Whether a byte needs no escape.
    fn is_unescaped(self, byte: u8) -> bool {
        let more: &[u8] = match self {
            Self::User => b"$&+,;=",
            Self::Host | Self::Zone => b"!\"$&'()*+,:;<=>[]",
            Self::Path => b"$&+,/:;=@",
            Self::Query => b"",
            Self::Fragment => b"!$&()*+,/:;=?@",
        };
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || more.contains(&byte)
    }

    /// Whether a byte may be escaped with `%`.
    fn may_be_escaped(self, byte: u8) -> bool {
        match self {
            Self::Host => !byte.is_ascii() || byte == b'%',
            Self::Zone => matches!(byte, b'%' | b' ') || self.is_unescaped(byte),
            Self::User | Self::Path | Self::Query | Self::Fragment => true,
        }
    }
}

fn decode(text: &str, part: Part) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let (byte, after) = escaped(after)
                .filter(|(byte, _)| part.may_be_escaped(*byte))
                .ok_or(UrlError::Escape)?;
            rest = after;
            bytes.push(byte);
        } else if matches!(part, Part::Host | Part::Zone) && first.is_ascii() && !part.is_unescaped(*first) {
            return Err(UrlError::Host);
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| UrlError::Encoding)
}

/// The byte for two hexadecimal digits, and the rest of the text.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = text.split_at_checked(2)?;
    let digit = |index: usize| char::from(*digits.get(index)?).to_digit(16);
    let byte = digit(0)? << 4 | digit(1)?;
    Some((u8::try_from(byte).ok()?, rest))
}

fn encode(text: &str, part: Part) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if part.is_unescaped(byte) {
            out.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
