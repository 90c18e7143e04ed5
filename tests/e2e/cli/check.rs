//! `kubectl helmop check`, `logs` and `version`, on an installation that works, and on broken ones.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::NAMESPACE;
use helmops_bed::node::{self, Pod};
use helmops_bed::process::Process;
use helmops_bed::service_account::service_account_kubeconfig;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::two_clusters::{helmop, helmop_command};
use crate::harness::{SOON, run, until};
use crate::install::readme::{INSTALL, commands, run_pods, shell};

/// A cluster with helmops and an agent for itself, as README.md installs them.
struct Installation {
    bed: TestBed,
    pods: Vec<Pod>,
    agent: Pod,
}

impl Installation {
    async fn start() -> Self {
        let options = Options {
            nodes: true,
            ..Options::default()
        };
        let bed = TestBed::start(&options).await.unwrap();
        shell(&bed, &commands("README.md", INSTALL)).await;
        let pods = run_pods(&bed).await.into();
        let command = |program: &Path| bed.command(program);
        let agent = node::run_local_agent_pod(&bed, "helmops-agent-0", &command)
            .await
            .unwrap();
        let installation = Self { bed, pods, agent };
        let local = installation.bed.kubectl().in_namespace("fleet-local");
        until(&local, "cluster/local", |found| {
            ensure!(found["status"]["agent"]["lastSeen"].is_string(), "no heartbeat");
            Ok(())
        })
        .await;
        installation
    }

    /// The exit code, and the findings of the report.
    async fn check(&self, arguments: &str) -> (i32, String) {
        check(&self.bed, &self.bed.kubeconfig, arguments).await
    }

