//! The releases that this agent has deployed, in a ConfigMap of its own namespace: only these are uninstalled when their BundleDeployment
//! is gone.
//!
//! ```text
//! remember, forget ─► pending changes ─► plan (entries, their size) ─► one write for all of them
//! ```
//!
//! A record is no proof: everyone who may write Secrets in a namespace can write one there, with hooks, for a BundleDeployment that never
//! existed. The agent would run these hooks with its own permissions.

mod entries;

use std::{collections::BTreeMap, sync::Mutex};

use helmops_process::lock;
use helmops_release::names::ReleaseKey;
use helmops_runtime::client::{ApiError, CallError, bounded};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;

use self::entries::{Changes, Plan};
pub use self::entries::{Entries, OwnedRelease};

/// The ConfigMap of the agent's namespace with an entry for each BundleDeployment.
pub const OWNED: &str = "helmops-agent-releases";

/// The releases that this agent has deployed. Each use reads the ConfigMap, so that an agent that was no leader for a while is not
/// mistaken.
pub struct OwnedReleases {
    client: Client,
    agent_namespace: String,
    /// What is to be written: at most one change for each release.
    pending: Mutex<Changes>,
    /// Locked while the ConfigMap is written. Those that wait have their changes in the next write.
    writing: AsyncMutex<()>,
}

impl OwnedReleases {
    /// Those of the agent in a namespace.
    pub fn new(client: Client, agent_namespace: &str) -> Self {
        Self {
            client,
            agent_namespace: agent_namespace.to_owned(),
            pending: Mutex::default(),
            writing: AsyncMutex::default(),
        }
    }

    /// All of them, by BundleDeployment.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn all(&self) -> Result<Entries, CallError> {
        Ok(Entries::of(&self.read().await?.unwrap_or_default()))
    }

    /// Remembers releases with the accounts that deploy them, before anything is deployed.
    ///
    /// # Errors
    /// If they cannot be remembered.
    pub async fn remember(
        &self,
        releases: impl IntoIterator<Item = (String, OwnedRelease)>,
    ) -> Result<(), CallError> {
        let changes = releases.into_iter();
        let changes = changes.map(|(name, owned)| ((name, owned.release), Some(owned.service_account)));
        lock(&self.pending).extend(changes);
        self.write_pending().await
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
        lock(&self.pending).extend(changes.map(|release| ((deployment.to_owned(), release), None)));
        self.write_pending().await
    }

    async fn write_pending(&self) -> Result<(), CallError> {
        let _writing = self.writing.lock().await;
        let changes = lock(&self.pending).clone();
        if changes.is_empty() {
            return Ok(());
        }
        let data = self.read().await?;
        let Plan { patch, refused } = Plan::of(data.as_ref().unwrap_or(&BTreeMap::new()), &changes);
        for (deployment, release) in &refused {
            let config_map = self.name();
            tracing::warn!(
                deployment, %release, config_map,
                "the ConfigMap is full: the release will not be uninstalled when its BundleDeployment is deleted"
            );
        }
        if !patch.is_empty() {
            self.write(data.is_some(), &patch).await?;
        }
        // A newer change of the same release stays.
        lock(&self.pending).retain(|release, change| changes.get(release) != Some(change));
        Ok(())
    }

    async fn read(&self) -> Result<Option<BTreeMap<String, String>>, CallError> {
        let found = bounded(self.config_maps().get_opt(OWNED)).await;
        let found = found.map_err(CallError::of("read", self.name()))?;
        Ok(found.map(|found| found.data.unwrap_or_default()))
    }

    async fn write(&self, exists: bool, patch: &BTreeMap<String, Option<String>>) -> Result<(), CallError> {
        let api = self.config_maps();
        if !exists {
            let mut all = ConfigMap::default();
            all.metadata.name = Some(OWNED.to_owned());
            let values = patch.iter();
            let values = values.filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
            all.data = Some(values.collect());
            match bounded(api.create(&PostParams::default(), &all)).await {
                Err(error) if ApiError::exists_already(&error) => {}
                created => return created.map(drop).map_err(CallError::of("create", self.name())),
            }
        }
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "data": patch })));
        let patched = bounded(api.patch(OWNED, &params, &patch)).await;
        patched.map(drop).map_err(CallError::of("write", self.name()))
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.agent_namespace)
    }

    fn name(&self) -> String {
        format!("ConfigMap {}/{OWNED}", self.agent_namespace)
    }
}

#[cfg(test)]
mod tests;
