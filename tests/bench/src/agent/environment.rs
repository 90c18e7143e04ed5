//! A control plane with the agent of the management cluster itself, and a chart repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use helmops_bed::api::Api;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::helm::Helm;
use helmops_bed::helmops::{self, LOCAL_AGENT, Running};
use helmops_bed::test_bed::TestBed;
use helmops_bed::{audit, metrics::Metrics};
use reqwest::Method;
use serde_json::{Value, json};

use super::scenario::{CHART, CLUSTER, Objects, RELEASES, VERSION};

/// Far longer than any of the phases takes.
pub const DEADLINE: Duration = Duration::from_mins(30);

/// The control plane, and what is outside of it.
pub struct Environment {
    /// The control plane, with an audit log.
    pub bed: TestBed,
    pub api: Api,
    pub server: ChartServer,
    /// The digest of the archive in it.
    pub digest: String,
    /// A folder for files of Helm.
    pub folder: PathBuf,
    /// The program of the agent.
    agent: PathBuf,
}

impl Environment {
    /// Starts a control plane, where a cluster has joined, and serves the chart. `agent` is the program of the agent.
    pub async fn new(objects: Objects, agent: &Path) -> Result<Self> {
        let bed = helmops::local_control_plane(true).await?;
        let api = Api::new(&bed)?;
        for namespace in [CLUSTER, RELEASES] {
            let create = ["create", "namespace", namespace];
            bed.kubectl().run(&create).await?.ok()?;
        }
        // The controller does it otherwise.
        let status = json!({ "status": { "namespace": CLUSTER } });
        api.patch_status("fleet-local", "clusters", vec![("local".to_owned(), status)])
            .await?;
        let charts = bed.directory.join("charts");
        std::fs::create_dir_all(&charts)?;
        Helm::new(&bed.tools, &charts)
            .publish(CHART, VERSION, objects.files())
            .await?;
        let index = std::fs::read_to_string(charts.join("index.yaml"))?;
        let digest = index
            .lines()
            .find_map(|line| line.trim().strip_prefix("digest: "));
        let folder = bed.directory.join("by-hand");
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            api,
            server: ChartServer::http(&charts).await?,
            digest: digest.context("the index has no digest")?.to_owned(),
            folder,
            agent: agent.to_owned(),
            bed,
        })
    }

    /// Starts an agent, as its manifests do, and waits until it is ready.
    pub async fn start(&self, name: &str) -> Result<Running> {
        helmops::start_local_agent(&self.bed, name, &|_| self.bed.command(&self.agent)).await
    }

    /// Sends a request for an object in a namespace, such as `configmaps/web`.
    pub async fn object(&self, method: Method, namespace: &str, object: &str, body: Value) -> Result<Value> {
        let path = format!("api/v1/namespaces/{namespace}/{object}");
        let text = self.api.call(method, &path, body).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// All writes of the agent and of its Helm so far, by resource and subresource, accepted or not.
    pub fn writes(&self) -> Result<BTreeMap<String, u64>> {
        let user = format!("system:serviceaccount:{LOCAL_AGENT}:helmops-agent");
        let mut counts = BTreeMap::new();
        for write in audit::writes_of(&self.bed.audit_log(), &user)? {
            let kind = match &*write.subresource {
                "" => write.resource,
                subresource => format!("{}/{subresource}", write.resource),
            };
            *counts.entry(kind).or_default() += 1;
        }
        Ok(counts)
    }
}

/// The sum of a metric of the agent; 0 without such samples.
pub async fn metric(agent: &Running, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
    let metrics = Metrics::scrape(&format!("{}/metrics", agent.admin)).await?;
    Ok(metrics.sum(name, labels).unwrap_or_default())
}
