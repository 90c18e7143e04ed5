//! `downstreamResources`: Secrets and ConfigMaps that are copied next to the release.

mod change;
mod existing;

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::BundleDeployment;
use helmops_core::targeting::copies::{self, CopyKind, SourceRef, UnsupportedKind};
use helmops_kube::{path_segment, with_managers};
use helmops_release::{
    marks,
    names::{ReleaseKey, name_of},
    report::Blocked,
};
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
    /// Whether the API server refuses to change the content.
    fn is_immutable(&self) -> bool;
}

impl Copied for Secret {
    fn content(&self) -> Self {
        Self {
            data: self.data.clone(),
            type_: self.type_.clone(),
            ..Self::default()
        }
    }

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
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

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }
}

/// A copy on the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId {
    pub kind: CopyKind,
    /// Its namespace, that of the release.
    pub namespace: String,
    /// Its name, that of the source.
    pub name: String,
}

/// The copies that a deployment wants; `None` if its options are invalid.
pub fn wanted_copies(deployment: &BundleDeployment) -> Option<BTreeSet<CopyId>> {
    let options = &deployment.spec.options;
    let release = ReleaseKey::of(name_of(deployment), options);
    let id = |source: SourceRef| CopyId {
        kind: source.kind,
        namespace: release.namespace.clone(),
        name: source.name,
    };
    let sources = copies::downstream(options).ok()?;
    Some(sources.into_iter().map(id).collect())
}

/// What is to be done with the copies of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyChanges {
    /// The sources of those that are to be written.
    pub outdated: Vec<SourceRef>,
    /// Whether the content of an existing one is to be changed: a release that was deployed with an unknown generation of them has to be
    /// deployed again.
    pub content: bool,
}

/// The copies of the downstream resources of a deployment, in the namespace of its release.
pub struct Copies<'c> {
    /// The management cluster.
    pub upstream: &'c Client,
    /// The workload cluster, as the account that deploys.
    pub deployer: &'c Client,
    pub deployment: &'c BundleDeployment,
    /// The namespace of the release.
    pub namespace: &'c str,
    pub agent_namespace: &'c str,
}

impl Copies<'_> {
    /// Compares them with their sources, and writes nothing.
    ///
    /// # Errors
    /// If a source is missing, or a copy cannot be read or belongs to another deployment.
    pub async fn compare(&self) -> Result<CopyChanges, AgentError> {
        let mut changes = CopyChanges::default();
        let sources = copies::downstream(&self.deployment.spec.options);
        let sources =
            sources.map_err(|UnsupportedKind(kind)| Lacking::Blocked(Blocked::CopyUnsupported { kind }))?;
        for copy in self.of(sources) {
            let change = match copy.source.kind {
                CopyKind::Secret => copy.compare::<Secret>().await?,
                CopyKind::ConfigMap => copy.compare::<ConfigMap>().await?,
            };
            changes.content |= change.as_ref().is_some_and(Change::is_content);
            if change != Some(Change::None) {
                changes.outdated.push(copy.source);
            }
        }
        Ok(changes)
    }

    /// Makes the copies of these sources what they should be. The namespace exists.
    ///
    /// # Errors
    /// As [`Self::compare`], and if a copy cannot be written.
    pub async fn write(&self, outdated: Vec<SourceRef>) -> Result<(), AgentError> {
        for copy in self.of(outdated) {
            match copy.source.kind {
                CopyKind::Secret => copy.write::<Secret>().await?,
                CopyKind::ConfigMap => copy.write::<ConfigMap>().await?,
            }
        }
        Ok(())
    }

    fn of<'c>(
        &'c self,
        sources: impl IntoIterator<Item = SourceRef> + 'c,
    ) -> impl Iterator<Item = Copy<'c>> + 'c {
        let downstream = with_managers(self.deployer);
        sources.into_iter().map(move |source| Copy {
            of: self,
            downstream: downstream.clone(),
            source,
        })
    }
}

