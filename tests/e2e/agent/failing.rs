//! Deployments that fail: what is reported, and when they are tried again.

use std::time::Instant;

use anyhow::ensure;
use helmops_release::record::Status;
use serde_json::{Value, json};

use crate::harness::agent::{CONFIG, DEPLOYMENT, Fixture};
use crate::harness::{condition, message};

/// A hook that fails by itself.
const FAILING_HOOK: &str = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install}\nspec:\n  activeDeadlineSeconds: 1\n  backoffLimit: 0\n  template:\n    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}\n";

use super::engine::ENDLESS_HOOK;

fn reason(found: &Value, r#type: &str) -> Value {
    condition(found, r#type).cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_template_error_is_reported_and_the_next_version_repairs_it() {
    let fixture = Fixture::new("failing-template").await;
    fixture
        .charts
        .web("2.0.0", &[("config", "a: {{ fail \"set the value x\" }}\n")])
        .await;
    fixture.charts.web("3.0.0", &[("config", CONFIG)]).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture
        .until_error(
            "web",
            "Deployed",
            &["set the value x", "web/templates/config.yaml"],
        )
        .await;
    assert_eq!(fixture.records().await, Vec::<String>::new());
    fixture.deploy("web", "3.0.0", &json!({})).await;
    let found = fixture.until_ready("web").await;
    assert_eq!(reason(&found, "Deployed")["status"], "True");
    assert_eq!(fixture.records().await.len(), 1);
}

/// As with Fleet's agent, such an error is the outcome of the deployment; but it is not final.
#[tokio::test]
async fn a_captured_error_is_the_outcome_until_it_is_repaired() {
    let fixture = Fixture::new("failing-captured").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let object = format!("{release}-config");
    fixture.kubectl(&["create", "configmap", &object]).await;
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture
        .until_error("web", "Installed", &["not installed: ", &object, "takeOwnership"])
        .await;
    let found = fixture.until("web", |_| Ok(())).await;
    assert_eq!(reason(&found, "Deployed")["status"], "True");
    assert!(message(&found, "Ready").starts_with("not ready: "));
    assert_eq!(
        found["status"]["appliedDeploymentID"],
        found["spec"]["deploymentID"]
    );
    assert!(found["status"].get("release").is_none(), "{}", found["status"]);

    let owned = json!({ "options": { "helm": { "takeOwnership": true } } });
    fixture.deploy("web", "1.0.0", &owned).await;
    let found = fixture.until_ready("web").await;
    assert_eq!(reason(&found, "Installed")["status"], "True");
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
}

#[tokio::test]
async fn a_conflict_names_the_object_the_field_and_the_manager() {
    let fixture = Fixture::new("failing-conflict").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let object = format!("configmap/{release}-config");
    let patch = "--patch={\"data\":{\"msg\":\"mine\"}}";
    fixture
        .kubectl(&["patch", &object, "--type=merge", "--field-manager=by-hand", patch])
        .await;
    let mut spec = json!({ "options": { "helm": { "values": { "msg": "other" } } } });
    fixture.deploy("web", "1.0.0", &spec).await;
    let name = format!("{release}-config");
    fixture
        .until_error("web", "Deployed", &[&name, ".data.msg", "by-hand"])
        .await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("mine"));
    spec["options"]["helm"]["force"] = json!(true);
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_msg(&release, "other").await;
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn a_hook_that_fails_and_one_that_hangs_are_reported() {
    let fixture = Fixture::new("failing-hook").await;
    fixture.charts.web("2.0.0", &[("hook", FAILING_HOOK)]).await;
    let endless = ENDLESS_HOOK.replace("name: hook", "name: endless");
    fixture.charts.web("3.0.0", &[("hook", &endless)]).await;
    let _agent = fixture.start().await;
    fixture.deploy("fails", "2.0.0", &json!({})).await;
    fixture
        .deploy(
            "hangs",
            "3.0.0",
            &json!({ "options": { "helm": { "timeoutSeconds": 3 } } }),
        )
        .await;
    fixture
        .until_error("hangs", "Deployed", &["hook", "endless", "timeoutSeconds"])
        .await;
    fixture
        .until_error("fails", "Deployed", &["hook", "failed"])
        .await;
    for name in ["fails", "hangs"] {
        fixture.until_status(&fixture.name(name), 1, "failed").await;
    }
}

/// The hooks may take ten minutes and twenty seconds.
#[tokio::test]
async fn a_hook_that_hangs_does_not_delay_the_removal() {
    let fixture = Fixture::new("failing-hang").await;
    let endless = ENDLESS_HOOK.replace("name: hook", "name: {{ .Release.Name }}-hook");
    fixture.charts.web("3.0.0", &[("hook", &endless)]).await;
    let _agent = fixture.start().await;
    let (fixed, gone) = (fixture.name("fixed"), fixture.name("gone"));
    // They hold all permits.
    for (name, seconds) in [("fixed", 20), ("gone", 600)] {
        let slow = json!({ "options": { "helm": { "timeoutSeconds": seconds } } });
        fixture.deploy(name, "3.0.0", &slow).await;
        fixture
            .until_status(&fixture.name(name), 1, "pending-install")
            .await;
    }
    // The new version does not end a hook that may still work.
    fixture.deploy("fixed", "1.0.0", &json!({})).await;
    fixture.delete("gone").await;
    fixture
        .until_none(&format!("secret/sh.helm.release.v1.{gone}.v1"))
        .await;
    assert_eq!(fixture.helm_runs_of(&gone), ["install", "uninstall"]);
    fixture.until_ready("fixed").await;
    fixture.until_msg(&fixed, "hello").await;
    let runs = fixture.helm_runs_of(&fixed);
    assert_eq!(runs.len(), 2, "it is deployed once: {runs:?}");
}

#[tokio::test]
async fn an_atomic_installation_that_is_late_is_uninstalled() {
    let fixture = Fixture::new("failing-atomic").await;
    fixture.charts.late(DEPLOYMENT).await;
    let _agent = fixture.start().await;
    let spec = json!({ "options": { "helm": { "atomic": true, "timeoutSeconds": 3 } } });
    fixture.deploy("web", "2.0.0", &spec).await;
    // Helm is not waited for.
    fixture.until_status(&fixture.name("web"), 1, "deployed").await;
    let message = fixture
        .until_error("web", "Deployed", &["uninstalled", "late", "after 3 s"])
        .await;
    assert!(message.contains("deployment.apps"), "{message}");
    assert_eq!(
        fixture.helm_runs_of(&fixture.name("web"))[..2],
        ["install", "uninstall"]
    );
    let found = fixture.until("web", |_| Ok(())).await;
    assert_ne!(
        found["status"]["appliedDeploymentID"],
        found["spec"]["deploymentID"]
    );
}

#[tokio::test]
async fn an_atomic_upgrade_that_is_late_is_rolled_back() {
    let fixture = Fixture::new("failing-upgrade").await;
    fixture.charts.late(DEPLOYMENT).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let spec = |msg: &str| json!({ "options": { "helm": { "atomic": true, "timeoutSeconds": 3, "values": { "msg": msg } } } });
    fixture.deploy("web", "1.0.0", &spec("before")).await;
    let before = fixture.until_ready("web").await;
    fixture.deploy("web", "2.0.0", &spec("after")).await;
    fixture
        .until_error("web", "Deployed", &["rolled back", "late", "after 3 s"])
        .await;
    assert_eq!(
        fixture.helm_runs_of(&release)[..3],
        ["install", "upgrade", "rollback"]
    );
    let found = fixture.until("web", |_| Ok(())).await;
    assert_eq!(
        found["status"]["appliedDeploymentID"],
        before["spec"]["deploymentID"]
    );
    assert_eq!(
        fixture.record(&release, 3).await.unwrap().1.info.status,
        Status::Deployed
    );
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("before"));
    fixture.deploy("web", "1.0.0", &spec("repaired")).await;
    fixture.until_msg(&release, "repaired").await;
    fixture.until_ready("web").await;
}

