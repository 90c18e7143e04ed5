//! Fetching the index of a Helm repository.

use std::{io, time::Duration};

use futures::TryStreamExt;
use helmops_shared::{chart::url::redacted, reason::Reason, runtime::exit::with_causes};
use percent_encoding::percent_decode_str;
use reqwest::{Certificate, Client, StatusCode, Url, redirect};
use thiserror::Error;
use tokio::sync::OnceCell;

use super::credentials::Credentials;
use crate::backoff::Pace;

/// A server that does not even accept a connection by then is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that sends nothing for this long will not send the rest.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest index at a slow but honest pace. A worker is held as long.
const TOTAL_TIMEOUT: Duration = Duration::from_mins(2);
/// Twice the size of the largest public indexes, decompressed.
const MAX_INDEX: usize = 100 << 20;
/// As many as Go's client follows.
const MAX_REDIRECTS: usize = 10;

/// Why an index could not be fetched. URLs in it are without credentials.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The URL is none.
    #[error("{url}: not a URL that can be fetched: {why}")]
    Url {
        /// The URL.
        url: String,
        /// Why.
        why: String,
    },
    /// The certificates of the Secret are none.
    #[error("key cacerts of the Secret holds no certificate in PEM form")]
    CaCerts,
    /// No client could be made.
    #[error("cannot make an HTTP client: {0}")]
    Client(String),
    /// The server answered with an error.
    #[error("failed to read helm repo from {url}, error code: {code}: {advice}", code = status.as_u16(), advice = advice(*status))]
    Status {
        /// The URL.
        url: String,
        /// What it answered.
        status: StatusCode,
    },
    /// The server's certificate is not trusted.
    #[error("failed to fetch {url}: {why}")]
    Certificate {
        /// The URL.
        url: String,
        /// Why.
        why: String,
    },
    /// The server did not answer in time.
    #[error("failed to fetch {url}: no answer in time: {why}")]
    Timeout {
        /// The URL.
        url: String,
        /// What took too long.
        why: String,
    },
    /// The server could not be reached, or broke off.
    #[error("failed to fetch {url}: {why}")]
    Connection {
        /// The URL.
        url: String,
        /// Why.
        why: String,
    },
    /// The index is too large.
    #[error("{url}: the index is larger than {} MiB", MAX_INDEX >> 20)]
    TooLarge {
        /// The URL.
        url: String,
    },
    /// The index is no text.
    #[error("{url}: the answer is not UTF-8 text, so it is no index")]
    NotText {
        /// The URL.
        url: String,
    },
}

impl FetchError {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Url { .. } => Reason::InvalidURL,
            Self::CaCerts => Reason::InvalidSecret,
            Self::Client(_) => Reason::RepositoryError,
            Self::Status { status, .. } => match *status {
                StatusCode::UNAUTHORIZED => Reason::Unauthorized,
                StatusCode::FORBIDDEN => Reason::Forbidden,
                StatusCode::NOT_FOUND | StatusCode::GONE => Reason::RepositoryNotFound,
                _ => Reason::RepositoryError,
            },
            Self::Certificate { .. } => Reason::CertificateError,
            Self::Timeout { .. } => Reason::Timeout,
            Self::Connection { .. } => Reason::ConnectionFailed,
            Self::TooLarge { .. } => Reason::IndexTooLarge,
            Self::NotText { .. } => Reason::InvalidIndex,
        }
    }

    /// When to try again.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Client(_) | Self::Timeout { .. } | Self::Connection { .. } => Pace::TRANSIENT,
            Self::Status { status, .. } if status.is_server_error() => Pace::TRANSIENT,
            Self::Url { .. }
            | Self::CaCerts
            | Self::Status { .. }
            | Self::Certificate { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. } => Pace::SLOW,
        }
    }
}

/// What to do about an answer.
fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => {
            "the repository wants a login, or another one: check username and password in the Secret that \
             spec.helmSecretName names"
        }
        StatusCode::FORBIDDEN => "the login is known but may not read this repository",
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            "there is no repository at this URL: check spec.helm.repo, or let it begin with oci:// for a registry"
        }
        StatusCode::TOO_MANY_REQUESTS => "the repository limits requests; the next try waits longer",
        status if status.is_server_error() => "the repository is in trouble; it is tried again",
        _ => "not an answer that a Helm repository gives",
    }
}

/// A text that was fetched, and where it came from, without credentials.
#[derive(Debug)]
pub struct Fetched {
    /// The URL.
    pub url: String,
    /// The text.
    pub text: String,
}

/// Fetches indexes. The two clients that most HelmOps need are made once, since each reads the system's certificates.
#[derive(Debug, Default)]
pub struct Fetcher {
    strict: OnceCell<Client>,
    insecure: OnceCell<Client>,
}

impl Fetcher {
    /// Fetches `index.yaml` of a repository.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub async fn index(&self, repo: &str, credentials: &Credentials) -> Result<Fetched, FetchError> {
        let mut target = index_url(repo)?;
        let shown = redacted(target.as_str());
        let login = credentials.basic.clone().or_else(|| login_in(&target));
        // The client would send them a second time.
        let _ = target.set_username("");
        let _ = target.set_password(None);
        let mut request = self.client(credentials).await?.get(target);
        if let Some((username, password)) = login {
            request = request.basic_auth(username, Some(password));
        }
        let response = request.send().await.map_err(|error| transport(&shown, error))?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status {
                url: shown,
                status: response.status(),
            });
        }
        let text = text(response, &shown).await?;
        Ok(Fetched { url: shown, text })
    }

    async fn client(&self, credentials: &Credentials) -> Result<Client, FetchError> {
        match &credentials.ca_pem {
            _ if credentials.insecure_skip_tls_verify => self
                .insecure
                .get_or_try_init(|| async { build(None, true) })
                .await
                .cloned(),
            None => self
                .strict
                .get_or_try_init(|| async { build(None, false) })
                .await
                .cloned(),
            Some(pem) => build(Some(pem), false),
        }
    }
}