struct Copy<'c> {
    of: &'c Copies<'c>,
    /// The deployer, whose answers have the managers of fields.
    downstream: Client,
    source: SourceRef,
}

impl Copy<'_> {
    /// What is to be changed; `None` if there is no copy yet.
    async fn compare<K: Copied>(&self) -> Result<Option<Change>, AgentError> {
        let (desired, existing) = self.read::<K>().await?;
        existing
            .map(|existing| self.change(&existing, &desired))
            .transpose()
    }

    /// Makes the copy what it should be.
    async fn write<K: Copied>(&self) -> Result<(), AgentError> {
        let (desired, existing) = self.read::<K>().await?;
        if let Some(existing) = existing {
            return self.update(&existing, &desired).await;
        }
        let created = bounded(self.target::<K>().create(&MANAGER.post(), &desired)).await;
        created.map_err(CallError::of("create", self.object::<K>()))?;
        Ok(())
    }

    /// The desired copy, and the one that exists.
    async fn read<K: Copied>(&self) -> Result<(K, Option<K>), AgentError> {
        let kind = K::kind(&());
        let name = &self.source.name;
        let namespace = self
            .of
            .deployment
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default();
        let source = Api::<K>::namespaced(self.of.upstream.clone(), namespace);
        let found = bounded(source.get_opt(&path_segment(name))).await;
        let found = found.map_err(CallError::of("read", format_args!("{kind} {namespace}/{name}")))?;
        let Some(source) = found else {
            return Err(Lacking::Blocked(Blocked::CopyMissing {
                kind: kind.into_owned(),
                namespace: namespace.to_owned(),
                name: name.clone(),
            })
            .into());
        };
        let object = self.object::<K>();
        let existing = bounded(self.target::<K>().get_opt(&path_segment(name))).await;
        let existing = existing.map_err(CallError::of("read", &object))?;
        if existing
            .as_ref()
            .is_some_and(|existing| !self.is_own(existing.metadata()))
        {
            return Err(Lacking::ForeignCopy { object }.into());
        }
        Ok((self.desired(&source), existing))
    }

    fn target<K: Copied>(&self) -> Api<K> {
        Api::namespaced(self.downstream.clone(), &path_segment(self.of.namespace))
    }

    fn object<K: Copied>(&self) -> String {
        format!("{} {}/{}", K::kind(&()), self.of.namespace, self.source.name)
    }

    fn change<K: Copied>(&self, existing: &K, desired: &K) -> Result<Change, AgentError> {
        let value = |object: &K| {
            serde_json::to_value(object).map_err(|error| ApiError::Kube(kube::Error::SerdeError(error)))
        };
        let values = value(existing).and_then(|existing| Ok((existing, value(desired)?)));
        let (from, to) = values.map_err(CallError::of("compare", self.object::<K>()))?;
        Ok(Change::of(&from, &to))
    }

    async fn update<K: Copied>(&self, existing: &K, desired: &K) -> Result<(), AgentError> {
        let (target, object) = (self.target::<K>(), self.object::<K>());
        let name = path_segment(&self.source.name);
        let change = self.change(existing, desired)?;
        if let Change::Patch { patch, .. } = &change {
            match bounded(target.patch(&name, &MANAGER.patch(), &Patch::Merge(patch))).await {
                Ok(_) => return Ok(()),
                // Whatever else is invalid is so in a new object too.
                Err(error) if error.is_invalid() && existing.is_immutable() => {}
                Err(error) => return Err(CallError::of("update", &object)(error).into()),
            }
        }
        if change == Change::None {
            return Ok(());
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
        let deleted = bounded(target.delete(&name, &delete_exactly(existing))).await;
        deleted.map_err(CallError::of("replace", &object))?;
        let created = bounded(target.create(&MANAGER.post(), desired)).await;
        created.map_err(CallError::of("create", &object))?;
        Ok(())
    }

    fn desired<K: Copied>(&self, source: &K) -> K {
        let mut labels: BTreeMap<_, _> = source.metadata().labels.clone().unwrap_or_default();
        labels.insert(LABEL.to_owned(), self.deployment().to_owned());
        labels.insert(
            marks::AGENT_NAMESPACE.to_owned(),
            self.of.agent_namespace.to_owned(),
        );
        let mut desired = source.content();
        let metadata = desired.metadata_mut();
        metadata.name = Some(self.source.name.clone());
        metadata.namespace = Some(self.of.namespace.to_owned());
        metadata.labels = Some(labels);
        metadata.annotations.clone_from(&source.metadata().annotations);
        desired
    }

    fn is_own(&self, existing: &ObjectMeta) -> bool {
        let label = existing.labels.as_ref().and_then(|labels| labels.get(LABEL));
        label.is_some_and(|name| name == self.deployment())
    }

    fn deployment(&self) -> &str {
        name_of(self.of.deployment)
    }
}

