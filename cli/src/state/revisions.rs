//! Helm's revisions of releases whose statuses list none, as without a life cycle: the records on their clusters have them.

use std::collections::BTreeMap;

use bounded_text::listed;
use helmops_api::{BundleDeployment, Decoded, lifecycle::ReleaseAttempt};
use helmops_core::targeting::cluster_of;
use helmops_release::{
    history::Revision,
    marks::BUNDLE_ID,
    names::ReleaseKey,
    record::{AttemptAction, Failure as Failed, Record, Status},
};
use jiff::Timestamp;

use super::history::matches;
use crate::{
    cluster::{ClusterArgs, contexts::Contexts, records},
    failure::Failure,
};

/// Clusters that a note names.
const MAX_NAMED: usize = 5;

/// The revisions that were read.
#[derive(Debug, Default)]
pub struct Revisions {
    /// By the cluster, as `namespace/name`.
    pub by_cluster: BTreeMap<String, Vec<ReleaseAttempt>>,
    /// What could not be read, and what to do.
    pub notes: Vec<String>,
}

impl Revisions {
    /// Reads them, of all clusters or of one. Without any named context, the current one counts for a cluster that is alone.
    pub async fn read(
        deployments: &[Decoded<BundleDeployment>],
        cluster: Option<&str>,
        contexts: &Contexts,
    ) -> Self {
        let deployments = deployments.iter().filter_map(Decoded::valid);
        let selected: Vec<_> = deployments
            .filter_map(|deployment| Some((title(deployment)?, deployment)))
            .filter(|(title, _)| cluster.is_none_or(|wanted| matches(title, wanted)))
            .collect();
        let is_alone = selected.len() == 1;
        let (mut read, mut unreachable) = (Self::default(), Vec::new());
        for (title, deployment) in selected {
            let Some(release) = Unlisted::of(deployment) else {
                continue;
            };
            let name = title.split_once('/').map_or(&*title, |(_, name)| name);
            let context = contexts.of(name).filter(|_| is_alone || contexts.are_named());
            let found = match context {
                None => Ok(None),
                Some(context) => release.read(&context).await,
            };
            match found {
                Ok(Some(attempts)) => {
                    read.by_cluster.insert(title, attempts);
                }
                Ok(None) => unreachable.push(title),
                Err(failure) => read.notes.push(format!("{title}: {}", failure.message)),
            }
        }
        if !unreachable.is_empty() {
            read.notes.push(format!(
                "Without a life cycle, the revisions are in Helm's records on the cluster: name its context with --cluster-context \
                 CLUSTER=CONTEXT for {}",
                listed(&unreachable, MAX_NAMED)
            ));
        }
        read
    }
}

fn title(deployment: &BundleDeployment) -> Option<String> {
    cluster_of(deployment).map(|(namespace, name)| format!("{namespace}/{name}"))
}

/// A release whose status lists no attempts.
#[derive(Debug, PartialEq, Eq)]
struct Unlisted {
    key: ReleaseKey,
    /// The BundleDeployment that it belongs to.
    deployment: String,
    /// The revision in the status.
    revision: u64,
}

impl Unlisted {
    /// `None` if there is nothing to be read.
    fn of(deployment: &BundleDeployment) -> Option<Self> {
        let status = &deployment.status;
        let lifecycle = status.lifecycle.as_deref();
        if lifecycle.is_some_and(|lifecycle| !lifecycle.history.is_empty()) {
            return None;
        }
        let (release, revision) = status.release.rsplit_once(':')?;
        let key = ReleaseKey::parse(release)?;
        let options = &deployment.spec.options;
        Some(Self {
            key: match options.storage_namespace() {
                Some(storage) => key.stored_in(storage),
                None => key,
            },
            deployment: deployment.metadata.name.clone()?,
            revision: revision.parse().ok()?,
        })
    }

    /// The revisions; `None` if the context is that of another cluster.
    async fn read(&self, context: &ClusterArgs) -> Result<Option<Vec<ReleaseAttempt>>, Failure> {
        let client = context.connect().await?.client;
        let records = records::all(&client, &self.key.records()).await?;
        Ok(self.attempts(&records))
    }

