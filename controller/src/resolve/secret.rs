//! Reading a HelmOp's Secret.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_shared::{api::HelmOp, reason::Reason};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde::Deserialize;
use thiserror::Error;

use super::access::{Access, CaCertificate, Login, PLAIN, TlsConfig};
use crate::{
    backoff::Pace,
    client::{ApiError, bounded},
};

/// The key of a Secret of type `kubernetes.io/dockerconfigjson`.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// Why a Secret is of no use.
#[derive(Debug, Error)]
pub enum SecretError {
    /// It does not exist.
    #[error(
        "could not read Helm auth from secret: Secret {name} does not exist in namespace {namespace}; create it there, or correct spec.helmSecretName"
    )]
    NotFound {
        /// Namespace of the HelmOp.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// One of the two halves of a pair is missing.
    #[error(
        "could not read Helm auth from secret: in Secret {secret} {present} is set, but {missing} isn't; set both keys or neither"
    )]
    Half {
        /// Name of the Secret.
        secret: String,
        /// The key that is there.
        present: &'static str,
        /// The key that is missing.
        missing: &'static str,
    },
    /// A key holds something that is no text.
    #[error("could not read Helm auth from secret: key {key} of Secret {secret} is not UTF-8 text")]
    NotText {
        /// Name of the Secret.
        secret: String,
        /// The key.
        key: &'static str,
    },
    /// The configuration of registries is broken.
    #[error(
        "could not read Helm auth from secret: key .dockerconfigjson of Secret {secret} cannot be used: {why}; create it with kubectl create secret docker-registry"
    )]
    DockerConfig {
        /// Name of the Secret.
        secret: String,
        /// What is wrong, without anything secret.
        why: String,
    },
    /// The API server does not give it.
    #[error("could not read Helm auth from secret {name}: {source}")]
    Api {
        /// Name of the Secret.
        name: String,
        /// Why.
        source: ApiError,
    },
}

impl SecretError {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotFound { .. } => Reason::SecretNotFound,
            Self::Half { .. } | Self::NotText { .. } | Self::DockerConfig { .. } => Reason::InvalidSecret,
            Self::Api { .. } => Reason::APIError,
        }
    }

    /// When to try again.
    pub fn pace(&self) -> Pace {
        match self {
            Self::NotFound { .. } | Self::Half { .. } | Self::NotText { .. } | Self::DockerConfig { .. } => {
                Pace::SLOW
            }
            Self::Api { .. } => Pace::TRANSIENT,
        }
    }
}

/// Reads the Secret that a HelmOp names, if it names one. `authorities` are trusted where the Secret names none.
///
/// # Errors
/// Where it is missing or of no use.
pub async fn access(
    client: &Client,
    helmop: &HelmOp,
    authorities: &[CaCertificate],
) -> Result<Access, SecretError> {
    let name = &helmop.spec.helm_secret_name;
    let mut transport = TlsConfig::default();
    let mut access = Access::default();
    if !name.is_empty() {
        let keys = Keys {
            name,
            secret: fetch(client, helmop, name).await?,
        };
        transport = keys.transport()?;
        access = keys.access()?;
    }
    if transport.authorities.is_empty() {
        transport.authorities = authorities.to_vec();
    }
    transport.insecure_skip_tls_verify |= helmop.spec.insecure_skip_tls_verify;
    access.transport = Arc::new(transport);
    Ok(access)
}

