//! From which URL a token may be requested.
//!
//! The registry chooses the realm of a Bearer challenge; tokens often come from another host. That host gets the user's
//! credentials and issues the permission to pull, so the connection to it must be as secure as that to the registry: an
//! `http` realm is only used if the registry itself is used over plain HTTP.

use std::fmt::Write;

use thiserror::Error;

use super::{challenge::Bearer, endpoint::Transport};
use crate::chart::url::{Url, UrlError, redacted};

/// The longest URL of a token request, in bytes: many servers reject a request line beyond 8 KiB.
const MAX_URL_LEN: usize = 8 * 1024 - 256;

/// Why no token can be requested from the realm that the registry names.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RealmError {
    /// The realm is not a URL.
    #[error("the token realm {realm:?} that the registry names is not a valid URL: {source}")]
    BadUrl {
        /// The realm, without credentials.
        realm: String,
        /// What is wrong with it.
        source: UrlError,
    },
    /// Neither `https` nor `http`.
    #[error("the registry names the token realm {realm:?}; tokens are fetched over https only")]
    Scheme {
        /// The realm, without credentials.
        realm: String,
    },
    /// Credentials would be sent in plain text, although the registry uses TLS.
    #[error(
        "the registry uses https, but its token realm {realm:?} would get credentials in the clear, so they are not sent; the registry's configuration must name an https realm"
    )]
    PlainHttp {
        /// The realm, without credentials.
        realm: String,
    },
    /// Realm, service and scopes are too long together.
    #[error(
        "the URL of the token that the registry names is {len} bytes long; at most {MAX_URL_LEN} are allowed"
    )]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
}

/// The URL of a token request: a GET with basic authentication or without authentication.
///
/// It requests the scopes that the registry names, each in a separate parameter, as the token specification defines, or
/// `pull_scope` if it names none. The scopes of the registry take precedence because behind some proxies its repositories
/// have other names than outside. Credentials in the realm itself and its fragment are removed.
///
/// # Errors
/// When credentials must not be sent to the realm.
pub fn token_url(bearer: &Bearer, registry: Transport, pull_scope: &str) -> Result<String, RealmError> {
    let realm = Url::parse(&bearer.realm).map_err(|source| RealmError::BadUrl {
        realm: redacted(&bearer.realm),
        source,
    })?;
    check_scheme(&realm, registry)?;
    let mut url = realm.without_credentials();
    let mut separator = if realm.query.is_some() { '&' } else { '?' };
    let scope = bearer.scope.as_deref().unwrap_or(pull_scope);
    let service = bearer.service.iter().map(|service| ("service", service.as_str()));
    for (name, value) in service.chain(scope.split_ascii_whitespace().map(|scope| ("scope", scope))) {
        url.push(separator);
        url.push_str(name);
        url.push('=');
        push_encoded(&mut url, value);
        separator = '&';
    }
    if url.len() > MAX_URL_LEN {
        return Err(RealmError::TooLong { len: url.len() });
    }
    Ok(url)
}

fn check_scheme(realm: &Url<'_>, registry: Transport) -> Result<(), RealmError> {
    if realm.has_scheme("https") {
        return Ok(());
    }
    let name = realm.to_string();
    match registry {
        _ if !realm.has_scheme("http") => Err(RealmError::Scheme { realm: name }),
        Transport::Https => Err(RealmError::PlainHttp { realm: name }),
        Transport::PlainHttp => Ok(()),
    }
}

/// Appends a value of a query. Encodes everything except the unreserved characters of RFC 3986.
fn push_encoded(url: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            url.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULL_SCOPE: &str = "repository:a/b:pull";

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Bearer {
        Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
            error: None,
        }
    }

    #[test]
    fn the_scopes_of_the_registry_are_requested() {
        for (bearer, expected) in [
            (
                bearer("https://auth.h/token", Some("the registry"), None),
                "https://auth.h/token?service=the%20registry&scope=repository%3Aa%2Fb%3Apull",
            ),
            (
                bearer(
                    "https://h/t?account=x",
                    None,
                    Some("repository:p/a/b:pull,push  b&c"),
                ),
                "https://h/t?account=x&scope=repository%3Ap%2Fa%2Fb%3Apull%2Cpush&scope=b%26c",
            ),
            (
                bearer("HTTPS://u:secret@h:8443#f", Some("ä"), None),
                "HTTPS://h:8443?service=%C3%A4&scope=repository%3Aa%2Fb%3Apull",
            ),
        ] {
            assert_eq!(
                token_url(&bearer, Transport::Https, PULL_SCOPE).as_deref(),
                Ok(expected),
                "{bearer:?}"
            );
        }
    }

    #[test]
    fn no_token_is_requested_over_http_for_an_https_registry() {
        let http = bearer("http://u:secret@auth.h/token?secret", None, None);
        let error = token_url(&http, Transport::Https, PULL_SCOPE).unwrap_err();
        assert!(matches!(error, RealmError::PlainHttp { .. }));
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(token_url(&http, Transport::PlainHttp, PULL_SCOPE).is_ok());
        let https = bearer("https://auth.h/token", None, None);
        assert!(token_url(&https, Transport::PlainHttp, PULL_SCOPE).is_ok());
    }

    #[test]
    fn invalid_realms_are_rejected() {
        let error = |realm: &str| {
            token_url(&bearer(realm, None, None), Transport::PlainHttp, PULL_SCOPE).unwrap_err()
        };
        for realm in ["", "/token", "auth.h/token", "https://", "https://h\n/"] {
            assert!(matches!(error(realm), RealmError::BadUrl { .. }), "{realm}");
        }
        for realm in ["file://h/etc/passwd", "ftp://h/"] {
            assert!(matches!(error(realm), RealmError::Scheme { .. }), "{realm}");
        }
        let long = format!("https://h/{}", "x".repeat(MAX_URL_LEN));
        assert!(matches!(error(&long), RealmError::TooLong { .. }));
    }
}
