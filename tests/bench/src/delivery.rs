//! Benchmark of deploying many HelmOps to many clusters: the first deployment, the reports of the agents, a new version of one
//! HelmOp, and a new password.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use helmops_bed::api::{Api, STREAMS, value_at};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::control_plane::{Memory, Options};
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::metrics::{ApiServerUsage, api_requests};
use helmops_bed::test_bed::TestBed;
use helmops_bed::usage;
use helmops_bed::wait::eventually;

use crate::idle::wait_until_idle;

/// How much is deployed.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub clusters: usize,
    /// Number of HelmOps for each cluster.
    pub helmops: usize,
}

/// The measured sizes: many HelmOps, and many clusters.
pub const SIZES: [Size; 2] = [
    Size {
        clusters: 200,
        helmops: 50,
    },
    Size {
        clusters: 2_000,
        helmops: 5,
    },
];

const NAMESPACE: &str = "bench";
const MIB: f64 = 1024.0 * 1024.0;
const DEADLINE: Duration = Duration::from_mins(30);

const INDEX: &str = "\
apiVersion: v1
entries:
  web:
  - { apiVersion: v2, name: web, version: 0.2.0, urls: [web-0.2.0.tgz] }
  - { apiVersion: v2, name: web, version: 0.1.0, urls: [web-0.1.0.tgz] }
";

/// The reported requests of the controller.
const REQUESTS: [(&str, &str, &str); 12] = [
    ("POST bundledeployments", "bundledeployments", "POST"),
    ("PUT bundledeployments", "bundledeployments", "PUT"),
    ("GET bundledeployments", "bundledeployments", "GET"),
    ("POST secrets", "secrets", "POST"),
    ("APPLY secrets", "secrets", "APPLY"),
    ("PATCH secrets", "secrets", "PATCH"),
    ("GET secrets", "secrets", "GET"),
    ("POST bundles", "bundles", "POST"),
    ("PUT bundles", "bundles", "PUT"),
    ("PATCH bundles", "bundles", "PATCH"),
    ("PATCH helmops", "helmops", "PATCH"),
    ("PATCH clusters", "clusters", "PATCH"),
];

/// The cost of one phase.
#[derive(Debug)]
pub struct Phase {
    /// Description of the phase.
    pub what: &'static str,
    /// Until all was written that it deploys.
    pub written: Duration,
    /// Until nothing more was written: statuses of Clusters, which are counts, are written with a delay.
    pub time: Duration,
    /// What the API server needed for it, and what it and etcd have then.
    pub api_server: ApiServerUsage,
    /// CPU time of the controller.
    pub cpu: Duration,
    /// Its peak memory so far, in KiB.
    pub peak: u32,
    /// Its writes, and reads of Secrets.
    pub requests: BTreeMap<&'static str, u64>,
}

/// All measurements.
#[derive(Debug)]
pub struct Delivery {
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// Time of a plain client for the same number of BundleDeployments, and a Secret for each.
    pub bare: Duration,
}

struct Environment {
    size: Size,
    bed: TestBed,
    api: Api,
    server: ChartServer,
    _folder: TempDir,
}

struct Snapshot {
    at: Instant,
    api_server: ApiServerUsage,
    cpu: Duration,
    requests: BTreeMap<&'static str, u64>,
}

/// Runs the benchmark on its own control plane.
pub async fn measure(size: Size) -> Result<Delivery> {
    let environment = Environment::new(size).await?;
    let command = |program: &Path| {
        let mut command = environment.bed.command(program);
        command.env("HELMOPS_CONTROLLERS", "helmop,bundle");
        // They are written once for each cluster by a controller that runs everything.
        command.env("HELMOPS_AGENT_ACCOUNTS", "false");
        command
    };
    let mut phases = Vec::new();
    let snapshot = environment.snapshot(None).await?;
    let controller = helmops::start_controller(&environment.bed, "controller", &command).await?;
    environment.wait_for_namespaces().await?;
    phases.push(
        environment
            .phase("the clusters get namespaces", &controller, snapshot)
            .await?,
    );

    let snapshot = environment.snapshot(Some(&controller)).await?;
    environment.create_helmops().await?;
    environment
        .wait_for_deployments(size.clusters * size.helmops, "POST")
        .await?;
    phases.push(
        environment
            .phase("all to all clusters", &controller, snapshot)
            .await?,
    );

    let snapshot = environment.snapshot(Some(&controller)).await?;
    environment.report_deployed().await?;
    environment.wait_until_ready().await?;
    phases.push(environment.phase("agents report", &controller, snapshot).await?);

    let snapshot = environment.snapshot(Some(&controller)).await?;
    let before = environment.requests().await?;
    let newer = json!({ "spec": { "helm": { "version": "0.2.0" } } });
    environment
        .api
        .patch(NAMESPACE, "helmops", &name(0), newer)
        .await?;
    let before = before.get("PUT bundledeployments").copied().unwrap_or_default();
    environment
        .wait_for_deployments(usize::try_from(before)? + size.clusters, "PUT")
        .await?;
    phases.push(
        environment
            .phase("a new version of one HelmOp", &controller, snapshot)
            .await?,
    );

    let snapshot = environment.snapshot(Some(&controller)).await?;
    environment.set_password("second").await?;
    environment.wait_for_password("second").await?;
    phases.push(
        environment
            .phase("a new password for one HelmOp", &controller, snapshot)
            .await?,
    );

    let snapshot = environment.snapshot(Some(&controller)).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    phases.push(environment.phase("a minute later", &controller, snapshot).await?);
    drop(controller);
    let bare = environment.bare().await?;
    Ok(Delivery { phases, bare })
}