async fn fetch(client: &Client, helmop: &HelmOp, name: &str) -> Result<Secret, SecretError> {
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    bounded(secrets.get(name)).await.map_err(|source| {
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

/// A Secret, whatever its type: only its keys count, as with Fleet.
struct Keys<'a> {
    name: &'a str,
    secret: Secret,
}

impl Keys<'_> {
    fn access(&self) -> Result<Access, SecretError> {
        let login = self
            .pair("username", "password")?
            .map(|(username, password)| Login { username, password });
        Ok(Access {
            login,
            by_host: self.docker_config()?,
            plain_http: self.flag("basicHTTP")?,
            secret: self.name.to_owned(),
            ..Access::default()
        })
    }

    fn transport(&self) -> Result<TlsConfig, SecretError> {
        let cacerts = self.text("cacerts")?.filter(|pem| !pem.trim().is_empty());
        let identity = self.pair("tls.crt", "tls.key")?;
        Ok(TlsConfig {
            authorities: cacerts
                .map(|pem| (pem.into_bytes(), "key cacerts of the Secret"))
                .into_iter()
                .collect(),
            identity: identity.map(|(certificate, key)| format!("{certificate}\n{key}\n").into_bytes()),
            insecure_skip_tls_verify: self.flag("insecureSkipVerify")?,
        })
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, SecretError> {
        let Some(bytes) = self.secret.data.as_ref().and_then(|data| data.get(key)) else {
            return Ok(None);
        };
        match std::str::from_utf8(&bytes.0) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(SecretError::NotText {
                secret: self.name.to_owned(),
                key,
            }),
        }
    }

    fn pair(&self, one: &'static str, other: &'static str) -> Result<Option<(String, String)>, SecretError> {
        let half = |present, missing| SecretError::Half {
            secret: self.name.to_owned(),
            present,
            missing,
        };
        match (self.text(one)?, self.text(other)?) {
            (Some(first), Some(second)) => Ok(Some((first, second))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(half(one, other)),
            (None, Some(_)) => Err(half(other, one)),
        }
    }

    /// What Go's `strconv.ParseBool` takes for true; anything else counts as false, as with Fleet.
    fn flag(&self, key: &'static str) -> Result<bool, SecretError> {
        let text = self.text(key)?.unwrap_or_default();
        Ok(["1", "t", "T", "true", "TRUE", "True"].contains(&text.as_str()))
    }

    fn docker_config(&self) -> Result<Vec<(String, Login)>, SecretError> {
        let Some(text) = self.text(DOCKER_CONFIG)? else {
            return Ok(Vec::new());
        };
        let broken = |why: String| SecretError::DockerConfig {
            secret: self.name.to_owned(),
            why,
        };
        // The decoder's own words could show what stands there.
        let config: DockerConfig = serde_json::from_str(&text).map_err(|error| {
            broken(format!(
                "not JSON of the known form, line {} column {}",
                error.line(),
                error.column()
            ))
        })?;
        let entries = config.auths.into_iter().filter_map(|(host, auth)| {
            let login = auth.login().transpose()?;
            Some(
                login
                    .map(|login| (place(&host), login))
                    .map_err(|why| broken(format!("auths[{host:?}]: {why}"))),
            )
        });
        entries.collect()
    }
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: std::collections::BTreeMap<String, DockerAuth>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerAuth {
    username: String,
    password: String,
    auth: String,
}

impl DockerAuth {
    /// `auth` is Base64 of `username:password` and counts where both are written out too.
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
        let text = String::from_utf8(decoded).map_err(|_| "auth is not Base64 of a text")?;
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

/// Host, port and path of an entry, which may be written as a URL, with the version of Docker's own protocol behind it. Of
/// schemes only `http://` is kept: it allows plain HTTP.
fn place(host: &str) -> String {
    let (scheme, host) = host.split_once("://").unwrap_or(("", host));
    let host = host.trim_end_matches('/');
    let host = ["/v1", "/v2"]
        .iter()
        .find_map(|version| host.strip_suffix(version))
        .unwrap_or(host);
    let scheme = if scheme.eq_ignore_ascii_case("http") {
        PLAIN
    } else {
        ""
    };
    format!("{scheme}{host}")
}

#[cfg(test)]
mod tests {
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
        }
    }

    fn login(username: &str, password: &str) -> Login {
        Login {
            username: username.to_owned(),
            password: password.to_owned(),
        }
    }

    #[test]
    fn both_halves_of_a_pair_or_neither() {
        let access = |entries: &[(&str, &[u8])]| keys(entries).access();
        let both = access(&[("username", b"u"), ("password", b"p")]).unwrap();
        assert_eq!(both.login, Some(login("u", "p")));
        assert_eq!(access(&[]).unwrap().login, None);
        let told = |entries: &[(&str, &[u8])]| access(entries).unwrap_err().to_string();
        assert!(told(&[("username", b"u")]).contains("username is set, but password isn't"));
        assert!(told(&[("password", b"p")]).contains("password is set, but username isn't"));
        assert!(told(&[("username", b"\xff"), ("password", b"p")]).contains("key username"));
        let transport = |entries: &[(&str, &[u8])]| keys(entries).transport();
        assert!(
            transport(&[("tls.crt", b"c")])
                .unwrap_err()
                .to_string()
                .contains("tls.crt is set")
        );
        let identity = transport(&[("tls.crt", b"c"), ("tls.key", b"k")])
            .unwrap()
            .identity;
        assert_eq!(identity.as_deref(), Some(&b"c\nk\n"[..]));
    }

    #[test]
    fn trust() {
        let transport = |entries: &[(&str, &[u8])]| keys(entries).transport().unwrap();
        assert_eq!(transport(&[("cacerts", b"PEM")]).authorities[0].0, b"PEM");
        assert_eq!(transport(&[("cacerts", b" \n")]), TlsConfig::default());
        assert!(transport(&[("insecureSkipVerify", b"true")]).insecure_skip_tls_verify);
        assert!(!transport(&[("insecureSkipVerify", b"yes")]).insecure_skip_tls_verify);
        assert!(keys(&[("basicHTTP", b"1")]).access().unwrap().plain_http);
    }

    #[test]
    fn docker_configurations() {
        let by_host = |text: &str| {
            keys(&[(DOCKER_CONFIG, text.as_bytes())])
                .access()
                .map(|access| access.by_host)
        };
        let config = r#"{"auths": {
            "https://r.example.com/v1/": {"auth": "dTpwOnE="},
            "b.example.com:5000/team": {"username": "u", "password": "p", "email": "e"},
            "c.example.com": {},
            "HTTP://plain.example.com:5000/v2/": {"username": "u", "password": "p"}
        }, "credsStore": "x"}"#;
        assert_eq!(
            by_host(config).unwrap(),
            [
                ("http://plain.example.com:5000".to_owned(), login("u", "p")),
                ("b.example.com:5000/team".to_owned(), login("u", "p")),
                ("r.example.com".to_owned(), login("u", "p:q")),
            ]
        );
        assert_eq!(by_host("{}").unwrap(), []);
        for (text, words) in [
            ("geheim", "line 1 column"),
            (
                r#"{"auths": {"h": {"auth": "geheim!"}}}"#,
                "auths[\"h\"]: auth is not Base64",
            ),
            (r#"{"auths": {"h": {"auth": "Z2VoZWlt"}}}"#, "username:password"),
        ] {
            let message = by_host(text).unwrap_err().to_string();
            assert!(
                message.contains(words) && !message.contains("geheim"),
                "{message}"
            );
        }
    }
}
