//! The fixture: all processes, with all controllers enabled.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::helmops::{self, ManagedWebhook, Part, ReceiverProcess, Running};
use helmops_bed::random;
use helmops_bed::sink::Sink;
use helmops_bed::test_bed::TestBed;
use helmops_bed::tools::Monitoring;
use helmops_bed::wait::eventually;
use reqwest::Client;
use serde_json::{Value, json};

use crate::harness::SOON;

/// The token of the Receiver.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// All running processes.
pub struct Monitored {
    pub controller: Running,
    pub agent: Running,
    pub notifier: Running,
    pub receiver: ReceiverProcess,
    pub sink: Sink,
    pub webhook: ManagedWebhook,
    pub monitoring: Monitoring,
    pub bed: TestBed,
    pub server: ChartServer,
}

impl Monitored {
    /// Starts all processes, deploys a HelmOp to a cluster, and gets another one denied.
    pub async fn start() -> Result<Self> {
        let monitoring = Monitoring::prepare().await?;
        let bed = helmops::control_plane_with(&[Part::Standalone, Part::Notifications], false).await?;
        helmops::apply_local_agent(&bed).await?;
        let folder = bed.directory.join("charts");
        let charts = ChartRepo::build(&bed.tools, &folder, &[("alpine", &["0.1.0"])]).await?;
        let server = ChartServer::http(charts.folder()).await?;
        let command = |program: &Path| bed.command(program);
        let webhook = helmops::start_managed_webhook(&bed, "webhook", &command).await?;
        helmops::register_managed_webhook(&bed.kubectl(), &webhook).await?;
        let controller = helmops::start_standalone_controller(&bed, "controller", &command).await?;
        let agent = helmops::start_local_agent(&bed, "agent", &command).await?;
        let notifier = helmops::start_notifier(&bed, "notifier", &command).await?;
        let receiver = helmops::start_receiver(&bed, "receiver", &command).await?;
        let monitored = Self {
            controller,
            agent,
            notifier,
            receiver,
            sink: Sink::start().await?,
            webhook,
            monitoring,
            bed,
            server,
        };
        monitored.deploy().await?;
        Ok(monitored)
    }

    /// Creates work for every controller.
    async fn deploy(&self) -> Result<()> {
        let kubectl = self.bed.kubectl();
        kubectl.apply(&object("Cluster", "c0", &json!({}))).await?.ok()?;
        kubectl
            .apply(&object("HelmOp", "web", &self.chart("0.x")))
            .await?
            .ok()?;
        let mut nowhere = self.chart("0.x");
        nowhere["targets"] = json!([{ "clusterName": "none" }]);
        kubectl
            .apply(&object("HelmOp", "nowhere", &nowhere))
            .await?
            .ok()?;
        let of_alerts = |kind: &str, spec: &Value| json!({ "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": kind, "metadata": { "name": "sink" }, "spec": spec });
        let provider = of_alerts(
            "AlertProvider",
            &json!({ "type": "generic", "address": self.sink.url() }),
        );
        kubectl.apply(&provider.to_string()).await?.ok()?;
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "sink" }, "stringData": { "token": TOKEN } });
        kubectl.apply(&secret.to_string()).await?.ok()?;
        let receiver = of_alerts(
            "Receiver",
            &json!({ "type": "generic", "secretRef": { "name": "sink" } }),
        );
        kubectl.apply(&receiver.to_string()).await?.ok()?;
        eventually("a deployment", SOON, async || {
            let found = ["get", "bundledeployments", "--all-namespaces", "--output=name"];
            let found = kubectl.run(&found).await?.ok()?;
            ensure!(found.contains("web"), "there is none");
            Ok(())
        })
        .await?;
        self.produce_events().await
    }

    /// Gets a HelmOp denied, and requests a poll of the other one.
    pub async fn produce_events(&self) -> Result<()> {
        let kubectl = self.bed.kubectl();
        let denied = kubectl
            .apply(&object("HelmOp", "denied", &self.chart("latest")))
            .await?;
        ensure!(!denied.status.success(), "the invalid HelmOp was accepted");
        let token = format!("helmops.fleet.cattle.io/poll-requested-at={}", random::word());
        let annotate = ["annotate", "--overwrite", "helmop/web", &token];
        kubectl.run(&annotate).await?.ok()?;
        self.push().await?;
        self.alert().await
    }

    /// Announces the chart of all HelmOps.
    async fn push(&self) -> Result<()> {
        let kubectl = self.bed.kubectl();
        eventually("the push to be accepted", SOON, async || {
            let receiver = kubectl.get("receiver/sink").await?.context("none")?;
            let path = receiver["status"]["webhookPath"].as_str();
            let url = format!("{}{}", self.receiver.url, path.context("no path")?);
            let status = Client::new().post(url).bearer_auth(TOKEN).send().await?.status();
            ensure!(status == 202, "{status}");
            Ok(())
        })
        .await
    }

    /// Gets a message sent: a new Alert reports the HelmOp without a cluster.
    async fn alert(&self) -> Result<()> {
        let spec = json!({
            "providerRef": { "name": "sink" }, "eventSources": [{ "kind": "HelmOp", "name": "nowhere" }],
            "grouping": { "wait": "0s" },
        });
        let name = format!("alert-{}", random::word());
        let alert = json!({
            "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": "Alert", "metadata": { "name": name }, "spec": spec,
        });
        self.bed.kubectl().apply(&alert.to_string()).await?.ok().map(drop)
    }

    fn chart(&self, version: &str) -> Value {
        json!({
            "helm": { "repo": self.server.url(), "chart": "alpine", "version": version },
            "targets": [{ "clusterSelector": {} }],
            "pollingInterval": "1h",
        })
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
    .to_string()
}