fn build(ca_pem: Option<&[u8]>, insecure: bool) -> Result<Client, FetchError> {
    let mut builder = Client::builder()
        .user_agent(concat!("helmops/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .timeout(TOTAL_TIMEOUT)
        .gzip(true)
        // Retries are the controller's, with its own pace.
        .retry(reqwest::retry::never())
        .redirect(redirect::Policy::custom(follow));
    if insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    if let Some(pem) = ca_pem {
        let certificates = Certificate::from_pem_bundle(pem).map_err(|_| FetchError::CaCerts)?;
        if certificates.is_empty() {
            return Err(FetchError::CaCerts);
        }
        builder = builder.tls_certs_merge(certificates);
    }
    builder
        .build()
        .map_err(|error| FetchError::Client(with_causes(&error)))
}

/// The client itself drops credentials where a redirect leaves scheme, host or port.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let was_https = attempt
        .previous()
        .last()
        .is_some_and(|url| url.scheme() == "https");
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(format!("more than {MAX_REDIRECTS} redirects"))
    } else if was_https && attempt.url().scheme() != "https" {
        attempt.error("a redirect from https to plain http is not followed")
    } else {
        attempt.follow()
    }
}

/// The URL of a repository's index: a slash at the end of the repository makes no difference, a query is kept.
fn index_url(repo: &str) -> Result<Url, FetchError> {
    let mut url = Url::parse(repo).map_err(|error| FetchError::Url {
        url: redacted(repo),
        why: error.to_string(),
    })?;
    let path = format!("{}/index.yaml", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// The login in front of the host.
fn login_in(url: &Url) -> Option<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let username = decoded(url.username());
    let password = decoded(url.password().unwrap_or_default());
    (!username.is_empty() || !password.is_empty()).then_some((username, password))
}

/// Reads a body no further than allowed, whatever its headers promise.
async fn text(response: reqwest::Response, url: &str) -> Result<String, FetchError> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.try_next().await.map_err(|error| transport(url, error))? {
        if body.len() + chunk.len() > MAX_INDEX {
            return Err(FetchError::TooLarge { url: url.to_owned() });
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).map_err(|_| FetchError::NotText { url: url.to_owned() })
}

/// What a failed exchange means.
fn transport(url: &str, error: reqwest::Error) -> FetchError {
    let url = url.to_owned();
    if let Some(why) = certificate_error(&error) {
        return FetchError::Certificate { url, why };
    }
    let is_timeout = error.is_timeout();
    // The error's own text would repeat the URL.
    let why = with_causes(&error.without_url());
    if is_timeout {
        FetchError::Timeout { url, why }
    } else {
        FetchError::Connection { url, why }
    }
}

/// What is wrong with the server's certificate, if that is what is wrong.
fn certificate_error(error: &reqwest::Error) -> Option<String> {
    use rustls::CertificateError as Fault;

    let fault = match tls_error(error)? {
        rustls::Error::InvalidCertificate(fault) => fault,
        other => return Some(other.to_string()),
    };
    // Go's words stand in parentheses, for those who search for them.
    Some(match fault {
        Fault::UnknownIssuer => {
            "the certificate is signed by an unknown authority (x509: certificate signed by unknown authority); put \
             the CA's certificate into key cacerts of the Secret that spec.helmSecretName names"
                .to_owned()
        }
        Fault::Expired | Fault::ExpiredContext { .. } => {
            "the certificate has expired (x509: certificate has expired or is not yet valid)".to_owned()
        }
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => {
            "the certificate is not valid yet (x509: certificate has expired or is not yet valid)".to_owned()
        }
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            format!("the certificate is for another host name: {fault}")
        }
        other => format!(
            "the certificate is not trusted: {other} (x509: certificate signed by unknown authority); put the CA's \
             certificate into key cacerts of the Secret that spec.helmSecretName names"
        ),
    })
}

/// The TLS error in a chain of causes. An I/O error holds its cause inside and does not tell it as its source.
fn tls_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(tls) = error.downcast_ref() {
        return Some(tls);
    }
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => tls_error(inner),
        None => tls_error(error.source()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_lies_beside_the_charts() {
        for (repo, index) in [
            ("https://h/charts", "https://h/charts/index.yaml"),
            ("https://h/charts//", "https://h/charts/index.yaml"),
            ("https://h", "https://h/index.yaml"),
            ("https://h/c?token=x#f", "https://h/c/index.yaml?token=x"),
        ] {
            assert_eq!(index_url(repo).unwrap().as_str(), index);
        }
    }

    #[test]
    fn a_login_may_stand_in_the_url() {
        let url = Url::parse("https://user:p%40ss@h/").unwrap();
        assert_eq!(login_in(&url), Some(("user".to_owned(), "p@ss".to_owned())));
        assert_eq!(login_in(&Url::parse("https://h/").unwrap()), None);
    }
}
