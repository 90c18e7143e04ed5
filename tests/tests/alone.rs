//! What needs a control plane of its own: the controller without a webhook in front of it, counts of the API server's
//! requests, other definitions of the kinds. One at a time, since each is a whole control plane.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as told"
)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_tests::chart_server::ChartServer;
use helmops_tests::charts::ChartRepo;
use helmops_tests::control_plane::Options;
use helmops_tests::helmops::{self, Running};
use helmops_tests::kubectl::Kubectl;
use helmops_tests::metrics::{Metrics, api_requests};
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

const SOON: Duration = Duration::from_secs(30);

/// A control plane with the controller in it, and a repository.
struct Alone {
    controller: Running,
    server: ChartServer,
    kubectl: Kubectl,
    bed: TestBed,
    charts: (ChartRepo, TempDir),
    _turn: MutexGuard<'static, ()>,
}

impl Alone {
    /// `change` is done to the definitions before anything else starts.
    async fn start(change: Option<&str>) -> Result<Self> {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let options = Options {
            crds: vec![helmops::manifests().join("crds")],
            ..Options::default()
        };
        let bed = TestBed::start(Path::new(env!("CARGO_BIN_EXE_testbed")), &options).await?;
        let kubectl = bed.kubectl();
        helmops::apply_manifests(&kubectl).await?;
        if let Some(change) = change {
            let crd = [
                "patch",
                "crd",
                "helmops.fleet.cattle.io",
                "--type=json",
                "-p",
                change,
            ];
            kubectl.run(&crd).await?.ok()?;
        }
        let folder = TempDir::new()?;
        let versions: &[(&str, &[&str])] = &[("alpine", &["0.1.0", "0.2.0"])];
        let charts = ChartRepo::build(&bed.tools, folder.path(), versions).await?;
        let server = ChartServer::http(charts.folder()).await?;
        let controller = start_controller(&bed, "controller").await?;
        Ok(Self {
            controller,
            server,
            kubectl,
            bed,
            charts: (charts, folder),
            _turn: turn,
        })
    }

    fn helmop(&self, name: &str, over: &Value) -> String {
        let mut spec = json!({ "helm": { "repo": self.server.url(), "chart": "alpine", "version": "0.x" } });
        spec.as_object_mut()
            .unwrap()
            .extend(over.as_object().unwrap().clone());
        json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": name }, "spec": spec })
            .to_string()
    }

    async fn apply(&self, name: &str, over: &Value) {
        self.kubectl
            .apply(&self.helmop(name, over))
            .await
            .unwrap()
            .ok()
            .unwrap();
    }

