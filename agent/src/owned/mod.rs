//! The releases that this agent has deployed, in a ConfigMap of its own namespace: only these are uninstalled when their BundleDeployment
//! is gone.
//!
//! ```text
//! remember, forget ─► pending changes ─► plan (content of this term, or read) ─► one write for all of them
//! ```
//!
//! A record is no proof: everyone who may write Secrets in a namespace can write one there, with hooks, for a BundleDeployment that never
//! existed. The agent would run these hooks with its own permissions.

mod entries;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, OnceLock},
};

use helmops_kube::lease::{Leadership, Term};
use helmops_process::lock;
use helmops_release::{names::ReleaseKey, removal_order::RemovalOrder};
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use thiserror::Error;
use tokio::sync::Mutex as AsyncMutex;

use self::entries::{Changes, EntryPatch, MAX_BYTES, patch_of};
pub use self::entries::{Entries, OwnedRelease};

/// The ConfigMap of the agent's namespace with an entry for each BundleDeployment.
pub const OWNED: &str = "helmops-agent-releases";

/// What is to be written in a term: at most one change for each release. What was not written in an earlier term is outdated, since another
/// replica may have deployed or removed the release.
#[derive(Default)]
struct Pending {
    term: Option<Term>,
    changes: Changes,
}

/// Why a release cannot be remembered.
#[derive(Debug, Error)]
pub enum RememberError {
    /// The ConfigMap cannot be read or written.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The ConfigMap has no room for another release.
    #[error(
        "{config_map} is full: it has the names of all releases that this agent has deployed, at most {} KiB. This release would never be \
         uninstalled, so it is not deployed. Delete HelmOps that are not needed, or use shorter names",
        MAX_BYTES >> 10
    )]
    Full { config_map: String },
}

/// The data of the ConfigMap; `None` if there is no ConfigMap.
type Content = Option<Data>;

/// The data of the ConfigMap, and what follows from it.
struct Data {
    entries: BTreeMap<String, String>,
    /// Computed when it is needed.
    order: OnceLock<Arc<RemovalOrder>>,
}

/// The releases that this agent has deployed.
pub struct OwnedReleases {
    client: Client,
    leadership: Leadership,
    agent_namespace: String,
    /// The changes that are not written yet.
    pending: Mutex<Pending>,
    /// The content after the last request of a term, in which this replica alone writes it. Locked while the ConfigMap is read or written:
    /// those that wait have their changes in the next write.
    known: AsyncMutex<Option<(Term, Content)>>,
}

impl OwnedReleases {
    pub fn new(client: Client, leadership: Leadership, agent_namespace: &str) -> Self {
        Self {
            client,
            leadership,
            agent_namespace: agent_namespace.to_owned(),
            pending: Mutex::default(),
            known: AsyncMutex::default(),
        }
    }