fn name(number: usize) -> String {
    format!("web-{number:03}")
}

fn object(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec })
}

fn namespace(object: &Value) -> String {
    value_at(object, "/metadata/namespace")
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

impl Environment {
    async fn new(size: Size) -> Result<Self> {
        let options = Options {
            manifests: Part::paths(&[Part::Base, Part::Standalone]),
            memory: Memory::Unlimited,
            ..Options::default()
        };
        let bed = TestBed::start(&options).await?;
        let kubectl = bed.kubectl();
        kubectl.run(&["create", "namespace", NAMESPACE]).await?.ok()?;
        let folder = TempDir::new()?;
        std::fs::write(folder.path().join("index.yaml"), INDEX)?;
        let server = ChartServer::http(folder.path()).await?;
        let environment = Self {
            size,
            api: Api::new(&bed)?,
            bed,
            server,
            _folder: folder,
        };
        environment.set_password("first").await?;
        let clusters = (0..size.clusters).map(|number| {
            let metadata =
                json!({ "name": format!("c{number:03}"), "labels": { "number": number.to_string() } });
            object("Cluster", &metadata, &json!({}))
        });
        environment
            .api
            .create(NAMESPACE, "clusters", clusters.collect())
            .await?;
        Ok(environment)
    }

    /// Waits until the controller has created the namespaces of all clusters, and the control plane what it puts into each.
    async fn wait_for_namespaces(&self) -> Result<()> {
        let expected = u64::try_from(self.size.clusters)?;
        eventually("the namespaces of all clusters", DEADLINE, async || {
            let accounts = api_requests(&self.bed, "serviceaccounts", "POST").await?;
            ensure!(accounts >= expected, "{accounts} of {expected}");
            Ok(())
        })
        .await
    }

    async fn create_helmops(&self) -> Result<()> {
        let helmops = (0..self.size.helmops).map(|number| {
            let values = json!({
                "cluster": "global.fleet.clusterLabels.number", "replicas": 3, "text": "${ .ClusterName }"
            });
            let spec = json!({
                "helm": { "repo": self.server.url(), "chart": "web", "version": "0.1.0", "values": values },
                // One of them has a Secret.
                "helmSecretName": if number == 0 { "access" } else { "" },
                "targets": [{ "clusterSelector": {} }],
            });
            object("HelmOp", &json!({ "name": name(number) }), &spec)
        });
        self.api.create(NAMESPACE, "helmops", helmops.collect()).await
    }

    async fn set_password(&self, password: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "access", "namespace": NAMESPACE },
            "stringData": { "username": "u", "password": password },
        });
        self.bed.kubectl().apply(&secret.to_string()).await?.ok()?;
        Ok(())
    }

    async fn wait_for_deployments(&self, count: usize, verb: &str) -> Result<()> {
        let expected = u64::try_from(count)?;
        eventually("BundleDeployments to be written", DEADLINE, async || {
            let written = api_requests(&self.bed, "bundledeployments", verb).await?;
            ensure!(written >= expected, "{written} of {expected}");
            Ok(())
        })
        .await
    }

    /// Writes the status that the agents of all clusters report after they have deployed everything.
    async fn report_deployed(&self) -> Result<()> {
        for number in 0..self.size.helmops {
            let bundle = name(number);
            let selector = format!("fleet.cattle.io/bundle-name={bundle}");
            let found = self.api.list_all("bundledeployments", &selector).await?;
            ensure!(found.len() == self.size.clusters, "{} of {bundle}", found.len());
            let each = found.iter().map(|deployment| {
                let id = value_at(deployment, "/spec/deploymentID");
                let status = json!({ "appliedDeploymentID": id, "ready": true, "nonModified": true });
                (namespace(deployment), bundle.clone(), json!({ "status": status }))
            });
            self.api
                .patch_statuses("bundledeployments", each.collect())
                .await?;
        }
        Ok(())
    }

    async fn wait_until_ready(&self) -> Result<()> {
        eventually("all HelmOps to be ready", DEADLINE, async || {
            let helmops = self.api.list(NAMESPACE, "helmops").await?;
            let expected = json!(self.size.clusters);
            let ready = helmops
                .iter()
                .filter(|helmop| value_at(helmop, "/status/readyClusters") == expected)
                .count();
            ensure!(ready == self.size.helmops, "{ready} of {}", self.size.helmops);
            Ok(())
        })
        .await
    }

    async fn wait_for_password(&self, password: &str) -> Result<()> {
        let expected = STANDARD.encode(password);
        let selector = "helmops.fleet.cattle.io/copy-type=access";
        eventually("the password to be in all clusters", DEADLINE, async || {
            let listed = self.bed.kubectl();
            let arguments = [
                "get",
                "secrets",
                "--all-namespaces",
                "--selector",
                selector,
                "--output=json",
            ];
            let listed: Value = serde_json::from_str(&listed.run(&arguments).await?.ok()?)?;
            let items = value_at(&listed, "/items");
            let items = items.as_array().context("no list")?;
            let done = items
                .iter()
                .filter(|secret| value_at(secret, "/data/password") == expected)
                .count();
            ensure!(done == self.size.clusters, "{done} of {}", self.size.clusters);
            Ok(())
        })
        .await
    }

    async fn requests(&self) -> Result<BTreeMap<&'static str, u64>> {
        let mut requests = BTreeMap::new();
        for (what, resource, verb) in REQUESTS {
            requests.insert(what, api_requests(&self.bed, resource, verb).await?);
        }
        Ok(requests)
    }

    async fn snapshot(&self, controller: Option<&Running>) -> Result<Snapshot> {
        let cpu = match controller {
            Some(controller) => usage::cpu_time(controller.process.pid()?)?,
            None => Duration::ZERO,
        };
        Ok(Snapshot {
            requests: self.requests().await?,
            cpu,
            api_server: ApiServerUsage::of(&self.bed).await?,
            at: Instant::now(),
        })
    }

    /// A phase in which everything has just been written.
    async fn phase(&self, what: &'static str, controller: &Running, before: Snapshot) -> Result<Phase> {
        let written = before.at.elapsed();
        wait_until_idle(&controller.admin).await?;
        let time = before.at.elapsed();
        let mut api_server = ApiServerUsage::of(&self.bed).await?;
        api_server.cpu = api_server.cpu.saturating_sub(before.api_server.cpu);
        let pid = controller.process.pid()?;
        let cpu = usage::cpu_time(pid)?.saturating_sub(before.cpu);
        let mut requests = self.requests().await?;
        for (what, count) in &mut requests {
            *count -= before.requests.get(what).copied().unwrap_or_default();
        }
        Ok(Phase {
            what,
            written,
            time,
            api_server,
            cpu,
            peak: usage::memory(pid)?.peak,
            requests,
        })
    }

    /// Writes the same BundleDeployments, each with a Secret, under another name with a plain client.
    async fn bare(&self) -> Result<Duration> {
        let selector = format!("fleet.cattle.io/bundle-name={}", name(1));
        let found = self.api.list_all("bundledeployments", &selector).await?;
        let mut objects = Vec::new();
        for number in 0..self.size.helmops {
            for deployment in &found {
                let labels = value_at(deployment, "/metadata/labels");
                let metadata = json!({ "name": format!("bare-{number}"), "labels": labels });
                let copy = object("BundleDeployment", &metadata, &value_at(deployment, "/spec"));
                let values = json!({ "values": value_at(deployment, "/spec/options").to_string() });
                let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values });
                let namespace = namespace(deployment);
                objects.push((format!("api/v1/namespaces/{namespace}/secrets"), secret));
                let path = format!("apis/fleet.cattle.io/v1alpha1/namespaces/{namespace}/bundledeployments");
                objects.push((path, copy));
            }
        }
        let writes = objects
            .into_iter()
            .map(|(path, object)| async move { self.api.call(Method::POST, &path, object).await.map(drop) });
        let started = Instant::now();
        let written: Result<()> = stream::iter(writes).buffer_unordered(STREAMS).try_collect().await;
        written?;
        Ok(started.elapsed())
    }
}

/// The report, as Markdown.
pub fn report(delivery: &Delivery) -> String {
    let mut lines = vec![
        "| what | written after s | idle after s | CPU s | peak MiB | API server: CPU s | MiB | etcd MiB | requests |".to_owned(),
        "| :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | :--- |".to_owned(),
    ];
    lines.extend(delivery.phases.iter().map(row));
    lines.push(format!(
        "\nas many BundleDeployments and Secrets, by a plain client: {:.2} s",
        delivery.bare.as_secs_f64()
    ));
    lines.join("\n")
}

fn row(phase: &Phase) -> String {
    let requests = phase.requests.iter().filter(|(_, count)| **count > 0);
    let requests: Vec<_> = requests.map(|(what, count)| format!("{count} {what}")).collect();
    format!(
        "| {} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} | {} |",
        phase.what,
        phase.written.as_secs_f64(),
        phase.time.as_secs_f64(),
        phase.cpu.as_secs_f64(),
        f64::from(phase.peak) / 1024.0,
        phase.api_server.cpu.as_secs_f64(),
        phase.api_server.memory / MIB,
        phase.api_server.storage / MIB,
        requests.join(", ")
    )
}