    async fn until_version(&self, name: &str, version: &str) {
        let bundle = format!("bundle/{name}");
        eventually(&bundle, SOON, async || {
            let found = self.kubectl.get(&bundle).await?.context("there is none")?;
            ensure!(
                found["spec"]["helm"]["version"] == version,
                "it is {}",
                found["spec"]["helm"]["version"]
            );
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Waits until the condition of that type has this reason in the present generation, and gives its message.
    async fn until(&self, name: &str, r#type: &str, reason: &str) -> String {
        let helmop = format!("helmop/{name}");
        eventually(&helmop, SOON, async || {
            let found = self.kubectl.get(&helmop).await?.context("there is none")?;
            let conditions = found["status"]["conditions"]
                .as_array()
                .context("no conditions")?;
            let condition = conditions
                .iter()
                .find(|condition| condition["type"] == r#type)
                .context("not that one")?;
            ensure!(condition["reason"] == reason, "it is {condition}");
            Ok(condition["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
        .unwrap()
    }

    /// Writes of helmops that the API server has seen: new and changed Bundles, and statuses.
    async fn writes(&self) -> [u64; 3] {
        let count = async |resource, verb| api_requests(&self.bed, resource, verb).await.unwrap();
        [
            count("bundles", "POST").await,
            count("bundles", "PUT").await,
            count("helmops", "PATCH").await,
        ]
    }

    /// Waits until the controller has reconciled so many times more than `before`.
    async fn until_reconciled(&self, before: f64, times: f64) {
        eventually("reconciliations", SOON, async || {
            let now = self.reconciled().await?;
            ensure!(now >= before + times, "{now} since {before}");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn reconciled(&self) -> Result<f64> {
        let metrics = Metrics::scrape(&format!("{}/metrics", self.controller.admin)).await?;
        metrics
            .sum("helmops_reconciles_total", &[])
            .context("no such metric")
    }

    async fn run(&self, arguments: &[&str]) {
        self.kubectl.run(arguments).await.unwrap().ok().unwrap();
    }

    async fn apply_object(&self, object: &Value) {
        self.kubectl
            .apply(&object.to_string())
            .await
            .unwrap()
            .ok()
            .unwrap();
    }

    async fn patch_status(&self, object: &str, status: &Value) {
        let patch = json!({ "status": status }).to_string();
        self.run(&[
            "patch",
            object,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
        .await;
    }

    /// Says what a bundle controller would of Bundle `web` as it is now.
    async fn bundle_says(&self, summary: Value) {
        let bundle = self.kubectl.get("bundle/web").await.unwrap().unwrap();
        let generation = &bundle["metadata"]["generation"];
        self.patch_status(
            "bundle/web",
            &json!({ "observedGeneration": generation, "summary": summary }),
        )
        .await;
    }

    /// Waits until HelmOp `web` tells of so many clusters.
    async fn until_web_counts(&self, ready: u64, desired: u64) {
        // A kind that is installed later is looked for twice a minute.
        eventually("the status", Duration::from_mins(1), async || {
            let helmop = self.kubectl.get("helmop/web").await?.context("there is none")?;
            let status = &helmop["status"];
            ensure!(
                status["readyClusters"] == ready && status["desiredReadyClusters"] == desired,
                "it is {status}"
            );
            let display = &status["display"]["readyBundleDeployments"];
            ensure!(*display == format!("{ready}/{desired}"), "it is {display}");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn restart_controller(&mut self, name: &str) {
        let status = self.controller.process.terminate(SOON).await.unwrap();
        assert_eq!(status.code(), Some(0), "SIGTERM is a clean end");
        self.controller = start_controller(&self.bed, name).await.unwrap();
    }
}

async fn start_controller(bed: &TestBed, name: &str) -> Result<Running> {
    helmops::start_controller(bed, name, &|program| bed.command(program)).await
}

/// The rule of the webhook is the controller's too.
#[tokio::test]
async fn the_controller_refuses_what_the_webhook_would() {
    let alone = Alone::start(None).await.unwrap();
    let archive = "https://charts.example.com/web-1.2.3.tgz";
    let cases = [
        (Value::Null, "HelmRequired", "helm options are empty"),
        (
            json!({ "chart": archive, "repo": "https://h" }),
            "RepoForbidden",
            "tarball chart with a non-empty repo field",
        ),
        (
            json!({ "chart": archive, "version": "1.2.3" }),
            "VersionForbidden",
            "tarball chart with a non-empty version field",
        ),
        (
            json!({ "chart": archive, "version": "latest" }),
            "VersionForbidden",
            "tarball chart with a non-empty version field",
        ),
        (
            json!({ "chart": archive, "version": "*" }),
            "VersionForbidden",
            "tarball chart with a non-empty version field",
        ),
        (
            json!({ "repo": "oci://h/c", "chart": "c" }),
            "ChartForbidden",
            "OCI repository with a non-empty chart field",
        ),
        (
            json!({ "repo": "https://h" }),
            "ChartRequired",
            "non-OCI repository with an empty chart field",
        ),
        (
            json!({ "chart": "foo" }),
            "RepoRequired",
            "non-tarball chart with an empty repo field",
        ),
        (
            json!({}),
            "ChartRequired",
            "non-OCI repository with an empty chart field",
        ),
        (
            json!({ "repo": "https://h", "chart": "c", "version": "foo" }),
            "InvalidVersion",
            "improper constraint: \"foo\"",
        ),
    ];
    for (number, (helm, reason, words)) in cases.into_iter().enumerate() {
        let name = format!("v{number}");
        alone.apply(&name, &json!({ "helm": helm })).await;
        let message = alone.until(&name, "Accepted", reason).await;
        assert!(message.contains(words), "{message}");
        assert_eq!(alone.until(&name, "Ready", reason).await, message);
        assert!(
            alone
                .kubectl
                .get(&format!("bundle/{name}"))
                .await
                .unwrap()
                .is_none()
        );
    }
    // Mended, it is accepted.
    alone.apply("v9", &json!({})).await;
    assert_eq!(alone.until("v9", "Accepted", "Accepted").await, "");
}

#[tokio::test]
async fn a_new_helmop_costs_two_writes_and_an_unchanged_one_none() {
    let mut alone = Alone::start(None).await.unwrap();
    alone
        .apply("web", &json!({ "targets": [{ "clusterSelector": {} }] }))
        .await;
    alone.until("web", "Accepted", "Accepted").await;
    // kubectl created the object by POST, so every PATCH is a status.
    assert_eq!(alone.writes().await, [1, 0, 1]);

    // A change of the Bundle that asks for nothing: it is looked at again.
    let before = alone.reconciled().await.unwrap();
    alone
        .kubectl
        .run(&["annotate", "bundle/web", "somebody=else"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    alone.until_reconciled(before, 1.0).await;
    let written = alone.writes().await;
    assert_eq!(written, [1, 0, 1]);
    alone.restart_controller("controller-2").await;
    alone.until_reconciled(0.0, 1.0).await;
    assert_eq!(alone.writes().await, written, "a restart writes nothing");
    assert_eq!(alone.server.requests("/index.yaml"), 1, "and asks no repository");

    alone
        .apply(
            "web",
            &json!({ "helm": { "repo": alone.server.url(), "chart": "alpine", "version": "0.1.0" } }),
        )
        .await;
    alone.until_version("web", "0.1.0").await;
    eventually("the status", SOON, async || {
        let helmop = alone.kubectl.get("helmop/web").await?.context("there is none")?;
        ensure!(
            helmop["status"]["version"] == "0.1.0",
            "it is {}",
            helmop["status"]
        );
        Ok(())
    })
    .await
    .unwrap();
    // One Bundle, one status, and kubectl's own patch.
    assert_eq!(alone.writes().await, [1, 1, 3]);
}

/// Fleet's own definition has none of our fields, and the API server drops them.
#[tokio::test]
async fn a_definition_without_our_fields_will_do() {
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let change = json!([
        { "op": "remove", "path": format!("{status}/observedGeneration") },
        { "op": "remove", "path": format!("{status}/resolved") },
        { "op": "remove", "path": format!("{status}/conditions/items/properties/observedGeneration") }
    ]);
    let mut alone = Alone::start(Some(&change.to_string())).await.unwrap();
    alone.apply("web", &json!({})).await;
    alone.until("web", "Accepted", "Accepted").await;
    alone.until_version("web", "0.2.0").await;
    for round in 0..3 {
        let before = alone.reconciled().await.unwrap();
        let annotation = format!("round={round}");
        alone
            .kubectl
            .run(&["annotate", "--overwrite", "bundle/web", &annotation])
            .await
            .unwrap()
            .ok()
            .unwrap();
        alone.until_reconciled(before, 1.0).await;
    }
    assert_eq!(alone.writes().await, [1, 0, 1]);
    alone.restart_controller("controller-2").await;
    alone.until_reconciled(0.0, 1.0).await;
    alone.until_version("web", "0.2.0").await;
    assert_eq!(alone.server.requests("/index.yaml"), 1);
}

#[tokio::test]
async fn an_odd_object_stops_nothing() {
    let paused = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/paused";
    let anything = json!({ "x-kubernetes-preserve-unknown-fields": true });
    let change = json!([{ "op": "replace", "path": paused, "value": anything }]);
    let mut alone = Alone::start(Some(&change.to_string())).await.unwrap();
    alone.apply("odd", &json!({ "paused": "maybe" })).await;
    alone.apply("good", &json!({})).await;
    alone.until_version("good", "0.2.0").await;
    alone.restart_controller("controller-2").await;
    alone.apply("better", &json!({})).await;
    alone.until_version("better", "0.2.0").await;
    assert!(alone.controller.process.log().contains("does not decode"));
    assert!(alone.kubectl.get("bundle/odd").await.unwrap().is_none());
}

#[tokio::test]
async fn objects_stored_before_the_webhook_came_stay_editable() {
    let alone = Alone::start(None).await.unwrap();
    let bad = json!({ "repo": "https://charts.example.com", "chart": "web", "version": "foo" });
    alone.apply("old", &json!({ "helm": bad })).await;
    alone.apply("doomed", &json!({ "helm": bad })).await;
    let finalizer = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    alone
        .kubectl
        .run(&["patch", "helmop/doomed", "--type=merge", "-p", finalizer])
        .await
        .unwrap()
        .ok()
        .unwrap();
    let webhook = helmops::start_webhook(&alone.bed, "webhook", &|program| alone.bed.command(program))
        .await
        .unwrap();
    helmops::register_webhook(&alone.kubectl, &webhook).await.unwrap();

    let patch = async |name: &str, patch: &str| {
        alone
            .kubectl
            .run(&["patch", &format!("helmop/{name}"), "--type=merge", "-p", patch])
            .await
            .unwrap()
    };
    alone
        .kubectl
        .run(&["label", "helmop/old", "team=a"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    let edited = patch("old", r#"{"spec":{"paused":true}}"#).await;
    assert!(edited.status.success(), "{}", edited.stderr);
    assert!(
        edited
            .stderr
            .contains("not new, but still wrong: spec.helm.version"),
        "{}",
        edited.stderr
    );
    let worse = patch("old", r#"{"spec":{"helm":{"chart":""}}}"#).await;
    assert!(
        worse.stderr.contains("spec.helm.chart: Required value"),
        "{}",
        worse.stderr
    );
    assert!(
        !worse.stderr.contains("spec.helm.version: Invalid value"),
        "{}",
        worse.stderr
    );

    alone
        .kubectl
        .run(&["delete", "helmop/doomed", "--wait=false"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    patch("doomed", r#"{"metadata":{"finalizers":null}}"#)
        .await
        .ok()
        .unwrap();
    eventually("the HelmOp to go", SOON, async || {
        ensure!(alone.kubectl.get("helmop/doomed").await?.is_none(), "it is there");
        Ok(())
    })
    .await
    .unwrap();
}

/// What Rancher trusts is trusted, every Bundle carries it, and a change is seen.
#[tokio::test]
async fn the_authorities_of_rancher() {
    let alone = Alone::start(None).await.unwrap();
    let server = ChartServer::https(alone.charts.0.folder()).await.unwrap();
    let helm = json!({ "helm": { "repo": server.url(), "chart": "alpine" } });
    alone.apply("web", &helm).await;
    alone.until("web", "Accepted", "CertificateError").await;
    let namespace = ["create", "namespace", "cattle-system"];
    alone.kubectl.run(&namespace).await.unwrap().ok().unwrap();
    let secret = |data: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls-ca", "namespace": "cattle-system" },
            "stringData": data,
        })
        .to_string()
    };
    let apply = async |secret: String| alone.kubectl.apply(&secret).await.unwrap().ok().unwrap();
    apply(secret(json!({ "cacerts.pem": server.ca() }))).await;
    alone.until_version("web", "0.2.0").await;
    let carried = async || {
        let bundle = alone.kubectl.get("bundle/web").await.unwrap().unwrap();
        bundle["spec"]["helmOpOptions"]["helmOpCABundle"].clone()
    };
    assert!(carried().await.as_str().unwrap().len() > 100);
    let delete = ["delete", "secret", "tls-ca", "--namespace", "cattle-system"];
    alone.kubectl.run(&delete).await.unwrap().ok().unwrap();
    eventually("the Bundle without them", SOON, async || {
        ensure!(carried().await.is_null(), "it still carries them");
        Ok(())
    })
    .await
    .unwrap();
    apply(secret(json!({ "other": "x" }))).await;
    let message = alone.until("web", "Accepted", "InvalidSecret").await;
    assert!(
        message.contains("no field cacerts.pem found in secret tls-ca"),
        "{message}"
    );
}

/// A cluster may have no Policies at all, or get their definition late; and one Policy may be odd.
#[tokio::test]
async fn policies_come_late_and_one_of_them_is_odd() {
    let mut alone = Alone::start(None).await.unwrap();
    let definition = helmops::manifests().join("crds/policies.yaml");
    let definition = definition.to_str().unwrap();
    let kubectl = alone.kubectl.clone();
    let run = async |arguments: &[&str]| kubectl.run(arguments).await.unwrap().ok().unwrap();
    let policy = |fields: Value| {
        let mut policy = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" } });
        policy
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        policy.to_string()
    };
    // The API server serves a new definition, or a changed one, a moment later.
    let until_applied = async |policy: String| {
        eventually("the Policy to be stored", SOON, async || {
            kubectl.apply(&policy).await?.ok().map(drop)
        })
        .await
        .unwrap();
    };
    run(&["delete", "-f", definition]).await;
    alone.restart_controller("controller-2").await;
    alone.apply("web", &json!({})).await;
    alone.until("web", "Accepted", "Accepted").await;
    let asked = alone.server.requests("/index.yaml");

    run(&["apply", "--server-side", "-f", definition]).await;
    let limits = json!({ "requireServiceAccount": true, "helmOp": { "allowedHelmSecretNames": ["charts"] } });
    until_applied(policy(limits)).await;
    let message = alone.until("web", "Accepted", "PolicyViolation").await;
    assert!(
        message.starts_with("spec.serviceAccount: Required value: serviceAccount is required by Policy"),
        "{message}"
    );
    // Nobody looks up what is refused, not even its Secret.
    for (name, over, words) in [
        ("e15", json!({}), "serviceAccount is required"),
        (
            "e16",
            json!({ "serviceAccount": "a", "helmSecretName": "other" }),
            "disallowed helmSecretName other",
        ),
    ] {
        alone.apply(name, &over).await;
        let message = alone.until(name, "Accepted", "PolicyViolation").await;
        assert!(message.contains(words), "{message}");
        let bundle = kubectl.get(&format!("bundle/{name}")).await.unwrap();
        assert!(bundle.is_none(), "{bundle:?}");
    }
    assert_eq!(alone.server.requests("/index.yaml"), asked);

    let anything = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/requireServiceAccount",
        "value": { "x-kubernetes-preserve-unknown-fields": true },
    }]);
    let crd = "policies.fleet.cattle.io";
    run(&["patch", "crd", crd, "--type=json", "-p", &anything.to_string()]).await;
    until_applied(policy(json!({ "requireServiceAccount": "perhaps" }))).await;
    eventually("the odd Policy to count", SOON, async || {
        let message = alone.until("web", "Accepted", "PolicyViolation").await;
        ensure!(
            message.starts_with("metadata.namespace: Forbidden: \"default\": Policy \"limits\" of this namespace does not decode: ")
                && message.contains("requireServiceAccount"),
            "{message}"
        );
        Ok(())
    })
    .await
    .unwrap();
    // Other namespaces, and later changes, are not concerned.
    run(&["create", "namespace", "elsewhere"]).await;
    let elsewhere = kubectl.in_namespace("elsewhere");
    elsewhere
        .apply(&alone.helmop("web", &json!({})))
        .await
        .unwrap()
        .ok()
        .unwrap();
    eventually("the HelmOp elsewhere", SOON, async || {
        elsewhere.get("bundle/web").await?.context("no Bundle").map(drop)
    })
    .await
    .unwrap();
    until_applied(policy(json!({ "requireServiceAccount": false, "helmOp": null }))).await;
    for name in ["web", "e15"] {
        alone.until(name, "Accepted", "Accepted").await;
    }
}

/// The definition of a kind that the controller only reads; any bundle controller brings its own.
fn deployments_definition() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "bundledeployments.fleet.cattle.io" },
        "spec": {
            "group": "fleet.cattle.io",
            "scope": "Namespaced",
            "names": { "kind": "BundleDeployment", "plural": "bundledeployments", "singular": "bundledeployment" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    })
}

fn deployment_of_web() -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "BundleDeployment",
        "metadata": { "name": "web", "labels": {
            "fleet.cattle.io/fleet-helm-name": "web", "fleet.cattle.io/bundle-namespace": "default",
            "fleet.cattle.io/cluster": "c1", "fleet.cattle.io/cluster-namespace": "default",
        } },
        "spec": { "deploymentID": "s:1", "stagedDeploymentID": "s:1" },
    })
}

/// What a bundle controller and an agent do, by hand: the status of the HelmOp follows.
#[tokio::test]
async fn readiness_is_what_the_deployments_say() {
    let alone = Alone::start(None).await.unwrap();
    alone
        .apply("web", &json!({ "targets": [{ "clusterSelector": {} }] }))
        .await;
    alone.until_version("web", "0.2.0").await;
    // Installed only now: the controller was there before.
    alone.apply_object(&deployments_definition()).await;
    let crd = "crd/bundledeployments.fleet.cattle.io";
    alone.run(&["wait", "--for=condition=Established", crd]).await;
    alone.apply_object(&deployment_of_web()).await;
    alone.bundle_says(json!({ "ready": 0, "desiredReady": 1 })).await;
    alone.until_web_counts(0, 1).await;

    let deployed = json!({ "appliedDeploymentID": "s:1", "ready": true, "nonModified": true });
    alone.patch_status("bundledeployment/web", &deployed).await;
    alone.bundle_says(json!({ "ready": 1, "desiredReady": 1 })).await;
    assert_eq!(alone.until("web", "Ready", "Ready").await, "");
    alone.until_web_counts(1, 1).await;
    let metrics = Metrics::scrape(&format!("{}/metrics", alone.controller.admin))
        .await
        .unwrap();
    let labels = [("name", "web"), ("namespace", "default"), ("version", "0.2.0")];
    assert_eq!(metrics.sum("fleet_helmop_ready_clusters", &labels), Some(1.0));

    alone.run(&["delete", "bundledeployment/web"]).await;
    alone.until_web_counts(0, 0).await;
}

/// What happened can be read with `kubectl describe`, once.
#[tokio::test]
async fn events_tell_what_happened() {
    let alone = Alone::start(None).await.unwrap();
    let helm = |version: &str| json!({ "helm": { "repo": alone.server.url(), "chart": "alpine", "version": version } });
    let until_event = async |reason: &str| {
        eventually(reason, SOON, async || {
            let list = ["get", "events.events.k8s.io", "--output=json"];
            let list: Value = serde_json::from_str(&alone.kubectl.run(&list).await?.ok()?)?;
            let events = list["items"].as_array().context("no list")?;
            let told: Vec<_> = events.iter().filter(|event| event["reason"] == reason).collect();
            ensure!(told.len() == 1, "{} of them", told.len());
            Ok(told[0].clone())
        })
        .await
        .unwrap()
    };
    alone.apply("web", &helm("7.x")).await;
    let refused = until_event("NoMatchingVersion").await;
    assert_eq!(
        (&refused["type"], &refused["regarding"]["name"]),
        (&json!("Warning"), &json!("web"))
    );
    assert!(
        refused["note"].as_str().unwrap().contains("its versions are"),
        "{refused}"
    );
    alone.apply("web", &helm("0.1.0")).await;
    until_event("Accepted").await;
    alone.until_version("web", "0.1.0").await;
    alone.apply("web", &helm("0.x")).await;
    let newer = until_event("GotNewChartVersion").await;
    assert_eq!(newer["note"], "0.2.0 (before: 0.1.0)");
    assert_eq!(newer["reportingController"], "helmops-controller");
}
