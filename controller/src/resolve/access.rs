//! The way to repositories and registries: who asks, and whom to trust.

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_shared::chart::source;
use reqwest::{StatusCode, Url, header::HeaderValue};
use ring::digest::{Context, SHA256};

use super::{clock::Clock, http::Fault};

/// In front of an entry of a Docker configuration that is meant for plain HTTP.
pub const PLAIN: &str = "http://";

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

/// Certificates of authorities, PEM, and where they come from, for messages.
pub type CaCertificate = (Vec<u8>, &'static str);

/// Whom to trust on a TLS connection, and how to be trusted.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsConfig {
    /// Authorities that are trusted besides the system's.
    pub authorities: Vec<CaCertificate>,
    /// Client certificate and its key, PEM.
    pub identity: Option<Vec<u8>>,
    /// Do not verify certificates.
    pub insecure_skip_tls_verify: bool,
}

/// Keys stay out of logs.
impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("authorities", &self.authorities.len())
            .field("identity", &self.identity.is_some())
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .finish()
    }
}

/// What a HelmOp's Secret and spec say of the way to its repositories.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Whom to trust, for every host.
    pub transport: Arc<TlsConfig>,
    /// The login for the HelmOp's own repository.
    pub login: Option<Login>,
    /// Scheme, host and port of that repository: the only place that `login` is sent to.
    pub home: String,
    /// Logins for hosts of their own, from a Secret of type `kubernetes.io/dockerconfigjson`: host and port, perhaps a
    /// path, and the login. With `http://` in front where the entry has it; otherwise a login goes over plain HTTP only if
    /// `plain_http` says so.
    pub by_host: Vec<(String, Login)>,
    /// Speak plain HTTP to OCI registries, and send logins of hosts over it.
    pub plain_http: bool,
    /// Name of the Secret; empty without one.
    pub secret: String,
    /// Namespace of the HelmOp, which requests and what is read are charged to.
    pub namespace: Arc<str>,
    /// The time that the look-ups of the HelmOp may take.
    pub clock: Clock,
}

/// The credentials for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// There are none.
    None,
    /// These.
    Login(&'a Login),
    /// There are some, but they are not for this place.
    Withheld(WithheldBecause),
}

/// Why credentials are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithheldBecause {
    /// They are for another host.
    Elsewhere,
    /// They are for this host, but over HTTPS.
    Unencrypted,
}

impl Credentials<'_> {
    /// Why they are not sent, if there are some that are not.
    pub const fn withheld(&self) -> Option<WithheldBecause> {
        match self {
            Self::Withheld(why) => Some(*why),
            Self::None | Self::Login(_) => None,
        }
    }
}

