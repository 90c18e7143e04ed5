//! Reads the Secret with the credentials for a chart.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bucket::{BucketKeys, KEYS};
use helmops_fair::{ByteBudget, Reservation};
use helmops_kube::path_segment;
use helmops_model::{
    chart::registry::endpoint::{DOCKER_HUB, DOCKER_HUB_API},
    reason::Reason,
};
use helmops_runtime::{
    client::{ApiError, bounded},
    error_class::{Class, Classified, ClassifiedError, Scope, classified},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::{
    access::{Access, PLAIN_HTTP_PREFIX, SshKeys},
    http::{CaCertificate, Connection, ProxyConfig, TlsConfig},
    login::{EntryWithoutLogin, Login},
};

/// The key of a Secret of type `kubernetes.io/dockerconfigjson`.
const DOCKER_CONFIG: &str = ".dockerconfigjson";
const PROXY_ADDRESS: &str = "proxyAddress";

/// Maximum size of a small Secret, in bytes: a login, a client certificate and some CA certificates. The limit of resolutions bounds
/// the memory of these.
const MAX_SMALL: usize = 8 << 10;

/// Why a Secret cannot be used.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The Secret does not exist.
    #[error(
        "could not read Helm auth from secret: Secret {name} does not exist in namespace {namespace}; create it there, or correct spec.helmSecretName"
    )]
    NotFound {
        /// Namespace of the HelmOp.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// One key of a pair is missing.
    #[error(
        "could not read Helm auth from secret: in Secret {secret} {present} is set, but {missing} isn't; set both keys or neither"
    )]
    IncompletePair {
        /// Name of the Secret.
        secret: String,
        /// The key that is set.
        present: &'static str,
        /// The key that is missing.
        missing: &'static str,
    },
    /// The value of a key is not text.
    #[error("could not read Helm auth from secret: key {key} of Secret {secret} is not UTF-8 text")]
    NotUtf8 {
        /// Name of the Secret.
        secret: String,
        /// The key.
        key: &'static str,
    },
    /// The token cannot be sent.
    #[error(
        "could not read Helm auth from secret: key bearerToken of Secret {secret} has a space, a line break or another character within it \
         that no token has; write the token alone"
    )]
    BearerToken {
        /// Name of the Secret.
        secret: String,
    },
    /// The address of the proxy is invalid.
    #[error(
        "could not read Helm auth from secret: key proxyAddress of Secret {secret} is not the URL of a proxy; write it as \
         http://proxy.example.com:3128, and a login into proxyUsername and proxyPassword"
    )]
    Proxy {
        /// Name of the Secret.
        secret: String,
    },
    /// The Docker configuration is invalid.
    #[error(
        "could not read Helm auth from secret: key .dockerconfigjson of Secret {secret} cannot be used: {cause}; create it with kubectl create secret docker-registry"
    )]
    DockerConfig {
        /// Name of the Secret.
        secret: String,
        /// The cause, without any secret content.
        cause: String,
    },
    /// It is large, and the share of the namespace in the memory for responses is used up.
    #[error(
        "could not read Helm auth from secret: Secret {name} uses {bytes} bytes, and the memory for large Secrets and for responses \
         is in use; retrying"
    )]
    OverBudget {
        /// Name of the Secret.
        name: String,
        /// Its size, in bytes.
        bytes: usize,
    },
    /// The API server returned an error.
    #[error("could not read Helm auth from secret {name}: {source}")]
    Api {
        /// Name of the Secret.
        name: String,
        /// The cause.
        source: ApiError,
    },
}

impl ClassifiedError for SecretError {
    fn classify(&self) -> Classified {
        match self {
            Self::NotFound { .. } => classified(Reason::SecretNotFound, Class::Absent),
            Self::IncompletePair { .. }
            | Self::NotUtf8 { .. }
            | Self::BearerToken { .. }
            | Self::Proxy { .. }
            | Self::DockerConfig { .. } => classified(Reason::InvalidSecret, Class::Absent),
            Self::OverBudget { .. } => classified(Reason::Busy, Class::Transient(Scope::Namespace)),
            Self::Api { source, .. } => source.classify(),
        }
    }
}

