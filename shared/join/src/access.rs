//! The access of an agent to the management cluster: the Secret `fleet-agent`, with a kubeconfig.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_api::NamespacedName;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::Secret,
    },
};
use kube::{Config, api::DynamicObject};
use serde_json::{Value, json};
use thiserror::Error;

/// The name of the Secret, in the namespace of the agent: that of Fleet's agent.
pub const SECRET: &str = "fleet-agent";
/// The key of the Secret with the kubeconfig for the management cluster.
pub const KUBECONFIG: &str = "kubeconfig";
/// The key of the Secret with the namespace of the BundleDeployments of the cluster.
pub const DEPLOYMENT_NAMESPACE: &str = "deploymentNamespace";
/// The key of the Secret with the namespace of the Cluster.
pub const CLUSTER_NAMESPACE: &str = "clusterNamespace";
/// The key of the Secret with the name of the Cluster.
pub const CLUSTER_NAME: &str = "clusterName";
/// Characters of a line of PEM.
const LINE: usize = 64;

/// The kubeconfig does not verify the server that it names, and there is no other CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the kubeconfig has insecure-skip-tls-verify: the agent must know which server it talks to")]
pub struct UnverifiedServer;

/// Where and how an agent reaches the management cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagementServer {
    /// The address of the API server.
    pub server: String,
    /// The CAs to trust, PEM; empty for those of the system.
    pub authorities: String,
    /// The name in the server's certificate, if it is another one than in the address.
    pub server_name: Option<String>,
}

impl ManagementServer {
    /// That of the kubeconfig, unless flags say otherwise. `authorities` is a PEM text.
    ///
    /// # Errors
    /// See [`UnverifiedServer`].
    pub fn of(
        config: &Config,
        server: Option<&str>,
        authorities: Option<&str>,
    ) -> Result<Self, UnverifiedServer> {
        if config.accept_invalid_certs && authorities.is_none() {
            return Err(UnverifiedServer);
        }
        let own = config.cluster_url.to_string();
        let known = config.root_cert.iter().flatten().map(|der| pem(der)).collect();
        Ok(Self {
            server: server.unwrap_or_else(|| own.trim_end_matches('/')).to_owned(),
            authorities: authorities.map_or(known, str::to_owned),
            // A name for another address means nothing.
            server_name: config.tls_server_name.clone().filter(|_| server.is_none()),
        })
    }

    /// Whether the address is one that means this machine only.
    pub fn is_loopback(&self) -> bool {
        let host = self
            .server
            .split_once("://")
            .map_or(self.server.as_str(), |(_, rest)| rest);
        ["127.", "localhost", "[::1]"]
            .iter()
            .any(|local| host.starts_with(local))
    }

    /// The kubeconfig of an agent. `namespace` is the one that it works in.
    pub fn kubeconfig(&self, namespace: &str, token: &str) -> String {
        let mut cluster = json!({ "server": self.server });
        let mut set = |key: &str, value: Value| {
            if let Some(cluster) = cluster.as_object_mut() {
                cluster.insert(key.to_owned(), value);
            }
        };
        if !self.authorities.is_empty() {
            set(
                "certificate-authority-data",
                json!(STANDARD.encode(&self.authorities)),
            );
        }
        if let Some(name) = &self.server_name {
            set("tls-server-name", json!(name));
        }
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "default",
            "contexts": [{ "name": "default", "context": { "cluster": "cluster", "user": "user", "namespace": namespace } }],
            "clusters": [{ "name": "cluster", "cluster": cluster }],
            "users": [{ "name": "user", "user": { "token": token } }],
        })
        .to_string()
    }
}

/// A certificate as PEM.
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(LINE).map(String::from_utf8_lossy);
    let lines: String = lines
        .flat_map(|line| [line.into_owned(), "\n".to_owned()])
        .collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

/// The lifetime of the first token. The agent renews it when half of it is over.
const TOKEN_LIFETIME: Duration = Duration::from_hours(24);

/// The request for a token of the account of an agent.
pub fn token_request() -> TokenRequest {
    TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: i64::try_from(TOKEN_LIFETIME.as_secs()).ok(),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    }
}

/// Which Cluster an agent is of, according to its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub cluster: NamespacedName,
    /// The namespace of its BundleDeployments.
    pub deployment_namespace: String,
}

