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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// When a CRD of a group was changed last.
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
    /// The kind itself.
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
        let known = lock(&self.known).version(api_version);
        if let Some((known, is_current)) = known {
            let found = known.kinds.get(kind).filter(|_| is_current);
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

    /// Whether the API server has a kind, as it was read after a time: an agent that does not watch CRDs does not know of those that are gone.
    ///
    /// # Errors
    /// If the API server cannot be read.
    pub async fn has_since(&self, api_version: &str, kind: &str, since: Instant) -> Result<bool, CallError> {
        let is_old = |version: &Version| version.read < since;
        if lock(&self.known).versions.get(api_version).is_some_and(is_old) {
            self.forget(api_version);
        }
        Ok(self.get_since(api_version, kind, Some(since)).await?.is_some())
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
        if known.changed.len() >= MAX_VERSIONS {
            known.changed.clear();
        }
        known.changed.insert(group.to_owned(), Instant::now());
        let missing = known.missing.iter().filter(|(_, groups)| groups.contains(group));
        missing.map(|(release, _)| release.clone()).collect()
    }

    /// Forgets all kinds: changes may have been missed.
    pub fn forget_all(&self) {
        lock(&self.known).versions.clear();
    }

    /// Sets the groups of the kinds that a release has, and of those that it misses, and returns when they are to be looked up again; `None`
    /// if that is not necessary.
    pub fn set_groups(
        &self,
        release: &str,
        present: &BTreeSet<String>,
        missing: BTreeSet<String>,
    ) -> Option<Duration> {
        let mut known = lock(&self.known);
        let settling = |group: &String| SETTLING.checked_sub(known.changed.get(group)?.elapsed());
        let mut times: Vec<_> = present.iter().filter_map(settling).collect();
        if missing.is_empty() {
            known.missing.remove(release);
        } else {
            let is_soon = missing.iter().any(|group| settling(group).is_some());
            times.push(if is_soon { SOON } else { LATER });
            known.missing.insert(release.to_owned(), missing);
        }
        times.into_iter().min()
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
    /// What is known of an API version, and whether its kinds count as present.
    fn version(&self, api_version: &str) -> Option<(Version, bool)> {
        let version = self.versions.get(api_version)?;
        let changed = self.changed.get(object::group(api_version));
        let is_current = changed.is_none_or(|changed| is_current(version.read, *changed, Instant::now()));
        Some((version.clone(), is_current))
    }

    fn add(&mut self, api_version: &str, version: Version) {
        if self.versions.len() >= MAX_VERSIONS {
            self.versions.clear();
        }
        self.versions.insert(api_version.to_owned(), version);
    }
}

/// Whether the kinds of an API version that were read at a time are still those. After the change of a CRD, the API server may serve for a
/// while what was before.
fn is_current(read: Instant, changed: Instant, now: Instant) -> bool {
    let settled = changed + SETTLING;
    read >= settled || (now < settled && now.saturating_duration_since(read) < SOON)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_again_until_the_change_of_a_crd_is_served() {
        let changed = Instant::now();
        let after = |milliseconds| changed + Duration::from_millis(milliseconds);
        for (read, now, expected) in [
            (100, 200, true),
            (100, 1_200, false),
            (1_200, 1_900, true),
            (9_900, 10_100, false),
            (10_100, 100_000, true),
        ] {
            assert_eq!(
                is_current(after(read), changed, after(now)),
                expected,
                "{read} {now}"
            );
        }
    }
}
