//! What a Secret says of the way to a repository.

use std::fmt;

use helmops_shared::{api::HelmOp, reason::Reason};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use thiserror::Error;

use crate::{
    backoff::Pace,
    client::{ApiError, bounded},
};

/// The way to a repository: who asks, and which certificates are trusted.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User name and password for HTTP basic authentication.
    pub basic: Option<(String, String)>,
    /// Certificates that are trusted besides the system's, PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// Do not verify certificates.
    pub insecure_skip_tls_verify: bool,
}

/// Passwords and keys stay out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("basic", &self.basic.is_some())
            .field("ca_pem", &self.ca_pem.is_some())
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .finish()
    }
}

/// Why a Secret is of no use.
#[derive(Debug, Error)]
pub enum CredentialsError {
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
    /// One of the two halves of a login is missing.
    #[error(
        "could not read Helm auth from secret: in Secret {secret} {present} is set, but {missing} isn't; set both keys or neither"
    )]
    HalfLogin {
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
    /// The API server does not give it.
    #[error("could not read Helm auth from secret {name}: {source}")]
    Api {
        /// Name of the Secret.
        name: String,
        /// Why.
        source: ApiError,
    },
}

impl CredentialsError {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotFound { .. } => Reason::SecretNotFound,
            Self::HalfLogin { .. } | Self::NotText { .. } => Reason::InvalidSecret,
            Self::Api { .. } => Reason::ApiError,
        }
    }

    /// When to try again.
    pub fn pace(&self) -> Pace {
        match self {
            Self::NotFound { .. } | Self::HalfLogin { .. } | Self::NotText { .. } => Pace::SLOW,
            Self::Api { .. } => Pace::TRANSIENT,
        }
    }
}

/// Reads the Secret that a HelmOp names, if it names one.
///
/// # Errors
/// Where it is missing or of no use.
pub async fn read(client: &Client, helmop: &HelmOp) -> Result<Credentials, CredentialsError> {
    let insecure_skip_tls_verify = helmop.spec.insecure_skip_tls_verify;
    let name = &helmop.spec.helm_secret_name;
    if name.is_empty() {
        return Ok(Credentials {
            insecure_skip_tls_verify,
            ..Credentials::default()
        });
    }
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let secret = bounded(secrets.get(name)).await.map_err(|source| {
        if source.is_not_found() {
            CredentialsError::NotFound {
                namespace: namespace.to_owned(),
                name: name.clone(),
            }
        } else {
            CredentialsError::Api {
                name: name.clone(),
                source,
            }
        }
    })?;
    Ok(Credentials {
        insecure_skip_tls_verify,
        ..from_secret(name, &secret)?
    })
}

/// Whether certificates are verified is the spec's to say, so the Secret's `insecureSkipVerify` is not read.
fn from_secret(name: &str, secret: &Secret) -> Result<Credentials, CredentialsError> {
    let text = |key: &'static str| {
        let Some(bytes) = secret.data.as_ref().and_then(|data| data.get(key)) else {
            return Ok(None);
        };
        let not_text = |_| CredentialsError::NotText {
            secret: name.to_owned(),
            key,
        };
        std::str::from_utf8(&bytes.0)
            .map(|text| Some(text.to_owned()))
            .map_err(not_text)
    };
    let half = |present, missing| CredentialsError::HalfLogin {
        secret: name.to_owned(),
        present,
        missing,
    };
    let basic = match (text("username")?, text("password")?) {
        (Some(username), Some(password)) => Some((username, password)),
        (None, None) => None,
        (Some(_), None) => return Err(half("username", "password")),
        (None, Some(_)) => return Err(half("password", "username")),
    };
    let ca_pem = text("cacerts")?
        .filter(|pem| !pem.trim().is_empty())
        .map(String::into_bytes);
    Ok(Credentials {
        basic,
        ca_pem,
        insecure_skip_tls_verify: false,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(keys: &[(&str, &[u8])]) -> Secret {
        let data = keys
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())))
            .collect();
        Secret {
            data: Some(data),
            ..Secret::default()
        }
    }

    #[test]
    fn both_halves_of_a_login_or_neither() {
        let read = |keys: &[(&str, &[u8])]| from_secret("access", &secret(keys));
        let both = read(&[("username", b"u"), ("password", b"p"), ("cacerts", b"PEM")]).unwrap();
        assert_eq!(both.basic, Some(("u".to_owned(), "p".to_owned())));
        assert_eq!(both.ca_pem.as_deref(), Some(&b"PEM"[..]));
        assert_eq!(read(&[]).unwrap(), Credentials::default());
        assert_eq!(
            read(&[("insecureSkipVerify", b"true"), ("cacerts", b" \n")]).unwrap(),
            Credentials::default()
        );
        let told = |keys: &[(&str, &[u8])]| read(keys).unwrap_err().to_string();
        assert!(told(&[("username", b"u")]).contains("username is set, but password isn't"));
        assert!(told(&[("password", b"p")]).contains("password is set, but username isn't"));
        assert!(told(&[("username", b"\xff"), ("password", b"p")]).contains("key username"));
    }

    #[test]
    fn nothing_secret_is_printed() {
        let credentials = from_secret(
            "access",
            &secret(&[("username", b"geheim"), ("password", b"geheim")]),
        )
        .unwrap();
        assert!(!format!("{credentials:?}").contains("geheim"));
    }
}
