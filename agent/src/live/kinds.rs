//! The kinds of the API server: the resource and the scope of each.
//!
//! What is known is read again when something shows that it is outdated: a resource that does not exist any more, a CRD that was
//! changed, or a kind that did not exist a moment ago.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_kube::path_segment;
use helmops_process::lock;
use helmops_release::{
    api_move,
    object::{self, ObjectId},
    scopes::{Scope, Scopes},
};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource};
use kube::{
    Client,
    core::ApiResource,
    discovery::{self, Discovery},
};

/// How long a kind that does not exist is not looked up again: a release may have many objects of it.
const UNKNOWN: Duration = Duration::from_secs(1);
/// When kinds are looked up again that the cluster does not have. CRDs are watched, but not the services behind other APIs.
const LATER: Duration = Duration::from_secs(15);
/// How long the API server may take to serve what a CRD has changed, and when that is looked up again.
const SETTLING: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(1);
/// API versions that are kept. A cluster has some hundreds of them.
const MAX_VERSIONS: usize = 2_000;

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
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    versions: HashMap<String, Version>,
    /// When a CRD of a group was changed, while it matters.
    changed: HashMap<String, Instant>,
    /// The versions of all groups, and when they were read.
    groups: Option<(Instant, Arc<Groups>)>,
    /// The groups in which releases have objects of kinds that the cluster does not have, by release.
    missing: HashMap<String, BTreeSet<String>>,
}

/// The versions of each group, the preferred one first.
type Groups = HashMap<String, Vec<String>>;

/// The kinds of an API version.
#[derive(Clone)]
struct Version {
    kinds: Arc<HashMap<String, ResourceKind>>,
    read: Instant,
}

/// What the API server has in place of the kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// This kind.
    Same(ResourceKind),
    /// The same objects in another version of their API, or in the group to which they were moved.
    Moved(ResourceKind),
    /// Nothing: there are no such objects.
    Nothing,
}

impl Served {
    /// The kind that the API server has.
    pub const fn kind(&self) -> Option<&ResourceKind> {
        match self {
            Self::Same(kind) | Self::Moved(kind) => Some(kind),
            Self::Nothing => None,
        }
    }

    /// The identity of an object with this kind, as requests name it; `None` if there is no such object.
    pub fn identity(&self, id: &ObjectId) -> Option<ObjectId> {
        let kind = self.kind()?;
        let namespace = if kind.is_namespaced { &*id.namespace } else { "" };
        Some(ObjectId {
            api_version: kind.resource.api_version.clone(),
            kind: id.kind.clone(),
            namespace: namespace.to_owned(),
            name: id.name.clone(),
        })
    }
}

