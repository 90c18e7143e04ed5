//! Access to repositories and registries: credentials and trust.

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_core::chart::{
    location,
    registry::{
        endpoint::{Endpoint, Transport},
        reference::Reference,
    },
    source::{self, ChartSource},
};
use percent_encoding::percent_decode_str;
use reqwest::{StatusCode, Url, header::HeaderValue};
use ring::digest::{Context, SHA256};

use super::{
    http::{FetchErrorKind, TlsConfig, origin},
    time_limit::TimeLimit,
};

/// Prefix of a Docker configuration entry that allows plain HTTP.
pub const PLAIN_HTTP_PREFIX: &str = "http://";

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User name; empty for some tokens.
    pub username: String,
    /// Password or token.
    pub password: String,
}

/// Passwords stay out of logs.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

impl Login {
    /// The value of an `Authorization` header, RFC 7617.
    pub fn basic(&self) -> HeaderValue {
        let text = STANDARD.encode(format!("{}:{}", self.username, self.password));
        // Base64 is always a valid value.
        let mut value =
            HeaderValue::from_str(&format!("Basic {text}")).unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }
}

/// Access to the repositories of a HelmOp, from its Secret and its spec.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The TLS configuration, for every host.
    pub tls: Arc<TlsConfig>,
    /// The login for the HelmOp's own repository.
    pub login: Option<Login>,
    /// Scheme, host and port of that repository: `login` is sent to no other origin.
    pub origin: String,
    /// Logins for single hosts, from a Secret of type `kubernetes.io/dockerconfigjson`: host and port, optionally a path, and
    /// the login. An entry keeps its prefix `http://`; without it a login is sent over plain HTTP only if `plain_http` is set.
    pub host_logins: Vec<(String, Login)>,
    /// Use plain HTTP for OCI registries, and send host logins over it.
    pub plain_http: bool,
    /// Name of the Secret; empty if there is none.
    pub secret: String,
    /// Namespace of the HelmOp, which requests and memory are charged to.
    pub namespace: Arc<str>,
    /// The time limit for the resolutions of the HelmOp.
    pub time_limit: TimeLimit,
}

/// The credentials for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// None are configured.
    None,
    /// This login is sent.
    Login(&'a Login),
    /// Some are configured, but must not be sent to this URL.
    NotSent(NotSentReason),
}

/// Why credentials are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSentReason {
    /// They are for another host.
    OtherHost,
    /// They are for this host, but only over HTTPS.
    PlainHttp,
}

impl Credentials<'_> {
    /// Why configured credentials are not sent.
    pub const fn not_sent(&self) -> Option<NotSentReason> {
        match self {
            Self::NotSent(reason) => Some(*reason),
            Self::None | Self::Login(_) => None,
        }
    }
}

/// A URL without its credentials, and the login to send with a request for it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL.
    pub url: Url,
    /// The login, of the Secret or else of the URL itself.
    pub login: Option<Login>,
    /// Why the credentials of the Secret are not sent.
    pub not_sent: Option<NotSentReason>,
}

impl Access {
    /// What is sent to a URL, which may contain credentials.
    pub fn target(&self, url: Url) -> Target {
        let in_url = login_in(&url);
        // Otherwise the client would send them a second time.
        let url = location::without_credentials(url);
        let credentials = self.credentials(&url);
        let not_sent = credentials.not_sent().filter(|_| in_url.is_none());
        let login = match credentials {
            Credentials::Login(login) => Some(login.clone()),
            Credentials::None | Credentials::NotSent(_) => in_url,
        };
        Target { url, login, not_sent }
    }

