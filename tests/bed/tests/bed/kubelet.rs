//! The simulated node: workloads of the real controllers become ready, complete and fail as their annotations choose.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helmops_bed::control_plane::Options;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::kubelet::behavior::{AFTER, EXIT, LOG, READY, WAITING};
use helmops_bed::namespace::TestNamespace;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const SOON: Duration = Duration::from_mins(1);

async fn namespace(name: &str) -> TestNamespace {
    static BED: OnceCell<TestBed> = OnceCell::const_new();
    let options = Options {
        nodes: true,
        ..Options::default()
    };
    let bed = BED.get_or_try_init(|| TestBed::start(&options)).await.unwrap();
    TestNamespace::create(bed, name).await.unwrap()
}

/// A template for pods with these annotations.
fn template(annotations: &Value, restart_policy: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" }, "annotations": annotations },
        "spec": {
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": 600,
            "initContainers": [{ "name": "init", "image": "web" }],
            "containers": [{ "name": "web", "image": "web" }],
        },
    })
}

fn deployment(name: &str, replicas: u32, annotations: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 1,
            "selector": { "matchLabels": { "app": "web" } },
            "template": template(annotations, "Always"),
        },
    })
}

fn job(name: &str, annotations: &Value, restart_policy: &str, backoff_limit: u32) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": { "backoffLimit": backoff_limit, "template": template(annotations, restart_policy) },
    })
}

async fn apply(kubectl: &Kubectl, object: &Value) {
    kubectl.apply(&object.to_string()).await.unwrap().ok().unwrap();
}

async fn run(kubectl: &Kubectl, arguments: &[&str]) -> String {
    kubectl.run(arguments).await.unwrap().ok().unwrap()
}

async fn items(kubectl: &Kubectl, kind: &str) -> Result<Vec<Value>> {
    let printed = kubectl.run(&["get", kind, "--output=json"]).await?.ok()?;
    let list: Value = serde_json::from_str(&printed)?;
    Ok(list["items"].as_array().context("no list")?.clone())
}