    fn attempts(&self, records: &[Record]) -> Option<Vec<ReleaseAttempt>> {
        let is_known = |record: &Record| {
            let bundle = record.chart_annotation(BUNDLE_ID);
            record.revision == self.revision && bundle == Some(&*self.deployment)
        };
        let is_it = records.iter().any(is_known);
        is_it.then(|| records.iter().map(attempt).collect())
    }
}

/// A revision, as the agent lists it in a status.
fn attempt(record: &Record) -> ReleaseAttempt {
    let revision = Revision::of(record, "", None);
    let action = match &revision.origin.attempt {
        _ if revision.is_rollback => "rollback",
        Some(attempt) => attempt.action.as_str(),
        None if revision.number == 1 => AttemptAction::Install.as_str(),
        None => AttemptAction::Upgrade.as_str(),
    };
    let outcome = match revision.status {
        Status::Superseded if revision.has_failed() => Status::Failed,
        status => status,
    };
    let time = revision
        .made_at
        .and_then(|time| Timestamp::from_second(time.as_second()).ok());
    ReleaseAttempt {
        revision: i64::try_from(revision.number).unwrap_or(i64::MAX),
        action: action.to_owned(),
        chart: revision.chart.name,
        version: revision.chart.version,
        outcome: outcome.to_string(),
        time: time.map(|time| time.to_string()).unwrap_or_default(),
        message: revision.failure.as_ref().map(Failed::cause).unwrap_or_default(),
        ..ReleaseAttempt::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: &Value) -> BundleDeployment {
        let object = json!({ "metadata": { "name": "web" }, "status": status });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn record(revision: u64, status: &str, description: &str, bundle: &str) -> Record {
        let annotations = json!({ "fleet.cattle.io/bundle-id": bundle });
        let chart = json!({ "metadata": { "name": "web", "version": format!("1.{revision}.0"), "annotations": annotations } });
        let info = json!({ "status": status, "description": description, "last_deployed": "2026-11-23T10:00:00.5+01:00" });
        serde_json::from_value(
            json!({ "name": "web", "namespace": "shop", "version": revision, "info": info, "chart": chart }),
        )
        .unwrap()
    }

    #[test]
    fn a_status_without_attempts_names_the_release() {
        let release = Unlisted::of(&deployment(&json!({ "release": "shop/web:2" }))).unwrap();
        assert_eq!(
            (&*release.key.namespace, &*release.key.name, release.revision),
            ("shop", "web", 2)
        );
        let mut elsewhere = deployment(&json!({ "release": "shop/web:2" }));
        elsewhere.spec.options =
            serde_json::from_value(json!({ "lifecycle": { "storageNamespace": "flux" } })).unwrap();
        let records = Unlisted::of(&elsewhere).unwrap().key.records();
        assert_eq!(records.to_string(), "flux/web");
        let listed = json!({ "release": "shop/web:2", "lifecycle": { "history": [{ "revision": 2 }] } });
        for status in [listed, json!({ "release": "" }), json!({ "release": "shop/web" })] {
            assert_eq!(Unlisted::of(&deployment(&status)), None, "{status}");
        }
    }

    #[test]
    fn revisions_are_those_of_the_release_in_the_status_or_none() {
        let release = Unlisted::of(&deployment(&json!({ "release": "shop/web:2" }))).unwrap();
        let all = [
            record(1, "superseded", "Install complete", "web"),
            record(2, "failed", "Upgrade \"web\" failed: boom", "web"),
            record(3, "deployed", "Rollback to 1", "web"),
        ];
        let found = release.attempts(&all).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.revision,
                    &*one.action,
                    &*one.version,
                    &*one.outcome,
                    &*one.time,
                )
            })
            .collect();
        let time = "2026-11-23T09:00:00Z";
        assert_eq!(
            shown,
            [
                (1, "install", "1.1.0", "superseded", time),
                (2, "upgrade", "1.2.0", "failed", time),
                (3, "rollback", "1.3.0", "deployed", time),
            ]
        );
        assert!(found[1].message.contains("boom"), "{}", found[1].message);
        // Of another cluster: a release of that name does not have the revision, or not for this BundleDeployment.
        assert_eq!(release.attempts(&all[..1]), None);
        assert_eq!(release.attempts(&[record(2, "deployed", "", "other")]), None);
    }
}