    /// The credentials for a URL.
    pub fn credentials(&self, url: &Url) -> Credentials<'_> {
        let is_encrypted = url.scheme() == "https" || self.plain_http;
        if let Some(login) = self.host_login(url, is_encrypted) {
            return Credentials::Login(login);
        }
        match &self.login {
            Some(login) if origin(url) == self.origin => Credentials::Login(login),
            None if self.host_logins.is_empty() => Credentials::None,
            _ if self.host_login(url, true).is_some() => Credentials::NotSent(NotSentReason::PlainHttp),
            _ => Credentials::NotSent(NotSentReason::OtherHost),
        }
    }

    /// The login of the longest entry that is a prefix of the URL, of those that may be sent.
    fn host_login(&self, url: &Url, may_send_all: bool) -> Option<&Login> {
        let host = url.host_str()?;
        let host = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let path = format!("{host}{}", url.path().trim_start_matches("/v2"));
        let matches_prefix = |entry: &str| {
            path.strip_prefix(entry)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let entries = self.host_logins.iter().filter_map(|(entry, login)| {
            let plain = entry.strip_prefix(PLAIN_HTTP_PREFIX);
            let entry = plain.unwrap_or(entry);
            let matches = (may_send_all || plain.is_some()) && matches_prefix(entry);
            matches.then_some((entry.len(), login))
        });
        entries.max_by_key(|(len, _)| *len).map(|(_, login)| login)
    }

    /// The error for a response with this status, to a request whose credentials may not have been sent.
    pub fn refusal(&self, status: StatusCode, not_sent: Option<NotSentReason>) -> FetchErrorKind {
        let is_about_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let secret = self.secret.clone();
        match not_sent.filter(|_| is_about_login) {
            None => FetchErrorKind::Status(status),
            Some(NotSentReason::PlainHttp) => FetchErrorKind::CredentialsNeedHttps { status, secret },
            Some(NotSentReason::OtherHost) => {
                let origin = match self.login {
                    Some(_) => self.origin.clone(),
                    None => "other hosts".to_owned(),
                };
                FetchErrorKind::CredentialsForOtherHost {
                    status,
                    secret,
                    origin,
                }
            }
        }
    }

    /// The error of a request as it applies to this HelmOp. The request may have been sent for another HelmOp, whose
    /// credentials were not sent either, or that has none.
    pub fn own_error(&self, kind: FetchErrorKind, not_sent: Option<NotSentReason>) -> FetchErrorKind {
        match kind {
            FetchErrorKind::CredentialsForOtherHost { status, .. }
            | FetchErrorKind::CredentialsNeedHttps { status, .. }
            | FetchErrorKind::Status(status) => self.refusal(status, not_sent),
            other => other,
        }
    }

    /// Size of the content of the Secret, in bytes.
    pub fn secret_bytes(&self) -> usize {
        let login = |login: &Login| login.username.len() + login.password.len();
        let own = self.login.as_ref().map_or(0, login);
        let host_logins = self
            .host_logins
            .iter()
            .map(|(host, login_of_host)| size_of::<(String, Login)>() + host.len() + login(login_of_host));
        let ca_certificates = self.tls.ca_certificates.iter().map(|(pem, _)| pem.len());
        let identity = self.tls.identity.as_ref().map_or(0, Vec::len);
        own + host_logins.sum::<usize>() + ca_certificates.sum::<usize>() + identity
    }

    /// A digest of credentials and trust: two requests may share a response only if it is equal for both.
    pub fn identity(&self, login: Option<&Login>) -> [u8; 32] {
        let mut digest = Context::new(&SHA256);
        // Lengths keep one field from flowing into the next.
        let mut field = |bytes: &[u8]| {
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        for (pem, _) in &self.tls.ca_certificates {
            field(pem);
        }
        field(b"identity");
        field(self.tls.identity.as_deref().unwrap_or_default());
        field(&[u8::from(self.tls.insecure_skip_tls_verify)]);
        if let Some(login) = login {
            field(login.username.as_bytes());
            field(login.password.as_bytes());
        }
        let mut identity = [0; 32];
        identity.copy_from_slice(digest.finish().as_ref());
        identity
    }
}

/// The login in a URL.
fn login_in(url: &Url) -> Option<Login> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let username = decoded(url.username());
    let password = decoded(url.password().unwrap_or_default());
    (!username.is_empty() || !password.is_empty()).then_some(Login { username, password })
}

/// Scheme, host and port of the server that a chart is requested from.
pub fn chart_origin(source: ChartSource<'_>, plain_http: bool) -> String {
    match source {
        ChartSource::Archive { url: repo }
        | ChartSource::Oci { repo }
        | ChartSource::Repository { repo, .. } => repository_origin(repo, plain_http),
    }
}

