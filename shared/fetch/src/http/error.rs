//! Errors of requests: messages for users, reasons and classes for the controller.

use std::{io, time::Duration};

use bounded_text::cut;
use helmops_model::{chart::url::redacted, reason::Reason};
use helmops_process::exit::with_causes;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, Scope, classified};
use reqwest::StatusCode;
use thiserror::Error;

use super::{addresses::AddressError, retry_after::MAX_RETRY_AFTER};
use crate::login::LoginProblem;

/// The error of hyper-util if a proxy opens no tunnel without a login.
const TUNNEL_UNAUTHORIZED: &str = "proxy authorization required";
/// Longest text of a library error that a message quotes, in bytes.
const MAX_CAUSE: usize = 512;

/// A request without a usable response. The URL contains no credentials.
#[derive(Clone, Debug, Error)]
#[error("failed to fetch {url}: {kind}")]
pub struct FetchError {
    /// The requested URL.
    pub url: String,
    /// The cause.
    pub kind: FetchErrorKind,
}

impl FetchError {
    /// Creates an error for a URL that may contain credentials.
    pub fn new(url: &str, kind: FetchErrorKind) -> Self {
        Self {
            url: redacted(url),
            kind,
        }
    }
}

/// Why a request has no usable response. The texts in parentheses are those of Go's HTTP client, so that a search for them
/// finds the message.
#[derive(Clone, Debug, Error)]
pub enum FetchErrorKind {
    /// The URL is invalid.
    #[error("not a valid URL: {0}")]
    Url(String),
    /// The CA certificates cannot be parsed.
    #[error("{0} contains no certificate in PEM format")]
    CaCertificates(&'static str),
    /// The client certificate of the Secret is invalid, or does not match its key.
    #[error(
        "keys tls.crt and tls.key of the Secret are not a client certificate and its private key in PEM format: {0}"
    )]
    ClientCertificate(String),
    /// The HTTP client could not be created.
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
    /// The host name has no address.
    #[error("DNS lookup failed (no such host): {0}; check the host in the URL and the DNS of the cluster")]
    Dns(String),
    /// The connection was refused.
    #[error(
        "connection refused: nothing listens on this address; check the port in the URL, and whether the server is running"
    )]
    ConnectionRefused,
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The server does not accept the connection in time.
    #[error("timeout: the connection was not accepted")]
    NotAccepted,
    /// The connection was closed.
    #[error("the connection was closed: {0}")]
    Connection(String),
    /// Connections to this address are denied.
    #[error("{0}")]
    Address(#[from] AddressError),
    /// The server did not respond in time.
    #[error("timeout: {0}")]
    Timeout(String),
    /// The server's certificate is not trusted.
    #[error("{0}")]
    Certificate(String),
    /// A redirect that is not followed.
    #[error("{0}")]
    Redirect(String),
    /// A response with an error status.
    #[error("error code: {code}: {advice}", code = .0.as_u16(), advice = advice(*.0))]
    Status(StatusCode),
    /// A response with an error status, for which the configured login is the probable cause.
    #[error("error code: {code}: {problem}", code = .status.as_u16())]
    Login {
        /// The status of the response.
        status: StatusCode,
        /// What is wrong with the login.
        problem: LoginProblem,
    },
    /// The server limits requests.
    #[error("error code: {code}: the server limits requests; retrying later{retry_hint}", code = .status.as_u16(), retry_hint = retry_hint(*.after))]
    RateLimited {
        /// The status of the response.
        status: StatusCode,
        /// The value of `Retry-After`.
        after: Option<Duration>,
    },
    /// The response is too large.
    #[error("the response is larger than {} MiB {measured}, which is the limit", .limit >> 20)]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
        /// Where the size was measured.
        measured: &'static str,
    },
    /// The response cannot be decompressed.
    #[error("the response cannot be decompressed: {0}")]
    Encoding(String),
    /// The response is not what this kind of server returns.
    #[error("the response cannot be parsed: {0}")]
    InvalidResponse(String),
}

