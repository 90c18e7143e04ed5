//! From HelmOps to releases: a control plane that tests share, with the webhook, all controllers and a simulated node. Each test has a
//! workspace with clusters of its own, and an agent for each of them. The control plane is all of these clusters: their releases are in
//! different namespaces.

use std::path::Path;

use anyhow::Result;
use helmops_bed::collector::Collector;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::{self, Part, Webhook};
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use serde_json::{Value, json};

use super::agent::{self, Agent, Membership};
use super::{helmop, standalone};

/// The control plane and its processes.
pub struct Suite {
    pub controllers: InUse<standalone::Suite>,
    /// Receives the traces of all processes.
    pub collector: Collector,
    _webhook: Webhook,
}

/// The suite. It ends soon after the last test that uses it.
pub async fn suite() -> InUse<Suite> {
    static SUITE: Shared<Suite> = Shared::new();
    SUITE.get(start).await.unwrap()
}

async fn start() -> Result<Suite> {
    let options = Options {
        nodes: true,
        manifests: Part::paths(&[Part::Base, Part::Standalone]),
        ..Options::default()
    };
    let bed = TestBed::start(&options).await?;
    let collector = Collector::start(&bed).await?;
    let traced = |program: &Path| {
        let mut command = bed.command(program);
        command.env("HELMOPS_OTLP_ENDPOINT", &collector.endpoint);
        command
    };
    let webhook = helmops::start_webhook(&bed, "webhook", &traced).await?;
    helmops::register_webhook(&bed.kubectl(), &webhook).await?;
    // The default minimum protects registries; tests need not wait for it.
    let flags = [
        ("HELMOPS_MIN_POLLING_INTERVAL", "1s"),
        ("HELMOPS_OTLP_ENDPOINT", &collector.endpoint),
    ];
    Ok(Suite {
        controllers: standalone::Suite::on(bed, &flags).await?.into(),
        collector,
        _webhook: webhook,
    })
}

/// A workspace with clusters `c0`, `c1` and so on, whose agents run.
pub struct Fixture {
    pub workspace: standalone::Fixture,
    /// In the order of their names.
    pub clusters: Vec<agent::Fixture>,
    _agents: Vec<Agent>,
    _suite: InUse<Suite>,
}

impl Fixture {
    pub async fn new(prefix: &str, clusters: usize) -> Self {
        let whole = suite().await;
        let Suite {
            controllers: suite,
            collector,
            ..
        } = &*whole;
        let workspace = standalone::Fixture::in_suite(suite.clone(), prefix, clusters).await;
        let (mut joined, mut agents) = (Vec::new(), Vec::new());
        for (number, deployments) in workspace.clusters.iter().enumerate() {
            let name = format!("c{number}");
            let prefix = format!("{prefix}-{name}");
            let namespace = workspace.namespace.name().to_owned();
            let cluster = Membership { namespace, name };
            let cluster = agent::Fixture::of_cluster(&suite.bed, &prefix, cluster, deployments).await;
            let cluster = cluster.unwrap();
            let flags = ["--leader-elect=false", "--otlp-endpoint", &collector.endpoint];
            agents.push(cluster.start_with("agent", &flags).await.unwrap());
            joined.push(cluster);
        }
        Self {
            workspace,
            clusters: joined,
            _agents: agents,
            _suite: whole.clone(),
        }
    }

    pub fn charts(&self) -> &agent::Charts {
        &self.clusters[0].charts
    }

    /// The targets of a HelmOp: each cluster, with a namespace of its own.
    pub fn targets(&self) -> Vec<Value> {
        let targets = self.clusters.iter().enumerate().map(|(number, cluster)| {
            json!({ "clusterName": format!("c{number}"), "defaultNamespace": cluster.apps.name() })
        });
        targets.collect()
    }

    /// Creates or changes a HelmOp of the chart `web` for all clusters, with `over` merged over its spec.
    pub async fn apply(&self, name: &str, over: &Value) {
        let mut spec = json!({
            "helm": { "repo": self.charts().url(), "chart": "web" },
            "targets": self.targets(),
        });
        json_patch::merge(&mut spec, over);
        let applied = self
            .workspace
            .namespace
            .kubectl()
            .apply(&helmop(name, &spec))
            .await;
        applied.unwrap().ok().unwrap();
    }
}
