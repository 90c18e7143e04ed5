//! What an agent registers its cluster with: the Secret `fleet-agent-bootstrap` and the ConfigMap `fleet-agent`, as Fleet's chart has them.

use std::{collections::BTreeMap, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use go_formats::yaml::{Quota, read_exact};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use thiserror::Error;

use crate::access::ManagementServer;

/// The name of the Secret, in the namespace of the agent.
pub const SECRET: &str = "fleet-agent-bootstrap";
/// The name of the ConfigMap, in the namespace of the agent.
pub const CONFIGURATION: &str = "fleet-agent";
/// The key of the Secret with the random text of the agent, which it adds itself: all its replicas use the same one, also after a restart.
pub const CLIENT_RANDOM: &str = "clientRandom";
/// The key of the Secret with a digest of what the random text is for: with another token, or as another cluster, the agent makes another one.
pub const CLIENT_RANDOM_FOR: &str = "clientRandomFor";
/// Where an agent looks for its credential, unless the values name another namespace.
pub const REGISTRATION_NAMESPACE: &str = "cattle-fleet-clusters-system";

const NAMESPACE: &str = "clusterNamespace";
const SERVER: &str = "apiServerURL";
const AUTHORITIES: &str = "apiServerCA";
const TOKEN: &str = "token";
const TOKEN_NAME: &str = "tokenName";
const REGISTRATION: &str = "systemRegistrationNamespace";
/// The key of a Secret that has the others in a document of YAML, as the Secret of a token has.
const VALUES: &str = "values";
/// The key of the ConfigMap.
const CONFIG: &str = "config";

/// With what an agent registers its cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Bootstrap {
    /// The management cluster.
    pub server: ManagementServer,
    /// The workspace in which the cluster is to be registered.
    pub workspace: String,
    /// The token.
    pub token: String,
    /// The name of the token; empty in values of Fleet before 0.16.
    pub token_name: String,
    /// Where the credential will be.
    pub registration_namespace: String,
    /// The random text of the agent; empty as long as it has made none.
    pub client_random: String,
}

/// The Secret, or the values of a token, cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidBootstrap {
    /// A key that is needed.
    #[error(
        "{0:?} is missing or empty in Secret {SECRET}; run the command of kubectl helmop token create again"
    )]
    Missing(&'static str),
    /// It is no text.
    #[error("{0:?} is not UTF-8 in Secret {SECRET}; run the command of kubectl helmop token create again")]
    NotText(&'static str),
    /// The values are no YAML.
    #[error("the values are not a document of YAML with texts ({0})")]
    Values(String),
}

impl Bootstrap {
    /// Reads the Secret of an agent, or that of a token.
    ///
    /// # Errors
    /// See [`InvalidBootstrap`].
    pub fn of(secret: &Secret) -> Result<Self, InvalidBootstrap> {
        let data = secret.data.as_ref();
        let text = |key: &'static str| -> Result<String, InvalidBootstrap> {
            let ByteString(bytes) = data.and_then(|data| data.get(key)).cloned().unwrap_or_default();
            String::from_utf8(bytes).map_err(|_| InvalidBootstrap::NotText(key))
        };
        let client_random = text(CLIENT_RANDOM)?;
        let values = text(VALUES)?;
        if values.is_empty() {
            return Self::from_texts(text, client_random);
        }
        let values = read_exact(&values, &mut Quota::default())
            .map_err(|error| InvalidBootstrap::Values(error.to_string()))?;
        let text = |key: &'static str| {
            let value = values.get(key).and_then(Value::as_str);
            Ok(value.unwrap_or_default().to_owned())
        };
        Self::from_texts(text, client_random)
    }

    fn from_texts(
        text: impl Fn(&'static str) -> Result<String, InvalidBootstrap>,
        client_random: String,
    ) -> Result<Self, InvalidBootstrap> {
        let needed = |key| match text(key)? {
            value if value.trim().is_empty() => Err(InvalidBootstrap::Missing(key)),
            value => Ok(value),
        };
        let registration = text(REGISTRATION)?;
        Ok(Self {
            server: ManagementServer {
                server: needed(SERVER)?,
                authorities: text(AUTHORITIES)?,
                server_name: None,
            },
            workspace: needed(NAMESPACE)?,
            token: needed(TOKEN)?,
            token_name: text(TOKEN_NAME)?,
            registration_namespace: if registration.is_empty() {
                REGISTRATION_NAMESPACE.to_owned()
            } else {
                registration
            },
            client_random,
        })
    }

    /// Whether an agent registers with both in the same way: the random text, which it adds itself, does not count.
    pub fn is_like(&self, other: &Self) -> bool {
        let random = other.client_random.clone();
        let own = Self {
            client_random: random,
            ..self.clone()
        };
        own == *other
    }

    /// The values for Fleet's chart, which are also what [`Self::of`] reads.
    pub fn values(&self) -> Value {
        json!({
            NAMESPACE: self.workspace,
            SERVER: self.server.server,
            AUTHORITIES: self.server.authorities,
            TOKEN: self.token,
            TOKEN_NAME: self.token_name,
            REGISTRATION: self.registration_namespace,
        })
    }

    /// The Secret in the namespace of the agent.
    ///
    /// # Errors
    /// Never in practice: the Secret is made of what JSON has.
    pub fn secret(&self, agent_namespace: &str) -> Result<DynamicObject, serde_json::Error> {
        let mut data = serde_json::Map::new();
        for (key, value) in self.values().as_object().into_iter().flatten() {
            data.insert(
                key.clone(),
                json!(STANDARD.encode(value.as_str().unwrap_or_default())),
            );
        }
        serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": SECRET, "namespace": agent_namespace },
            "data": data,
        }))
    }
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bootstrap")
            .field("server", &self.server.server)
            .field("workspace", &self.workspace)
            .field("token_name", &self.token_name)
            .finish_non_exhaustive()
    }
}