    /// All of them, by BundleDeployment. They are always read, so that what a person has changed counts from then on.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn all(&self) -> Result<Entries, CallError> {
        let mut known = self.known.lock().await;
        let (term, content) = (self.leadership.term(), self.read().await?);
        let entries = Entries::of(entries_of(&content));
        *known = term.map(|term| (term, content));
        Ok(entries)
    }

    /// All of them, as this agent has written them in the present term, or read them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn known(&self) -> Result<Entries, CallError> {
        let mut known = self.known.lock().await;
        let term = self.leadership.term();
        let content = self.known_or_read(&mut known, term).await?;
        let entries = Entries::of(entries_of(&content));
        *known = term.map(|term| (term, content));
        Ok(entries)
    }

    /// Those of a BundleDeployment, as [`Self::known`].
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn of_deployment(&self, deployment: &str) -> Result<Vec<OwnedRelease>, CallError> {
        let mut known = self.known.lock().await;
        let term = self.leadership.term();
        let content = self.known_or_read(&mut known, term).await?;
        let entry = content.as_ref().and_then(|data| data.entries.get(deployment));
        let releases = entry.map(|entry| entries::read(entry)).unwrap_or_default();
        *known = term.map(|term| (term, content));
        Ok(releases)
    }

    /// In which order BundleDeployments are removed, by what each of them has depended on, as [`Self::known`].
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn removal_order(&self) -> Result<Arc<RemovalOrder>, CallError> {
        let mut known = self.known.lock().await;
        let term = self.leadership.term();
        let content = self.known_or_read(&mut known, term).await?;
        let order = content.as_ref().map(|data| {
            let order = || Arc::new(entries::removal_order(&data.entries));
            Arc::clone(data.order.get_or_init(order))
        });
        *known = term.map(|term| (term, content));
        Ok(order.unwrap_or_default())
    }

    /// Remembers releases of BundleDeployments, before anything is deployed.
    ///
    /// # Errors
    /// If one cannot be remembered: it may not be deployed then, because it would never be uninstalled.
    pub async fn remember(
        &self,
        releases: impl IntoIterator<Item = (String, OwnedRelease)>,
    ) -> Result<(), RememberError> {
        let releases: Vec<_> = releases.into_iter().collect();
        let changes = releases.iter();
        let changes =
            changes.map(|(name, owned)| ((name.clone(), owned.release.clone()), Some(owned.clone())));
        let entries = self.write(changes).await?;
        if releases.iter().all(|(name, owned)| entries.has(name, owned)) {
            Ok(())
        } else {
            let config_map = self.name();
            Err(RememberError::Full { config_map })
        }
    }

    /// Forgets releases of a BundleDeployment that do not exist any more.
    ///
    /// # Errors
    /// If the ConfigMap cannot be read or written.
    pub async fn forget(
        &self,
        deployment: &str,
        releases: impl IntoIterator<Item = ReleaseKey>,
    ) -> Result<(), CallError> {
        let changes = releases.into_iter();
        let changes = changes.map(|release| ((deployment.to_owned(), release), None));
        self.write(changes).await?;
        Ok(())
    }

    /// Writes changes, with those of others that wait. Returns what is remembered of their BundleDeployments then: others may have written
    /// the changes.
    async fn write(
        &self,
        changes: impl IntoIterator<Item = ((String, ReleaseKey), Option<OwnedRelease>)>,
    ) -> Result<Entries, CallError> {
        let term = self.leadership.term();
        let changes: Changes = changes.into_iter().collect();
        let names: BTreeSet<String> = changes.keys().map(|(name, _)| name.clone()).collect();
        lock(&self.pending).add(term, changes);
        let mut known = self.known.lock().await;
        let changes = lock(&self.pending).changes.clone();
        let mut content = self.known_or_read(&mut known, term).await?;
        let none = BTreeMap::new();
        let entries = content.as_ref().map_or(&none, |data| &data.entries);
        let patch = patch_of(entries, &changes);
        if !patch.is_empty() {
            content = Some(self.patch(&content, &patch).await?.into());
        }
        let own = entries_of(&content).filter(|(name, _)| names.contains(*name));
        let entries = Entries::of(own);
        *known = term.map(|term| (term, content));
        // A newer change of the same release stays.
        let mut pending = lock(&self.pending);
        pending
            .changes
            .retain(|release, change| changes.get(release) != Some(change));
        Ok(entries)
    }

    /// The content as it is known of this term, or read. The caller sets it again: after an error, it is unknown.
    async fn known_or_read(
        &self,
        known: &mut Option<(Term, Content)>,
        term: Option<Term>,
    ) -> Result<Content, CallError> {
        match known.take() {
            Some((of, content)) if term == Some(of) => Ok(content),
            _ => self.read().await,
        }
    }

    async fn read(&self) -> Result<Content, CallError> {
        let found = bounded(self.config_maps().get_opt(OWNED)).await;
        let found = found.map_err(CallError::of("read", self.name()))?;
        Ok(found.map(|found| found.data.unwrap_or_default().into()))
    }

    /// Writes these entries, and returns all that the ConfigMap has then. One that was deleted is created again, with what it had.
    async fn patch(
        &self,
        content: &Content,
        patch: &EntryPatch,
    ) -> Result<BTreeMap<String, String>, CallError> {
        let api = self.config_maps();
        if content.is_some()
            && let Some(patched) = self.patch_existing(&api, patch).await?
        {
            return Ok(patched);
        }
        let mut all = content
            .as_ref()
            .map(|data| data.entries.clone())
            .unwrap_or_default();
        for (key, value) in patch {
            match value {
                Some(value) => all.insert(key.clone(), value.clone()),
                None => all.remove(key),
            };
        }
        let mut object = ConfigMap::default();
        object.metadata.name = Some(OWNED.to_owned());
        object.data = Some(all);
        match bounded(api.create(&PostParams::default(), &object)).await {
            Ok(created) => Ok(created.data.unwrap_or_default()),
            Err(error) => {
                let patched = if ApiError::exists_already(&error) {
                    self.patch_existing(&api, patch).await?
                } else {
                    None
                };
                patched.ok_or_else(|| CallError::of("create", self.name())(error))
            }
        }
    }

    /// The same; `None` if the ConfigMap does not exist.
    async fn patch_existing(
        &self,
        api: &Api<ConfigMap>,
        patch: &EntryPatch,
    ) -> Result<Option<BTreeMap<String, String>>, CallError> {
        let patch = Patch::Merge(json!({ "data": patch }));
        match bounded(api.patch(OWNED, &PatchParams::default(), &patch)).await {
            Ok(written) => Ok(Some(written.data.unwrap_or_default())),
            Err(error) if ApiError::is_not_found(&error) => Ok(None),
            Err(error) => Err(CallError::of("write", self.name())(error)),
        }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.agent_namespace)
    }

    fn name(&self) -> String {
        format!("ConfigMap {}/{OWNED}", self.agent_namespace)
    }
}

fn entries_of(content: &Content) -> impl Iterator<Item = (&String, &String)> {
    content.iter().flat_map(|data| &data.entries)
}

impl From<BTreeMap<String, String>> for Data {
    fn from(entries: BTreeMap<String, String>) -> Self {
        let order = OnceLock::new();
        Self { entries, order }
    }
}

impl Pending {
    fn add(
        &mut self,
        term: Option<Term>,
        changes: impl IntoIterator<Item = ((String, ReleaseKey), Option<OwnedRelease>)>,
    ) {
        if self.term != term {
            self.term = term;
            self.changes.clear();
        }
        self.changes.extend(changes);
    }
}

#[cfg(test)]
mod tests;