/// Where the credentials and the trust for a chart are.
#[derive(Clone, Copy, Debug)]
pub struct AccessSource<'a> {
    /// The namespace of the Secret.
    pub namespace: &'a str,
    /// The namespace that requests and memory are charged to.
    pub charged_to: &'a str,
    /// The name of the Secret; empty for none.
    pub secret: &'a str,
    /// Do not verify certificates, whatever the Secret has.
    pub insecure_skip_tls_verify: bool,
    /// CAs that are trusted if the Secret contains none.
    pub ca_certificates: &'a [CaCertificate],
}

/// The certificates of a field with PEM in base64, which names itself in messages; none if it is empty. Of anything else, the connection says
/// that it has no certificate.
pub fn ca_bundle(text: &str, field: &'static str) -> Vec<CaCertificate> {
    if text.is_empty() {
        return Vec::new();
    }
    let pem = STANDARD.decode(text).unwrap_or_default();
    vec![(pem, field)]
}

/// Reads the Secret for a chart, if there is one.
///
/// # Errors
/// If it is missing or invalid.
pub async fn access(
    client: &Client,
    source: AccessSource<'_>,
    server: Server,
) -> Result<Access, SecretError> {
    let name = source.secret;
    let mut tls = TlsConfig::default();
    let mut access = Access::default();
    if !name.is_empty() {
        let keys = Keys {
            name,
            secret: fetch(client, source.namespace, name).await?,
            server,
        };
        tls = keys.tls_config()?;
        access = keys.access()?;
    }
    if tls.ca_certificates.is_empty() {
        tls.ca_certificates = source.ca_certificates.to_vec();
    }
    tls.insecure_skip_tls_verify |= source.insecure_skip_tls_verify;
    access.namespace = source.charged_to.into();
    access.connection.tls = Arc::new(tls);
    Ok(access)
}

/// Charges the namespace for a large Secret, as long as it is used.
///
/// # Errors
/// If its share is used up.
pub fn hold(budget: &ByteBudget, access: &Access) -> Result<Reservation, SecretError> {
    let bytes = access.secret_bytes();
    let mut memory = budget.reservation(Arc::clone(&access.namespace));
    memory
        .resize(bytes.saturating_sub(MAX_SMALL))
        .map_err(|_| SecretError::OverBudget {
            name: access.secret.clone(),
            bytes,
        })?;
    Ok(memory)
}

/// Reads a Secret.
///
/// # Errors
/// If it does not exist, or cannot be read.
pub async fn fetch(client: &Client, namespace: &str, name: &str) -> Result<Secret, SecretError> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    bounded(secrets.get(&path_segment(name))).await.map_err(|source| {
        if source.is_not_found() {
            SecretError::NotFound {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }
        } else {
            SecretError::Api {
                name: name.to_owned(),
                source,
            }
        }
    })
}

/// A Secret of any type: only its keys matter, as in Fleet.
pub struct Keys<'a> {
    /// Its name.
    pub name: &'a str,
    /// The Secret.
    pub secret: Secret,
    /// What it is for.
    pub server: Server,
}

/// What a Secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Repositories and registries of charts, with the keys of Fleet.
    Charts,
    /// Git servers, with those of Flux besides.
    Git,
    /// Servers of buckets, with those of Flux besides.
    Bucket,
}

impl Server {
    /// The keys that may have CA certificates, with their names in messages. The first one counts.
    const fn ca_keys(self) -> &'static [(&'static str, &'static str)] {
        const ALL: &[(&str, &str)] = &[
            ("cacerts", "key cacerts of the Secret"),
            ("ca.crt", "key ca.crt of the Secret"),
            ("caFile", "key caFile of the Secret"),
        ];
        match self {
            Self::Charts => ALL.split_at(1).0,
            Self::Git | Self::Bucket => ALL,
        }
    }
}