/// What an agent says of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// The client ID; empty for the UID of the namespace `kube-system`.
    pub client_id: String,
    /// Labels for the Cluster.
    pub labels: BTreeMap<String, String>,
    /// Whether the CAs of the system may verify the management cluster, and not only the one that the agent was given.
    pub trusts_system: bool,
}

/// The ConfigMap is not JSON or YAML.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("key {CONFIG:?} of ConfigMap {CONFIGURATION} is not JSON or YAML with texts ({0})")]
pub struct InvalidConfiguration(String);

/// How an agent verifies the management cluster: with the CAs of the system too, or with nothing but the CA that it was given.
const TLS_MODE: &str = "agentTLSMode";
const SYSTEM_STORE: &str = "system-store";
const STRICT: &str = "strict";

impl ClusterIdentity {
    /// Reads the ConfigMap; without one, nothing is configured.
    ///
    /// # Errors
    /// See [`InvalidConfiguration`].
    pub fn of(found: Option<&ConfigMap>) -> Result<Self, InvalidConfiguration> {
        let text = found.and_then(|found| found.data.as_ref()?.get(CONFIG));
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            return Ok(Self::default());
        };
        let config = read_exact(text, &mut Quota::default())
            .map_err(|error| InvalidConfiguration(error.to_string()))?;
        let value = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
        let labels = config.get("labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        Ok(Self {
            client_id: value("clientID").to_owned(),
            labels: labels
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            trusts_system: value(TLS_MODE) == SYSTEM_STORE,
        })
    }

    /// The ConfigMap in the namespace of the agent.
    ///
    /// # Errors
    /// Never in practice: the ConfigMap is made of what JSON has.
    pub fn config_map(&self, agent_namespace: &str) -> Result<DynamicObject, serde_json::Error> {
        let mode = if self.trusts_system { SYSTEM_STORE } else { STRICT };
        let config = json!({ "labels": self.labels, "clientID": self.client_id, TLS_MODE: mode });
        serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": CONFIGURATION, "namespace": agent_namespace },
            "data": { CONFIG: config.to_string() },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(data: &[(&str, &str)]) -> Secret {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        Secret {
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    const NEEDED: [(&str, &str); 3] = [(NAMESPACE, "fleet-default"), (SERVER, "https://a"), (TOKEN, "t")];

    #[test]
    fn the_secret_of_fleets_chart_is_read_with_and_without_the_newer_keys() {
        let older = Bootstrap::of(&secret(&NEEDED)).unwrap();
        assert_eq!(
            (&*older.workspace, &*older.server.server, &*older.token),
            ("fleet-default", "https://a", "t")
        );
        assert_eq!(
            (&*older.token_name, &*older.registration_namespace),
            ("", REGISTRATION_NAMESPACE)
        );
        assert_eq!(older.server.authorities, "", "the CAs of the system");
        let newer = [
            &NEEDED[..],
            &[
                (TOKEN_NAME, "n"),
                (REGISTRATION, "r"),
                (AUTHORITIES, "PEM"),
                (CLIENT_RANDOM, "x"),
            ],
        ];
        let newer = Bootstrap::of(&secret(&newer.concat())).unwrap();
        assert_eq!((&*newer.token_name, &*newer.registration_namespace), ("n", "r"));
        assert_eq!((&*newer.server.authorities, &*newer.client_random), ("PEM", "x"));
        assert!(!format!("{newer:?}").contains("\"t\""), "{newer:?}");
    }

    #[test]
    fn the_random_text_of_the_agent_is_no_other_way_to_register() {
        let of = |over: (&str, &str)| Bootstrap::of(&secret(&[&NEEDED[..], &[over]].concat())).unwrap();
        assert!(of((CLIENT_RANDOM, "x")).is_like(&of((CLIENT_RANDOM, "y"))));
        assert!(!of((TOKEN, "u")).is_like(&of((TOKEN, "t"))));
    }

    #[test]
    fn the_values_of_a_token_are_read_and_written() {
        let values = "apiServerCA: |\n  PEM\napiServerURL: https://a\nclusterNamespace: w\ninternal: {systemNamespace: x}\ntoken: t\n";
        let read = Bootstrap::of(&secret(&[(VALUES, values)])).unwrap();
        assert_eq!((&*read.workspace, &*read.server.authorities), ("w", "PEM\n"));
        let object = read.secret("system").unwrap();
        let again: Secret = serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
        assert_eq!(Bootstrap::of(&again), Ok(read));
        assert!(matches!(
            Bootstrap::of(&secret(&[(VALUES, "- a: [")])),
            Err(InvalidBootstrap::Values(_))
        ));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (without, _) in NEEDED {
            let rest: Vec<_> = NEEDED.into_iter().filter(|(key, _)| *key != without).collect();
            let error = Bootstrap::of(&secret(&rest)).unwrap_err();
            assert!(error.to_string().contains(without), "{error}");
        }
    }

    #[test]
    fn the_configuration_of_fleets_chart_is_read() {
        let of = |text: &str| {
            let map = ConfigMap {
                data: Some([(CONFIG.to_owned(), text.to_owned())].into()),
                ..ConfigMap::default()
            };
            ClusterIdentity::of(Some(&map))
        };
        assert_eq!(ClusterIdentity::of(None), Ok(ClusterIdentity::default()));
        assert_eq!(of(""), Ok(ClusterIdentity::default()));
        let text = "{\n  \n  \"labels\":{\"env\":\"prod\"},\n  \n  \"clientID\":\"x\",\n  \"garbageCollectionInterval\": \"15m\",\n  \"agentTLSMode\": \"system-store\"\n}";
        let read = of(text).unwrap();
        assert_eq!(
            (&*read.client_id, &*read.labels["env"], read.trusts_system),
            ("x", "prod", true)
        );
        assert!(!of("agentTLSMode: strict").unwrap().trusts_system);
        let map = read.config_map("system").unwrap();
        let map: ConfigMap = serde_json::from_value(serde_json::to_value(map).unwrap()).unwrap();
        assert_eq!(ClusterIdentity::of(Some(&map)), Ok(read));
        assert!(of("{").is_err());
    }
}
