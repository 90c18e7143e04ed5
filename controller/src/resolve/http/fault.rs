//! What can go wrong with a request, as a person and as the controller see it.

use std::{io, time::Duration};

use helmops_shared::{chart::url::redacted, reason::Reason, runtime::exit::with_causes, text::cut};
use reqwest::{StatusCode, Url};
use thiserror::Error;

use super::{addresses::AddressError, pauses::LONGEST_ASKED};
use crate::backoff::Pace;

/// Longest text of a foreign error that is passed on, in bytes.
const MAX_WHY: usize = 512;

/// A request that gave no answer that is of use. The URL is without credentials.
#[derive(Clone, Debug, Error)]
#[error("failed to fetch {url}: {fault}")]
pub struct FetchError {
    /// What was asked for.
    pub url: String,
    /// Why it was not had.
    pub fault: Fault,
}

impl FetchError {
    /// About a URL that may hold credentials.
    pub fn new(url: &str, fault: Fault) -> Self {
        Self {
            url: redacted(url),
            fault,
        }
    }
}

/// Reads a URL.
///
/// # Errors
/// Where it is none.
pub fn parse(url: &str) -> Result<Url, FetchError> {
    Url::parse(url).map_err(|error| FetchError::new(url, Fault::Url(error.to_string())))
}

/// Why a request gave no answer that is of use. The words in parentheses are those of Go's HTTP client, for those who
/// search for them.
#[derive(Clone, Debug, Error)]
pub enum Fault {
    /// The URL is none.
    #[error("not a valid URL: {0}")]
    Url(String),
    /// The certificates of the Secret are none.
    #[error("{0} contains no certificate in PEM format")]
    CaCerts(&'static str),
    /// The client certificate of the Secret is none, or does not fit its key.
    #[error(
        "keys tls.crt and tls.key of the Secret are not a client certificate and its private key in PEM format: {0}"
    )]
    Identity(String),
    /// No client could be made.
    #[error("cannot make an HTTP client: {0}")]
    Client(String),
    /// The host name has no address.
    #[error("DNS lookup failed (no such host): {0}; check the host in the URL and the DNS of the cluster")]
    Dns(String),
    /// Nobody listens.
    #[error(
        "connection refused: nothing listens on this address; check the port in the URL, and whether the server is running"
    )]
    Refused,
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The server does not take connections in time.
    #[error("timeout: the connection was not accepted")]
    NotAccepted,
    /// The connection broke off.
    #[error("the connection was closed: {0}")]
    Connection(String),
    /// No connection is made to such an address.
    #[error("{0}")]
    Address(#[from] AddressError),
    /// The server did not answer in time.
    #[error("timeout: {0}")]
    Timeout(String),
    /// The server's certificate is not trusted.
    #[error("{0}")]
    Certificate(String),
    /// A redirect that is not followed.
    #[error("{0}")]
    Redirect(String),
    /// An answer that is an error.
    #[error("error code: {code}: {advice}", code = .0.as_u16(), advice = advice(*.0))]
    Status(StatusCode),
    /// An answer that is an error, to a request without the credentials that are there for another host.
    #[error(
        "error code: {code}: the server requires credentials, but those in Secret {secret} are for {home} and are not sent anywhere else; create a separate HelmOp, or let the Secret be of type kubernetes.io/dockerconfigjson with a login for each host",
        code = .status.as_u16()
    )]
    Withheld {
        /// What it answered.
        status: StatusCode,
        /// Name of the Secret.
        secret: String,
        /// Scheme, host and port that the credentials are for.
        home: String,
    },
    /// An answer that is an error, to a request without the credentials that are there for HTTPS.
    #[error(
        "error code: {code}: the server requires credentials, but those in Secret {secret} are for HTTPS and are not sent unencrypted; start the URL with https://, or set key basicHTTP of the Secret to true",
        code = .status.as_u16()
    )]
    Unencrypted {
        /// What it answered.
        status: StatusCode,
        /// Name of the Secret.
        secret: String,
    },
    /// Requests are limited.
    #[error("error code: {code}: the server limits requests; retrying later{again}", code = .status.as_u16(), again = again(*.after))]
    RateLimited {
        /// What it answered.
        status: StatusCode,
        /// How long the server says to wait.
        after: Option<Duration>,
    },
    /// The answer is too large.
    #[error("the response is larger than {} MiB {kind}, which is the limit", .limit >> 20)]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
        /// What was counted.
        kind: &'static str,
    },
    /// The compression of the answer is broken, or unknown.
    #[error("the response cannot be decompressed: {0}")]
    Encoding(String),
    /// The answer is not what this kind of server answers.
    #[error("the response cannot be parsed: {0}")]
    HttpResponse(String),
}

