//! A control plane for one test, with the controller and a chart repository, and without a webhook.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::helmops::{self, Running};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::metrics::{Metrics, api_requests};
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::{SOON, helmop, run, until_reason, until_version};

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
        let bed = helmops::control_plane(true).await?;
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
        Self::on(bed, &[]).await
    }

    /// Starts the controller with flags, and a chart repository, for a control plane.
    pub async fn on(bed: TestBed, flags: &[(&str, &str)]) -> Result<Self> {
        let folder = bed.directory.join("charts");
        let versions: &[(&str, &[&str])] = &[("alpine", &["0.1.0", "0.2.0"])];
        let charts = ChartRepo::build(&bed.tools, &folder, versions).await?;
        let server = ChartServer::http(charts.folder()).await?;
        let controller = start_controller(&bed, "controller", flags).await?;
        Ok(Self {
            controller,
            server,
            kubectl: bed.kubectl(),
            bed,
            charts,
        })
    }

    pub fn helmop(&self, name: &str, over: &Value) -> String {
        let mut spec = json!({ "helm": { "repo": self.server.url(), "chart": "alpine", "version": "0.x" } });
        spec.as_object_mut()
            .unwrap()
            .extend(over.as_object().unwrap().clone());
        helmop(name, &spec)
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
        until_reason(&self.kubectl, name, r#type, reason).await
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
        run(&self.kubectl, arguments).await;
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
