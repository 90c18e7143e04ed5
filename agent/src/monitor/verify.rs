//! Finds the drift of a release. Objects that have not changed since their last comparison are not compared again.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use helmops_api::BundleDeployment;
use helmops_kube::path_segment;
use helmops_release::{
    drift::{
        Autoscalers, Change, DriftRules, ObjectDrift, as_applied, contains, difference, predicted_locally,
    },
    health::{Health, Readiness},
    names::{ReleaseKey, SetId, name_of},
    object::ObjectId,
    report::{ObservedObject, ReleaseObjects},
};
use helmops_runtime::client::{ApiError, CallError, bounded};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout;

use super::installed::{DesiredObject, Exceptions, Installed, InstalledError, Verdict, manifest_of};
use crate::{
    live::{self, Kinds, LiveObjects, NotSynced, Objects, Observed, ResourceKind},
    records::Records,
};

/// The field manager of all objects of releases. It is that of Fleet's agent: another one would conflict with it.
pub const FIELD_MANAGER: &str = "fleetagent";

/// How long to wait for the first list of a kind.
const SYNC_TIMEOUT: Duration = Duration::from_secs(20);

/// The inputs of a comparison.
#[derive(Clone, Copy)]
pub struct Monitor<'m> {
    /// The cluster.
    pub client: &'m Client,
    /// The kinds of the cluster.
    pub kinds: &'m Kinds,
    pub records: &'m Records,
    pub live: &'m LiveObjects,
    pub deployment: &'m BundleDeployment,
    /// The identity of its objects.
    pub set: &'m SetId,
}

/// The objects of a release.
#[derive(Debug)]
pub struct Monitored {
    /// The objects as the status reports them.
    pub objects: ReleaseObjects,
    /// Whether a wait for each live object is over.
    pub readiness: HashMap<ObjectId, Readiness>,
}

