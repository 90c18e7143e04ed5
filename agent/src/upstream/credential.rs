//! The Secret with the access to the management cluster.

use std::{fmt, path::Path};

use helmops_api::NamespacedName;
use helmops_join::access::{CLUSTER_NAME, CLUSTER_NAMESPACE, DEPLOYMENT_NAMESPACE, KUBECONFIG, SECRET};
use helmops_kube::{InvalidProxy, UnusableKubeconfig, config_of, set_user_agent};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Config,
    config::{Kubeconfig, KubeconfigError},
};
use secrecy::ExposeSecret;
use thiserror::Error;

/// The access to the management cluster, and which cluster this one is there.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub kubeconfig: String,
    /// The namespace of the BundleDeployments of this cluster.
    pub deployment_namespace: String,
    pub cluster: NamespacedName,
}

/// Why the Secret cannot be used.
#[derive(Debug, Error)]
pub enum CredentialError {
    #[error("Secret {SECRET} has no key {0:?}; join the cluster again as docs/agent.md describes")]
    MissingKey(&'static str),
    /// A key is not text.
    #[error("key {0:?} of Secret {SECRET} is not UTF-8; join the cluster again as docs/agent.md describes")]
    NotText(&'static str),
    /// The kubeconfig cannot be used.
    #[error("key \"kubeconfig\" of Secret {SECRET} is not a usable kubeconfig: {0}")]
    Kubeconfig(KubeconfigError),
    /// The proxy of the kubeconfig or of the environment cannot be used: the error says which.
    #[error(
        "cannot reach the management cluster through a proxy: {0}; the kubeconfig is that of Secret {SECRET}"
    )]
    Proxy(InvalidProxy),
    /// The kubeconfig has no token.
    #[error(
        "the kubeconfig in Secret {SECRET} has no token for its current context; other ways to log in are not supported"
    )]
    NoToken,
}

impl From<UnusableKubeconfig> for CredentialError {
    fn from(error: UnusableKubeconfig) -> Self {
        match error {
            UnusableKubeconfig::Kubeconfig(error) => Self::Kubeconfig(error),
            UnusableKubeconfig::Proxy(error) => Self::Proxy(error),
        }
    }
}

impl Credential {
    /// The content of the Secret.
    ///
    /// # Errors
    /// If a key is missing.
    pub fn of(secret: &Secret) -> Result<Self, CredentialError> {
        let text = |key: &'static str| {
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            let ByteString(value) = value.ok_or(CredentialError::MissingKey(key))?;
            String::from_utf8(value.clone()).map_err(|_| CredentialError::NotText(key))
        };
        Ok(Self {
            kubeconfig: text(KUBECONFIG)?,
            deployment_namespace: text(DEPLOYMENT_NAMESPACE)?,
            cluster: NamespacedName::new(text(CLUSTER_NAMESPACE)?, text(CLUSTER_NAME)?),
        })
    }

    /// The token of the kubeconfig.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used, or has none.
    pub fn token(&self) -> Result<String, CredentialError> {
        let token = self.config()?.auth_info.token;
        let token = token.filter(|token| !token.expose_secret().is_empty());
        let token = token.ok_or(CredentialError::NoToken)?;
        Ok(token.expose_secret().to_owned())
    }

    /// The configuration of a client that reads the token from a file, so that a renewed token needs no new client.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub fn configuration(&self, token_file: &Path) -> Result<Config, CredentialError> {
        let mut config = self.config()?;
        config.auth_info.token = None;
        config.auth_info.token_file = Some(token_file.display().to_string());
        set_user_agent(&mut config, "helmops-agent");
        Ok(config)
    }

    fn config(&self) -> Result<Config, CredentialError> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig).map_err(UnusableKubeconfig::from)?;
        Ok(config_of(kubeconfig, None)?)
    }

    /// The same access with another token in place of `old`.
    #[must_use]
    pub fn with_token(&self, old: &str, new: &str) -> Self {
        Self {
            // The rest of the text stays as its author wrote it.
            kubeconfig: self.kubeconfig.replace(old, new),
            ..self.clone()
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("deployment_namespace", &self.deployment_namespace)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A kubeconfig with the token `first`.
    pub const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: default
clusters: [{ name: cluster, cluster: { server: 'https://127.0.0.1:6443' } }]
users: [{ name: user, user: { token: first } }]
contexts: [{ name: default, context: { cluster: cluster, user: user, namespace: cluster-a } }]
";

    fn secret(data: &Value) -> Secret {
        serde_json::from_value(json!({ "stringData": {}, "data": data })).unwrap()
    }

    /// The Secret that grants access with a kubeconfig.
    pub fn secret_with(kubeconfig: &str) -> Secret {
        secret(&json!({
            "kubeconfig": encoded(kubeconfig), "deploymentNamespace": encoded("cluster-a"),
            "clusterNamespace": encoded("fleet-default"), "clusterName": encoded("edge"),
        }))
    }

    fn encoded(text: &str) -> Value {
        serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap()
    }

    fn credential() -> Credential {
        Credential::of(&secret_with(KUBECONFIG)).unwrap()
    }

    #[test]
    fn the_secret_has_the_access_and_names_the_cluster() {
        let credential = credential();
        assert_eq!(credential.deployment_namespace, "cluster-a");
        assert_eq!(credential.cluster, NamespacedName::new("fleet-default", "edge"));
        assert_eq!(credential.token().unwrap(), "first");
        let config = credential.configuration(Path::new("/tmp/token")).unwrap();
        assert!(config.auth_info.token.is_none());
        assert_eq!(config.auth_info.token_file.as_deref(), Some("/tmp/token"));
    }

    #[test]
    fn the_management_cluster_is_reached_through_the_proxy_of_the_kubeconfig() {
        let with_proxy = |url: &str| {
            let cluster = format!("proxy-url: '{url}', server");
            let secret = secret_with(&KUBECONFIG.replace("server", &cluster));
            Credential::of(&secret)
                .unwrap()
                .configuration(Path::new("/tmp/token"))
        };
        let config = with_proxy("http://proxy:3128").unwrap();
        assert_eq!(config.proxy_url.unwrap(), "http://proxy:3128/");
        let error = with_proxy("ftp://proxy").unwrap_err().to_string();
        assert!(
            error.contains("Secret fleet-agent")
                && error.contains("proxy-url of the kubeconfig \"ftp://proxy\""),
            "{error}"
        );
    }

    #[test]
    fn a_renewed_token_replaces_the_old_one_only() {
        let renewed = credential().with_token("first", "second");
        assert_eq!(renewed.token().unwrap(), "second");
        assert_eq!(renewed.kubeconfig, KUBECONFIG.replace("first", "second"));
    }

    #[test]
    fn a_missing_key_is_named() {
        let error = Credential::of(&secret(&json!({ "kubeconfig": encoded("a") }))).unwrap_err();
        assert!(error.to_string().contains("deploymentNamespace"), "{error}");
    }

    #[test]
    fn the_token_is_not_in_the_debug_output() {
        assert!(!format!("{:?}", credential()).contains("first"));
    }
}
