//! The fixture of each test.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_tests::chart_server::ChartServer;
use helmops_tests::charts::ChartRepo;
use helmops_tests::helmops::{self, Running};
use helmops_tests::kubectl::Kubectl;
use helmops_tests::metrics::{Metrics, api_requests};
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

/// A reconciliation takes milliseconds; the machine may be busy with other tests.
pub const SOON: Duration = Duration::from_secs(30);

/// A control plane with the controller in it, and a chart repository.
pub struct Fixture {
    pub controller: Running,
    pub server: ChartServer,
    pub kubectl: Kubectl,
    pub bed: TestBed,
    pub charts: ChartRepo,
}

impl Fixture {
    /// Starts everything; before the controller, the CRD of HelmOp gets the JSON patch `crd_patch`.
    pub async fn start(crd_patch: Option<&str>) -> Result<Self> {
        let bed = helmops::control_plane(Path::new(env!("CARGO_BIN_EXE_testbed")), true).await?;
        let kubectl = bed.kubectl();
        if let Some(patch) = crd_patch {
            let arguments = [
                "patch",
                "crd",
                "helmops.fleet.cattle.io",
                "--type=json",
                "-p",
                patch,
            ];
            kubectl.run(&arguments).await?.ok()?;
        }
        let folder = bed.directory.join("charts");
        let versions: &[(&str, &[&str])] = &[("alpine", &["0.1.0", "0.2.0"])];
        let charts = ChartRepo::build(&bed.tools, &folder, versions).await?;
        let server = ChartServer::http(charts.folder()).await?;
        let controller = start_controller(&bed, "controller", &[]).await?;
        Ok(Self {
            controller,
            server,
            kubectl,
            bed,
            charts,
        })
    }

    pub fn helmop(&self, name: &str, over: &Value) -> String {
        let mut spec = json!({ "helm": { "repo": self.server.url(), "chart": "alpine", "version": "0.x" } });
        spec.as_object_mut()
            .unwrap()
            .extend(over.as_object().unwrap().clone());
        json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": name }, "spec": spec })
            .to_string()
    }

    pub async fn apply(&self, name: &str, over: &Value) {
        self.kubectl
            .apply(&self.helmop(name, over))
            .await
            .unwrap()
            .ok()
            .unwrap();
    }

    pub async fn until_version(&self, name: &str, version: &str) {
        until_version(&self.kubectl, name, version).await;
    }

    /// Waits until the condition of that type has this reason, and returns its message.
    pub async fn until(&self, name: &str, r#type: &str, reason: &str) -> String {
        until(&self.kubectl, name, r#type, reason).await
    }

    /// The writes of helmops that the API server has counted: created Bundles, updated Bundles, and statuses.
    pub async fn writes(&self) -> [u64; 3] {
        let count = async |resource, verb| api_requests(&self.bed, resource, verb).await.unwrap();
        [
            count("bundles", "POST").await,
            count("bundles", "PUT").await,
            count("helmops", "PATCH").await,
        ]
    }

    /// Waits until the controller has reconciled this many times more than `before`.
    pub async fn until_reconciled(&self, before: f64, times: f64) {
        eventually("reconciliations", SOON, async || {
            let now = self.reconciled().await?;
            ensure!(now >= before + times, "{now} since {before}");
            Ok(())
        })
        .await
        .unwrap();
    }

    pub async fn reconciled(&self) -> Result<f64> {
        let metrics = Metrics::scrape(&format!("{}/metrics", self.controller.admin)).await?;
        metrics
            .sum("helmops_reconcile_total", &[])
            .context("no such metric")
    }

    pub async fn run(&self, arguments: &[&str]) {
        self.kubectl.run(arguments).await.unwrap().ok().unwrap();
    }

    pub async fn apply_object(&self, object: &Value) {
        self.kubectl
            .apply(&object.to_string())
            .await
            .unwrap()
            .ok()
            .unwrap();
    }

    pub async fn stop_controller(&mut self) {
        let status = self.controller.process.terminate(SOON).await.unwrap();
        assert_eq!(status.code(), Some(0), "SIGTERM ends the process cleanly");
    }

    /// Writes a status as another controller would.
    pub async fn patch_status(&self, object: &str, status: &Value) {
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

    pub async fn restart_controller(&mut self, name: &str) {
        self.stop_controller().await;
        self.controller = start_controller(&self.bed, name, &[]).await.unwrap();
    }
}

/// Starts the controller with flags, set through their environment variables.
pub async fn start_controller(bed: &TestBed, name: &str, flags: &[(&str, &str)]) -> Result<Running> {
    let command = |program: &Path| {
        let mut command = bed.command(program);
        command.envs(flags.iter().copied());
        command
    };
    helmops::start_controller(bed, name, &command).await
}

/// Waits until a Bundle has this version.
pub async fn until_version(kubectl: &Kubectl, name: &str, version: &str) {
    let bundle = format!("bundle/{name}");
    eventually(&bundle, SOON, async || {
        let found = kubectl.get(&bundle).await?.context("there is none")?;
        let found = &found["spec"]["helm"]["version"];
        ensure!(found == version, "it is {found}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits until the condition of that type of a HelmOp has this reason, and returns its message.
pub async fn until(kubectl: &Kubectl, name: &str, r#type: &str, reason: &str) -> String {
    let helmop = format!("helmop/{name}");
    eventually(&helmop, SOON, async || {
        let found = kubectl.get(&helmop).await?.context("there is none")?;
        let conditions = found["status"]["conditions"]
            .as_array()
            .context("no conditions")?;
        let condition = conditions
            .iter()
            .find(|condition| condition["type"] == r#type)
            .context("no condition of this type")?;
        ensure!(condition["reason"] == reason, "it is {condition}");
        Ok(condition["message"].as_str().unwrap_or_default().to_owned())
    })
    .await
    .unwrap()
}