impl Joined {
    /// Reads the Secret; `None` if it lacks a key.
    pub fn of(secret: &Secret) -> Option<Self> {
        let text = |key: &str| {
            let ByteString(bytes) = secret.data.as_ref()?.get(key)?;
            String::from_utf8(bytes.clone()).ok()
        };
        Some(Self {
            cluster: NamespacedName::new(text(CLUSTER_NAMESPACE)?, text(CLUSTER_NAME)?),
            deployment_namespace: text(DEPLOYMENT_NAMESPACE)?,
        })
    }
}

/// The kubeconfig in the Secret, if there is one.
pub fn kubeconfig_of(secret: &Secret) -> Option<String> {
    let ByteString(bytes) = secret.data.as_ref()?.get(KUBECONFIG)?;
    String::from_utf8(bytes.clone()).ok()
}

/// The Secret in the namespace of the agent.
///
/// # Errors
/// Never in practice: the Secret is made of what JSON has.
pub fn secret(
    agent_namespace: &str,
    joined: &Joined,
    server: &ManagementServer,
    token: &str,
) -> Result<DynamicObject, serde_json::Error> {
    let encoded = |text: &str| json!(STANDARD.encode(text));
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": SECRET, "namespace": agent_namespace },
        "data": {
            CLUSTER_NAMESPACE: encoded(&joined.cluster.namespace),
            CLUSTER_NAME: encoded(&joined.cluster.name),
            DEPLOYMENT_NAMESPACE: encoded(&joined.deployment_namespace),
            KUBECONFIG: encoded(&server.kubeconfig(&joined.deployment_namespace, token)),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let mut config = Config::new("https://10.0.0.1:6443".parse().unwrap());
        config.root_cert = Some(vec![vec![1; 60]]);
        config
    }

    #[test]
    fn the_address_and_the_ca_are_those_of_the_kubeconfig_or_of_the_flags() {
        let own = ManagementServer::of(&config(), None, None).unwrap();
        assert_eq!(own.server, "https://10.0.0.1:6443");
        let lines: Vec<_> = own.authorities.lines().collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!((lines[1].len(), lines[2].len()), (64, 16));
        let other = ManagementServer::of(&config(), Some("https://api.example.com"), Some("PEM")).unwrap();
        assert_eq!(
            (&*other.server, &*other.authorities),
            ("https://api.example.com", "PEM")
        );
        let mut named = config();
        named.tls_server_name = Some("kubernetes".to_owned());
        let name_for = |server| ManagementServer::of(&named, server, None).unwrap().server_name;
        assert_eq!(name_for(None).as_deref(), Some("kubernetes"));
        assert_eq!(name_for(Some("https://api.example.com")), None);
    }

    #[test]
    fn a_server_that_is_not_verified_is_refused() {
        let mut config = config();
        config.accept_invalid_certs = true;
        assert!(ManagementServer::of(&config, None, None).is_err());
        assert!(ManagementServer::of(&config, None, Some("PEM")).is_ok());
    }

    #[test]
    fn an_address_of_this_machine_is_recognized() {
        for (server, expected) in [
            ("https://127.0.0.1:6443", true),
            ("https://localhost:6443", true),
            ("https://[::1]:6443", true),
            ("https://10.0.0.1:6443", false),
            ("https://api.localhost.example.com", false),
        ] {
            let management = ManagementServer {
                server: server.to_owned(),
                ..ManagementServer::default()
            };
            assert_eq!(management.is_loopback(), expected, "{server}");
        }
    }

    #[test]
    fn the_secret_has_the_keys_of_fleets_agent() {
        let joined = Joined {
            cluster: NamespacedName::new("fleet-default", "edge"),
            deployment_namespace: "cluster-edge".to_owned(),
        };
        let management = ManagementServer::of(&config(), None, None).unwrap();
        let object = secret("system", &joined, &management, "token-1").unwrap();
        let read: Secret = serde_json::from_value(serde_json::to_value(&object).unwrap()).unwrap();
        assert_eq!(Joined::of(&read), Some(joined));
        let ByteString(kubeconfig) = &read.data.as_ref().unwrap()["kubeconfig"];
        let kubeconfig: Value = serde_json::from_slice(kubeconfig).unwrap();
        assert_eq!(kubeconfig["users"][0]["user"]["token"], "token-1");
        assert_eq!(
            kubeconfig["clusters"][0]["cluster"]["server"],
            "https://10.0.0.1:6443"
        );
        assert_eq!(kubeconfig["contexts"][0]["context"]["namespace"], "cluster-edge");
    }
}
