//! The kinds of the API server: the resource and the scope of each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_process::lock;
use helmops_release::scopes::{Scope, Scopes};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{
    Client,
    core::ApiResource,
    discovery::{self, Discovery},
};
use thiserror::Error;

/// How long a kind that does not exist is not looked up again: charts install CRDs, so it may exist soon.
const UNKNOWN: Duration = Duration::from_secs(5);

/// A kind of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceKind {
    /// How requests name it.
    pub resource: ApiResource,
    /// Whether its objects have a namespace.
    pub is_namespaced: bool,
}

/// The kinds of the API server, read when they are needed. Clones share them.
#[derive(Clone)]
pub struct Kinds {
    client: Client,
    versions: Arc<Mutex<HashMap<String, Version>>>,
}

/// The kinds of an API version.
#[derive(Clone)]
struct Version {
    kinds: Arc<HashMap<String, ResourceKind>>,
    read: Instant,
}

/// Why a kind is not known.
#[derive(Debug, Error)]
pub enum KindError {
    /// The API server does not have it.
    #[error("the cluster has no kind {kind} in {api_version}; install its CustomResourceDefinition")]
    Unknown {
        /// The API version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The API server could not be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Kinds {
    /// The kinds of the API server of a client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            versions: Arc::default(),
        }
    }

    /// A kind of an API version.
    ///
    /// # Errors
    /// If there is none, or the API server cannot be read.
    pub async fn get(&self, api_version: &str, kind: &str) -> Result<ResourceKind, KindError> {
        let known = lock(&self.versions).get(api_version).cloned();
        if let Some(known) = known {
            if let Some(found) = known.kinds.get(kind) {
                return Ok(found.clone());
            }
            if known.read.elapsed() < UNKNOWN {
                return Err(unknown(api_version, kind));
            }
        }
        let kinds = Arc::new(self.read(api_version).await?);
        let found = kinds.get(kind).cloned();
        let read = Instant::now();
        lock(&self.versions).insert(api_version.to_owned(), Version { kinds, read });
        found.ok_or_else(|| unknown(api_version, kind))
    }

    /// The scopes of all kinds, in the versions that the API server prefers.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn scopes(&self) -> Result<Scopes, CallError> {
        let discovered = bounded(Discovery::new(self.client.clone()).run_aggregated()).await;
        let discovered = discovered.map_err(CallError::of("read", "the kinds of the cluster"))?;
        let mut scopes = Scopes::default();
        for group in discovered.groups() {
            for (resource, capabilities) in group.recommended_resources() {
                let scope = match capabilities.scope {
                    discovery::Scope::Namespaced => Scope::Namespaced,
                    discovery::Scope::Cluster => Scope::Cluster,
                };
                scopes.insert(&resource.group, &resource.kind, scope);
            }
        }
        Ok(scopes)
    }

    /// Reads the kinds of an API version; none if the API server does not have it.
    async fn read(&self, api_version: &str) -> Result<HashMap<String, ResourceKind>, CallError> {
        let listed = if api_version.contains('/') {
            bounded(self.client.list_api_group_resources(api_version)).await
        } else {
            bounded(self.client.list_core_api_resources(api_version)).await
        };
        let resources = match listed {
            Ok(list) => list.resources,
            Err(error) if ApiError::is_not_found(&error) => Vec::new(),
            Err(error) => {
                return Err(CallError::of("read", format_args!("the kinds of {api_version}"))(
                    error,
                ));
            }
        };
        let kinds = resources
            .into_iter()
            // A subresource has a name like `pods/log`.
            .filter(|resource| !resource.name.contains('/'))
            .map(|resource| (resource.kind.clone(), resource_kind(api_version, resource)));
        Ok(kinds.collect())
    }
}

fn unknown(api_version: &str, kind: &str) -> KindError {
    KindError::Unknown {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    }
}

fn resource_kind(api_version: &str, resource: APIResource) -> ResourceKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ResourceKind {
        is_namespaced: resource.namespaced,
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: resource.kind,
            plural: resource.name,
        },
    }
}