impl Fault {
    /// A broken exchange, taken apart.
    pub fn of(error: reqwest::Error) -> Self {
        if let Some(why) = certificate(&error) {
            return Self::Certificate(why);
        }
        if let Some(refused) = cause::<AddressError>(&error) {
            return Self::Address(refused.clone());
        }
        let (is_timeout, is_connect) = (error.is_timeout(), error.is_connect());
        let is_dns = error.is_dns();
        let refused =
            cause::<io::Error>(&error).is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused);
        // The error's own text would repeat the URL.
        let error = error.without_url();
        let why = cut(with_causes(innermost(&error)), MAX_WHY);
        if is_dns {
            Self::Dns(why)
        } else if is_timeout && is_connect {
            Self::NotAccepted
        } else if is_timeout {
            Self::Timeout("the server took the request, but does not answer or sends too slowly".to_owned())
        } else if refused {
            Self::Refused
        } else if is_connect {
            Self::Unreachable(why)
        } else {
            Self::Connection(why)
        }
    }

    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Url(_) => Reason::InvalidURL,
            Self::CaCerts(_) | Self::Identity(_) => Reason::InvalidSecret,
            Self::Client(_) | Self::Redirect(_) | Self::Encoding(_) | Self::HttpResponse(_) => {
                Reason::RepositoryError
            }
            Self::Dns(_) => Reason::DNSLookupFailed,
            Self::Refused | Self::Unreachable(_) | Self::Connection(_) | Self::Address(_) => {
                Reason::ConnectionFailed
            }
            Self::NotAccepted | Self::Timeout(_) => Reason::Timeout,
            Self::Certificate(_) => Reason::CertificateError,
            Self::Status(status) => match *status {
                StatusCode::UNAUTHORIZED => Reason::Unauthorized,
                StatusCode::FORBIDDEN => Reason::Forbidden,
                StatusCode::NOT_FOUND | StatusCode::GONE => Reason::RepositoryNotFound,
                _ => Reason::RepositoryError,
            },
            Self::Withheld { .. } | Self::Unencrypted { .. } => Reason::CredentialsNotForHost,
            Self::RateLimited { .. } => Reason::RateLimited,
            Self::TooLarge { .. } => Reason::ResponseTooLarge,
        }
    }

    /// When to try again.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Client(_)
            | Self::Dns(_)
            | Self::Refused
            | Self::Unreachable(_)
            | Self::NotAccepted
            | Self::Connection(_)
            | Self::Timeout(_)
            | Self::Encoding(_) => Pace::TRANSIENT,
            Self::Status(status) if status.is_server_error() => Pace::TRANSIENT,
            Self::RateLimited { after, .. } => {
                Pace::SLOW.at_least(after.unwrap_or_default().min(LONGEST_ASKED))
            }
            Self::Url(_)
            | Self::CaCerts(_)
            | Self::Identity(_)
            | Self::Certificate(_)
            | Self::Address(_)
            | Self::Redirect(_)
            | Self::Status(_)
            | Self::Withheld { .. }
            | Self::Unencrypted { .. }
            | Self::TooLarge { .. }
            | Self::HttpResponse(_) => Pace::SLOW,
        }
    }

    /// The same without anything that the answer says.
    #[must_use]
    pub fn without_quotes(self) -> Self {
        match self {
            Self::Encoding(_) => Self::Encoding("it is broken, or one that was not asked for".to_owned()),
            Self::HttpResponse(_) => Self::foreign(),
            other => other,
        }
    }

    /// An answer that is of no use, from another host than that of the repository.
    pub fn foreign() -> Self {
        Self::HttpResponse(
            "it comes from another host than that of the repository, by a redirect or as the token server that the registry \
             names, and is not what such a server answers; nothing of it is shown here, so fetch the URL by hand to see it"
                .to_owned(),
        )
    }

    /// What it says something about, and what is spared therefore.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Dns(_) | Self::Refused | Self::Unreachable(_) | Self::NotAccepted => Scope::Host,
            Self::Connection(_) | Self::Timeout(_) | Self::RateLimited { .. } => Scope::Repository,
            Self::Status(status) if status.is_server_error() => Scope::Repository,
            Self::Url(_)
            | Self::CaCerts(_)
            | Self::Identity(_)
            | Self::Client(_)
            | Self::Certificate(_)
            | Self::Address(_)
            | Self::Redirect(_)
            | Self::Status(_)
            | Self::Withheld { .. }
            | Self::Unencrypted { .. }
            | Self::TooLarge { .. }
            | Self::Encoding(_)
            | Self::HttpResponse(_) => Scope::Request,
        }
    }
}