/// A Job that never ends, since there is no node.
const ENDLESS_JOB: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: late}\nspec:\n  template:\n    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}\n";

/// As with Fleet's agent, but without a run of Helm for each timeout, and with one record of all attempts.
#[tokio::test]
async fn a_timeout_waits_for_the_objects() {
    let fixture = Fixture::new("failing-timeout").await;
    fixture.charts.late(DEPLOYMENT).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let spec = json!({ "options": { "helm": { "timeoutSeconds": 3 } } });
    fixture.deploy("web", "2.0.0", &spec).await;
    let message = fixture
        .until_error("web", "Deployed", &["deployment.apps", "late", "after 3 s"])
        .await;
    assert!(!message.contains("rolled back"), "{message}");
    let found = fixture.until("web", |_| Ok(())).await;
    assert_ne!(
        found["status"]["appliedDeploymentID"],
        found["spec"]["deploymentID"]
    );
    // The second attempt has the only record.
    fixture.until_status(&release, 2, "failed").await;
    fixture
        .until_none(&format!("secret/sh.helm.release.v1.{release}.v1"))
        .await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "install"]);
    // What is late is there, and stays.
    assert!(fixture.object("deployment/late").await.is_some());
}

#[tokio::test]
async fn jobs_are_waited_for_within_the_timeout() {
    let fixture = Fixture::new("failing-jobs").await;
    fixture.charts.late(ENDLESS_JOB).await;
    let _agent = fixture.start().await;
    let spec = json!({ "options": { "helm": { "timeoutSeconds": 3, "waitForJobs": true } } });
    fixture.deploy("web", "2.0.0", &spec).await;
    fixture
        .until_error("web", "Deployed", &["job.batch", "late", "after 3 s"])
        .await;
}