impl Kinds {
    /// The kinds of the API server of a client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// A kind of an API version; `None` if there is none.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn get(&self, api_version: &str, kind: &str) -> Result<Option<ResourceKind>, CallError> {
        let oldest = Instant::now().checked_sub(UNKNOWN);
        self.get_since(api_version, kind, oldest).await
    }

    /// The same. That there is no such kind was read after a time.
    async fn get_since(
        &self,
        api_version: &str,
        kind: &str,
        oldest: Option<Instant>,
    ) -> Result<Option<ResourceKind>, CallError> {
        let known = lock(&self.known).versions.get(api_version).cloned();
        if let Some(known) = known {
            let found = known.kinds.get(kind);
            if found.is_some() || oldest.is_some_and(|oldest| known.read >= oldest) {
                return Ok(found.cloned());
            }
        }
        let read = Instant::now();
        let kinds = Arc::new(self.read(api_version).await?);
        let found = kinds.get(kind).cloned();
        lock(&self.known).add(api_version, Version { kinds, read });
        Ok(found)
    }

    /// What the API server has in place of the kind of an object. Nothing that was known before `since` counts as missing.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn served(&self, id: &ObjectId, since: Instant) -> Result<Served, CallError> {
        if let Some(kind) = self.get_since(&id.api_version, &id.kind, Some(since)).await? {
            return Ok(Served::Same(kind));
        }
        for group in api_move::groups(id.group(), &id.kind) {
            for api_version in self.versions(group, since).await? {
                if let Some(kind) = self.get_since(&api_version, &id.kind, Some(since)).await? {
                    return Ok(Served::Moved(kind));
                }
            }
        }
        Ok(Served::Nothing)
    }

    /// The versions of a group, the preferred one first, as they were read after a time.
    async fn versions(&self, group: &str, since: Instant) -> Result<Vec<String>, CallError> {
        if group.is_empty() {
            return Ok(vec!["v1".to_owned()]);
        }
        let known = lock(&self.known).groups.clone();
        let groups = match known {
            Some((read, groups)) if read >= since => groups,
            _ => {
                let read = Instant::now();
                let listed = bounded(self.client.list_api_groups()).await;
                let listed = listed.map_err(CallError::of("read", "the API groups of the cluster"))?;
                let groups = listed.groups.into_iter();
                let groups = groups.map(|group| (group.name.clone(), versions(group)));
                let groups = Arc::new(groups.collect());
                lock(&self.known).groups = Some((read, Arc::clone(&groups)));
                groups
            }
        };
        Ok(groups.get(group).cloned().unwrap_or_default())
    }

    /// Forgets the kinds of an API version: one of them does not exist any more.
    pub fn forget(&self, api_version: &str) {
        lock(&self.known).versions.remove(api_version);
    }

    /// Forgets the kinds of a group: one of its CRDs was changed. Returns the releases that miss kinds of it.
    pub fn changed(&self, group: &str) -> Vec<String> {
        let mut known = lock(&self.known);
        known
            .versions
            .retain(|api_version, _| object::group(api_version) != group);
        known.changed.retain(|_, at| at.elapsed() < SETTLING);
        known.changed.insert(group.to_owned(), Instant::now());
        let missing = known.missing.iter().filter(|(_, groups)| groups.contains(group));
        missing.map(|(release, _)| release.clone()).collect()
    }

    /// Forgets all kinds: changes may have been missed.
    pub fn forget_all(&self) {
        lock(&self.known).versions.clear();
    }

    /// Sets the groups of the kinds that a release misses, and returns when they are to be looked up again; `None` if there are none.
    pub fn set_missing(&self, release: &str, groups: BTreeSet<String>) -> Option<Duration> {
        let mut known = lock(&self.known);
        if groups.is_empty() {
            known.missing.remove(release);
            return None;
        }
        let is_settling = |group: &String| known.changed.get(group).is_some_and(|at| at.elapsed() < SETTLING);
        let is_soon = groups.iter().any(is_settling);
        known.missing.insert(release.to_owned(), groups);
        Some(if is_soon { SOON } else { LATER })
    }

    /// Whether it is known that the API server does not have a kind any more.
    pub fn lacks(&self, kind: &ResourceKind) -> bool {
        let resource = &kind.resource;
        let known = lock(&self.known);
        let version = known.versions.get(&resource.api_version);
        version.is_some_and(|version| version.kinds.get(&resource.kind) != Some(kind))
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
        let listed = match api_version.split_once('/') {
            Some((group, version)) if !group.is_empty() && !version.is_empty() => {
                let path = format!("{}/{}", path_segment(group), path_segment(version));
                bounded(self.client.list_api_group_resources(&path)).await
            }
            None if !api_version.is_empty() => {
                bounded(self.client.list_core_api_resources(&path_segment(api_version))).await
            }
            _ => return Ok(HashMap::new()),
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

impl Known {
    fn add(&mut self, api_version: &str, version: Version) {
        if self.versions.len() >= MAX_VERSIONS {
            self.versions.clear();
        }
        self.versions.insert(api_version.to_owned(), version);
    }
}

/// The versions of a group, the preferred one first.
fn versions(group: APIGroup) -> Vec<String> {
    let preferred = group.preferred_version.map(|version| version.group_version);
    let versions = group.versions.into_iter();
    let mut versions: Vec<_> = versions.map(|version| version.group_version).collect();
    versions.sort_by_key(|version| Some(version) != preferred.as_ref());
    versions
}

/// The group of a CRD, whose name is that of its resource and its group; empty if it has another name.
pub fn group_of_crd(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
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