impl Keys<'_> {
    fn access(&self) -> Result<Access, SecretError> {
        let login = self
            .pair("username", "password")?
            .map(|(username, password)| Login { username, password });
        let Entries { logins, others } = self.docker_config()?;
        Ok(Access {
            connection: Connection {
                proxy: self.proxy()?.map(Arc::new),
                ..Connection::default()
            },
            login,
            host_logins: logins,
            without_login: others,
            bearer_token: self.bearer_token()?,
            ssh: self.ssh_keys()?.map(Arc::new),
            bucket: self.bucket_keys()?.map(Arc::new),
            plain_http: self.flag("basicHTTP")?,
            secret: self.name.to_owned(),
            ..Access::default()
        })
    }

    fn bearer_token(&self) -> Result<Option<String>, SecretError> {
        match self.server {
            Server::Charts | Server::Bucket => Ok(None),
            Server::Git => {
                let token = self.text("bearerToken")?;
                let token = token.filter(|token| !token.trim().is_empty());
                match token {
                    Some(token) if token.trim().contains(|c: char| !c.is_ascii_graphic()) => {
                        Err(SecretError::BearerToken {
                            secret: self.name.to_owned(),
                        })
                    }
                    token => Ok(token),
                }
            }
        }
    }

    fn ssh_keys(&self) -> Result<Option<SshKeys>, SecretError> {
        if self.server != Server::Git {
            return Ok(None);
        }
        let pair = self.pair("identity", "known_hosts")?;
        Ok(pair.map(|(identity, known_hosts)| SshKeys {
            identity,
            known_hosts,
        }))
    }

    fn bucket_keys(&self) -> Result<Option<BucketKeys>, SecretError> {
        if self.server != Server::Bucket {
            return Ok(None);
        }
        let mut keys = BucketKeys::default();
        for key in KEYS {
            keys.0.extend(self.text(key)?.map(|text| (*key, text)));
        }
        Ok(Some(keys))
    }

    fn proxy(&self) -> Result<Option<ProxyConfig>, SecretError> {
        let login = self.pair("proxyUsername", "proxyPassword")?;
        let Some(address) = self.text(PROXY_ADDRESS)? else {
            return match login {
                None => Ok(None),
                Some(_) => Err(self.incomplete("proxyUsername", PROXY_ADDRESS)),
            };
        };
        let invalid = || SecretError::Proxy {
            secret: self.name.to_owned(),
        };
        let address = Url::parse(address.trim()).map_err(|_| invalid())?;
        let is_known = matches!(address.scheme(), "http" | "https") && address.has_host();
        // Messages show the address.
        let has_login = !address.username().is_empty() || address.password().is_some();
        if !is_known || has_login {
            return Err(invalid());
        }
        Ok(Some(ProxyConfig { address, login }))
    }

    /// What certificates are checked with, and the own one.
    pub fn tls_config(&self) -> Result<TlsConfig, SecretError> {
        let mut ca_certificates = Vec::new();
        for (key, source) in self.server.ca_keys() {
            let pem = self.text(key)?.filter(|pem| !pem.trim().is_empty());
            if let Some(pem) = pem.filter(|_| ca_certificates.is_empty()) {
                ca_certificates.push((pem.into_bytes(), *source));
            }
        }
        let identity = self.pair("tls.crt", "tls.key")?;
        Ok(TlsConfig {
            ca_certificates,
            identity: identity.map(|(certificate, key)| format!("{certificate}\n{key}\n").into_bytes()),
            insecure_skip_tls_verify: self.flag("insecureSkipVerify")?,
            is_exclusive: false,
        })
    }

    /// The text of a key.
    pub fn text(&self, key: &'static str) -> Result<Option<String>, SecretError> {
        let Some(bytes) = self.secret.data.as_ref().and_then(|data| data.get(key)) else {
            return Ok(None);
        };
        match std::str::from_utf8(&bytes.0) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(SecretError::NotUtf8 {
                secret: self.name.to_owned(),
                key,
            }),
        }
    }

    fn pair(&self, one: &'static str, other: &'static str) -> Result<Option<(String, String)>, SecretError> {
        match (self.text(one)?, self.text(other)?) {
            (Some(first), Some(second)) => Ok(Some((first, second))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(self.incomplete(one, other)),
            (None, Some(_)) => Err(self.incomplete(other, one)),
        }
    }

    fn incomplete(&self, present: &'static str, missing: &'static str) -> SecretError {
        SecretError::IncompletePair {
            secret: self.name.to_owned(),
            present,
            missing,
        }
    }

    /// True for what Go's `strconv.ParseBool` accepts as true; false for anything else, as in Fleet.
    pub fn flag(&self, key: &'static str) -> Result<bool, SecretError> {
        let text = self.text(key)?.unwrap_or_default();
        Ok(["1", "t", "T", "true", "TRUE", "True"].contains(&text.as_str()))
    }

    fn docker_config(&self) -> Result<Entries, SecretError> {
        let Some(text) = self.text(DOCKER_CONFIG)? else {
            return Ok(Entries::default());
        };
        let invalid = |cause: String| SecretError::DockerConfig {
            secret: self.name.to_owned(),
            cause,
        };
        // The decoder's own message could quote the content.
        let config: DockerConfig = serde_json::from_str(&text).map_err(|error| {
            invalid(format!(
                "not valid JSON of a Docker configuration, line {} column {}",
                error.line(),
                error.column()
            ))
        })?;
        config
            .entries()
            .map_err(|(host, cause)| invalid(format!("auths[{host:?}]: {cause}")))
    }
}

