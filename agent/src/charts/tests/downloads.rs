//! From the BundleDeployment to the file.

use std::{fs, path::Path, sync::Arc};

use bounded_text::hex;
use futures::future::join_all;
use helmops_api::{BundleDeployment, labels};
use helmops_fetch::{Addresses, FetchMetrics, MemoryBounds, Resolver};
use helmops_model::reason::Reason;
use helmops_runtime::error_class::ClassifiedError;
use kube::Config;
use prometheus::Registry;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    content::get,
    server::{CHART_YAML, Repository, archive},
};
use crate::{
    charts::{ChartCache, ChartError, ChartFile, ChartMetrics, Charts},
    deployments::Deployments,
};

const LIMIT: u64 = 1 << 20;

/// An agent with a cache and a work folder.
struct Agent {
    charts: Charts,
    cache: TempDir,
    work: TempDir,
}

impl Agent {
    fn new() -> Self {
        Self::with_limit(LIMIT)
    }

    fn with_limit(limit: u64) -> Self {
        let (cache, work) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        Self {
            charts: charts(cache.path(), work.path(), limit),
            cache,
            work,
        }
    }

    /// The same folders after a restart.
    fn restarted(self) -> Self {
        Self {
            charts: charts(self.cache.path(), self.work.path(), LIMIT),
            ..self
        }
    }

    async fn get(&self, deployment: &BundleDeployment) -> Result<ChartFile, ChartError> {
        let upstream = Config::new("http://127.0.0.1:1".parse().unwrap());
        let upstream = helmops_kube::client(upstream, None).unwrap();
        get(&self.charts, &upstream, deployment, self.work.path()).await
    }

    fn assert_files(&self, cached: usize, temporary: usize) {
        let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
        assert_eq!(
            (count(self.cache.path()), count(self.work.path())),
            (cached, temporary)
        );
    }
}

pub fn charts(cache: &Path, work: &Path, limit: u64) -> Charts {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let addresses = Addresses {
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        deny: Vec::new(),
    };
    let metrics = FetchMetrics::register(&Registry::new()).unwrap();
    let resolver = Resolver::new(&MemoryBounds::of(256 << 20, None), addresses, metrics).unwrap();
    let cache = ChartCache::open(cache.to_owned(), limit).unwrap();
    let metrics = ChartMetrics::register(&Registry::new()).unwrap();
    Charts::new(
        resolver,
        Some(cache),
        work.to_owned(),
        Deployments::new(),
        metrics,
    )
}

/// A deployment of the chart, with the digest that was recorded for it.
fn deployment(repository: &Repository, archive: Option<&[u8]>) -> BundleDeployment {
    let repo = repository.url();
    let record = archive.map(|archive| {
        let digest = hex(digest(&SHA256, archive).as_ref());
        json!({ "repo": repo, "chart": "web", "version": "1.0.0", "digest": digest }).to_string()
    });
    let object = json!({
        "metadata": { "name": "web", "namespace": "cluster-a", "annotations": { labels::RESOLVED: record.unwrap_or_default() } },
        "spec": { "deploymentID": "1", "helmChartOptions": {}, "options": { "helm": { "repo": repo, "chart": "web", "version": "1.0.0" } } }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn web() -> Vec<u8> {
    archive(&[("web/Chart.yaml", CHART_YAML), ("web/values.yaml", "a: 1")])
}

#[tokio::test]
async fn a_chart_is_downloaded_once_and_survives_a_restart() {
    let repository = Repository::start(web()).await;
    let (agent, deployment) = (Agent::new(), deployment(&repository, Some(&web())));
    for _ in 0..2 {
        let file = agent.get(&deployment).await.unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), web());
    }
    agent.assert_files(1, 0);
    let agent = agent.restarted();
    let file = agent.get(&deployment).await.unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), web());
    assert_eq!(repository.downloads(), 1);
}

#[tokio::test]
async fn concurrent_requests_for_a_chart_share_one_download() {
    let repository = Repository::start(web()).await;
    let (agent, deployment) = (Arc::new(Agent::new()), deployment(&repository, Some(&web())));
    let files = join_all((0..20).map(|_| agent.get(&deployment))).await;
    assert!(files.iter().all(Result::is_ok));
    assert_eq!(repository.downloads(), 1);
    agent.assert_files(1, 0);
}

#[tokio::test]
async fn a_damaged_file_is_deleted_and_downloaded_again() {
    let repository = Repository::start(web()).await;
    let (agent, deployment) = (Agent::new(), deployment(&repository, Some(&web())));
    let path = agent.get(&deployment).await.unwrap().path().to_owned();
    let damages: [fn(&Path); 3] = [
        |path| fs::write(path, b"").unwrap(),
        |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[20] ^= 1;
            fs::write(path, bytes).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
    ];
    for (times, damage) in damages.into_iter().enumerate() {
        damage(&path);
        let file = agent.get(&deployment).await.unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), web());
        assert_eq!(repository.downloads(), times + 2);
        agent.assert_files(1, 0);
    }
}