/// Waits until an object has a condition with this type, status and reason (any, if it is empty).
async fn until_condition(kubectl: &Kubectl, object: &str, expected: [&str; 3]) {
    eventually(object, SOON, async || {
        let found = kubectl.get(object).await?.context("there is none")?;
        let conditions = found["status"]["conditions"].as_array();
        let [kind, status, reason] = expected;
        let is_expected = |condition: &Value| {
            condition["type"] == kind
                && condition["status"] == status
                && (reason.is_empty() || condition["reason"] == reason)
        };
        let is_met = conditions.is_some_and(|conditions| conditions.iter().any(is_expected));
        ensure!(is_met, "it is {}", found["status"]);
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_deployment_becomes_available_and_its_pods_are_deleted_immediately() {
    let namespace = namespace("available").await;
    let kubectl = namespace.kubectl();
    apply(kubectl, &deployment("web", 3, &json!({}))).await;
    until_condition(kubectl, "deployment/web", ["Available", "True", ""]).await;
    run(kubectl, &["delete", "deployment", "web"]).await;
    eventually("the end of the pods", SOON, async || {
        let pods = items(kubectl, "pods").await?;
        ensure!(pods.is_empty(), "{} are left", pods.len());
        Ok(())
    })
    .await
    .unwrap();
}

/// Prints how long it takes.
#[tokio::test]
async fn a_pod_without_a_controller_becomes_ready() {
    let namespace = namespace("fast").await;
    let kubectl = namespace.kubectl();
    eventually("the ServiceAccount of pods", SOON, async || {
        kubectl
            .get("serviceaccount/default")
            .await?
            .context("there is none")
    })
    .await
    .unwrap();
    let mut pod = template(&json!({}), "Always");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("web");
    apply(kubectl, &pod).await;
    let created = Instant::now();
    run(
        kubectl,
        &["wait", "pod/web", "--for=condition=Ready", "--timeout=30s"],
    )
    .await;
    let elapsed = created.elapsed();
    eprintln!("ready {elapsed:?} after kubectl apply, with the start of kubectl wait");
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
}

#[tokio::test]
async fn stateful_sets_and_daemon_sets_become_ready() {
    let namespace = namespace("sets").await;
    let kubectl = namespace.kubectl();
    for (kind, name) in [("StatefulSet", "db"), ("DaemonSet", "log")] {
        let mut set = deployment(name, 2, &json!({}));
        set["kind"] = json!(kind);
        let spec = set["spec"].as_object_mut().unwrap();
        spec.remove("progressDeadlineSeconds");
        if kind == "DaemonSet" {
            spec.remove("replicas");
        } else {
            spec.insert("serviceName".into(), json!("db"));
        }
        apply(kubectl, &set).await;
    }
    for (object, ready) in [
        ("statefulset/db", "--for=jsonpath={.status.readyReplicas}=2"),
        ("daemonset/log", "--for=jsonpath={.status.numberReady}=1"),
    ] {
        run(kubectl, &["wait", object, ready, "--timeout=30s"]).await;
    }
}

#[tokio::test]
async fn pods_become_ready_later_or_when_an_annotation_changes() {
    let namespace = namespace("later").await;
    let kubectl = namespace.kubectl();
    let never = deployment("web", 1, &json!({ READY: "false" }));
    apply(kubectl, &never).await;
    let stuck = ["Progressing", "False", "ProgressDeadlineExceeded"];
    until_condition(kubectl, "deployment/web", stuck).await;
    // On a slow machine, the Deployment's deadline passes before its pod exists.
    eventually("the pod", SOON, async || {
        let pods = items(kubectl, "pods").await?;
        ensure!(!pods.is_empty(), "there is none");
        Ok(())
    })
    .await
    .unwrap();
    let ready = format!("{READY}=true");
    run(kubectl, &["annotate", "pods", "--all", "--overwrite", &ready]).await;
    until_condition(kubectl, "deployment/web", ["Available", "True", ""]).await;
    apply(kubectl, &deployment("late", 1, &json!({ AFTER: "2s" }))).await;
    let started = Instant::now();
    until_condition(kubectl, "deployment/late", ["Available", "True", ""]).await;
    assert!(
        started.elapsed() > Duration::from_millis(1500),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn containers_wait_or_crash() {
    let namespace = namespace("crash").await;
    let kubectl = namespace.kubectl();
    for (annotations, reason) in [
        (json!({ WAITING: "ImagePullBackOff" }), "ImagePullBackOff"),
        (json!({ EXIT: "1" }), "CrashLoopBackOff"),
    ] {
        apply(kubectl, &deployment("web", 1, &annotations)).await;
        eventually(reason, SOON, async || {
            let pods = items(kubectl, "pods").await?;
            let is_waiting =
                |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason;
            ensure!(pods.iter().any(is_waiting), "{pods:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_job_completes_and_another_fails_with_its_log() {
    let namespace = namespace("jobs").await;
    let kubectl = namespace.kubectl();
    let log = "connecting\nrefused: no such database\n";
    for job in [
        job("good", &json!({}), "Never", 0),
        job("bad", &json!({ EXIT: "3", LOG: log, AFTER: "1s" }), "Never", 0),
        job("again", &json!({ EXIT: "3" }), "OnFailure", 1),
        job("hangs", &json!({ EXIT: "never" }), "Never", 0),
    ] {
        apply(kubectl, &job).await;
    }
    until_condition(kubectl, "job/good", ["Complete", "True", ""]).await;
    for failed in ["job/bad", "job/again"] {
        until_condition(kubectl, failed, ["Failed", "True", "BackoffLimitExceeded"]).await;
    }
    let printed = run(kubectl, &["logs", "job/bad", "--tail=1"]).await;
    assert_eq!(printed, "refused: no such database\n");
    assert_eq!(run(kubectl, &["logs", "job/bad"]).await, log);
    let bad = items(kubectl, "pods").await.unwrap();
    let bad = bad
        .iter()
        .find(|pod| pod["metadata"]["labels"]["job-name"] == "bad")
        .unwrap();
    assert_eq!(bad["status"]["phase"], "Failed");
    let hangs = kubectl.get("job/hangs").await.unwrap().unwrap();
    assert_eq!(
        (&hangs["status"]["active"], &hangs["status"]["ready"]),
        (&json!(1), &json!(1))
    );
}
