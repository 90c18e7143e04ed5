//! The control plane that tests share, with all controllers in it and without a webhook. No agents run; the tests act as agents.
//! Each test has a namespace and clusters of its own.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::api::Api;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::command;
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::{TestBed, binary};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::{SOON, condition, message, run, until, until_none};

/// The control plane and the controller.
pub struct Suite {
    pub bed: TestBed,
    pub controller: Running,
}

/// The suite. It ends soon after the last test that uses it.
pub async fn suite() -> InUse<Suite> {
    static SUITE: Shared<Suite> = Shared::new();
    SUITE.get(start).await.unwrap()
}

async fn start() -> Result<Suite> {
    let bed = helmops::control_plane_with(&[Part::Standalone], false).await?;
    // The default minimum protects registries; tests need not wait for it.
    Suite::on(bed, &[("HELMOPS_MIN_POLLING_INTERVAL", "1s")]).await
}

impl Suite {
    /// Starts all controllers on a control plane, with flags that are set through their environment variables.
    pub async fn on(bed: TestBed, flags: &[(&str, &str)]) -> Result<Self> {
        let command = |program: &Path| {
            let mut command = bed.command(program);
            command.env("HELMOPS_CONTROLLERS", "helmop,bundle");
            command.envs(flags.iter().copied());
            command
        };
        let controller = helmops::start_controller(&bed, "controller", &command).await?;
        Ok(Self::of(bed, controller))
    }

    /// A control plane with a controller that runs already.
    pub const fn of(bed: TestBed, controller: Running) -> Self {
        Self { bed, controller }
    }
}

/// A namespace with clusters `c0`, `c1` and so on, and the group `all` of them.
pub struct Fixture {
    pub suite: InUse<Suite>,
    /// Each test has a client of its own: a connection ends with the runtime of the test that opened it.
    pub api: Api,
    pub namespace: TestNamespace,
    /// The namespace of each cluster.
    pub clusters: Vec<String>,
}

impl Fixture {
    pub async fn new(prefix: &str, clusters: usize) -> Self {
        Self::in_suite(suite().await, prefix, clusters).await
    }

    /// The same on another control plane.
    pub async fn in_suite(suite: InUse<Suite>, prefix: &str, clusters: usize) -> Self {
        let mut fixture = Self {
            api: Api::new(&suite.bed).unwrap(),
            namespace: TestNamespace::create(&suite.bed, prefix).await.unwrap(),
            suite,
            clusters: Vec::new(),
        };
        let group =
            json!({ "kind": "ClusterGroup", "metadata": { "name": "all" }, "spec": { "selector": {} } });
        fixture.apply(&group).await;
        for number in 0..clusters {
            let parity = if number % 2 == 0 { "even" } else { "odd" };
            let labels = json!({ "number": number.to_string(), "parity": parity });
            let cluster =
                json!({ "kind": "Cluster", "metadata": { "name": format!("c{number}"), "labels": labels } });
            fixture.apply(&cluster).await;
        }
        for number in 0..clusters {
            let cluster = fixture
                .until(&format!("cluster/c{number}"), |cluster| {
                    ensure!(cluster["status"]["namespace"].is_string(), "no namespace");
                    Ok(())
                })
                .await;
            let namespace = cluster["status"]["namespace"].as_str().unwrap();
            fixture.clusters.push(namespace.to_owned());
        }
        fixture
    }

    /// Creates or changes an object, of Fleet's API version by default.
    pub async fn apply(&self, object: &Value) {
        let mut object = object.clone();
        if object.get("apiVersion").is_none() {
            object["apiVersion"] = json!("fleet.cattle.io/v1alpha1");
        }
        let applied = self.namespace.kubectl().apply(&object.to_string()).await;
        applied.unwrap().ok().unwrap();
    }

