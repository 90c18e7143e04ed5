//! Schedules: an upgrade waits for the window of its cluster. The windows themselves are tested where they are computed.

use anyhow::{Result, ensure};
use helmops_bed::helmops::manifests;
use helmops_bed::wait::eventually;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::harness::joined::Fixture;
use crate::harness::{SOON, condition, message};

const CONFIG: &str = r"apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-config}
data: {msg: {{ .Chart.Version | quote }}}
";
/// The window of the year 2099.
const FAR: &str = "0 0 2 1 1 ? 2099";

fn schedule(name: &str, expression: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "Schedule",
        // As Fleet's controller leaves it.
        "metadata": { "name": name, "finalizers": ["fleet.cattle.io/schedule-finalizer"] },
        "spec": { "schedule": expression, "duration": "1h", "targets": { "clusters": [{ "clusterName": cluster }] } },
    })
}

fn window(cluster: &Value, scheduled: bool, active: bool, until: &str) -> Result<()> {
    let status = &cluster["status"];
    let is = |field: &str| status[field] == true;
    ensure!(
        (is("scheduled"), is("activeSchedule")) == (scheduled, active),
        "it is {status}"
    );
    let found = status["window"]["until"].as_str().unwrap_or_default();
    ensure!(found.starts_with(until), "it is {status}");
    Ok(())
}

#[tokio::test]
async fn an_upgrade_waits_for_the_window_of_its_cluster() {
    let fixture = Fixture::new("schedules", 2).await;
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        fixture.charts().web(version, &[("config.yaml", CONFIG)]).await;
    }
    fixture
        .apply("web", &json!({ "helm": { "version": "1.0.0" } }))
        .await;
    for cluster in &fixture.clusters {
        cluster.until_msg("web", "1.0.0").await;
    }
    fixture.workspace.until_ready_is("helmop/web", "Ready").await;
    the_upgrade_waits(&fixture).await;
    an_edit_is_reported_and_a_mistake_denied(&fixture).await;
    the_window_begins_by_itself(&fixture).await;
    a_window_denies_and_a_deletion_frees(&fixture).await;
}

/// The cluster is closed, and the status of the HelmOp says so and until when.
async fn the_upgrade_waits(fixture: &Fixture) {
    let workspace = &fixture.workspace;
    let held = &fixture.clusters[0];
    let free = &fixture.clusters[1];
    workspace.apply(&schedule("far", FAR, "c0")).await;
    let status = |found: &Value| {
        let status = &found["status"];
        ensure!(status["matchingClusters"] == json!(["c0"]), "it is {status}");
        ensure!(
            status["nextStartTime"] == "2099-01-01T02:00:00Z",
            "it is {status}"
        );
        ensure!(
            condition(found, "Ready").is_some_and(|ready| ready["status"] == "True"),
            "it is {status}"
        );
        Ok(())
    };
    workspace.until("schedule/far", status).await;
    let closed = |cluster: &Value| {
        ensure!(
            cluster["status"]["window"]["schedules"] == json!(["far"]),
            "it is {}",
            cluster["status"]
        );
        window(cluster, true, false, "2099-01-01T02:00:00Z")
    };
    workspace.until("cluster/c0", closed).await;
    workspace
        .until("cluster/c1", |cluster| window(cluster, false, false, ""))
        .await;
    workspace
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(found["spec"]["offSchedule"] == true, "it is {}", found["spec"]);
            Ok(())
        })
        .await;
    fixture
        .apply("web", &json!({ "helm": { "version": "2.0.0" } }))
        .await;
    free.until_msg("web", "2.0.0").await;
    let waits =
        "1 cluster waits for a window of its Schedules; the next one begins at 2099-01-01T02:00:00Z; ";
    let waiting = |found: &Value| {
        let message = message(found, "Ready");
        ensure!(message.starts_with(waits), "it is {message}");
        ensure!(
            condition(found, "Ready").is_some_and(|ready| ready["reason"] == "Progressing"),
            "{found}"
        );
        Ok(())
    };
    workspace.until("helmop/web", waiting).await;
    assert_eq!(held.helm_runs_of("web"), ["install"]);
}

