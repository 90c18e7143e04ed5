//! `downstreamResources`: Secrets and ConfigMaps that are copied next to the release.

use std::collections::BTreeMap;

use helmops_api::BundleDeployment;
use helmops_core::targeting::copies::{self, CopyKind, UnsupportedKind};
use helmops_release::report::Blocked;
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::{
    Metadata, NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

use super::namespace::create_namespace;
use crate::error::{AgentError, Lacking};

/// The label of copies: the name of their BundleDeployment. It is Fleet's.
const LABEL: &str = "fleet.cattle.io/bundledeployment";

/// A kind of objects that are copied.
trait Copied:
    Metadata<Ty = ObjectMeta>
    + Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + std::fmt::Debug
    + PartialEq
    + Send
    + Sync
    + 'static
{
    /// The content, without metadata.
    fn content(&self) -> Self;
}

impl Copied for Secret {
    fn content(&self) -> Self {
        Self {
            data: self.data.clone(),
            type_: self.type_.clone(),
            ..Self::default()
        }
    }
}

impl Copied for ConfigMap {
    fn content(&self) -> Self {
        Self {
            data: self.data.clone(),
            binary_data: self.binary_data.clone(),
            ..Self::default()
        }
    }
}

/// Copies the downstream resources of a deployment into the namespace of its release. Returns whether an existing copy was updated:
/// then the release has to be deployed again.
///
/// # Errors
/// If a source is missing, or a copy cannot be written.
pub async fn copy(
    upstream: &Client,
    downstream: &Client,
    deployment: &BundleDeployment,
    namespace: &str,
) -> Result<bool, AgentError> {
    let resources = &deployment.spec.options.downstream_resources;
    if resources.is_empty() {
        return Ok(false);
    }
    create_namespace(downstream, downstream, namespace).await?;
    let mut is_updated = false;
    let sources = copies::downstream(&deployment.spec.options);
    let sources =
        sources.map_err(|UnsupportedKind(kind)| Lacking::Blocked(Blocked::CopyUnsupported { kind }))?;
    for source in sources {
        let copy = Copy {
            upstream,
            downstream,
            source_namespace: deployment.metadata.namespace.as_deref().unwrap_or_default(),
            name: &source.name,
            namespace,
            deployment: deployment.metadata.name.as_deref().unwrap_or_default(),
        };
        is_updated |= match source.kind {
            CopyKind::Secret => copy.run::<Secret>().await?,
            CopyKind::ConfigMap => copy.run::<ConfigMap>().await?,
        };
    }
    Ok(is_updated)
}

/// Deletes all copies of a deployment in these namespaces, or in all of them if there are none.
///
/// # Errors
/// If one cannot be deleted.
pub async fn delete_copies(
    downstream: &Client,
    deployment: &str,
    namespaces: &[String],
) -> Result<(), CallError> {
    delete_of_kind::<Secret>(downstream, deployment, namespaces).await?;
    delete_of_kind::<ConfigMap>(downstream, deployment, namespaces).await
}

async fn delete_of_kind<K: Copied>(
    client: &Client,
    deployment: &str,
    namespaces: &[String],
) -> Result<(), CallError> {
    if namespaces.is_empty() {
        return delete(client, Api::<K>::all(client.clone()), deployment).await;
    }
    for namespace in namespaces {
        delete(
            client,
            Api::<K>::namespaced(client.clone(), namespace),
            deployment,
        )
        .await?;
    }
    Ok(())
}

async fn delete<K: Copied>(client: &Client, copies: Api<K>, deployment: &str) -> Result<(), CallError> {
    let kind = K::kind(&());
    let params = ListParams::default().labels(&format!("{LABEL}={deployment}"));
    let listed = bounded(copies.list_metadata(&params)).await;
    let listed = listed.map_err(CallError::of("list", format_args!("the copies of kind {kind}")))?;
    for copy in listed.items {
        let metadata = copy.metadata;
        let (Some(namespace), Some(name)) = (metadata.namespace, metadata.name) else {
            continue;
        };
        let api = Api::<K>::namespaced(client.clone(), &namespace);
        match bounded(api.delete(&name, &DeleteParams::default())).await {
            Ok(_) => {}
            Err(error) if ApiError::is_not_found(&error) => {}
            Err(error) => {
                return Err(CallError::of("delete", format_args!("{kind} {namespace}/{name}"))(error));
            }
        }
    }
    Ok(())
}

struct Copy<'c> {
    upstream: &'c Client,
    downstream: &'c Client,
    source_namespace: &'c str,
    name: &'c str,
    namespace: &'c str,
    deployment: &'c str,
}

impl Copy<'_> {
    /// Copies one object. Returns whether an existing copy was updated.
    async fn run<K: Copied>(&self) -> Result<bool, AgentError> {
        let kind = K::kind(&());
        let source = Api::<K>::namespaced(self.upstream.clone(), self.source_namespace);
        let found = bounded(source.get_opt(self.name)).await;
        let found = found.map_err(CallError::of(
            "read",
            format_args!("{kind} {}/{}", self.source_namespace, self.name),
        ))?;
        let Some(source) = found else {
            return Err(Lacking::Blocked(Blocked::CopyMissing {
                kind: kind.into_owned(),
                namespace: self.source_namespace.to_owned(),
                name: self.name.to_owned(),
            })
            .into());
        };
        let desired = self.desired(&source);
        let target = Api::<K>::namespaced(self.downstream.clone(), self.namespace);
        let object = format!("{kind} {}/{}", self.namespace, self.name);
        let existing = bounded(target.get_opt(self.name)).await;
        match existing.map_err(CallError::of("read", &object))? {
            None => {
                let created = bounded(target.create(&PostParams::default(), &desired)).await;
                created.map_err(CallError::of("create", &object))?;
                Ok(false)
            }
            Some(existing) if !self.is_own(existing.metadata()) => {
                Err(Lacking::ForeignCopy { object }.into())
            }
            Some(existing) if is_same(&existing, &desired) => Ok(false),
            Some(existing) => {
                let mut desired = desired;
                desired
                    .metadata_mut()
                    .resource_version
                    .clone_from(&existing.metadata().resource_version);
                let replaced = bounded(target.replace(self.name, &PostParams::default(), &desired)).await;
                replaced.map_err(CallError::of("update", &object))?;
                Ok(true)
            }
        }
    }

    fn desired<K: Copied>(&self, source: &K) -> K {
        let mut labels: BTreeMap<_, _> = source.metadata().labels.clone().unwrap_or_default();
        labels.insert(LABEL.to_owned(), self.deployment.to_owned());
        let mut desired = source.content();
        let metadata = desired.metadata_mut();
        metadata.name = Some(self.name.to_owned());
        metadata.namespace = Some(self.namespace.to_owned());
        metadata.labels = Some(labels);
        metadata.annotations.clone_from(&source.metadata().annotations);
        desired
    }

    fn is_own(&self, existing: &ObjectMeta) -> bool {
        let label = existing.labels.as_ref().and_then(|labels| labels.get(LABEL));
        label.is_some_and(|name| name == self.deployment)
    }
}

fn is_same<K: Copied>(existing: &K, desired: &K) -> bool {
    let marks = |object: &K| {
        let metadata = object.metadata();
        let labels = metadata.labels.clone().unwrap_or_default();
        (labels, metadata.annotations.clone().unwrap_or_default())
    };
    existing.content() == desired.content() && marks(existing) == marks(desired)
}
