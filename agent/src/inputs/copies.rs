//! `downstreamResources`: Secrets and ConfigMaps that are copied next to the release.

mod change;
mod existing;

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::BundleDeployment;
use helmops_core::targeting::copies::{self, CopyKind, SourceRef, UnsupportedKind};
use helmops_kube::{path_segment, with_managers};
use helmops_release::{marks, names::ReleaseKey, report::Blocked};
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    writes::delete_exactly,
};
use k8s_openapi::{
    Metadata, NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::change::Change;
pub use self::existing::{ExistingCopy, agent_copies, delete_copies, has_copies, keep_copies, prune_copies};
use super::MANAGER;
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

/// A copy on the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId {
    /// Its kind.
    pub kind: CopyKind,
    /// Its namespace, that of the release.
    pub namespace: String,
    /// Its name, that of the source.
    pub name: String,
}

/// The copies that a deployment wants; `None` if its options are invalid.
pub fn wanted_copies(deployment: &BundleDeployment) -> Option<BTreeSet<CopyId>> {
    let options = &deployment.spec.options;
    let release = ReleaseKey::of(deployment.metadata.name.as_deref().unwrap_or_default(), options);
    let id = |source: SourceRef| CopyId {
        kind: source.kind,
        namespace: release.namespace.clone(),
        name: source.name,
    };
    let sources = copies::downstream(options).ok()?;
    Some(sources.into_iter().map(id).collect())
}

/// Copies the downstream resources of a deployment into the namespace of its release, which exists. Returns whether the content of an existing copy
/// was changed: a release that was deployed with an unknown generation of them has to be deployed again.
///
/// # Errors
/// If a source is missing, or a copy cannot be written.
pub async fn copy(
    upstream: &Client,
    downstream: &Client,
    deployment: &BundleDeployment,
    namespace: &str,
    agent_namespace: &str,
) -> Result<bool, AgentError> {
    let resources = &deployment.spec.options.downstream_resources;
    if resources.is_empty() {
        return Ok(false);
    }
    let downstream = &with_managers(downstream);
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
            agent_namespace,
        };
        is_updated |= match source.kind {
            CopyKind::Secret => copy.run::<Secret>().await?,
            CopyKind::ConfigMap => copy.run::<ConfigMap>().await?,
        };
    }
    Ok(is_updated)
}

struct Copy<'c> {
    upstream: &'c Client,
    downstream: &'c Client,
    source_namespace: &'c str,
    name: &'c str,
    namespace: &'c str,
    deployment: &'c str,
    agent_namespace: &'c str,
}

impl Copy<'_> {
    /// Copies one object. Returns whether the content of an existing copy was changed.
    async fn run<K: Copied>(&self) -> Result<bool, AgentError> {
        let kind = K::kind(&());
        let source = Api::<K>::namespaced(self.upstream.clone(), self.source_namespace);
        let found = bounded(source.get_opt(&path_segment(self.name))).await;
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
        let target = Api::<K>::namespaced(self.downstream.clone(), &path_segment(self.namespace));
        let object = format!("{kind} {}/{}", self.namespace, self.name);
        let existing = bounded(target.get_opt(&path_segment(self.name))).await;
        match existing.map_err(CallError::of("read", &object))? {
            None => {
                let created = bounded(target.create(&MANAGER.post(), &desired)).await;
                created.map_err(CallError::of("create", &object))?;
                Ok(false)
            }
            Some(existing) if !self.is_own(existing.metadata()) => {
                Err(Lacking::ForeignCopy { object }.into())
            }
            Some(existing) => self.update(&target, &existing, &desired).await,
        }
    }

    /// Makes an existing copy what it should be. Returns whether its content was changed.
    async fn update<K: Copied>(
        &self,
        target: &Api<K>,
        existing: &K,
        desired: &K,
    ) -> Result<bool, AgentError> {
        let object = format!("{} {}/{}", K::kind(&()), self.namespace, self.name);
        let value = |object: &K| {
            serde_json::to_value(object).map_err(|error| ApiError::Kube(kube::Error::SerdeError(error)))
        };
        let values = value(existing).and_then(|existing| Ok((existing, value(desired)?)));
        let (from, to) = values.map_err(CallError::of("compare", &object))?;
        let change = Change::of(&from, &to);
        if let Change::Patch { patch, is_content } = &change {
            match bounded(target.patch(&path_segment(self.name), &MANAGER.patch(), &Patch::Merge(patch)))
                .await
            {
                Ok(_) => return Ok(*is_content),
                // Whatever else is invalid is so in a new object too.
                Err(error) if error.is_invalid() && from.get("immutable") == Some(&Value::Bool(true)) => {}
                Err(error) => return Err(CallError::of("update", &object)(error).into()),
            }
        }
        if change == Change::None {
            return Ok(false);
        }
        // What is denied then does not leave pods without the old object.
        let dry_run = PostParams {
            dry_run: true,
            ..MANAGER.post()
        };
        match bounded(target.create(&dry_run, desired)).await {
            Err(error) if !error.exists_already() => {
                return Err(CallError::of("replace", &object)(error).into());
            }
            _ => {}
        }
        let deleted = bounded(target.delete(&path_segment(self.name), &delete_exactly(existing))).await;
        deleted.map_err(CallError::of("replace", &object))?;
        let created = bounded(target.create(&MANAGER.post(), desired)).await;
        created.map_err(CallError::of("create", &object))?;
        Ok(true)
    }

    fn desired<K: Copied>(&self, source: &K) -> K {
        let mut labels: BTreeMap<_, _> = source.metadata().labels.clone().unwrap_or_default();
        labels.insert(LABEL.to_owned(), self.deployment.to_owned());
        labels.insert(marks::AGENT_NAMESPACE.to_owned(), self.agent_namespace.to_owned());
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