/// The entries of a Docker configuration, by the hosts that they are for.
#[derive(Debug, Default)]
struct Entries {
    logins: Vec<(String, Login)>,
    others: Vec<(String, EntryWithoutLogin)>,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerAuth>,
    /// The program that has the logins of all hosts.
    #[serde(default, rename = "credsStore")]
    creds_store: Value,
    /// The programs that have those of single hosts.
    #[serde(default, rename = "credHelpers")]
    cred_helpers: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerAuth {
    username: String,
    password: String,
    auth: String,
    identitytoken: Value,
    registrytoken: Value,
}

impl DockerConfig {
    /// Host and cause of the first invalid entry, if there is one.
    fn entries(self) -> Result<Entries, (String, &'static str)> {
        let mut entries = Entries::default();
        let store = self.creds_store.as_str().unwrap_or_default();
        let helpers = self.cred_helpers.as_object();
        let helper = |host: &str| helpers.and_then(|helpers| helpers.get(host)?.as_str());
        for (host, auth) in self.auths {
            let has = |token: &Value| token.as_str().is_some_and(|token| !token.is_empty());
            let tokens = (has(&auth.identitytoken), has(&auth.registrytoken));
            let login = auth.login().map_err(|cause| (host.clone(), cause))?;
            let entry = registry_entry(&host);
            // A token comes with a user name and no password.
            let has_password = login.as_ref().is_some_and(|login| !login.password.is_empty());
            let other = match (login, tokens, helper(&host)) {
                (_, (true, _), _) if !has_password => EntryWithoutLogin::IdentityToken,
                (_, (_, true), _) if !has_password => EntryWithoutLogin::RegistryToken,
                (Some(login), _, _) => {
                    entries.logins.push((entry, login));
                    continue;
                }
                (None, _, Some(helper)) => EntryWithoutLogin::Helper(helper.to_owned()),
                (None, _, None) if !store.is_empty() => EntryWithoutLogin::Helper(store.to_owned()),
                (None, _, None) => EntryWithoutLogin::Empty,
            };
            entries.others.push((entry, other));
        }
        for (host, helper) in helpers.into_iter().flatten() {
            let helper = helper.as_str().unwrap_or_default().to_owned();
            entries
                .others
                .push((registry_entry(host), EntryWithoutLogin::Helper(helper)));
        }
        if !store.is_empty() {
            let helper = EntryWithoutLogin::Helper(store.to_owned());
            entries.others.push((String::new(), helper));
        }
        Ok(entries)
    }
}

impl DockerAuth {
    /// `auth` is Base64 of `username:password`, and takes precedence over the two fields.
    fn login(self) -> Result<Option<Login>, &'static str> {
        if self.auth.is_empty() {
            let is_empty = self.username.is_empty() && self.password.is_empty();
            let Self {
                username, password, ..
            } = self;
            return Ok((!is_empty).then_some(Login { username, password }));
        }
        let decoded = STANDARD
            .decode(self.auth.trim())
            .map_err(|_| "auth is not Base64")?;
        let text = String::from_utf8(decoded).map_err(|_| "auth is not Base64 of UTF-8 text")?;
        let (username, password) = text
            .split_once(':')
            .ok_or("auth is not Base64 of username:password")?;
        Ok(Some(Login {
            username: username.to_owned(),
            // Docker itself pads the password.
            password: password.trim_end_matches('\0').to_owned(),
        }))
    }
}