    /// Creates or changes a Bundle of a chart, with `over` merged over its spec.
    pub async fn bundle(&self, name: &str, over: &Value) {
        let mut spec = json!({
            "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" },
            "helmOpOptions": {},
            "targets": [{ "clusterGroup": "all" }],
        });
        json_patch::merge(&mut spec, over);
        self.apply(&json!({ "kind": "Bundle", "metadata": { "name": name }, "spec": spec }))
            .await;
    }

    pub async fn secret(&self, name: &str, data: &Value) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data
        }))
        .await;
    }

    pub async fn kubectl(&self, arguments: &[&str]) {
        run(&self.namespace, arguments).await;
    }

    /// Runs `kubectl helmop` in the namespace, and returns what it prints, of errors too.
    pub async fn plugin(&self, arguments: &[&str]) -> String {
        let bed = &self.suite.bed;
        let mut plugin = Command::new(binary("kubectl-helmop").unwrap());
        plugin
            .args(arguments)
            .args(["--namespace", self.namespace.name()])
            .env("KUBECONFIG", &bed.kubeconfig)
            .current_dir(&bed.directory);
        let output = command::run(plugin, "", SOON).await.unwrap();
        output.stdout + &output.stderr
    }

    /// Changes an object (JSON Merge Patch).
    pub async fn patch(&self, object: &str, change: &Value) {
        self.kubectl(&["patch", object, "--type=merge", "-p", &change.to_string()])
            .await;
    }

    /// Waits until `check` accepts an object of the namespace.
    pub async fn until(&self, object: &str, check: impl Fn(&Value) -> Result<()>) -> Value {
        until(&self.namespace, object, check).await
    }

    /// kubectl for the namespace of a cluster.
    fn kubectl_on(&self, cluster: usize) -> Kubectl {
        self.suite.bed.kubectl().in_namespace(&self.clusters[cluster])
    }

    /// An object in the namespace of a cluster.
    pub async fn on(&self, cluster: usize, object: &str) -> Result<Option<Value>> {
        self.kubectl_on(cluster).get(object).await
    }

    /// Waits until `check` accepts an object in the namespace of a cluster.
    pub async fn until_on(
        &self,
        cluster: usize,
        object: &str,
        check: impl Fn(&Value) -> Result<()>,
    ) -> Value {
        until(&self.kubectl_on(cluster), object, check).await
    }

    /// Waits until a Bundle has a BundleDeployment for a cluster, and returns it.
    pub async fn deployment(&self, cluster: usize, bundle: &str) -> Value {
        self.until_on(cluster, &format!("bundledeployment/{bundle}"), |_| Ok(()))
            .await
    }

    /// Waits until there is no such object on a cluster.
    pub async fn until_none_on(&self, cluster: usize, object: &str) {
        until_none(&self.kubectl_on(cluster), object).await;
    }

    /// The clusters that a Bundle is on now.
    pub async fn clusters_of(&self, bundle: &str) -> Vec<usize> {
        let mut clusters = Vec::new();
        for cluster in 0..self.clusters.len() {
            let object = format!("bundledeployment/{bundle}");
            if self.on(cluster, &object).await.unwrap().is_some() {
                clusters.push(cluster);
            }
        }
        clusters
    }

    /// Waits until a Bundle is on exactly these clusters.
    pub async fn until_clusters_are(&self, bundle: &str, expected: &[usize]) {
        eventually("its clusters", SOON, async || {
            let clusters = self.clusters_of(bundle).await;
            ensure!(clusters == expected, "it is on {clusters:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Waits until the condition `Ready` of an object has this reason, in the current generation, and returns its message.
    pub async fn until_ready_is(&self, object: &str, reason: &str) -> String {
        let found = self
            .until(object, |found| {
                let ready = condition(found, "Ready").context("no condition")?;
                ensure!(ready["reason"] == reason, "it is {ready}");
                ensure!(
                    found["status"]["observedGeneration"] == found["metadata"]["generation"],
                    "of another generation"
                );
                Ok(())
            })
            .await;
        message(&found, "Ready")
    }

    /// Acts as the agent of a cluster: deploys the current version of the BundleDeployment.
    pub async fn agent_deploys(&self, cluster: usize, bundle: &str) {
        let deployment = self.deployment(cluster, bundle).await;
        let id = &deployment["spec"]["deploymentID"];
        self.agent_reports(
            cluster,
            bundle,
            &json!({ "appliedDeploymentID": id, "ready": true, "nonModified": true }),
        )
        .await;
    }

    /// Acts as the agent of a cluster: fails to deploy the current version of the BundleDeployment.
    pub async fn agent_fails(&self, cluster: usize, bundle: &str) {
        let id = self.deployment(cluster, bundle).await["spec"]["deploymentID"].clone();
        let failed = json!({ "type": "Deployed", "status": "False", "message": "it failed" });
        let report = json!({ "conditions": [failed], "failedDeploymentID": id });
        self.agent_reports(cluster, bundle, &report).await;
    }

    /// The desired version of each cluster.
    pub async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for cluster in 0..self.clusters.len() {
            let deployment = self.on(cluster, "bundledeployment/web").await.unwrap();
            let version = deployment.map(|found| found["spec"]["options"]["helm"]["version"].clone());
            versions.push(
                version
                    .and_then(|version| version.as_str().map(str::to_owned))
                    .unwrap_or_default(),
            );
        }
        versions
    }

    /// Waits until a version is desired on a cluster.
    pub async fn until_version(&self, cluster: usize, version: &str) {
        self.until_on(cluster, "bundledeployment/web", |found| {
            let desired = &found["spec"]["options"]["helm"]["version"];
            ensure!(desired == version, "it is {desired}");
            Ok(())
        })
        .await;
    }

    /// Acts as the agent of a cluster: writes the status of a BundleDeployment.
    pub async fn agent_reports(&self, cluster: usize, bundle: &str, status: &Value) {
        let patch = vec![(bundle.to_owned(), json!({ "status": status }))];
        let api = &self.api;
        api.patch_status(&self.clusters[cluster], "bundledeployments", patch)
            .await
            .unwrap();
    }
}

/// A repository of one test, whose versions can change: `web` 1.0.0.
pub struct Repository {
    pub server: ChartServer,
    charts: ChartRepo,
    _folder: TempDir,
}

impl Repository {
    pub async fn new(fixture: &Fixture) -> Self {
        let folder = TempDir::new().unwrap();
        let charts = ChartRepo::build(&fixture.suite.bed.tools, folder.path(), &[("web", &["1.0.0"])]).await;
        Self {
            server: ChartServer::http(folder.path()).await.unwrap(),
            charts: charts.unwrap(),
            _folder: folder,
        }
    }

    pub async fn add(&self, version: &str) {
        self.charts.add_version("web", version).await.unwrap();
    }

    /// Creates or changes the HelmOp `web` of any version on all clusters, polled each second, with `over` merged over its spec.
    pub async fn helmop(&self, fixture: &Fixture, over: &Value) {
        let mut spec = json!({
            "helm": { "repo": self.server.url(), "chart": "web", "version": "*" },
            "pollingInterval": "1s",
            "targets": [{ "clusterGroup": "all" }],
        });
        json_patch::merge(&mut spec, over);
        fixture
            .apply(&json!({ "kind": "HelmOp", "metadata": { "name": "web" }, "spec": spec }))
            .await;
    }

    /// Waits until the controller has polled once more from the beginning to the end.
    pub async fn until_polled_again(&self) {
        let before = self.server.requests("/index.yaml");
        eventually("two more polls", SOON, async || {
            let polls = self.server.requests("/index.yaml");
            ensure!(polls >= before + 2, "{polls} polls, {before} before");
            Ok(())
        })
        .await
        .unwrap();
    }
}

pub fn decoded(secret: &Value, key: &str) -> Option<String> {
    let text = secret["data"][key].as_str()?;
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}
