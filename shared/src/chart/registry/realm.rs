//! Where a token may be asked for.
//!
//! The realm of a Bearer challenge is the registry's to name: tokens often come from another host. Whoever answers there
//! gets the user's credentials and gives out the right to pull, so the way must be as safe as that to the registry: an
//! `http` realm is only followed where the registry itself is reached in the clear.

use std::fmt::Write;

use thiserror::Error;

use super::{challenge::Bearer, endpoint::Transport};
use crate::chart::url::{Url, UrlError, redacted};

/// The longest URL that a token is asked for at, in bytes: many servers refuse a request line beyond 8 KiB.
const MAX_URL_LEN: usize = 8 * 1024 - 256;

/// Why a token cannot be asked for where the registry says.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RealmError {
    /// The realm is no URL.
    #[error("the registry sends for a token to {realm:?}, which is unusable: {source}")]
    BadUrl {
        /// The realm, without credentials.
        realm: String,
        /// What is wrong with it.
        source: UrlError,
    },
    /// Neither `https` nor `http`.
    #[error("the registry sends for a token to {realm:?}; tokens are fetched over https only")]
    Scheme {
        /// The realm, without credentials.
        realm: String,
    },
    /// Credentials would travel in the clear, although the registry has TLS.
    #[error(
        "the registry, which is reached over https, sends for a token to {realm:?} in the clear, and credentials do not go there; the registry's configuration must name an https realm"
    )]
    PlainHttp {
        /// The realm, without credentials.
        realm: String,
    },
    /// Realm, service and scopes are too long together.
    #[error("the registry sends for a token to a URL of {len} bytes; at most {MAX_URL_LEN} are asked for")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
}

/// The URL of the token that a registry wants, for a GET with basic authentication or with none.
///
/// It asks for the scopes that the registry names, each in a parameter of its own as the token specification has it, or
/// for `pull_scope` where it names none. The registry knows best: behind some proxies its repositories have other names
/// than outside. Credentials in the realm itself and its fragment are left out.
///
/// # Errors
/// Where the realm must not have credentials.
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

/// Appends a value of a query. Everything is encoded but what RFC 3986 calls unreserved.
fn push_encoded(url: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            url.push(char::from(byte));
        } else {
            // Writing into a String does not fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "repository:a/b:pull";

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Bearer {
        Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
            error: None,
        }
    }

    #[test]
    fn asks_for_what_the_registry_names() {
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
                token_url(&bearer, Transport::Https, OWN).as_deref(),
                Ok(expected),
                "{bearer:?}"
            );
        }
    }

    #[test]
    fn credentials_do_not_travel_in_the_clear() {
        let http = bearer("http://u:secret@auth.h/token?secret", None, None);
        let error = token_url(&http, Transport::Https, OWN).unwrap_err();
        assert!(matches!(error, RealmError::PlainHttp { .. }));
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(token_url(&http, Transport::PlainHttp, OWN).is_ok());
        let https = bearer("https://auth.h/token", None, None);
        assert!(token_url(&https, Transport::PlainHttp, OWN).is_ok());
    }

    #[test]
    fn refuses() {
        let told =
            |realm: &str| token_url(&bearer(realm, None, None), Transport::PlainHttp, OWN).unwrap_err();
        for realm in ["", "/token", "auth.h/token", "https://", "https://h\n/"] {
            assert!(matches!(told(realm), RealmError::BadUrl { .. }), "{realm}");
        }
        for realm in ["file://h/etc/passwd", "ftp://h/"] {
            assert!(matches!(told(realm), RealmError::Scheme { .. }), "{realm}");
        }
        let long = format!("https://h/{}", "x".repeat(MAX_URL_LEN));
        assert!(matches!(told(&long), RealmError::TooLong { .. }));
    }
}