#[cfg(test)]
mod tests {
    use helmops_process::lock;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::server;

    fn deployment() -> BundleDeployment {
        let resources = json!([{ "kind": "ConfigMap", "name": "settings" }]);
        let metadata = json!({ "namespace": "cluster", "name": "web" });
        let spec = json!({ "options": { "downstreamResources": resources } });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn object(namespace: &str, owner: Option<&str>, labels: &Value, msg: &str) -> Value {
        let mut labels = labels.clone();
        if let Some(owner) = owner {
            labels[LABEL] = owner.into();
            labels[marks::AGENT_NAMESPACE] = "agent".into();
        }
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "msg": msg },
            "metadata": { "namespace": namespace, "name": "settings", "labels": labels },
        })
    }

    fn changes(any: bool, content: bool) -> CopyChanges {
        let source = SourceRef {
            kind: CopyKind::ConfigMap,
            name: "settings".to_owned(),
        };
        CopyChanges {
            outdated: any.then_some(source).into_iter().collect(),
            content,
        }
    }

    /// A look at a deployment, such as one that waits for others, changes nothing.
    #[tokio::test]
    async fn a_comparison_writes_nothing() {
        let deployment = deployment();
        let (none, tier) = (json!({}), json!({ "tier": "web" }));
        let copy = |owner, labels, msg| Some(object("shop", Some(owner), labels, msg));
        for (existing, expected, write) in [
            (None, Some(changes(true, false)), Some("POST")),
            (copy("web", &tier, "hello"), Some(changes(false, false)), None),
            (
                copy("web", &none, "hello"),
                Some(changes(true, false)),
                Some("PATCH"),
            ),
            (
                copy("web", &tier, "edited"),
                Some(changes(true, true)),
                Some("PATCH"),
            ),
            (copy("other", &tier, "hello"), None, None),
        ] {
            let source = object("cluster", None, &tier, "hello");
            let (upstream, _) = server(move |_, _| (200, source.clone()));
            let found = existing.clone();
            let (deployer, requests) = server(move |method, _| match (&found, method.as_str()) {
                (None, "GET") => (
                    404,
                    json!({ "kind": "Status", "code": 404, "reason": "NotFound" }),
                ),
                (Some(found), _) => (200, found.clone()),
                (None, _) => (201, object("shop", Some("web"), &json!({}), "hello")),
            });
            let copies = Copies {
                upstream: &upstream,
                deployer: &deployer,
                deployment: &deployment,
                namespace: "shop",
                agent_namespace: "agent",
            };
            assert_eq!(copies.compare().await.ok(), expected, "{existing:?}");
            let written = || {
                let requests = lock(&requests);
                let mut writes = requests.iter().filter(|request| !request.starts_with("GET "));
                writes.find_map(|request| Some(request.split_once(' ')?.0.to_owned()))
            };
            assert_eq!(written(), None, "{existing:?}");
            let all = changes(true, false).outdated;
            assert_eq!(
                copies.write(all).await.is_ok(),
                expected.is_some(),
                "{existing:?}"
            );
            assert_eq!(written().as_deref(), write, "{existing:?}");
        }
    }
}