/// The HelmOp reports the changed time.
async fn an_edit_is_reported_and_a_mistake_denied(fixture: &Fixture) {
    let workspace = &fixture.workspace;
    let change = |expression: &str| json!({ "spec": { "schedule": expression } });
    workspace.patch("schedule/far", &change("0 0 3 1 1 ? 2099")).await;
    workspace
        .until("helmop/web", |found| {
            let message = message(found, "Ready");
            ensure!(
                message.contains("begins at 2099-01-01T03:00:00Z; "),
                "it is {message}"
            );
            Ok(())
        })
        .await;
    let bad = schedule("bad", "0 0 25 * * ?", "c0").to_string();
    let denied = workspace.namespace.kubectl().apply(&bad).await.unwrap().stderr;
    assert!(
        denied.contains(
            "spec.schedule: Invalid value: \"0 0 25 * * ?\": parse cron expression: invalid numeric field 25"
        ),
        "{denied}"
    );
    let example = std::fs::read_to_string(manifests().join("examples/schedules.yaml")).unwrap();
    let example = example.replace("fleet-default", workspace.namespace.name());
    let dry = ["apply", "--dry-run=server", "--filename=-"];
    let accepted = workspace.namespace.kubectl().run_with_input(&dry, &example).await;
    accepted.unwrap().ok().unwrap();
}

/// Nothing but the clock changes.
async fn the_window_begins_by_itself(fixture: &Fixture) {
    let workspace = &fixture.workspace;
    let held = &fixture.clusters[0];
    let change = |expression: &str| json!({ "spec": { "schedule": expression } });
    let soon = Timestamp::now() + 8.seconds();
    workspace
        .patch(
            "schedule/far",
            &change(&soon.strftime("%-S %-M %-H %-d %-m ? %Y").to_string()),
        )
        .await;
    let open = |cluster: &Value| window(cluster, true, true, "");
    workspace
        .until("cluster/c0", |cluster| {
            window(
                cluster,
                true,
                false,
                &soon.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            )
        })
        .await;
    workspace.until("cluster/c0", open).await;
    held.until_msg("web", "2.0.0").await;
    workspace.until_ready_is("helmop/web", "Ready").await;
    workspace
        .until("schedule/far", |found| {
            ensure!(found["status"]["active"] == true, "it is {}", found["status"]);
            Ok(())
        })
        .await;
}

/// A Schedule of kind `Deny` closes the cluster in a window of the other one.
async fn a_window_denies_and_a_deletion_frees(fixture: &Fixture) {
    let workspace = &fixture.workspace;
    let held = &fixture.clusters[0];
    let free = &fixture.clusters[1];
    let started = (Timestamp::now() - 1.hour())
        .strftime("0 %-M %-H * * ?")
        .to_string();
    let mut deny = schedule("deny", &started, "c0");
    deny["spec"]["kind"] = json!("Deny");
    deny["spec"]["duration"] = json!("12h");
    workspace.apply(&deny).await;
    workspace
        .until("cluster/c0", |cluster| window(cluster, true, false, ""))
        .await;
    workspace
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(found["spec"]["offSchedule"] == true, "it is {}", found["spec"]);
            Ok(())
        })
        .await;
    fixture
        .apply("web", &json!({ "helm": { "version": "3.0.0" } }))
        .await;
    free.until_msg("web", "3.0.0").await;
    workspace
        .until("helmop/web", |found| {
            let message = message(found, "Ready");
            ensure!(
                message.starts_with("1 cluster waits for a window"),
                "it is {message}"
            );
            Ok(())
        })
        .await;
    assert_eq!(held.helm_runs_of("web"), ["install", "upgrade"]);
    for name in ["schedule/deny", "schedule/far"] {
        workspace.kubectl(&["delete", name, "--timeout=30s"]).await;
    }
    workspace
        .until("cluster/c0", |cluster| window(cluster, false, false, ""))
        .await;
    held.until_msg("web", "3.0.0").await;
    eventually("no Schedule is left", SOON, async || {
        let left = workspace.namespace.kubectl().get("schedule/far").await?;
        ensure!(left.is_none(), "{left:?}");
        Ok(())
    })
    .await
    .unwrap();
}
