//! Access to repositories and registries: credentials and trust.

use std::{fmt, sync::Arc};

use bounded_text::{cut, listed};
use helmops_bucket::BucketKeys;
use helmops_model::chart::{
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
    http::{Connection, FetchErrorKind, origin},
    login::{EntryWithoutLogin, Login, LoginProblem},
};

/// Prefix of a Docker configuration entry that allows plain HTTP.
pub const PLAIN_HTTP_PREFIX: &str = "http://";
/// How many hosts a message names.
const MAX_HOSTS: usize = 3;
/// The longest host in a message, in bytes.
const MAX_HOST: usize = 253;

/// Access to the repositories of a HelmOp, from its Secret and its spec.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// How every host is reached.
    pub connection: Connection,
    /// The login for the HelmOp's own repository.
    pub login: Option<Login>,
    /// Scheme, host and port of that repository: `login` is sent to no other origin.
    pub origin: String,
    /// Logins for single hosts, from a Secret of type `kubernetes.io/dockerconfigjson`: host and port, optionally a path, and
    /// the login. An entry keeps its prefix `http://`; without it a login is sent over plain HTTP only if `plain_http` is set.
    pub host_logins: Vec<(String, Login)>,
    /// The entries of that Secret that have no login, with what they have in place of it. An entry without a host is for all others.
    pub without_login: Vec<(String, EntryWithoutLogin)>,
    /// A token that is sent in place of `login`, and to no other origin either. Git servers have it.
    pub bearer_token: Option<String>,
    /// The keys for SSH. Git servers have it.
    pub ssh: Option<Arc<SshKeys>>,
    /// The keys for buckets. Servers of buckets have them.
    pub bucket: Option<Arc<BucketKeys>>,
    /// Use plain HTTP for OCI registries, and send host logins over it.
    pub plain_http: bool,
    /// Name of the Secret; empty if there is none.
    pub secret: String,
    /// Namespace of the HelmOp, which requests and memory are charged to.
    pub namespace: Arc<str>,
}

/// The keys for SSH, as OpenSSH writes them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SshKeys {
    /// The private key of the user.
    pub identity: String,
    /// The public keys of servers.
    pub known_hosts: String,
}

/// Keys stay out of logs.
impl fmt::Debug for SshKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SshKeys(…)")
    }
}

/// A URL without its credentials, and the login to send with a request for it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL.
    pub url: Url,
    /// The login, of the Secret or else of the URL itself.
    pub login: Option<Login>,
}

impl Access {
    /// What is sent to a URL, which may contain credentials.
    pub fn target(&self, url: Url) -> Target {
        let in_url = login_in(&url);
        // Otherwise the client would send them a second time.
        let url = location::without_credentials(url);
        let login = self.login_for(&url).cloned().or(in_url);
        Target { url, login }
    }

    /// The login of the Secret that is sent to a URL.
    pub fn login_for(&self, url: &Url) -> Option<&Login> {
        let is_encrypted = url.scheme() == "https" || self.plain_http;
        let own = || self.login.as_ref().filter(|_| origin(url) == self.origin);
        self.host_login(url, is_encrypted).or_else(own)
    }

    /// The value of `Authorization` for a request with this login: the token in place of it, if there is one for this server.
    pub fn authorization(&self, url: &Url, login: Option<&Login>) -> Option<HeaderValue> {
        let token = self.bearer_token.as_ref().filter(|_| origin(url) == self.origin);
        let token = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {}", token.trim())).ok());
        let value = token.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        value.or_else(|| login.map(Login::basic))
    }

    /// The login of the longest entry that is a prefix of the URL, of those that may be sent.
    fn host_login(&self, url: &Url, may_send_all: bool) -> Option<&Login> {
        let entries = self.host_logins.iter();
        let entries = entries.filter(|(entry, _)| may_send_all || entry.starts_with(PLAIN_HTTP_PREFIX));
        longest_prefix(entries, url).map(|(_, login)| login)
    }