#[tokio::test]
async fn what_is_refused_leaves_nothing_behind() {
    let missing = format!("{CHART_YAML}dependencies: [{{name: db, version: 1.x.x}}]");
    for (archive, message) in [
        (
            archive(&[("web/Chart.yaml", CHART_YAML), ("web/x@", "/etc/passwd")]),
            "a symbolic link",
        ),
        (archive(&[("web/Chart.yaml", &missing)]), "helm dependency build"),
        (b"<html>Log in</html>".to_vec(), "not a chart archive"),
    ] {
        let repository = Repository::start(archive.clone()).await;
        let agent = Agent::new();
        let error = agent
            .get(&deployment(&repository, Some(&archive)))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidChart);
        let text = error.to_string();
        assert!(
            text.contains(message) && text.contains(&repository.url()),
            "{text}"
        );
        agent.assert_files(0, 0);
    }
}

/// As Helm: a chart that is promoted by another tag, or by another entry in the index, is not packaged again.
#[tokio::test]
async fn a_chart_may_have_another_name_and_version_than_its_entry_in_the_index() {
    let promoted = archive(&[("db/Chart.yaml", "name: db\nversion: 1.0.0-rc.4")]);
    let repository = Repository::start(promoted.clone()).await;
    for recorded in [Some(&*promoted), None] {
        let agent = Agent::new();
        let file = agent.get(&deployment(&repository, recorded)).await.unwrap();
        let chart = Charts::chart_in(&file).await.unwrap();
        assert_eq!((&*chart.name, &*chart.version), ("db", "1.0.0-rc.4"));
        agent.assert_files(1, 0);
    }
}

/// Also if the archive is in the cache already: for a deployment with a policy, or from an earlier version of the agent.
#[tokio::test]
async fn secrets_in_a_folder_crds_are_refused_unless_the_agent_applies_the_crds() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: sh.helm.release.v1.victim.v9}\n";
    let archive = archive(&[
        ("web/Chart.yaml", CHART_YAML),
        ("web/charts/db/Chart.yaml", "name: db\nversion: 1.0.0"),
        ("web/charts/db/crds/record.yaml", secret),
    ]);
    let repository = Repository::start(archive.clone()).await;
    let agent = Agent::new();
    let with = |lifecycle: Value| {
        let mut deployment = deployment(&repository, Some(&archive));
        deployment.spec.lifecycle = serde_json::from_str(&lifecycle.to_string()).unwrap();
        deployment
    };
    for policy in ["Skip", "Create", "CreateReplace"] {
        let lifecycle = json!({ "install": { "crds": policy } });
        agent.get(&with(lifecycle)).await.unwrap();
    }
    agent.assert_files(1, 0);
    for lifecycle in [
        Value::Null,
        json!({ "upgrade": { "crds": "Create" } }),
        json!({ "install": { "crds": "Other" } }),
    ] {
        let error = agent.get(&with(lifecycle.clone())).await.unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidChart, "{lifecycle}");
        assert_eq!(
            error.to_string(),
            "web/charts/db/crds/record.yaml in the archive contains an object of kind \"Secret\" and apiVersion \"v1\"; a folder \
             crds is for CustomResourceDefinitions, and must not have Secrets or lists, so move it to the folder templates of the chart; or set \
             lifecycle.install.crds: then only the CRDs are created, and nothing else from the folders crds"
        );
    }
    assert_eq!(repository.downloads(), 1);
}

#[tokio::test]
async fn another_archive_than_recorded_is_refused() {
    let repository = Repository::start(web()).await;
    let other = archive(&[("web/Chart.yaml", CHART_YAML)]);
    let agent = Agent::new();
    let error = agent
        .get(&deployment(&repository, Some(&other)))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::DigestMismatch, "{error}");
    agent.assert_files(0, 0);
}

/// Without a digest, a version may be published again.
#[tokio::test]
async fn a_chart_without_a_digest_is_kept_for_one_deployment_id() {
    let repository = Repository::start(web()).await;
    let (agent, mut deployment) = (Agent::new(), deployment(&repository, None));
    for _ in 0..2 {
        agent.get(&deployment).await.unwrap();
    }
    assert_eq!(repository.downloads(), 1);
    let other = archive(&[("web/Chart.yaml", CHART_YAML)]);
    repository.publish(other.clone());
    deployment.spec.deployment_id = "2".to_owned();
    let file = agent.get(&deployment).await.unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), other);
}

/// A full disk fails no deployment.
#[tokio::test]
async fn without_space_in_the_cache_a_chart_is_in_the_work_folder_while_it_is_used() {
    let repository = Repository::start(web()).await;
    let deployment = deployment(&repository, Some(&web()));
    // The folder cannot be written.
    let agent = Agent::new();
    fs::remove_dir(agent.cache.path()).unwrap();
    let file = agent.get(&deployment).await.unwrap();
    assert!(file.path().starts_with(agent.work.path()));
    assert_eq!(fs::read(file.path()).unwrap(), web());
    drop(file);
    assert_eq!(fs::read_dir(agent.work.path()).unwrap().count(), 0);
    // The chart is larger than the cache.
    let agent = Agent::with_limit(10);
    let file = agent.get(&deployment).await.unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), web());
    drop(file);
    agent.assert_files(0, 0);
}