impl FetchErrorKind {
    /// Classifies a failed exchange.
    pub fn from_reqwest(error: reqwest::Error) -> Self {
        if let Some(cause) = certificate(&error) {
            return Self::Certificate(cause);
        }
        if let Some(refused) = cause::<AddressError>(&error) {
            return Self::Address(refused.clone());
        }
        let (is_timeout, is_connect) = (error.is_timeout(), error.is_connect());
        let is_dns = error.is_dns();
        let refused =
            cause::<io::Error>(&error).is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused);
        // Otherwise the error's own text would repeat the URL.
        let error = error.without_url();
        let cause = cut(with_causes(innermost(&error)), MAX_CAUSE);
        if cause.ends_with(TUNNEL_UNAUTHORIZED) {
            // The response to CONNECT; without a tunnel it is a response like any other.
            Self::Status(StatusCode::PROXY_AUTHENTICATION_REQUIRED)
        } else if is_dns {
            Self::Dns(cause)
        } else if is_timeout && is_connect {
            Self::NotAccepted
        } else if is_timeout {
            Self::Timeout(
                "the server accepted the request, but does not respond or sends too slowly".to_owned(),
            )
        } else if refused {
            Self::ConnectionRefused
        } else if is_connect {
            Self::Unreachable(cause)
        } else {
            Self::Connection(cause)
        }
    }

    /// The same error without any text from the response.
    #[must_use]
    pub fn without_response_text(self) -> Self {
        match self {
            Self::Encoding(_) => {
                Self::Encoding("it is invalid, or an encoding that was not requested".to_owned())
            }
            Self::InvalidResponse(_) => Self::cross_origin(),
            other => other,
        }
    }

    /// An invalid response from another host than that of the repository.
    pub fn cross_origin() -> Self {
        Self::InvalidResponse(
            "it comes from another host than that of the repository, by a redirect or as the token server that the registry \
            names, and is not what such a server returns; its content is not shown here, so fetch the URL by hand to see it"
                .to_owned(),
        )
    }
}

impl ClassifiedError for FetchErrorKind {
    fn classify(&self) -> Classified {
        match self {
            Self::Url(_) => classified(Reason::InvalidURL, Class::Absent),
            Self::CaCertificates(_) | Self::ClientCertificate(_) => {
                classified(Reason::InvalidSecret, Class::Absent)
            }
            Self::Client(_) | Self::Encoding(_) => classified(Reason::RepositoryError, Class::TRANSIENT),
            Self::Dns(_) => classified(Reason::DNSLookupFailed, Class::Transient(Scope::Host)),
            Self::ConnectionRefused | Self::Unreachable(_) => {
                classified(Reason::ConnectionFailed, Class::Transient(Scope::Host))
            }
            Self::NotAccepted => classified(Reason::Timeout, Class::Transient(Scope::Host)),
            Self::Connection(_) => classified(Reason::ConnectionFailed, Class::Transient(Scope::Repository)),
            Self::Address(_) => classified(Reason::ConnectionFailed, Class::Absent),
            Self::Timeout(_) => classified(Reason::Timeout, Class::Transient(Scope::Repository)),
            Self::Certificate(_) => classified(Reason::CertificateError, Class::Absent),
            Self::Redirect(_) | Self::InvalidResponse(_) => {
                classified(Reason::RepositoryError, Class::Absent)
            }
            Self::Status(status) => of_status(*status),
            Self::Login { status, problem } => match problem.reason() {
                Some(reason) => classified(reason, Class::Absent),
                None => of_status(*status),
            },
            Self::RateLimited { after, .. } => {
                let least = after.unwrap_or_default().min(MAX_RETRY_AFTER);
                classified(Reason::RateLimited, Class::RateLimited(least))
            }
            Self::TooLarge { .. } => classified(Reason::ResponseTooLarge, Class::Absent),
        }
    }
}

/// The classification of a response with an error status.
fn of_status(status: StatusCode) -> Classified {
    match status {
        StatusCode::UNAUTHORIZED => classified(Reason::Unauthorized, Class::Absent),
        StatusCode::FORBIDDEN => classified(Reason::Forbidden, Class::Absent),
        StatusCode::NOT_FOUND | StatusCode::GONE => classified(Reason::RepositoryNotFound, Class::Absent),
        status if status.is_server_error() => {
            classified(Reason::RepositoryError, Class::Transient(Scope::Repository))
        }
        _ => classified(Reason::RepositoryError, Class::Absent),
    }
}

/// What a user can do about a response.
fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => {
            "the server requires other credentials: check username and password in the Secret that \
             spec.helmSecretName names"
        }
        StatusCode::FORBIDDEN => {
            "the login has no permission to read this: check the Secret that spec.helmSecretName names"
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            "there is no chart repository at this URL: check spec.helm.repo, or start it with oci:// for a registry"
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            "the proxy requires credentials: put them into proxyUsername and proxyPassword of the Secret with proxyAddress, or into the \
             URL in the controller's HTTPS_PROXY"
        }
        status if status.is_server_error() => "the server failed; retrying",
        StatusCode::NOT_MODIFIED => {
            "the server reports that nothing has changed, but nothing was cached yet: is there a broken proxy cache in front of it?"
        }
        status if status.is_redirection() => "a redirect that leads nowhere",
        _ => "not a response of a chart repository or registry",
    }
}

fn retry_hint(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| {
        format!(" after {} s (Retry-After)", after.as_secs())
    })
}

