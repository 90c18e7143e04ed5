//! From which URL a token may be requested.
//!
//! The registry chooses the realm of a Bearer challenge; tokens often come from another host. That host gets the user's
//! credentials and issues the permission to pull, so the connection to it must be as secure as that to the registry: an
//! `http` realm is only used if the registry itself is used over plain HTTP.

use std::fmt::Write;

use thiserror::Error;
use url::{ParseError, Url};

use super::{challenge::Bearer, endpoint::Transport};
use crate::chart::{
    location::{self, without_credentials},
    url::redacted,
};

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
        source: ParseError,
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
pub fn token_url(bearer: &Bearer, registry: Transport, pull_scope: &str) -> Result<Url, RealmError> {
    let realm = location::url(&bearer.realm).map_err(|source| RealmError::BadUrl {
        realm: redacted(&bearer.realm),
        source,
    })?;
    let mut url = without_credentials(realm);
    check_scheme(&url, registry)?;
    let mut query = url.query().unwrap_or_default().to_owned();
    let scope = bearer.scope.as_deref().unwrap_or(pull_scope);
    let service = bearer.service.iter().map(|service| ("service", service.as_str()));
    for (name, value) in service.chain(scope.split_ascii_whitespace().map(|scope| ("scope", scope))) {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(name);
        query.push('=');
        push_encoded(&mut query, value);
    }
    url.set_query(Some(&query));
    match url.as_str().len() {
        len if len > MAX_URL_LEN => Err(RealmError::TooLong { len }),
        _ => Ok(url),
    }
}

fn check_scheme(realm: &Url, registry: Transport) -> Result<(), RealmError> {
    let name = || redacted(realm.as_str());
    match (realm.scheme(), registry) {
        ("https", _) | ("http", Transport::PlainHttp) => Ok(()),
        ("http", Transport::Https) => Err(RealmError::PlainHttp { realm: name() }),
        _ => Err(RealmError::Scheme { realm: name() }),
    }
}

/// Appends a value of a query. Encodes everything except the unreserved characters of RFC 3986.
fn push_encoded(query: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            query.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(query, "%{byte:02X}");
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
                "https://h:8443/?service=%C3%A4&scope=repository%3Aa%2Fb%3Apull",
            ),
        ] {
            assert_eq!(
                token_url(&bearer, Transport::Https, PULL_SCOPE)
                    .as_ref()
                    .map(Url::as_str),
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
        for realm in ["", "/token", "auth.h/token", "https://", "https://h%2f/"] {
            assert!(matches!(error(realm), RealmError::BadUrl { .. }), "{realm}");
        }
        for realm in ["file://h/etc/passwd", "ftp://h/"] {
            assert!(matches!(error(realm), RealmError::Scheme { .. }), "{realm}");
        }
        let long = format!("https://h/{}", "x".repeat(MAX_URL_LEN));
        assert!(matches!(error(&long), RealmError::TooLong { .. }));
    }
}