/// What a fault says something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The server, whoever asks it.
    Host,
    /// What was asked for, by those who ask it with the same credentials: whoever has a path at a server that others use
    /// too could answer anything there.
    Repository,
    /// What was asked for, which is in order to ask for again.
    Request,
}

/// What to do about an answer.
fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => {
            "the server requires other credentials: check username and password in the Secret that \
             spec.helmSecretName names"
        }
        StatusCode::FORBIDDEN => {
            "the login is known but may not read this, or none was given: check spec.helmSecretName"
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            "there is no chart repository at this URL: check spec.helm.repo, or let it begin with oci:// for a registry"
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            "the proxy requires credentials: put them into the URL in the controller's HTTPS_PROXY"
        }
        status if status.is_server_error() => "the server is in trouble; it is asked again",
        StatusCode::NOT_MODIFIED => {
            "the server says that nothing has changed, though nothing is known of it yet: is a broken cache in front of it?"
        }
        status if status.is_redirection() => "a redirect that leads nowhere",
        _ => "not an answer that a chart repository or registry gives",
    }
}

fn again(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| {
        format!(", after {} s as it says", after.as_secs())
    })
}

/// What is wrong with the server's certificate, if that is what is wrong.
fn certificate(error: &reqwest::Error) -> Option<String> {
    use rustls::CertificateError as Wrong;

    let wrong = match cause::<rustls::Error>(error)? {
        rustls::Error::InvalidCertificate(wrong) => wrong,
        rustls::Error::AlertReceived(alert) => {
            return Some(format!(
                "the server refuses the TLS connection ({alert:?}); it may want a client certificate: keys tls.crt and \
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
    Some(match wrong {
        Wrong::UnknownIssuer => {
            "the certificate is signed by an unknown authority (x509: certificate signed by unknown authority); put \
             the CA's certificate into key cacerts of the Secret that spec.helmSecretName names"
                .to_owned()
        }
        Wrong::Expired | Wrong::ExpiredContext { .. } => {
            "the certificate has expired (x509: certificate has expired or is not yet valid)".to_owned()
        }
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
            "the certificate is not valid yet (x509: certificate has expired or is not yet valid)".to_owned()
        }
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            format!("the certificate is for another host name: {wrong}")
        }
        other => format!(
            "the certificate is not trusted: {other} (x509: certificate signed by unknown authority); put the CA's \
             certificate into key cacerts of the Secret that spec.helmSecretName names"
        ),
    })
}

/// The cause of a type, in a chain of causes. An I/O error holds its cause inside and does not tell it as its source.
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

/// The last cause in the chain, which is the one that means something to a person.
fn innermost<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last
}