/// The TLS error of a request, if it has one.
fn certificate(error: &reqwest::Error) -> Option<String> {
    use rustls::CertificateError;

    let invalid = match cause::<rustls::Error>(error)? {
        rustls::Error::InvalidCertificate(invalid) => invalid,
        rustls::Error::AlertReceived(alert) => {
            return Some(format!(
                "the server refuses the TLS connection ({alert:?}); it may require a client certificate: set keys tls.crt and \
                 tls.key of the Secret that spec.helmSecretName names"
            ));
        }
        other => {
            return Some(format!(
                "no TLS connection: {other}; is it an https server? For a registry without TLS set key basicHTTP of \
                 the Secret to true"
            ));
        }
    };
    Some(match invalid {
        CertificateError::UnknownIssuer => {
            "the certificate is signed by an unknown authority (x509: certificate signed by unknown authority); put \
             the CA's certificate into key cacerts of the Secret that spec.helmSecretName names"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired (x509: certificate has expired or is not yet valid)".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet (x509: certificate has expired or is not yet valid)".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the certificate is for another host name: {invalid}")
        }
        other => format!(
            "the certificate is not trusted: {other} (x509: certificate signed by unknown authority); put the CA's \
             certificate into key cacerts of the Secret that spec.helmSecretName names"
        ),
    })
}

/// The first cause of a type in a chain of causes. An I/O error contains its cause and does not return it as its source.
fn cause<'e, E: std::error::Error + 'static>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e E> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match inner {
        Some(inner) => cause(inner),
        None => cause(error.source()?),
    }
}

/// The last cause in the chain, which is the most useful one for a user.
fn innermost<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let text = String::new;
        let absent = |reason| classified(reason, Class::Absent);
        let host = |reason| classified(reason, Class::Transient(Scope::Host));
        let repository = |reason| classified(reason, Class::Transient(Scope::Repository));
        let object = |reason| classified(reason, Class::TRANSIENT);
        let limited = |least| classified(Reason::RateLimited, Class::RateLimited(least));
        let status = |code| FetchErrorKind::Status(StatusCode::from_u16(code).unwrap());
        let rate_limited = |after| FetchErrorKind::RateLimited {
            status: StatusCode::TOO_MANY_REQUESTS,
            after,
        };
        let address = AddressError::name("localhost");
        let login = |problem| FetchErrorKind::Login {
            status: StatusCode::FORBIDDEN,
            problem,
        };
        let secret = text();
        let other_host = login(LoginProblem::OtherHost {
            secret: text(),
            hosts: text(),
        });
        let needs_https = login(LoginProblem::NeedsHttps { secret });
        let no_secret = login(LoginProblem::NoSecret);
        let too_large = FetchErrorKind::TooLarge {
            limit: 0,
            measured: "",
        };
        for (error, expected) in [
            (FetchErrorKind::Url(text()), absent(Reason::InvalidURL)),
            (FetchErrorKind::CaCertificates(""), absent(Reason::InvalidSecret)),
            (
                FetchErrorKind::ClientCertificate(text()),
                absent(Reason::InvalidSecret),
            ),
            (FetchErrorKind::Client(text()), object(Reason::RepositoryError)),
            (FetchErrorKind::Dns(text()), host(Reason::DNSLookupFailed)),
            (FetchErrorKind::ConnectionRefused, host(Reason::ConnectionFailed)),
            (
                FetchErrorKind::Unreachable(text()),
                host(Reason::ConnectionFailed),
            ),
            (FetchErrorKind::NotAccepted, host(Reason::Timeout)),
            (
                FetchErrorKind::Connection(text()),
                repository(Reason::ConnectionFailed),
            ),
            (FetchErrorKind::Address(address), absent(Reason::ConnectionFailed)),
            (FetchErrorKind::Timeout(text()), repository(Reason::Timeout)),
            (
                FetchErrorKind::Certificate(text()),
                absent(Reason::CertificateError),
            ),
            (FetchErrorKind::Redirect(text()), absent(Reason::RepositoryError)),
            (status(401), absent(Reason::Unauthorized)),
            (status(403), absent(Reason::Forbidden)),
            (status(404), absent(Reason::RepositoryNotFound)),
            (status(410), absent(Reason::RepositoryNotFound)),
            (status(418), absent(Reason::RepositoryError)),
            (status(503), repository(Reason::RepositoryError)),
            (other_host, absent(Reason::CredentialsNotForHost)),
            (needs_https, absent(Reason::CredentialsNotForHost)),
            (no_secret, absent(Reason::Forbidden)),
            (rate_limited(None), limited(Duration::ZERO)),
            (
                rate_limited(Some(Duration::from_secs(7))),
                limited(Duration::from_secs(7)),
            ),
            (rate_limited(Some(Duration::MAX)), limited(MAX_RETRY_AFTER)),
            (too_large, absent(Reason::ResponseTooLarge)),
            (FetchErrorKind::Encoding(text()), object(Reason::RepositoryError)),
            (
                FetchErrorKind::InvalidResponse(text()),
                absent(Reason::RepositoryError),
            ),
        ] {
            assert_eq!(error.classify(), expected, "{error}");
        }
    }
}
