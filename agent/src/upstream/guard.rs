//! Makes sure that a BundleDeployment was deleted, before its release is uninstalled.
//!
//! A namespace that was deleted and created again by mistake is empty for a while, a restored management cluster may lack the latest
//! objects, and a wrong kubeconfig leads to another cluster. In none of these cases anything may be uninstalled.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use helmops_api::{BundleDeployment, MetadataOnly};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;
use thiserror::Error;

/// The ConfigMap of the agent's namespace in which the agent remembers the management cluster.
pub const STATE: &str = "helmops-agent";
/// The key of the identity of the namespace of the BundleDeployments.
const KEY: &str = "deploymentNamespace";
/// A ConfigMap that Kubernetes creates in every namespace. A namespace that is created again has another one.
const ROOT_CA: &str = "kube-root-ca.crt";

/// The namespace of the BundleDeployments, and what is remembered of it.
#[derive(Clone)]
pub struct NamespaceGuard {
    upstream: Client,
    /// The namespace of the BundleDeployments.
    namespace: String,
    downstream: Client,
    agent_namespace: String,
    /// Whether it was remembered, as far as this process knows.
    is_remembered: Arc<AtomicBool>,
}

/// Why it is not certain that a BundleDeployment was deleted.
#[derive(Debug, Error)]
pub enum GuardError {
    /// An API server could not be called.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The namespace is not the one that the releases were made for.
    #[error(
        "namespace {namespace} of the management cluster was created again, or this is another management cluster: nothing is \
         uninstalled. If that is intended, delete ConfigMap {agent_namespace}/{STATE} on this cluster"
    )]
    OtherNamespace {
        /// The namespace.
        namespace: String,
        /// The namespace of the agent.
        agent_namespace: String,
    },
    /// No namespace is remembered: none of the releases here belongs to a BundleDeployment that exists.
    #[error(
        "none of the releases of this agent belongs to a BundleDeployment in namespace {namespace} of the management cluster, which may \
         be the wrong one: nothing is uninstalled. If that is intended, create ConfigMap {agent_namespace}/{STATE} on this cluster with \
         the UID of that namespace: data.{KEY}=namespace/UID"
    )]
    NotRemembered {
        /// The namespace.
        namespace: String,
        /// The namespace of the agent.
        agent_namespace: String,
    },
    /// The namespace is being deleted, or cannot be read.
    #[error(
        "namespace {namespace} of the management cluster is being deleted or not readable: nothing is uninstalled"
    )]
    NoNamespace {
        /// The namespace.
        namespace: String,
    },
}

impl NamespaceGuard {
    /// A guard for the BundleDeployments of a namespace.
    pub fn new(upstream: Client, namespace: &str, downstream: Client, agent_namespace: &str) -> Self {
        Self {
            upstream,
            namespace: namespace.to_owned(),
            downstream,
            agent_namespace: agent_namespace.to_owned(),
            is_remembered: Arc::default(),
        }
    }

    /// Whether a BundleDeployment was deleted.
    ///
    /// # Errors
    /// If that is not certain.
    pub async fn is_deleted(&self, name: &str) -> Result<bool, GuardError> {
        let api = Api::<BundleDeployment>::namespaced(self.upstream.clone(), &self.namespace);
        let found = bounded(api.get_metadata_opt(name)).await;
        let object = format!("BundleDeployment {}/{name}", self.namespace);
        if found.map_err(CallError::of("read", object))?.is_some() {
            return Ok(false);
        }
        let current = self.identity().await?;
        match self.recorded().await? {
            Some(recorded) if recorded == current => Ok(true),
            Some(_) => Err(GuardError::OtherNamespace {
                namespace: self.namespace.clone(),
                agent_namespace: self.agent_namespace.clone(),
            }),
            None => Err(GuardError::NotRemembered {
                namespace: self.namespace.clone(),
                agent_namespace: self.agent_namespace.clone(),
            }),
        }
    }

    /// Remembers the namespace, unless one is remembered already: a BundleDeployment in it has a release here, or there are no
    /// releases yet.
    ///
    /// # Errors
    /// If it cannot be read or remembered.
    pub async fn remember(&self) -> Result<(), GuardError> {
        if self.is_remembered.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.recorded().await?.is_none() {
            let current = self.identity().await?;
            self.record(&current).await?;
        }
        self.is_remembered.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The identity of the namespace. With the permissions of Fleet's agent, the namespace itself cannot be read.
    async fn identity(&self) -> Result<String, GuardError> {
        let namespaces = Api::<MetadataOnly<Namespace>>::all(self.upstream.clone());
        let found = match bounded(namespaces.get_opt(&self.namespace)).await {
            Ok(found) => identity_of("namespace", found),
            Err(error) if error.is_forbidden() => {
                let config_maps =
                    Api::<MetadataOnly<ConfigMap>>::namespaced(self.upstream.clone(), &self.namespace);
                let found = bounded(config_maps.get_opt(ROOT_CA)).await;
                let object = format!("ConfigMap {}/{ROOT_CA}", self.namespace);
                identity_of("configmap", found.map_err(CallError::of("read", object))?)
            }
            Err(error) => {
                return Err(
                    CallError::of("read", format_args!("Namespace {}", self.namespace))(error).into(),
                );
            }
        };
        found.ok_or_else(|| GuardError::NoNamespace {
            namespace: self.namespace.clone(),
        })
    }

    async fn recorded(&self) -> Result<Option<String>, CallError> {
        let found = bounded(self.state().get_opt(STATE)).await;
        let found = found.map_err(CallError::of("read", self.state_name()))?;
        Ok(found.and_then(|state| state.data?.remove(KEY)))
    }

    async fn record(&self, identity: &str) -> Result<(), CallError> {
        let mut state = ConfigMap::default();
        state.metadata.name = Some(STATE.to_owned());
        state.data = Some([(KEY.to_owned(), identity.to_owned())].into());
        let created = bounded(self.state().create(&PostParams::default(), &state)).await;
        let written = match created {
            Err(error) if ApiError::exists_already(&error) => {
                let patch = Patch::Merge(json!({ "data": { KEY: identity } }));
                bounded(self.state().patch(STATE, &PatchParams::default(), &patch)).await
            }
            created => created,
        };
        written.map_err(CallError::of("write", self.state_name()))?;
        Ok(())
    }

    fn state(&self) -> Api<ConfigMap> {
        Api::namespaced(self.downstream.clone(), &self.agent_namespace)
    }

    fn state_name(&self) -> String {
        format!("ConfigMap {}/{STATE}", self.agent_namespace)
    }
}

/// The identity of an object that is not being deleted.
fn identity_of<K>(kind: &str, found: Option<MetadataOnly<K>>) -> Option<String> {
    let ObjectMeta {
        uid,
        deletion_timestamp,
        ..
    } = (*found?.metadata).clone();
    let uid = uid.filter(|_| deletion_timestamp.is_none())?;
    Some(format!("{kind}/{uid}"))
}