    /// Why a server may refuse a request to a URL, with this login or without one. `None` if nothing is known.
    pub fn problem(&self, url: &Url, sent: Option<&Login>) -> Option<LoginProblem> {
        let secret = self.secret.clone();
        if let Some(login) = sent {
            let place = if self.login_for(url) == Some(login) {
                format!("Secret {secret}")
            } else {
                "the URL".to_owned()
            };
            let blemish = login.blemish()?;
            return Some(LoginProblem::Suspicious { place, blemish });
        }
        if secret.is_empty() {
            return Some(LoginProblem::NoSecret);
        }
        if self.bearer_token.is_some() {
            return Some(LoginProblem::Token { secret });
        }
        if self.host_login(url, true).is_some() {
            return Some(LoginProblem::NeedsHttps { secret });
        }
        let (general, of_hosts): (Vec<_>, Vec<_>) =
            self.without_login.iter().partition(|(entry, _)| entry.is_empty());
        let has_logins = self.login.is_some() || !self.host_logins.is_empty();
        let entry = longest_prefix(of_hosts.into_iter(), url);
        Some(match (entry, general.first()) {
            (Some((host, entry)), _) => LoginProblem::Entry {
                secret,
                host: shown(host),
                entry: entry.clone(),
            },
            (None, _) if has_logins => LoginProblem::OtherHost {
                secret,
                hosts: self.hosts(),
            },
            (None, Some((_, entry))) => LoginProblem::Entry {
                secret,
                host: String::new(),
                entry: entry.clone(),
            },
            (None, None) => LoginProblem::NoLogin { secret },
        })
    }

    /// The hosts that the logins are for, as a text.
    fn hosts(&self) -> String {
        let own = self.login.iter().map(|_| self.origin.clone());
        let entries = self.host_logins.iter().map(|(entry, _)| shown(entry));
        listed(&own.chain(entries).collect::<Vec<_>>(), MAX_HOSTS)
    }

    /// The error for a response with this status, to a request with this login or without one.
    pub fn refusal(&self, status: StatusCode, url: &Url, sent: Option<&Login>) -> FetchErrorKind {
        let problem = is_about_login(status).then(|| self.problem(url, sent)).flatten();
        match problem {
            Some(problem) => FetchErrorKind::Login { status, problem },
            None => FetchErrorKind::Status(status),
        }
    }