/// Why the objects of a release cannot be compared.
#[derive(Debug, Error)]
pub enum MonitorError {
    /// What is installed is not known.
    #[error(transparent)]
    Installed(#[from] InstalledError),
    /// The live objects are not known.
    #[error(transparent)]
    NotSynced(#[from] NotSynced),
    /// The API server cannot be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Monitored {
    /// The objects that are not ready, in the order of the manifest, and whether each has failed. Whether a wait for them is over
    /// counts only if they are awaited.
    pub fn unready(&self, are_awaited: bool) -> Vec<(ObjectId, bool)> {
        let unready = self.objects.objects.iter().filter_map(|object| {
            let readiness = self.readiness.get(&object.id).filter(|_| are_awaited);
            let is_awaited = matches!(readiness, Some(Readiness::Waiting(_) | Readiness::Failed(_)));
            let is_ready = object.health.is_ready() && !is_awaited;
            let has_failed = object.health.error || matches!(readiness, Some(Readiness::Failed(_)));
            (!is_ready).then(|| (object.id.clone(), has_failed))
        });
        unready.collect()
    }

    /// The workloads that are ready as long as their containers run.
    pub fn started(&self) -> Vec<ObjectId> {
        let started = self.readiness.iter();
        let started = started.filter(|(_, readiness)| **readiness == Readiness::Started);
        started.map(|(id, _)| id.clone()).collect()
    }

    /// A workload that has been ready for long enough.
    pub fn show_ready(&mut self, id: &ObjectId) {
        self.readiness.insert(id.clone(), Readiness::Ready);
    }

    /// Shows a workload as before, although it looks ready now.
    pub fn show(&mut self, id: &ObjectId, health: Health) {
        let mut objects = self.objects.objects.iter_mut();
        if let Some(object) = objects.find(|object| object.id == *id) {
            object.health = health;
        }
    }

    /// Adds to an object why it is not ready.
    pub fn add_cause(&mut self, id: &ObjectId, cause: &str) {
        let mut objects = self.objects.objects.iter_mut();
        if let Some(object) = objects.find(|object| object.id == *id) {
            object.health.messages.push(cause.to_owned());
        }
        if let Some(Readiness::Waiting(reason) | Readiness::Failed(reason)) = self.readiness.get_mut(id) {
            *reason = format!("{}; {cause}", reason.trim_end_matches('.'));
        }
    }
}

impl Monitor<'_> {
    /// Compares the live objects with the installed revision.
    ///
    /// # Errors
    /// If something cannot be read.
    pub async fn compare(&self, installed: &mut Installed) -> Result<Monitored, MonitorError> {
        let name = self.name();
        let exceptions = self.exceptions();
        if installed.exceptions != exceptions {
            // What was drift may be none now, and the other way round.
            installed.verdicts.clear();
            installed.exceptions = exceptions;
        }
        self.live.set_kinds(name, installed.kinds());
        // A kind that is not listed in time is reported below.
        let _ = timeout(SYNC_TIMEOUT, self.live.wait_until_synced(name)).await;
        let mut live = self.live.of_release(name, &self.set.hash())?;
        live.extend(self.unmarked(installed).await?);
        let live: HashMap<&ObjectId, &Arc<Observed>> =
            live.iter().map(|object| (&object.id, object)).collect();
        let behind = self.verify(installed, &live).await?;
        let readiness = live.iter().map(|(id, object)| {
            // What an older version shows says nothing of this revision. The watch delivers the newer one soon.
            let readiness = if behind.contains(*id) {
                Readiness::Waiting("the watch of the agent is behind".to_owned())
            } else {
                object.readiness.clone()
            };
            ((*id).clone(), readiness)
        });
        let readiness = readiness.collect();
        let objects = self.report(installed, &live).await?;
        // Some may have turned out to be gone, with their objects.
        installed.forget_kinds(|kind| self.kinds.lacks(kind));
        Ok(Monitored { objects, readiness })
    }

    /// The live objects that no watch has, if they are of this release.
    async fn unmarked(&self, installed: &Installed) -> Result<Vec<Arc<Observed>>, MonitorError> {
        let mut found = Vec::new();
        for object in installed.desired.iter().filter(|object| !object.is_marked) {
            let live = self.objects().read(&object.id).await?;
            // One that has the label too is one of a later revision, and in the watch.
            let live = live.filter(|live| installed.id.release.has_made(live.annotations()));
            found.extend(live.and_then(|live| self.live.observed(&self.set.hash(), live)));
        }
        Ok(found)
    }

    /// Compares the objects that have changed since they were compared last. Returns those of which the watch has an older version.
    async fn verify(
        &self,
        installed: &mut Installed,
        live: &HashMap<&ObjectId, &Arc<Observed>>,
    ) -> Result<HashSet<ObjectId>, MonitorError> {
        let verdicts = &installed.verdicts;
        let is_changed = |object: &&DesiredObject| {
            let known = verdicts.get(&object.id).map(|verdict| verdict.content);
            live.get(&object.id)
                .is_some_and(|live| known != Some(live.content))
        };
        let changed: Vec<(ObjectId, ResourceKind)> = installed
            .desired
            .iter()
            .filter(is_changed)
            .filter_map(|object| Some((object.id.clone(), object.kind.clone()?)))
            .collect();
        let mut behind = HashSet::new();
        if changed.is_empty() {
            return Ok(behind);
        }
        let manifest = manifest_of(self.records, &installed.id.release, installed.id.number).await?;
        let autoscalers = Autoscalers::of(&manifest.iter().collect::<Vec<_>>());
        let rules = rules(&installed.exceptions);
        for (id, kind) in changed {
            let Some(desired) = find(&manifest, &id, &installed.id.release.namespace) else {
                // The manifest has a version of the API that is not served any more: what it has in another one is not known.
                let content = live.get(&id).map_or(0, |live| live.content);
                installed.verdicts.insert(id, Verdict { content, drift: None });
                continue;
            };
            let Some(object) = self.read(&id).await? else {
                // It was deleted since; the watch shows that.
                behind.insert(id);
                continue;
            };
            let content = live::content(&object);
            if live.get(&id).is_none_or(|cached| cached.content != content) {
                behind.insert(id.clone());
            }
            let drift = if contains(desired, &object) {
                None
            } else {
                let predicted = self.predicted(&kind, &id, desired, &installed.id.release).await?;
                let predicted = predicted.unwrap_or_else(|| predicted_locally(desired, &object));
                difference(&predicted, &object, &rules, &autoscalers)
            };
            let drift = drift.map(|drift| ObjectDrift {
                id: id.clone(),
                change: Change::Modified(drift),
            });
            installed.verdicts.insert(id, Verdict { content, drift });
        }
        Ok(behind)
    }

    async fn report(
        &self,
        installed: &Installed,
        live: &HashMap<&ObjectId, &Arc<Observed>>,
    ) -> Result<ReleaseObjects, MonitorError> {
        let rules = rules(&installed.exceptions);
        let mut report = ReleaseObjects::default();
        for object in &installed.desired {
            let Some(found) = live.get(&object.id) else {
                let is_ignored = rules.ignores_missing(&object.id) || rules.ignores(&object.id, &Value::Null);
                if !object.is_temporary && !is_ignored {
                    report.drift.push(self.missing(object).await?);
                }
                continue;
            };
            report.objects.push(ObservedObject {
                id: object.id.clone(),
                uid: found.uid.clone(),
                created_at: found.created_at.clone(),
                health: found.health.clone(),
            });
            let verdict = installed.verdicts.get(&object.id);
            report
                .drift
                .extend(verdict.and_then(|verdict| verdict.drift.clone()));
        }
        report.drift.extend(self.extra(installed, live));
        Ok(report)
    }

    async fn missing(&self, object: &DesiredObject) -> Result<ObjectDrift, MonitorError> {
        let exists = self.objects().metadata(&object.id).await?.is_some();
        Ok(ObjectDrift {
            id: object.id.clone(),
            change: Change::Missing { exists },
        })
    }

    /// Live objects of the revision before that are not desired any more.
    fn extra(&self, installed: &Installed, live: &HashMap<&ObjectId, &Arc<Observed>>) -> Vec<ObjectDrift> {
        let is_extra = |object: &&&Arc<Observed>| {
            let id = &object.id;
            object.is_prunable
                && object.set_id.as_deref() == Some(self.set.as_str())
                && installed.previous.contains(&(id.kind.clone(), id.name.clone()))
                && !installed.desired.iter().any(|desired| desired.id.is_same(id))
        };
        let mut extra: Vec<_> = live
            .values()
            .filter(is_extra)
            .map(|object| ObjectDrift {
                id: object.id.clone(),
                change: Change::Extra,
            })
            .collect();
        extra.sort_by(|one, other| one.id.cmp(&other.id));
        extra
    }

    /// A live object; `None` if it does not exist.
    pub(super) async fn read(&self, id: &ObjectId) -> Result<Option<Value>, CallError> {
        let found = self.objects().read(id).await?;
        Ok(found.and_then(live::whole))
    }

    const fn objects(&self) -> Objects<'_> {
        Objects {
            kinds: self.kinds,
            client: self.client,
        }
    }

