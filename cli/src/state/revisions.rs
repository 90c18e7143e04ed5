//! Helm's revisions of releases whose statuses list none, as without a life cycle: the records on their clusters have them.

use std::{collections::BTreeMap, time::Duration};

use bounded_text::listed;
use futures::{StreamExt, stream};
use helmops_api::{BundleDeployment, Decoded, lifecycle::ReleaseAttempt};
use helmops_core::targeting::cluster_of;
use helmops_release::{history::Revision, marks::BUNDLE_ID, names::ReleaseKey, record::Record, report};
use tokio::time::timeout;

use super::history::matches;
use crate::{
    cluster::{ClusterArgs, contexts::Contexts, records},
    failure::Failure,
};

/// Clusters that are read at the same time, each with all records of a release.
const CONCURRENT: usize = 8;
/// Clusters that are read at most.
const MAX_READ: usize = 100;
/// How long the records of a cluster may take.
const RECORDS: Duration = Duration::from_secs(10);
/// How long the login to a cluster may take: a person may have to confirm it.
const LOGIN: Duration = Duration::from_mins(1);
/// Clusters that a note names, and notes about one cluster each.
const MAX_NAMED: usize = 5;

/// The revisions that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revisions {
    /// By the cluster, as `namespace/name`.
    pub by_cluster: BTreeMap<String, Vec<ReleaseAttempt>>,
    /// What could not be read, and what to do.
    pub notes: Vec<String>,
}

/// The revisions on a cluster; `None` if the context is that of another cluster.
type Found = Result<Option<Vec<ReleaseAttempt>>, Failure>;

impl Revisions {
    /// Reads them, of all clusters or of one. Without any named context, the current one counts for a cluster that is alone.
    ///
    /// Several clusters are read at the same time, and one that does not answer is given up.
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
        let (mut reachable, mut unreachable) = (Vec::new(), Vec::new());
        for (title, deployment) in selected {
            let Some(release) = Unlisted::of(deployment) else {
                continue;
            };
            let name = title.split_once('/').map_or(&*title, |(_, name)| name);
            match contexts.of(name).filter(|_| is_alone || contexts.are_named()) {
                Some(context) => reachable.push((title, release, context)),
                None => unreachable.push(title),
            }
        }
        let left_out = reachable.split_off(MAX_READ.min(reachable.len()));
        let found = stream::iter(reachable)
            .map(|(title, release, context)| async move { (title, release.read(&context, contexts).await) })
            .buffer_unordered(CONCURRENT)
            .collect()
            .await;
        let left_out: Vec<_> = left_out.into_iter().map(|(title, ..)| title).collect();
        Self::of(found, unreachable, &left_out)
    }

    fn of(found: BTreeMap<String, Found>, mut unreachable: Vec<String>, left_out: &[String]) -> Self {
        let (mut read, mut failed) = (Self::default(), Vec::new());
        for (title, found) in found {
            match found {
                Ok(Some(attempts)) => {
                    read.by_cluster.insert(title, attempts);
                }
                Ok(None) => unreachable.push(title),
                Err(failure) => failed.push((title, failure)),
            }
        }
        let one = |(title, failure): &(String, Failure)| format!("{title}: {}", failure.message);
        read.notes.extend(failed.iter().take(MAX_NAMED).map(one));
        let titles: Vec<_> = failed.iter().skip(MAX_NAMED).map(|(title, _)| title).collect();
        if !titles.is_empty() {
            read.notes.push(format!(
                "Helm's records cannot be read on more clusters: {}",
                listed(&titles, MAX_NAMED)
            ));
        }
        if !left_out.is_empty() {
            read.notes.push(format!(
                "Helm's records are read on {MAX_READ} clusters at most: see kubectl helmop history with --cluster for {}",
                listed(left_out, MAX_NAMED)
            ));
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

    async fn read(&self, context: &ClusterArgs, contexts: &Contexts) -> Found {
        let connected = within(LOGIN, "the login", contexts.connect(context)).await?;
        let records = self.key.records();
        let read = records::all(&connected.client, &records);
        let records = within(RECORDS, "the API server", read).await?;
        Ok(self.attempts(&records))
    }

    fn attempts(&self, records: &[Record]) -> Option<Vec<ReleaseAttempt>> {
        let is_known = |record: &Record| {
            let bundle = record.chart_annotation(BUNDLE_ID);
            record.revision == self.revision && bundle == Some(&*self.deployment)
        };
        let is_it = records.iter().any(is_known);
        let attempt = |record| report::attempt(&Revision::of(record, "", None));
        is_it.then(|| records.iter().map(attempt).collect())
    }
}

/// What a future returns, or that it took too long.
async fn within<T>(
    limit: Duration,
    what: &str,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let late = || Failure::unable(format!("{what} has not responded within {} s", limit.as_secs()));
    timeout(limit, future).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use serde_json::{Value, json};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::state::fixture::{self, record};

    fn deployment(status: &Value) -> BundleDeployment {
        let object = json!({ "metadata": { "name": "web" }, "status": status });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_is_away_delays_no_other_and_is_given_up() {
        let contexts = Contexts::connected([
            ("c1", fixture::recorded("web", || ready(()))),
            ("c2", fixture::recorded("web", pending)),
            ("c3", fixture::recorded("other", || ready(()))),
        ]);
        let deployments = ["c1", "c2", "c3", "c4"].map(fixture::unlisted);
        let started = Instant::now();
        let revisions = Revisions::read(&deployments, None, &contexts).await;
        assert_eq!(started.elapsed(), RECORDS);
        assert_eq!(revisions.by_cluster["shop/c1"][0].revision, 1);
        assert_eq!(revisions.by_cluster.len(), 1);
        assert_eq!(
            revisions.notes,
            [
                "shop/c2: the API server has not responded within 10 s",
                "Without a life cycle, the revisions are in Helm's records on the cluster: name its context with --cluster-context \
                 CLUSTER=CONTEXT for shop/c4, shop/c3",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn many_clusters_are_read_some_at_a_time_and_not_all() {
        const SOME: Duration = Duration::from_secs(1);
        let names: Vec<&'static str> = (0..MAX_READ + 2)
            .map(|number| &*format!("c{number:03}").leak())
            .collect();
        let slow = |name: &&'static str| (*name, fixture::recorded("web", || sleep(SOME)));
        let contexts = Contexts::connected(names.iter().map(slow));
        let deployments: Vec<_> = names.iter().map(|name| fixture::unlisted(name)).collect();
        let started = Instant::now();
        let revisions = Revisions::read(&deployments, None, &contexts).await;
        let rounds = u32::try_from(MAX_READ.div_ceil(CONCURRENT)).unwrap();
        assert_eq!(started.elapsed(), SOME * rounds);
        assert_eq!(revisions.by_cluster.len(), MAX_READ);
        assert_eq!(
            revisions.notes,
            [
                "Helm's records are read on 100 clusters at most: see kubectl helmop history with --cluster for shop/c100, shop/c101"
            ]
        );
    }

    #[test]
    fn notes_about_many_clusters_are_few() {
        let failed = (0..20).map(|number| (format!("shop/c{number:02}"), Err(Failure::unable("it is away"))));
        let revisions = Revisions::of(failed.collect(), Vec::new(), &[]);
        assert_eq!(revisions.notes[0], "shop/c00: it is away");
        assert_eq!(
            revisions.notes[MAX_NAMED..],
            [
                "Helm's records cannot be read on more clusters: shop/c05, shop/c06, shop/c07, shop/c08, shop/c09 and 10 more"
            ]
        );
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
