//! What the agent reports on its own cluster: Events and metrics.

use std::path::Path;

use anyhow::{Context, ensure};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::helm::Helm;
use helmops_bed::helmops::{self, Running};
use helmops_bed::probe;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::SOON;

/// A cluster with the controller, its agent and a chart repository.
struct Local {
    server: ChartServer,
    charts: ChartRepo,
    agent: Running,
    _controller: Running,
    bed: TestBed,
}

impl Local {
    async fn start() -> Self {
        let bed = helmops::local_control_plane(false).await.unwrap();
        let command = |program: &Path| bed.command(program);
        let controller = helmops::start_standalone_controller(&bed, "controller", &command)
            .await
            .unwrap();
        let agent = helmops::start_local_agent(&bed, "agent", &command).await.unwrap();
        let folder = bed.directory.join("charts");
        let charts = ChartRepo::build(&bed.tools, &folder, &[("web", &["0.1.0", "0.2.0"])])
            .await
            .unwrap();
        Self {
            server: ChartServer::http(charts.folder()).await.unwrap(),
            charts,
            agent,
            _controller: controller,
            bed,
        }
    }

    async fn helmop(&self, name: &str, namespace: &str, helm: &Value) {
        let mut options = json!({ "repo": self.server.url(), "chart": "web", "version": "0.1.0" });
        json_patch::merge(&mut options, helm);
        let helmop = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1",
            "kind": "HelmOp",
            "metadata": { "name": name, "namespace": "fleet-local" },
            "spec": { "namespace": namespace, "helm": options, "targets": [{ "clusterSelector": {} }] },
        });
        let applied = self.bed.kubectl().apply(&helmop.to_string()).await.unwrap();
        applied.ok().unwrap();
    }

    async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.bed.kubectl().run(arguments).await?.ok()
    }

    /// Waits for an Event in a namespace with this reason and a message that contains the text.
    async fn until_event(&self, namespace: &str, reason: &str, text: &str) {
        let what = format!("an Event {reason} in {namespace} with {text:?}");
        eventually(&what, SOON, async || {
            let events = self.events(namespace).await?;
            let is_it = |event: &&Value| {
                event["reason"] == reason && event["note"].as_str().is_some_and(|note| note.contains(text))
            };
            ensure!(events.iter().any(|event| is_it(&event)), "{events:#?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// The Events of the agent in a namespace.
    async fn events(&self, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let get = [
            "get",
            "events.events.k8s.io",
            "--namespace",
            namespace,
            "--output=json",
        ];
        let list: Value = serde_json::from_str(&self.kubectl(&get).await?)?;
        let items = list["items"].as_array().context("no list")?;
        let is_own = |event: &&Value| event["reportingController"] == "helmops-agent";
        Ok(items.iter().filter(is_own).cloned().collect())
    }

    async fn until_metric(&self, series: &str) {
        let client = probe::client(None).unwrap();
        let url = format!("{}/metrics", self.agent.admin);
        eventually(series, SOON, async || {
            let text = probe::get(&client, &url).await?;
            ensure!(text.contains(&format!("{series}\n")), "not yet");
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn what_the_agent_does_is_in_events_and_metrics() {
    let local = Local::start().await;
    local.helmop("web", "shop", &json!({})).await;
    local
        .until_event(
            "shop",
            "Installed",
            "release shop/web: revision 1, chart web 0.1.0",
        )
        .await;
    local
        .until_metric(r#"helmops_agent_bundledeployments{state="Ready"} 1"#)
        .await;
    for series in [
        r#"helmops_agent_helm_runs_total{action="install",result="success"} 1"#,
        r#"helmops_agent_chart_downloads_total{reason="",result="success"} 1"#,
        r#"helmops_agent_chart_cache_requests_total{result="miss"} 1"#,
    ] {
        local.until_metric(series).await;
    }
    local.helmop("web", "shop", &json!({ "version": "0.2.0" })).await;
    local
        .until_event("shop", "Upgraded", "revision 2, chart web 0.2.0")
        .await;

    let scale = [
        "set",
        "image",
        "deployment/web",
        "web=other:1",
        "--namespace=shop",
    ];
    local.kubectl(&scale).await.unwrap();
    local
        .until_event("shop", "DriftDetected", "deployment.apps shop/web modified")
        .await;
    local
        .until_metric(r#"helmops_agent_drifted_objects{correction="disabled"} 1"#)
        .await;
    let correct = r#"{"spec":{"correctDrift":{"enabled":true}}}"#;
    let patch = [
        "patch",
        "helmop/web",
        "--namespace=fleet-local",
        "--type=merge",
        "--patch",
        correct,
    ];
    local.kubectl(&patch).await.unwrap();
    local
        .until_event("shop", "DriftCorrected", "shop/web is again")
        .await;
    for series in [
        r#"helmops_agent_drifted_objects{correction="disabled"} 0"#,
        r#"helmops_agent_drifted_objects{correction="enabled"} 0"#,
        r#"helmops_agent_drift_corrections_total{result="success"} 1"#,
    ] {
        local.until_metric(series).await;
    }

    local
        .kubectl(&["delete", "helmop/web", "--namespace=fleet-local"])
        .await
        .unwrap();
    local
        .until_event("shop", "Uninstalled", "its BundleDeployment was deleted")
        .await;
    local
        .until_metric(r#"helmops_agent_bundledeployments{state="Ready"} 0"#)
        .await;
}

#[tokio::test]
async fn a_failure_and_a_refusal_have_one_event_each_with_the_reason() {
    let local = Local::start().await;
    let values = json!({ "values": { "service": { "type": "Wrong" } } });
    local.helmop("broken", "failing", &values).await;
    local.until_event("failing", "HelmFailed", "Wrong").await;
    local
        .until_metric(r#"helmops_agent_bundledeployments{state="ErrApplied"} 1"#)
        .await;
    local
        .until_metric(r#"helmops_agent_helm_failures_total{reason="ObjectInvalid"} 2"#)
        .await;
    let events = local.events("failing").await.unwrap();
    let mut notes: Vec<_> = events.iter().map(|event| event["note"].as_str()).collect();
    notes.sort_unstable();
    notes.dedup();
    // Helm words the error of an installation that replaces a failed one in another way.
    assert!(notes.len() == events.len() && events.len() <= 2, "{events:#?}");

    let helm = Helm::new(&local.bed.tools, &local.bed.directory);
    let archive = local.charts.folder().join("web-0.1.0.tgz");
    let kubeconfig = local.bed.kubeconfig.display();
    helm.run(&[
        "install",
        "taken",
        archive.to_str().unwrap(),
        "--namespace=shop",
        "--create-namespace",
        &format!("--kubeconfig={kubeconfig}"),
    ])
    .await
    .unwrap();
    local
        .helmop("refused", "shop", &json!({ "releaseName": "taken" }))
        .await;
    local
        .until_event("shop", "ForeignRelease", "release shop/taken exists")
        .await;
}