    /// The error of a request as it applies to this HelmOp. The request may have been sent for another HelmOp, which has another
    /// Secret.
    pub fn own_error(&self, kind: FetchErrorKind, url: &Url, sent: Option<&Login>) -> FetchErrorKind {
        match kind {
            FetchErrorKind::Login { status, .. } | FetchErrorKind::Status(status) => {
                self.refusal(status, url, sent)
            }
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
        let without_login = self
            .without_login
            .iter()
            .map(|(host, _)| size_of::<(String, EntryWithoutLogin)>() + host.len());
        let Connection { tls, proxy } = &self.connection;
        let ca_certificates = tls.ca_certificates.iter().map(|(pem, _)| pem.len());
        let identity = tls.identity.as_ref().map_or(0, Vec::len);
        let proxy = proxy.as_ref().map_or(0, |proxy| proxy.bytes());
        let token = self.bearer_token.as_ref().map_or(0, String::len);
        let ssh = self
            .ssh
            .as_ref()
            .map_or(0, |keys| keys.identity.len() + keys.known_hosts.len());
        let bucket = self.bucket.as_ref().map_or(0, |keys| keys.bytes());
        own + token
            + ssh
            + bucket
            + host_logins.sum::<usize>()
            + without_login.sum::<usize>()
            + ca_certificates.sum::<usize>()
            + identity
            + proxy
    }

    /// A digest of credentials and trust: two requests may share a response only if it is equal for both.
    pub fn identity(&self, login: Option<&Login>) -> [u8; 32] {
        let mut digest = Context::new(&SHA256);
        // Lengths keep one field from flowing into the next.
        let mut field = |bytes: &[u8]| {
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        let Connection { tls, proxy } = &self.connection;
        for (pem, _) in &tls.ca_certificates {
            field(pem);
        }
        field(b"identity");
        field(tls.identity.as_deref().unwrap_or_default());
        field(&[u8::from(tls.insecure_skip_tls_verify), u8::from(tls.is_exclusive)]);
        field(&[u8::from(proxy.is_some())]);
        if let Some(proxy) = proxy {
            field(proxy.address.as_str().as_bytes());
            field(&[u8::from(proxy.login.is_some())]);
            if let Some((username, password)) = &proxy.login {
                field(username.as_bytes());
                field(password.as_bytes());
            }
        }
        field(self.bearer_token.as_deref().unwrap_or_default().as_bytes());
        if let Some(keys) = &self.ssh {
            field(keys.identity.as_bytes());
            field(keys.known_hosts.as_bytes());
        }
        for (key, value) in self.bucket.iter().flat_map(|keys| &keys.0) {
            field(key.as_bytes());
            field(value.as_bytes());
        }
        if let Some(login) = login {
            field(login.username.as_bytes());
            field(login.password.as_bytes());
        }
        let mut identity = [0; 32];
        identity.copy_from_slice(digest.finish().as_ref());
        identity
    }
}

/// Whether a server that responds with this status may want another login.
pub const fn is_about_login(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The longest entry of a Docker configuration that is a prefix of the URL.
fn longest_prefix<'e, T>(
    entries: impl Iterator<Item = &'e (String, T)>,
    url: &Url,
) -> Option<&'e (String, T)> {
    let host = url.host_str()?;
    let host = url
        .port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let path = format!("{host}{}", url.path().trim_start_matches("/v2"));
    let is_prefix = |entry: &str| {
        let entry = entry.strip_prefix(PLAIN_HTTP_PREFIX).unwrap_or(entry);
        let rest = path.strip_prefix(entry);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            .then_some(entry.len())
    };
    let matching = entries.filter_map(|entry| Some((is_prefix(&entry.0)?, entry)));
    matching.max_by_key(|(len, _)| *len).map(|(_, entry)| entry)
}

/// An entry of a Docker configuration for a message. What is before an `@` would be a login.
fn shown(entry: &str) -> String {
    let host = entry.rsplit('@').next().unwrap_or_default();
    cut(host.to_owned(), MAX_HOST)
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
        | ChartSource::Repository { repo, .. }
        | ChartSource::Packed { repo, .. } => repository_origin(repo, plain_http),
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
    use crate::http::{ProxyConfig, TlsConfig};

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
        let is_sent = |text: &str| access.login_for(&url(text)).is_some();
        assert!(is_sent("https://charts.example.com/a/index.yaml"));
        assert!(is_sent("https://charts.example.com:443/index.yaml"));
        assert!(!is_sent("http://charts.example.com/index.yaml"));
        assert!(!is_sent("https://charts.example.com:8443/index.yaml"));
        assert!(!is_sent("https://example.com/index.yaml"));
        assert_eq!(Access::default().login_for(&url("https://a/")), None);
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
        let name = |text: &str| {
            let login = access.login_for(&url(text)).cloned();
            login.map(|login| login.username).unwrap_or_default()
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
            ["r.example.com", "http://plain.example.com"].map(|host| (host.to_owned(), login("u")));
        let access = |plain_http: bool| Access {
            secret: "access".to_owned(),
            host_logins: host_logins.to_vec(),
            plain_http,
            ..Access::default()
        };
        for (path, plain_http, expected) in [
            ("https://r.example.com/charts", false, None),
            ("http://r.example.com/charts", false, Some("basicHTTP")),
            (
                "http://r.example.com:443/charts",
                false,
                Some("are for r.example.com, http://plain.example.com and are not"),
            ),
            ("http://r.example.com/charts", true, None),
            ("http://plain.example.com/charts", false, None),
            ("https://plain.example.com/charts", false, None),
            (
                "http://other.example.com",
                false,
                Some("are not sent anywhere else"),
            ),
        ] {
            let (access, url) = (access(plain_http), url(path));
            let sent = access.login_for(&url);
            assert_eq!(sent.is_some(), expected.is_none(), "{path}");
            let kind = access.refusal(StatusCode::UNAUTHORIZED, &url, sent);
            let expected = expected.unwrap_or("check username and password");
            assert!(kind.to_string().contains(expected), "{path}: {kind}");
        }
    }

    #[test]
    fn what_is_sent_in_place_of_a_login_is_explained() {
        let entry = |host: &str, entry| (host.to_owned(), entry);
        let helper = || EntryWithoutLogin::Helper("desktop".to_owned());
        let nothing = || Access {
            secret: "access".to_owned(),
            ..Access::default()
        };
        let with = |without_login: Vec<(String, EntryWithoutLogin)>| Access {
            without_login,
            ..nothing()
        };
        let own = |password: &str| Access {
            login: Some(Login {
                username: "u".to_owned(),
                password: password.to_owned(),
            }),
            origin: "https://r.example.com".to_owned(),
            ..nothing()
        };
        let elsewhere = Access {
            host_logins: (1..=5)
                .map(|number| (format!("user:geheim@h{number}.example.com"), login("u")))
                .collect(),
            ..nothing()
        };
        for (access, expected) in [
            (Access::default(), "spec.helmSecretName is empty"),
            (nothing(), "because Secret access has none"),
            (
                own("geheim\n"),
                "refuses the login in Secret access, and the password ends with a line break",
            ),
            (own("geheim"), "check username and password"),
            (
                with(vec![entry(
                    "r.example.com/team",
                    EntryWithoutLogin::IdentityToken,
                )]),
                "has no login in its entry \"r.example.com/team\": it has an identity token",
            ),
            (
                with(vec![
                    entry("r.example.com", EntryWithoutLogin::Empty),
                    entry("", helper()),
                ]),
                "in its entry \"r.example.com\": it is empty",
            ),
            (
                with(vec![
                    entry("other.example.com", EntryWithoutLogin::Empty),
                    entry("", helper()),
                ]),
                "has no login for this host: it leaves the login to a credential helper (\"desktop\")",
            ),
            (
                elsewhere,
                "are for h1.example.com, h2.example.com, h3.example.com and 2 more and are not",
            ),
        ] {
            let url = url("https://r.example.com/v2/team/web/tags/list");
            let kind = access.refusal(StatusCode::UNAUTHORIZED, &url, access.login_for(&url));
            let text = kind.to_string();
            assert!(
                text.starts_with("error code: 401: ") && text.contains(expected) && !text.contains("geheim"),
                "{text}"
            );
            let other = access.refusal(StatusCode::NOT_FOUND, &url, None);
            assert!(matches!(other, FetchErrorKind::Status(_)), "{other}");
        }
        let in_url = Login {
            username: "u".to_owned(),
            password: String::new(),
        };
        let problem = nothing().problem(&url("https://h"), Some(&in_url));
        let text = problem.unwrap().to_string();
        assert!(
            text.contains("the login in the URL, and the password is empty"),
            "{text}"
        );
    }

    #[test]
    fn only_equal_credentials_and_trust_share_a_response() {
        let plain = Access::default();
        let connected = |tls, proxy| Access {
            connection: Connection { tls, proxy },
            ..Access::default()
        };
        let with = |change: fn(&mut TlsConfig)| {
            let mut tls = TlsConfig::default();
            change(&mut tls);
            connected(Arc::new(tls), None)
        };
        let through = |login: Option<&str>| {
            let proxy = ProxyConfig {
                address: url("http://proxy:3128"),
                login: login.map(|name| (name.to_owned(), "p".to_owned())),
            };
            connected(Arc::default(), Some(Arc::new(proxy)))
        };
        let identities = [
            plain.identity(None),
            plain.identity(Some(&login("a"))),
            plain.identity(Some(&login("b"))),
            with(|t| t.ca_certificates.push((b"PEM".to_vec(), "here"))).identity(None),
            with(|t| t.identity = Some(b"PEM".to_vec())).identity(None),
            with(|t| t.insecure_skip_tls_verify = true).identity(None),
            through(None).identity(None),
            through(Some("a")).identity(None),
            through(Some("b")).identity(None),
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
            connection: Connection {
                tls: Arc::new(TlsConfig {
                    identity: Some(b"geheim".to_vec()),
                    ..TlsConfig::default()
                }),
                proxy: Some(Arc::new(ProxyConfig {
                    address: url("http://proxy:3128"),
                    login: Some(("u".to_owned(), "geheim".to_owned())),
                })),
            },
            ..Access::default()
        };
        assert!(!format!("{access:?}").contains("geheim"));
    }
}