    /// What applying the object of the manifest would make of the live one.
    async fn predicted(
        &self,
        kind: &ResourceKind,
        id: &ObjectId,
        desired: &Value,
        release: &ReleaseKey,
    ) -> Result<Option<Value>, CallError> {
        let params = PatchParams::apply(FIELD_MANAGER).force().dry_run();
        match self.apply(kind, id, desired, release, &params).await {
            Ok(predicted) => Ok(Some(predicted)),
            // An immutable field was changed, or an admission webhook is down, for example.
            Err(error) if error.is_response() => Ok(None),
            Err(error) => Err(CallError::of("compare", id)(error)),
        }
    }

    pub(super) async fn apply(
        &self,
        kind: &ResourceKind,
        id: &ObjectId,
        desired: &Value,
        release: &ReleaseKey,
        params: &PatchParams,
    ) -> Result<Value, ApiError> {
        let desired = as_applied(desired, &release.namespace, &release.name);
        let applied = bounded(live::api(self.client, kind, id).patch(
            &path_segment(&id.name),
            params,
            &Patch::Apply(desired),
        ))
        .await?;
        Ok(live::whole(applied).unwrap_or_default())
    }

    /// Replaces the live object by that of the manifest.
    pub(super) async fn replace(
        &self,
        kind: &ResourceKind,
        id: &ObjectId,
        desired: &Value,
        release: &ReleaseKey,
    ) -> Result<(), ApiError> {
        let (api, name) = (live::api(self.client, kind, id), path_segment(&id.name));
        let live = bounded(api.get_metadata(&name)).await?;
        let mut object = as_applied(desired, &release.namespace, &release.name);
        json_patch::merge(
            &mut object,
            &json!({ "metadata": { "resourceVersion": live.metadata.resource_version } }),
        );
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|error| ApiError::Kube(kube::Error::SerdeError(error)))?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        bounded(api.replace(&name, &params, &object)).await?;
        Ok(())
    }

    fn name(&self) -> &str {
        name_of(self.deployment)
    }

    fn exceptions(&self) -> Exceptions {
        let spec = &self.deployment.spec;
        let drift = spec
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.drift.as_ref());
        Exceptions {
            diff: spec.options.diff.clone(),
            ignored: drift.map(|drift| drift.ignore.clone()).unwrap_or_default(),
        }
    }
}

pub(super) fn rules(exceptions: &Exceptions) -> DriftRules {
    DriftRules::new(exceptions.diff.as_ref(), &exceptions.ignored)
}

/// The object of a manifest with an identity on the cluster. One without a namespace is in that of the release.
pub(super) fn find<'m>(manifest: &'m [Value], id: &ObjectId, release_namespace: &str) -> Option<&'m Value> {
    manifest.iter().find(|object| {
        ObjectId::of(object).is_some_and(|own| {
            let namespace = match &*own.namespace {
                "" => release_namespace,
                namespace => namespace,
            };
            // An object of the whole cluster has none, whatever the chart says.
            let is_here = id.namespace.is_empty() || id.namespace == namespace;
            is_here && (&own.api_version, &own.kind, &own.name) == (&id.api_version, &id.kind, &id.name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, namespace: Option<&str>, value: u8) -> Value {
        json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "ca", "namespace": namespace }, "value": value })
    }

    fn found(manifest: &[Value], namespace: &str, kind: &str) -> Option<u64> {
        let mut id = ObjectId::of(&object(kind, None, 0)).unwrap();
        namespace.clone_into(&mut id.namespace);
        find(manifest, &id, "shop")?["value"].as_u64()
    }

    #[test]
    fn objects_with_the_same_name_in_other_namespaces_are_others() {
        let kind = "ConfigMap";
        let mut manifest = vec![object(kind, None, 1), object(kind, Some("other"), 2)];
        for _ in 0..2 {
            assert_eq!(found(&manifest, "shop", kind), Some(1));
            assert_eq!(found(&manifest, "other", kind), Some(2));
            assert_eq!(found(&manifest, "third", kind), None);
            manifest.reverse();
        }
        // The chart gives it a namespace that it cannot have.
        let manifest = [object("Namespace", Some("other"), 3)];
        assert_eq!(found(&manifest, "", "Namespace"), Some(3));
    }
}