/// Host, port and path of an entry, which may be a URL that ends with the version of Docker's protocol. Of the schemes only
/// `http://` is kept: it allows plain HTTP. Docker Hub has several names, of which one is the host of its API.
fn registry_entry(host: &str) -> String {
    let (scheme, host) = host.split_once("://").unwrap_or(("", host));
    let host = host.trim_end_matches('/');
    let host = ["/v1", "/v2"]
        .iter()
        .find_map(|version| host.strip_suffix(version))
        .unwrap_or(host);
    let scheme = if scheme.eq_ignore_ascii_case("http") {
        PLAIN_HTTP_PREFIX
    } else {
        ""
    };
    let (name, path) = host.split_at(host.find('/').unwrap_or(host.len()));
    let name = match name {
        DOCKER_HUB | "index.docker.io" => DOCKER_HUB_API,
        name => name,
    };
    format!("{scheme}{name}{path}")
}

#[cfg(test)]
mod tests {
    use helmops_fair::Share;
    use k8s_openapi::ByteString;

    use super::*;

    fn keys(entries: &[(&str, &[u8])]) -> Keys<'static> {
        let data = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())))
            .collect();
        let secret = Secret {
            data: Some(data),
            ..Secret::default()
        };
        Keys {
            name: "access",
            secret,
            server: Server::Charts,
        }
    }

    fn for_git(entries: &[(&str, &[u8])]) -> Keys<'static> {
        Keys {
            server: Server::Git,
            ..keys(entries)
        }
    }

    #[test]
    fn a_git_server_has_the_keys_of_flux_besides() {
        let data: &[(&str, &[u8])] = &[("bearerToken", b"t\n"), ("caFile", b"F"), ("ca.crt", b"C")];
        let access = for_git(data).access().unwrap();
        assert_eq!(access.bearer_token.as_deref(), Some("t\n"));
        let trusted = for_git(data).tls_config().unwrap().ca_certificates;
        assert_eq!(trusted, [(b"C".to_vec(), "key ca.crt of the Secret")]);
        assert_eq!(keys(data).access().unwrap().bearer_token, None);
        let split = for_git(&[("bearerToken", b"a\nb")]).access();
        let error = split.unwrap_err().to_string();
        assert!(error.contains("key bearerToken of Secret access has"), "{error}");
        assert_eq!(keys(data).tls_config().unwrap(), TlsConfig::default());
    }

    #[test]
    fn a_bucket_has_its_keys_and_the_certificates_of_flux() {
        let data: &[(&str, &[u8])] = &[
            ("accesskey", b"a"),
            ("secretkey", b"geheim"),
            ("identity", b"i"),
            ("ca.crt", b"C"),
        ];
        let keys = Keys {
            server: Server::Bucket,
            ..keys(data)
        };
        let access = keys.access().unwrap();
        let found = access.bucket.as_deref().unwrap();
        assert_eq!(found.0.keys().collect::<Vec<_>>(), [&"accesskey", &"secretkey"]);
        assert!(access.ssh.is_none() && !format!("{access:?}").contains("geheim"));
        assert_eq!(keys.tls_config().unwrap().ca_certificates[0].0, b"C");
        let other = Access {
            bucket: None,
            ..access.clone()
        };
        assert_ne!(access.identity(None), other.identity(None));
        assert_eq!(access.secret_bytes() - other.secret_bytes(), 7);
    }

    fn login(username: &str, password: &str) -> Login {
        Login {
            username: username.to_owned(),
            password: password.to_owned(),
        }
    }

    #[test]
    fn both_keys_of_a_pair_must_be_set_or_neither() {
        let access = |entries: &[(&str, &[u8])]| keys(entries).access();
        let both = access(&[("username", b"u"), ("password", b"p")]).unwrap();
        assert_eq!(both.login, Some(login("u", "p")));
        assert_eq!(access(&[]).unwrap().login, None);
        let message = |entries: &[(&str, &[u8])]| access(entries).unwrap_err().to_string();
        assert!(message(&[("username", b"u")]).contains("username is set, but password isn't"));
        assert!(message(&[("password", b"p")]).contains("password is set, but username isn't"));
        assert!(message(&[("username", b"\xff"), ("password", b"p")]).contains("key username"));
        let tls = |entries: &[(&str, &[u8])]| keys(entries).tls_config();
        assert!(
            tls(&[("tls.crt", b"c")])
                .unwrap_err()
                .to_string()
                .contains("tls.crt is set")
        );
        let identity = tls(&[("tls.crt", b"c"), ("tls.key", b"k")]).unwrap().identity;
        assert_eq!(identity.as_deref(), Some(&b"c\nk\n"[..]));
    }

    #[test]
    fn every_error_has_a_reason_and_a_class() {
        let name = || "access".to_owned();
        let missing = SecretError::NotFound {
            namespace: name(),
            name: name(),
        };
        let incomplete = SecretError::IncompletePair {
            secret: name(),
            present: "username",
            missing: "password",
        };
        let binary = SecretError::NotUtf8 {
            secret: name(),
            key: "username",
        };
        let docker_config = SecretError::DockerConfig {
            secret: name(),
            cause: String::new(),
        };
        let api = SecretError::Api {
            name: name(),
            source: ApiError::Timeout,
        };
        for (error, reason, class) in [
            (missing, Reason::SecretNotFound, Class::Absent),
            (incomplete, Reason::InvalidSecret, Class::Absent),
            (binary, Reason::InvalidSecret, Class::Absent),
            (docker_config, Reason::InvalidSecret, Class::Absent),
            (api, Reason::APIError, Class::Outage),
        ] {
            assert_eq!(error.classify(), classified(reason, class), "{error}");
        }
    }

    #[test]
    fn a_proxy_has_an_address_and_perhaps_a_login() {
        let proxy = |data: &[(&str, &[u8])]| keys(data).access().map(|access| access.connection.proxy);
        let address: (&str, &[u8]) = ("proxyAddress", b" http://proxy.example.com:3128\n");
        assert!(proxy(&[]).unwrap().is_none());
        let found = proxy(&[address]).unwrap().unwrap();
        assert_eq!(
            (found.address.as_str(), &found.login),
            ("http://proxy.example.com:3128/", &None)
        );
        let found = proxy(&[address, ("proxyUsername", b"u"), ("proxyPassword", b"p")]);
        let login = Some(("u".to_owned(), "p".to_owned()));
        assert_eq!(found.unwrap().unwrap().login, login);
        for (data, expected) in [
            (vec![address, ("proxyUsername", &b"u"[..])], "proxyPassword isn't"),
            (
                vec![("proxyUsername", &b"u"[..]), ("proxyPassword", b"geheim")],
                "proxyAddress isn't",
            ),
            (
                vec![("proxyAddress", &b"proxy:3128"[..])],
                "not the URL of a proxy",
            ),
            (
                vec![("proxyAddress", &b"socks5://proxy"[..])],
                "not the URL of a proxy",
            ),
            (
                vec![("proxyAddress", &b"http://u:geheim@proxy"[..])],
                "proxyUsername",
            ),
        ] {
            let text = proxy(&data).unwrap_err().to_string();
            assert!(text.contains(expected) && !text.contains("geheim"), "{text}");
        }
    }

    #[test]
    fn large_secrets_use_the_share_of_their_namespace_and_small_ones_none() {
        let budget = ByteBudget::new(16 << 20, Share::Half);
        let access = |namespace: &str, bytes: usize| Access {
            namespace: namespace.into(),
            login: Some(login("", &"x".repeat(bytes))),
            ..Access::default()
        };
        let large = access("hostile", 1 << 20);
        let held: Vec<_> = (0..100).map_while(|_| hold(&budget, &large).ok()).collect();
        assert_eq!(held.len(), 8);
        let error = hold(&budget, &large).unwrap_err();
        assert_eq!(
            error.classify(),
            classified(Reason::Busy, Class::Transient(Scope::Namespace))
        );
        assert!(hold(&budget, &access("hostile", MAX_SMALL)).is_ok());
        assert!(hold(&budget, &access("modest", 1 << 20)).is_ok());
        drop(held);
        assert!(hold(&budget, &large).is_ok());
    }

    #[test]
    fn entries_without_a_login_are_kept_with_the_cause() {
        let config = r#"{"auths": {
            "a.example.com": {},
            "b.example.com/v2/": {"identitytoken": "geheim"},
            "c.example.com": {"auth": "MDAwOg==", "identitytoken": "geheim"},
            "d.example.com": {"auth": "dTpw", "identitytoken": "geheim"},
            "e.example.com": {"registrytoken": "geheim"},
            "f.example.com": {"auth": "", "identitytoken": ""}
        }, "credHelpers": {"f.example.com": "ecr-login", "g.example.com": "gcloud"}}"#;
        let access = keys(&[(DOCKER_CONFIG, config.as_bytes())]).access().unwrap();
        assert_eq!(
            access.host_logins,
            [("d.example.com".to_owned(), login("u", "p"))]
        );
        let helper = |name: &str| EntryWithoutLogin::Helper(name.to_owned());
        let expected = [
            ("a.example.com", EntryWithoutLogin::Empty),
            ("b.example.com", EntryWithoutLogin::IdentityToken),
            ("c.example.com", EntryWithoutLogin::IdentityToken),
            ("e.example.com", EntryWithoutLogin::RegistryToken),
            ("f.example.com", helper("ecr-login")),
            ("f.example.com", helper("ecr-login")),
            ("g.example.com", helper("gcloud")),
        ];
        let expected: Vec<_> = expected.map(|(host, entry)| (host.to_owned(), entry)).into();
        assert_eq!(access.without_login, expected);
        let config = r#"{"auths": {"a.example.com": {}}, "credsStore": "desktop"}"#;
        let access = keys(&[(DOCKER_CONFIG, config.as_bytes())]).access().unwrap();
        let expected = [("a.example.com", helper("desktop")), ("", helper("desktop"))];
        let expected: Vec<_> = expected.map(|(host, entry)| (host.to_owned(), entry)).into();
        assert_eq!(access.without_login, expected);
    }

    #[test]
    fn trust_and_plain_http_are_read_from_the_secret() {
        let tls = |entries: &[(&str, &[u8])]| keys(entries).tls_config().unwrap();
        assert_eq!(tls(&[("cacerts", b"PEM")]).ca_certificates[0].0, b"PEM");
        assert_eq!(tls(&[("cacerts", b" \n")]), TlsConfig::default());
        assert!(tls(&[("insecureSkipVerify", b"true")]).insecure_skip_tls_verify);
        assert!(!tls(&[("insecureSkipVerify", b"yes")]).insecure_skip_tls_verify);
        assert!(keys(&[("basicHTTP", b"1")]).access().unwrap().plain_http);
    }

    #[test]
    fn logins_are_read_from_a_docker_configuration() {
        let host_logins = |text: &str| {
            keys(&[(DOCKER_CONFIG, text.as_bytes())])
                .access()
                .map(|access| access.host_logins)
        };
        let config = r#"{"auths": {
            "https://r.example.com/v1/": {"auth": "dTpwOnE="},
            "b.example.com:5000/team": {"username": "u", "password": "p", "email": "e"},
            "c.example.com": {},
            "HTTP://plain.example.com:5000/v2/": {"username": "u", "password": "p"},
            "https://index.docker.io/v1/": {"auth": "dTpwOnE="}
        }, "credsStore": "x"}"#;
        assert_eq!(
            host_logins(config).unwrap(),
            [
                ("http://plain.example.com:5000".to_owned(), login("u", "p")),
                ("b.example.com:5000/team".to_owned(), login("u", "p")),
                ("registry-1.docker.io".to_owned(), login("u", "p:q")),
                ("r.example.com".to_owned(), login("u", "p:q")),
            ]
        );
        assert_eq!(host_logins("{}").unwrap(), []);
        assert_eq!(
            host_logins(r#"{"credsStore": 1, "credHelpers": []}"#).unwrap(),
            []
        );
        for (text, expected) in [
            ("geheim", "line 1 column"),
            (
                r#"{"auths": {"h": {"auth": "geheim!"}}}"#,
                "auths[\"h\"]: auth is not Base64",
            ),
            (r#"{"auths": {"h": {"auth": "Z2VoZWlt"}}}"#, "username:password"),
        ] {
            let message = host_logins(text).unwrap_err().to_string();
            assert!(
                message.contains(expected) && !message.contains("geheim"),
                "{message}"
            );
        }
    }
}