impl Access {
    /// The credentials for a URL.
    pub fn credentials(&self, url: &Url) -> Credentials<'_> {
        let is_encrypted = url.scheme() == "https" || self.plain_http;
        if let Some(login) = self.host_login(url, is_encrypted) {
            return Credentials::Login(login);
        }
        match &self.login {
            Some(login) if origin(url) == self.home => Credentials::Login(login),
            None if self.by_host.is_empty() => Credentials::None,
            _ if self.host_login(url, true).is_some() => Credentials::Withheld(WithheldBecause::Unencrypted),
            _ => Credentials::Withheld(WithheldBecause::Elsewhere),
        }
    }

    /// The login of the longest entry that the URL is below, of those that may be sent.
    fn host_login(&self, url: &Url, may_send_all: bool) -> Option<&Login> {
        let host = url.host_str()?;
        let host = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let place = format!("{host}{}", url.path().trim_start_matches("/v2"));
        let below = |entry: &str| {
            place
                .strip_prefix(entry)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let entries = self.by_host.iter().filter_map(|(entry, login)| {
            let plain = entry.strip_prefix(PLAIN);
            let entry = plain.unwrap_or(entry);
            let fits = (may_send_all || plain.is_some()) && below(entry);
            fits.then_some((entry.len(), login))
        });
        entries.max_by_key(|(len, _)| *len).map(|(_, login)| login)
    }

    /// Why a request was refused that got such an answer, to which credentials were perhaps withheld.
    pub fn refusal(&self, status: StatusCode, withheld: Option<WithheldBecause>) -> Fault {
        let is_about_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let secret = self.secret.clone();
        match withheld.filter(|_| is_about_login) {
            None => Fault::Status(status),
            Some(WithheldBecause::Unencrypted) => Fault::Unencrypted { status, secret },
            Some(WithheldBecause::Elsewhere) => {
                let home = match self.login {
                    Some(_) => self.home.clone(),
                    None => "other hosts".to_owned(),
                };
                Fault::Withheld { status, secret, home }
            }
        }
    }

    /// The fault of a request as this one is told of it. It may have been sent for somebody else, who has other credentials
    /// that were withheld as well, or none.
    pub fn told(&self, fault: Fault, withheld: Option<WithheldBecause>) -> Fault {
        match fault {
            Fault::Withheld { status, .. } | Fault::Unencrypted { status, .. } | Fault::Status(status) => {
                self.refusal(status, withheld)
            }
            other => other,
        }
    }

    /// What it holds of the Secret, in bytes.
    pub fn secret_bytes(&self) -> usize {
        let login = |login: &Login| login.username.len() + login.password.len();
        let own = self.login.as_ref().map_or(0, login);
        let by_host = self
            .by_host
            .iter()
            .map(|(host, of_host)| size_of::<(String, Login)>() + host.len() + login(of_host));
        let authorities = self.transport.authorities.iter().map(|(pem, _)| pem.len());
        let identity = self.transport.identity.as_ref().map_or(0, Vec::len);
        own + by_host.sum::<usize>() + authorities.sum::<usize>() + identity
    }

    /// What tells apart who may see an answer: two requests may share one only if this is equal for both.
    pub fn identity(&self, login: Option<&Login>) -> [u8; 32] {
        let mut digest = Context::new(&SHA256);
        // Lengths keep one field from flowing into the next.
        let mut field = |bytes: &[u8]| {
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        for (pem, _) in &self.transport.authorities {
            field(pem);
        }
        field(b"identity");
        field(self.transport.identity.as_deref().unwrap_or_default());
        field(&[u8::from(self.transport.insecure_skip_tls_verify)]);
        if let Some(login) = login {
            field(login.username.as_bytes());
            field(login.password.as_bytes());
        }
        let mut identity = [0; 32];
        identity.copy_from_slice(digest.finish().as_ref());
        identity
    }
}

/// Scheme, host and port that a HelmOp's own repository is asked at; empty for a chart archive, which has none.
pub fn home(repo: &str, plain_http: bool) -> String {
    let scheme = if plain_http { "http" } else { "https" };
    let in_registry = source::is_oci(repo).then(|| repo.split_once("://")).flatten();
    let url = match in_registry {
        Some((_, rest)) => Url::parse(&format!("{scheme}://{rest}")),
        None => Url::parse(repo),
    };
    url.map_or_else(|_| String::new(), |url| origin(&url))
}

/// Scheme, host and port.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
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
    fn a_login_stays_at_home() {
        let access = Access {
            login: Some(login("u")),
            home: "https://charts.example.com".to_owned(),
            ..Access::default()
        };
        let is_home = |text: &str| match access.credentials(&url(text)) {
            Credentials::Login(_) => true,
            Credentials::Withheld(_) => false,
            Credentials::None => panic!("{text}"),
        };
        assert!(is_home("https://charts.example.com/a/index.yaml"));
        assert!(is_home("https://charts.example.com:443/index.yaml"));
        assert!(!is_home("http://charts.example.com/index.yaml"));
        assert!(!is_home("https://charts.example.com:8443/index.yaml"));
        assert!(!is_home("https://example.com/index.yaml"));
        assert_eq!(
            Access::default().credentials(&url("https://a/")),
            Credentials::None
        );
    }

    #[test]
    fn the_nearest_entry_of_a_docker_config() {
        let by_host = ["r.example.com", "r.example.com/team", "r.example.com:5000"]
            .map(|host| (host.to_owned(), login(host)));
        let access = Access {
            by_host: by_host.to_vec(),
            ..Access::default()
        };
        let name = |text: &str| match access.credentials(&url(text)) {
            Credentials::Login(login) => login.username.clone(),
            Credentials::None | Credentials::Withheld(_) => String::new(),
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
    fn a_docker_config_is_for_https_unless_it_says_otherwise() {
        let by_host =
            ["r.example.com", "http://plain.example.com"].map(|host| (host.to_owned(), login(host)));
        let access = |plain_http: bool| Access {
            by_host: by_host.to_vec(),
            plain_http,
            ..Access::default()
        };
        let withheld = |plain_http: bool, text: &str| access(plain_http).credentials(&url(text)).withheld();
        for (place, plain_http, expected) in [
            ("https://r.example.com/charts", false, None),
            (
                "http://r.example.com/charts",
                false,
                Some(WithheldBecause::Unencrypted),
            ),
            (
                "http://r.example.com:443/charts",
                false,
                Some(WithheldBecause::Elsewhere),
            ),
            ("http://r.example.com/charts", true, None),
            ("http://plain.example.com/charts", false, None),
            ("https://plain.example.com/charts", false, None),
            (
                "http://other.example.com",
                false,
                Some(WithheldBecause::Elsewhere),
            ),
        ] {
            assert_eq!(withheld(plain_http, place), expected, "{place}");
        }
        let fault = access(false).refusal(StatusCode::UNAUTHORIZED, Some(WithheldBecause::Unencrypted));
        assert!(fault.to_string().contains("basicHTTP"), "{fault}");
    }

    #[test]
    fn who_may_share_an_answer() {
        let plain = Access::default();
        let with = |change: fn(&mut TlsConfig)| {
            let mut transport = TlsConfig::default();
            change(&mut transport);
            Access {
                transport: Arc::new(transport),
                ..Access::default()
            }
        };
        let identities = [
            plain.identity(None),
            plain.identity(Some(&login("a"))),
            plain.identity(Some(&login("b"))),
            with(|t| t.authorities.push((b"PEM".to_vec(), "here"))).identity(None),
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
    fn nothing_secret_is_printed() {
        let access = Access {
            login: Some(login("u")),
            transport: Arc::new(TlsConfig {
                identity: Some(b"geheim".to_vec()),
                ..TlsConfig::default()
            }),
            ..Access::default()
        };
        assert!(!format!("{access:?}").contains("geheim"));
        assert!(login("u").basic().is_sensitive());
    }
}