/// Helm compares an installation with nothing, so it does not remove what a failed one before it has created.
#[tokio::test]
async fn objects_that_only_a_failed_installation_had_are_removed() {
    let fixture = Fixture::new("failing-leftover").await;
    let hook = FAILING_HOOK.replace("pre-install", "post-install");
    let both = format!(
        "{CONFIG}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: leftover}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  annotations: {{helm.sh/resource-policy: keep}}\n"
    );
    fixture
        .charts
        .web("2.0.0", &[("config", &both), ("hook", &hook)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_error("web", "Deployed", &["hook"]).await;
    assert!(fixture.object("configmap/leftover").await.is_some());
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    fixture.until_none("configmap/leftover").await;
    assert!(fixture.object("configmap/kept").await.is_some());
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
    assert_eq!(fixture.records().await.len(), 1);
}

/// The same for an upgrade: Helm compares the next one with the revision before both.
#[tokio::test]
async fn objects_that_only_a_failed_upgrade_had_are_removed() {
    let fixture = Fixture::new("failing-added").await;
    let hook = FAILING_HOOK.replace("pre-install", "post-upgrade");
    let both = format!("{CONFIG}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: leftover}}\n");
    fixture
        .charts
        .web("2.0.0", &[("config", &both), ("hook", &hook)])
        .await;
    fixture.charts.web("3.0.0", &[("config", CONFIG)]).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_error("web", "Deployed", &["hook"]).await;
    assert!(fixture.object("configmap/leftover").await.is_some());
    fixture.deploy("web", "3.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    fixture.until_none("configmap/leftover").await;
}

/// The template of the Job, which comes before the cause, is longer than the message of a condition.
#[tokio::test]
async fn an_immutable_field_is_the_first_thing_that_is_shown_and_then_what_runs() {
    let fixture = Fixture::new("failing-immutable").await;
    let job = |image: &str| ENDLESS_JOB.replace("image: a", &format!("image: {image}"));
    fixture.charts.web("2.0.0", &[("job", &job("a"))]).await;
    fixture.charts.web("3.0.0", &[("job", &job("b"))]).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture
        .until("web", |found| {
            ensure!(reason(found, "Installed")["status"] == "True", "not installed");
            Ok(())
        })
        .await;
    fixture.deploy("web", "3.0.0", &json!({})).await;
    let parts = [
        "spec.template: Invalid value: {…}: field is immutable",
        "A Job cannot be changed",
        "Revision 1 runs: chart web 2.0.0.",
    ];
    let message = fixture.until_error("web", "Installed", &parts).await;
    assert!(message.len() < 600, "{message}");
    let found = fixture.until("web", |_| Ok(())).await;
    let attempts = found
        .pointer("/status/lifecycle/history")
        .and_then(Value::as_array);
    let mut attempts = attempts.into_iter().flatten();
    let deployed = attempts.find(|one| one["outcome"] == "deployed");
    assert_eq!(
        deployed.map(|one| &one["version"]),
        Some(&json!("2.0.0")),
        "{found}"
    );
}

/// After a failure, whatever happens around the release does not lead to another attempt before it is due: also what happens while Helm
/// runs, so that the report is based on an outdated BundleDeployment.
#[tokio::test]
async fn a_failure_is_not_repeated_in_a_storm() {
    let fixture = Fixture::new("failing-storm").await;
    fixture.charts.web("2.0.0", &[("config", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, typo: 1}]}\n")]).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let (object, name) = (
        format!("configmap/{release}-config"),
        format!("bundledeployment/{release}"),
    );
    let change = async |number: u32| {
        let label = format!("number={number}");
        crate::harness::run(&fixture.upstream, &["label", &name, &label, "--overwrite"]).await;
        fixture
            .kubectl(&["annotate", &object, &label, "--overwrite"])
            .await;
    };
    fixture.delay_helm("upgrade", 1);
    let began = Instant::now();
    fixture.deploy("web", "2.0.0", &json!({})).await;
    let storm = async {
        for number in 0.. {
            change(number).await;
        }
    };
    tokio::select! {
        () = storm => {}
        _ = fixture.until_error("web", "Installed", &["typo"]) => {}
    }
    for number in 0..10 {
        change(number).await;
    }
    fixture.barrier().await;
    fixture.until_status(&release, 2, "failed").await;
    let runs = fixture.helm_runs_of(&release);
    // The installation, the failed upgrade, and the repetitions that were due meanwhile: after 4 to 5 seconds, twice as many …
    let due = (began.elapsed().as_secs() / 4 + 1).ilog2() as usize;
    assert!(runs.len() <= 2 + due, "{due} {runs:?}");
    // All attempts with the same input have one revision.
    crate::harness::until(
        &fixture.apps,
        &format!("secret/sh.helm.release.v1.{release}.v2"),
        |_| Ok(()),
    )
    .await;
    let records = fixture.records().await;
    ensure_two(&records, &release).unwrap();
}

fn ensure_two(records: &[String], release: &str) -> anyhow::Result<()> {
    let of_release = records.iter().filter(|record| record.contains(release)).count();
    ensure!(of_release <= 2, "{records:?}");
    Ok(())
}