    /// Waits until the check fails with this line, and the line after it.
    async fn until_it_says(&self, line: &str, fix: &str) {
        eventually(line, SOON, async || {
            let (code, printed) = self.check("check").await;
            ensure!(
                code == 1 && printed.contains(line) && printed.contains(fix),
                "{code}\n{printed}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }
}

async fn check(bed: &TestBed, kubeconfig: &Path, arguments: &str) -> (i32, String) {
    let output = helmop(bed, kubeconfig, arguments).await;
    (output.status.code().unwrap(), output.stdout + &output.stderr)
}

async fn patch_status(bed: &TestBed, object: &str, namespace: &str, status: &Value) {
    let patch = json!({ "status": status }).to_string();
    let arguments = [
        "patch",
        object,
        "--subresource=status",
        "--type=merge",
        "--patch",
        &patch,
    ];
    run(&bed.kubectl().in_namespace(namespace), &arguments).await;
}

#[tokio::test]
async fn an_installation_is_checked_while_it_works_and_while_parts_of_it_do_not() {
    let mut installation = Installation::start().await;
    eventually("all checks to pass", SOON, async || {
        let (code, printed) = installation.check("check").await;
        ensure!(code == 0, "{printed}");
        Ok(())
    })
    .await
    .unwrap();
    let (_, printed) = installation.check("check").await;
    for line in [
        "✔ helmops.fleet.cattle.io is that of this version",
        "✔ clusters.fleet.cattle.io is that of this version",
        "✔ Deployment helmops-system/helmops-controller: 1 of 1 replicas are ready, version 0.1.0",
        "✔ Deployment cattle-fleet-local-system/helmops-agent: 1 of 1 replicas are ready, version 0.1.0",
        "✔ ValidatingWebhookConfiguration helmops: caBundle has 1 of 1 CAs valid, failurePolicy Fail",
        "✔ it denies an invalid HelmOp (dry run), so the API server reaches and trusts it",
        "✔ the certificate in Secret helmops-system/helmops-webhook-tls is trusted",
        "✔ Lease helmops-system/fleet-helmops-leader-election-shard is held by helmops-controller-0",
        "- those of pod helmops-controller-0 are not reachable through the API server",
        "✔ 1 of 1 agents report",
    ] {
        assert!(printed.contains(line), "{line:?} is not in:\n{printed}");
    }
    versions_and_logs(&installation).await;
    what_a_viewer_may_not_read_is_skipped(&installation).await;
    an_old_crd_is_a_warning(&installation).await;

    let long_ago = json!({ "agent": { "lastSeen": "2026-01-01T00:00:00Z", "namespace": "a" } });
    installation.agent.running.process.kill().await.unwrap();
    patch_status(&installation.bed, "cluster/local", "fleet-local", &long_ago).await;
    let (_, printed) = installation.check("check").await;
    assert!(
        printed.contains("! Cluster fleet-local/local: its agent is silent for"),
        "{printed}"
    );

    broken_one_after_the_other(installation).await;
}

async fn broken_one_after_the_other(mut installation: Installation) {
    let kubectl = installation.bed.kubectl();
    // The webhook manages its certificate, so it would correct the caBundle.
    let mut webhook = installation.pods.remove(0);
    webhook.running.process.kill().await.unwrap();
    installation
        .until_it_says(
            "✗ the API server gets no response: ",
            "fix: kubectl helmop logs webhook",
        )
        .await;
    let empty = json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]).to_string();
    let configuration = "validatingwebhookconfiguration/helmops";
    run(
        &kubectl,
        &["patch", configuration, "--type=json", "--patch", &empty],
    )
    .await;
    installation
        .until_it_says(
            "✗ ValidatingWebhookConfiguration helmops: caBundle is empty",
            "fix: the webhook sets it",
        )
        .await;
    run(&kubectl, &["delete", configuration]).await;
    installation
        .until_it_says(
            "✗ ValidatingWebhookConfiguration helmops does not exist",
            "-k manifests",
        )
        .await;
    let (_, printed) = installation.check("check").await;
    assert!(
        printed.contains("✗ the API server accepts an invalid HelmOp in namespace default (dry run)"),
        "{printed}"
    );

    let mut controller = installation.pods.remove(0);
    controller.running.process.kill().await.unwrap();
    installation
        .until_it_says(
            "shard expired: helmops-controller-0 has not renewed it for",
            "docs/high-availability.md",
        )
        .await;
    let system = kubectl.in_namespace(NAMESPACE);
    run(
        &system,
        &["scale", "deployment", "helmops-controller", "--replicas=0"],
    )
    .await;
    installation
        .until_it_says(
            "✗ Deployment helmops-system/helmops-controller: 0 of 0 replicas",
            "--replicas=1",
        )
        .await;
    run(&system, &["delete", "deployment", "helmops-webhook"]).await;
    installation
        .until_it_says("✗ no Deployment of the webhook found", "docs/install.md")
        .await;
    run(
        &kubectl,
        &["delete", "customresourcedefinition", "helmops.fleet.cattle.io"],
    )
    .await;
    installation
        .until_it_says(
            "✗ helmops.fleet.cattle.io does not exist",
            "--filename manifests/crd/bases",
        )
        .await;
}

async fn versions_and_logs(installation: &Installation) {
    let (_, printed) = installation.check("version").await;
    for line in [
        "controller 0.1.0 in helmops-system/helmops-controller\n",
        "webhook 0.1.0 in helmops-system/helmops-webhook\n",
        "agent 0.1.0 on clusters: 1\n",
    ] {
        assert!(printed.contains(line), "{line:?} is not in:\n{printed}");
    }
    let system = installation.bed.kubectl().in_namespace(NAMESPACE);
    let get = [
        "get",
        "pods",
        "--selector=app.kubernetes.io/name=helmops-webhook",
        "--output=name",
    ];
    let pods = run(&system, &get).await;
    let line = |second: u8, message: &str| {
        json!({
            "timestamp": format!("2026-01-01T12:00:0{second}.000000Z"), "level": "INFO", "message": message,
            "span": { "helmop": "fleet-local/web" },
        })
    };
    // The simulated node serves what the annotations say.
    for (number, pod) in (1..).zip(pods.lines()) {
        let log = format!(
            "helmops.test/log={}\n{}\n",
            line(number, &format!("first of {number}")),
            line(number + 4, "later")
        );
        run(&system, &["annotate", pod, &log]).await;
    }
    let expected = ["12:00:01", "12:00:02", "12:00:05", "12:00:06"];
    eventually("merged logs", SOON, async || {
        let (code, printed) = installation.check("logs webhook --helmop fleet-local/web").await;
        let times: Vec<_> = printed.lines().filter_map(|line| line.get(11..19)).collect();
        ensure!(code == 0 && times == expected, "{printed}");
        ensure!(
            printed.contains("INFO") && printed.contains("fleet-local/web first of 2"),
            "{printed}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let (_, printed) = installation.check("logs webhook --helmop other -o json").await;
    assert_eq!(printed, "");
    let (_, raw) = installation
        .check("logs webhook --helmop fleet-local/web -o json --tail 1")
        .await;
    assert_eq!(raw, format!("{}\n{}\n", line(5, "later"), line(6, "later")));

    let arguments = "logs webhook --follow --helmop fleet-local/web --tail 1";
    let command = helmop_command(&installation.bed, &installation.bed.kubeconfig, arguments);
    let mut following = Process::start("logs", command, &installation.bed.log("logs-follow")).unwrap();
    let until = async |second: &str| {
        let printed = eventually(second, SOON, async || {
            let log = following.log();
            ensure!(log.contains(second), "{log}");
            Ok(log)
        });
        printed.await.unwrap()
    };
    for second in ["12:00:05", "12:00:06"] {
        until(second).await;
    }
    let pod = pods.lines().next().unwrap();
    let more = format!(
        "helmops.test/log={}\n{}\n{}\n",
        line(1, "first of 1"),
        line(5, "later"),
        line(7, "while it is followed")
    );
    run(&system, &["annotate", "--overwrite", pod, &more]).await;
    let log = until("12:00:07").await;
    assert_eq!(log.lines().count(), 3, "{log}");
    following.kill().await.unwrap();
}

/// What another user may do is no error of the installation.
async fn what_a_viewer_may_not_read_is_skipped(installation: &Installation) {
    let kubectl = installation.bed.kubectl();
    run(&kubectl, &["create", "serviceaccount", "viewer"]).await;
    let viewer: PathBuf = service_account_kubeconfig(&installation.bed, "default", "viewer")
        .await
        .unwrap();
    let (code, printed) = check(&installation.bed, &viewer, "check").await;
    assert_eq!(code, 0, "{printed}");
    for line in [
        "- helmops.fleet.cattle.io: you may not read CRDs",
        "- ValidatingWebhookConfiguration helmops: you may not read it",
        "- you may not create HelmOps in namespace default, so it was not called",
        "! missing for status, history, tree, wait: get helmops.fleet.cattle.io in namespace default",
    ] {
        assert!(printed.contains(line), "{line:?} is not in:\n{printed}");
    }
}

async fn an_old_crd_is_a_warning(installation: &Installation) {
    let field =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/agent/properties/version";
    let remove = json!([{ "op": "remove", "path": field }]).to_string();
    let crd = "customresourcedefinition/clusters.fleet.cattle.io";
    run(
        &installation.bed.kubectl(),
        &["patch", crd, "--type=json", "--patch", &remove],
    )
    .await;
    let (code, printed) = installation.check("check").await;
    let line = "! clusters.fleet.cattle.io is older than this program, or that of Fleet; the API server drops the fields that it lacks (1): \
                status.agent.version";
    assert!(code == 0 && printed.contains(line), "{printed}");
}

#[tokio::test]
async fn an_empty_cluster_is_checked_before_an_installation() {
    let bed = TestBed::start(&Options::default()).await.unwrap();
    let before = async || check(&bed, &bed.kubeconfig, "check --pre").await;
    let (code, printed) = before().await;
    assert_eq!(code, 0, "{printed}");
    for line in [
        "✔ Kubernetes v1.",
        "✔ Fleet is not installed: use manifests/standalone",
        "✔ you may install helmops",
    ] {
        assert!(printed.contains(line), "{line:?} is not in:\n{printed}");
    }
    let kubectl = bed.kubectl();
    run(&kubectl, &["create", "namespace", "cattle-fleet-system"]).await;
    for name in ["fleet-controller", "helmops"] {
        let create = [
            "create",
            "deployment",
            name,
            "--image=a",
            "--namespace=cattle-fleet-system",
        ];
        run(&kubectl, &create).await;
        let (code, printed) = before().await;
        match name {
            "helmops" => assert!(
                code == 1 && printed.contains("docs/from-fleet.md#migrate-to-helmops"),
                "{printed}"
            ),
            _ => assert!(
                code == 0 && printed.contains("use manifests/beside-fleet"),
                "{printed}"
            ),
        }
    }
    let (code, printed) = check(&bed, &bed.kubeconfig, "check").await;
    assert!(
        code == 1 && printed.contains("✗ helmops.fleet.cattle.io does not exist"),
        "{printed}"
    );
    let output = helmop(&bed, &bed.kubeconfig, "check -o json").await;
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(report["errors"].as_u64().unwrap() >= 5, "{report}");
    eventually("logs without a pod", Duration::from_secs(5), async || {
        let (code, printed) = check(&bed, &bed.kubeconfig, "logs").await;
        ensure!(
            code == 1 && printed.contains("no pod of the controller runs on this cluster"),
            "{printed}"
        );
        Ok(())
    })
    .await
    .unwrap();
}
