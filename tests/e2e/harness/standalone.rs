//! The control plane that tests share, with all controllers in it and without a webhook. No agents run; the tests act as agents.
//! Each test has a namespace and clusters of its own.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::api::Api;
use helmops_bed::helmops::{self, Part, Running};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

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
    Suite::on(bed, &[]).await
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

    /// Acts as the agent of a cluster: writes the status of a BundleDeployment.
    pub async fn agent_reports(&self, cluster: usize, bundle: &str, status: &Value) {
        let patch = vec![(bundle.to_owned(), json!({ "status": status }))];
        let api = &self.api;
        api.patch_status(&self.clusters[cluster], "bundledeployments", patch)
            .await
            .unwrap();
    }
}

pub fn decoded(secret: &Value, key: &str) -> Option<String> {
    let text = secret["data"][key].as_str()?;
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}
