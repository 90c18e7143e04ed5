//! Notices changes of the ConfigMaps and Secrets that values come from.
//!
//! ```text
//! BundleDeployment ─► sources ─► watched objects ─► versions ─► digest: read again if a version has changed
//!                                        └─► its reconciliation
//! ```

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use helmops_api::{BundleDeployment, Decoded};
use helmops_core::targeting::copies::CopyKind;
use helmops_helm::values_from::{ValuesSource, digest, read, sources};
use helmops_process::lock;
use helmops_release::names::{ReleaseKey, name_of};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Client, core::ApiResource};
use tokio::sync::mpsc;

use super::watched::{Scope, Version, WatchedObject, WatchedObjects, Watching};
use crate::context::Context;

/// The value of `lifecycle.valuesFromPolicy` with which a change of values deploys nothing.
const NEXT_RELEASE: &str = "NextRelease";

/// The ConfigMaps and Secrets that values of BundleDeployments come from. Clones share them.
#[derive(Clone)]
pub struct ValuesSources {
    /// Values of objects that are not watched count with the next release.
    watched: WatchedObjects,
    deployments: Arc<Mutex<HashMap<String, Followed>>>,
}

/// A BundleDeployment whose values are followed.
struct Followed {
    sources: Vec<ValuesSource>,
    /// The digest, and the versions that it is of.
    last: Option<(Vec<Option<Version>>, String)>,
    /// The first digest.
    first: Option<String>,
}

/// The values that references of a BundleDeployment name.
#[derive(Clone, Debug, Default)]
pub struct ObservedValues {
    /// Their digest; empty if there are none, if they are not followed, or if they cannot be read: then what is deployed stays, and an attempt to
    /// deploy reports why.
    pub digest: String,
    /// Whether they have changed since this process saw them first.
    pub have_changed: bool,
}

impl ValuesSources {
    /// None. `namespaces` are those that the agent may read; empty for all.
    pub fn new(client: Client, namespaces: Vec<String>) -> Self {
        Self {
            watched: WatchedObjects::new(client, namespaces),
            deployments: Arc::default(),
        }
    }

    /// Follows a change of a BundleDeployment.
    pub fn changed(&self, name: &str, deployment: Option<&Decoded<BundleDeployment>>) {
        let deployment = deployment.and_then(Decoded::valid);
        let sources = deployment.map(followed).unwrap_or_default();
        let mut deployments = lock(&self.deployments);
        let before = deployments.get(name).map(|followed| &followed.sources);
        if before.map_or(sources.is_empty(), |before| *before == sources) {
            return;
        }
        deployments.remove(name);
        let watching = self.watched.set(name, objects(&sources));
        if !sources.is_empty() && watching != Watching::Not {
            let followed = Followed {
                sources,
                last: None,
                first: None,
            };
            deployments.insert(name.to_owned(), followed);
        }
    }

    /// The values that references of a BundleDeployment name. A failure with other values delays nothing.
    pub async fn observe(&self, context: &Context, deployment: &BundleDeployment) -> ObservedValues {
        let name = name_of(deployment);
        let known = lock(&self.deployments)
            .get(name)
            .map(|followed| followed.sources.clone());
        let Some(sources) = known.filter(|known| *known == followed(deployment)) else {
            return ObservedValues::default();
        };
        // Before the values: what changes afterwards is noticed again.
        let versions = self.watched.versions(&objects(&sources));
        if let Some(values) = self.unchanged(name, versions.as_ref()) {
            return values;
        }
        let read = async {
            let account = &deployment.spec.options.service_account;
            let (_, deployer) = context.accounts.deployer(account).await.ok()?;
            read(&deployer, &sources).await.ok()
        };
        let Some(values) = read.await else {
            return ObservedValues::default();
        };
        let digest = digest(&values);
        let mut deployments = lock(&self.deployments);
        let Some(followed) = deployments.get_mut(name) else {
            return ObservedValues::default();
        };
        if followed.last.as_ref().is_some_and(|(_, last)| *last != digest) {
            context.retries.forget(&context.key(name));
        }
        followed.last = Some((versions.unwrap_or_default(), digest.clone()));
        let first = followed.first.get_or_insert_with(|| digest.clone());
        ObservedValues {
            have_changed: *first != digest,
            digest,
        }
    }

    /// The values, if the versions of their objects are those of the last time.
    fn unchanged(&self, name: &str, versions: Option<&Vec<Option<Version>>>) -> Option<ObservedValues> {
        let deployments = lock(&self.deployments);
        let followed = deployments.get(name)?;
        let (last, digest) = followed.last.as_ref()?;
        (Some(last) == versions).then(|| ObservedValues {
            digest: digest.clone(),
            have_changed: followed.first.as_ref().is_some_and(|first| first != digest),
        })
    }

    /// Follows the watches. Sends the name of each BundleDeployment whose values may have changed.
    pub async fn run(&self, affected: mpsc::Sender<String>) {
        self.watched.run(affected).await;
    }
}

/// The sources of a BundleDeployment of which a change is deployed.
fn followed(deployment: &BundleDeployment) -> Vec<ValuesSource> {
    let spec = &deployment.spec;
    let policy = spec
        .lifecycle
        .as_ref()
        .map_or("", |lifecycle| &lifecycle.values_from_policy);
    if policy == NEXT_RELEASE {
        return Vec::new();
    }
    let release = ReleaseKey::of(name_of(deployment), &spec.options);
    sources(&spec.options, spec.lifecycle.as_deref(), &release.namespace)
}

/// The objects of these sources, for a message.
pub fn sources_of(deployment: &BundleDeployment) -> String {
    let objects: BTreeSet<_> = followed(deployment).iter().map(ValuesSource::object).collect();
    Vec::from_iter(objects).join(", ")
}

/// The objects of sources, in their order.
fn objects(sources: &[ValuesSource]) -> Vec<WatchedObject> {
    let object = |source: &ValuesSource| WatchedObject {
        scope: Scope {
            resource: match source.kind {
                CopyKind::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
                CopyKind::Secret => ApiResource::erase::<Secret>(&()),
            },
            namespace: source.namespace.clone(),
        },
        name: source.name.clone(),
    };
    sources.iter().map(object).collect()
}
