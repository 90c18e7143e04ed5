//! What is left when Helm does not end by itself.

use std::process::Stdio;

use helmops_helm::FailureReason;
use helmops_helm::request::{Action, Uninstall};
use helmops_release::record::{Propagation, Status};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::engine::{CONFIG_MAP, ENDLESS_HOOK, Engine, install, upgrade};
use crate::harness::{SOON, until};

/// Starts an installation with a hook that never completes, and ends it by dropping the future.
async fn killed(engine: &Engine) {
    let chart = engine
        .chart("1.0.0", &[("templates/hook.yaml", ENDLESS_HOOK)])
        .await;
    tokio::select! {
        outcome = engine.run(Action::Install(install(&chart))) => panic!("it ended: {outcome:?}"),
        () = until_awaited(engine) => {}
    }
}

/// Waits until Helm waits for the hook. Before, it may be writing the record when it is stopped, and then it does not matter for Helm
/// which of the two writes comes last: `pending-install` with the hook, or `failed`.
async fn until_awaited(engine: &Engine) {
    until(engine.kubectl(), "job/hook", |_| Ok(())).await;
    engine.until_status(1, "pending-install").await;
}

#[tokio::test]
async fn a_killed_helm_leaves_a_pending_record_that_can_be_unlocked() {
    let engine = Engine::start("agent-killed").await;
    killed(&engine).await;
    let chart = engine
        .chart("1.0.1", &[("templates/config.yaml", CONFIG_MAP)])
        .await;
    let locked = engine.run(Action::Upgrade(upgrade(&chart))).await.unwrap_err();
    assert_eq!(locked.reason, FailureReason::InProgress, "{locked}");

    let record = engine.until_status(1, "pending-install").await;
    assert_eq!(record.info.description, "Initial install underway");
    let hooks = record.hooks.clone();
    let name = record.secret_name();
    let unlocked = record.with_status(Status::Failed, "Interrupted".to_owned());
    let data = String::from_utf8(unlocked.encode().unwrap()).unwrap();
    let labels = unlocked.labels(&[].into(), 1_700_000_000);
    let patch = json!({ "stringData": { "release": data }, "metadata": { "labels": labels } });
    let arguments = [
        "patch",
        "secret",
        &name,
        "--type=merge",
        "--patch",
        &patch.to_string(),
    ];
    engine.run_kubectl(&arguments).await;

    let success = engine.run(Action::Upgrade(upgrade(&chart))).await.unwrap();
    assert_eq!(success.revision, Some(2));
    let old = engine.record(1).await.unwrap();
    assert_eq!((old.info.description.as_str(), old.hooks), ("Interrupted", hooks));
}

#[tokio::test]
async fn helm_records_that_it_was_stopped() {
    let engine = Engine::start("agent-stopped").await;
    let chart = engine
        .chart("1.0.0", &[("templates/hook.yaml", ENDLESS_HOOK)])
        .await;
    let stop = CancellationToken::new();
    let request = engine.request(Action::Install(install(&chart)));
    let (outcome, ()) = tokio::join!(engine.run_request(request, &stop), async {
        until_awaited(&engine).await;
        stop.cancel();
    });
    assert_eq!(outcome.unwrap_err().reason, FailureReason::Stopped);
    assert_eq!(engine.record(1).await.unwrap().info.status, Status::Failed);
    // The permit is free again, and nothing starts any more.
    let request = engine.request(Action::Install(install(&chart)));
    let refused = timeout(SOON, engine.run_request(request, &stop)).await.unwrap();
    assert_eq!(refused.unwrap_err().reason, FailureReason::Stopped);
}

#[tokio::test]
async fn a_removal_completes_although_the_agent_stops() {
    let engine = Engine::start("agent-removal").await;
    let hook = "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-delete}}\nspec: {containers: [{name: a, image: a}]}\n";
    let files = [
        ("templates/hook.yaml", hook),
        ("templates/config.yaml", CONFIG_MAP),
    ];
    engine.installed(&engine.chart("1.0.0", &files).await).await;
    let stop = CancellationToken::new();
    let request = engine.request(Action::Uninstall(Uninstall {
        keeps_history: false,
        description: String::new(),
        propagation: Propagation::Background,
        runs_hooks: true,
    }));
    let (outcome, ()) = tokio::join!(engine.run_request(request, &stop), async {
        until(engine.kubectl(), "pod/hook", |_| Ok(())).await;
        stop.cancel();
        let succeeded = "--patch={\"status\":{\"phase\":\"Succeeded\"}}";
        engine
            .run_kubectl(&["patch", "pod", "hook", "--subresource=status", succeeded])
            .await;
    });
    outcome.unwrap();
    assert_eq!(engine.records().await, Vec::<String>::new());
}

/// The end of the agent closes the pipe.
#[tokio::test]
async fn helm_ends_with_the_agent() {
    let engine = Engine::start("agent-gone").await;
    let chart = engine
        .chart("1.0.0", &[("templates/hook.yaml", ENDLESS_HOOK)])
        .await;
    let request = json!({
        "action": "install", "release": "web", "namespace": engine.namespace.name(), "storageNamespace": engine.namespace.name(), "kubeconfig": engine.kubeconfig,
        "hookTimeout": 600_000, "endsWithInput": true, "apply": "server", "chart": { "archive": chart, "values": [] },
    });
    let mut child = Command::new(engine.helm.helm.program.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(request.to_string().as_bytes()).await.unwrap();
    until_awaited(&engine).await;
    assert!(
        child.try_wait().unwrap().is_none(),
        "it runs as long as the pipe is open"
    );
    drop(pipe);
    timeout(SOON, child.wait()).await.unwrap().unwrap();
    assert_eq!(engine.record(1).await.unwrap().info.status, Status::Failed);
}