/// Scheme, host and port of a HelmOp's own repository; empty for a chart archive, which has none.
pub fn repository_origin(repo: &str, plain_http: bool) -> String {
    let transport = if plain_http {
        Transport::PlainHttp
    } else {
        Transport::Https
    };
    let origin_of_registry = || {
        let endpoint = Endpoint::of(transport, &Reference::parse(repo).ok()?).ok()?;
        Some(origin(endpoint.base_url()))
    };
    let origin = if source::is_oci(repo) {
        origin_of_registry()
    } else {
        location::url(repo).ok().map(|url| origin(&url))
    };
    origin.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(name: &str) -> Login {
        Login {
            username: name.to_owned(),
            password: "geheim".to_owned(),
        }
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_login_is_sent_to_its_own_origin_only() {
        let access = Access {
            login: Some(login("u")),
            origin: "https://charts.example.com".to_owned(),
            ..Access::default()
        };
        let is_sent = |text: &str| match access.credentials(&url(text)) {
            Credentials::Login(_) => true,
            Credentials::NotSent(_) => false,
            Credentials::None => panic!("{text}"),
        };
        assert!(is_sent("https://charts.example.com/a/index.yaml"));
        assert!(is_sent("https://charts.example.com:443/index.yaml"));
        assert!(!is_sent("http://charts.example.com/index.yaml"));
        assert!(!is_sent("https://charts.example.com:8443/index.yaml"));
        assert!(!is_sent("https://example.com/index.yaml"));
        assert_eq!(
            Access::default().credentials(&url("https://a/")),
            Credentials::None
        );
    }

    #[test]
    fn a_login_is_read_from_the_url() {
        let login = login_in(&Url::parse("https://user:p%40ss@h/").unwrap()).unwrap();
        assert_eq!(
            (login.username.as_str(), login.password.as_str()),
            ("user", "p@ss")
        );
        assert_eq!(login_in(&Url::parse("https://h/").unwrap()), None);
    }

    #[test]
    fn the_longest_matching_entry_of_a_docker_config_is_used() {
        let host_logins = ["r.example.com", "r.example.com/team", "r.example.com:5000"]
            .map(|host| (host.to_owned(), login(host)));
        let access = Access {
            host_logins: host_logins.to_vec(),
            ..Access::default()
        };
        let name = |text: &str| match access.credentials(&url(text)) {
            Credentials::Login(login) => login.username.clone(),
            Credentials::None | Credentials::NotSent(_) => String::new(),
        };
        assert_eq!(name("https://r.example.com/v2/web/tags/list"), "r.example.com");
        assert_eq!(
            name("https://r.example.com/v2/team/web/tags/list"),
            "r.example.com/team"
        );
        assert_eq!(
            name("https://r.example.com/v2/teams/web/tags/list"),
            "r.example.com"
        );
        assert_eq!(
            name("https://r.example.com:5000/v2/web/tags/list"),
            "r.example.com:5000"
        );
        assert_eq!(name("https://r.example.com.evil.example/v2/web/tags/list"), "");
    }

    #[test]
    fn a_docker_config_login_needs_https_unless_plain_http_is_allowed() {
        let host_logins =
            ["r.example.com", "http://plain.example.com"].map(|host| (host.to_owned(), login(host)));
        let access = |plain_http: bool| Access {
            host_logins: host_logins.to_vec(),
            plain_http,
            ..Access::default()
        };
        let not_sent = |plain_http: bool, text: &str| access(plain_http).credentials(&url(text)).not_sent();
        for (path, plain_http, expected) in [
            ("https://r.example.com/charts", false, None),
            (
                "http://r.example.com/charts",
                false,
                Some(NotSentReason::PlainHttp),
            ),
            (
                "http://r.example.com:443/charts",
                false,
                Some(NotSentReason::OtherHost),
            ),
            ("http://r.example.com/charts", true, None),
            ("http://plain.example.com/charts", false, None),
            ("https://plain.example.com/charts", false, None),
            ("http://other.example.com", false, Some(NotSentReason::OtherHost)),
        ] {
            assert_eq!(not_sent(plain_http, path), expected, "{path}");
        }
        let error = access(false).refusal(StatusCode::UNAUTHORIZED, Some(NotSentReason::PlainHttp));
        assert!(error.to_string().contains("basicHTTP"), "{error}");
    }

    #[test]
    fn only_equal_credentials_and_trust_share_a_response() {
        let plain = Access::default();
        let with = |change: fn(&mut TlsConfig)| {
            let mut tls = TlsConfig::default();
            change(&mut tls);
            Access {
                tls: Arc::new(tls),
                ..Access::default()
            }
        };
        let identities = [
            plain.identity(None),
            plain.identity(Some(&login("a"))),
            plain.identity(Some(&login("b"))),
            with(|t| t.ca_certificates.push((b"PEM".to_vec(), "here"))).identity(None),
            with(|t| t.identity = Some(b"PEM".to_vec())).identity(None),
            with(|t| t.insecure_skip_tls_verify = true).identity(None),
        ];
        for (index, one) in identities.iter().enumerate() {
            assert!(!identities[..index].contains(one), "{index}");
        }
        let ab = Login {
            username: "a".into(),
            password: "bc".into(),
        };
        let abc = Login {
            username: "ab".into(),
            password: "c".into(),
        };
        assert_ne!(plain.identity(Some(&ab)), plain.identity(Some(&abc)));
        assert_eq!(plain.identity(Some(&ab)), Access::default().identity(Some(&ab)));
    }

    #[test]
    fn debug_output_contains_no_secrets() {
        let access = Access {
            login: Some(login("u")),
            tls: Arc::new(TlsConfig {
                identity: Some(b"geheim".to_vec()),
                ..TlsConfig::default()
            }),
            ..Access::default()
        };
        assert!(!format!("{access:?}").contains("geheim"));
        assert!(login("u").basic().is_sensitive());
    }
}
