//! What the agent does when something around it fails: an API server, a disk, Helm, or one of many charts.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use helmops_bed::api_proxy::{ApiProxy, Load};
use helmops_bed::probe;
use helmops_bed::wait::eventually;
use serde_json::json;
use tokio::time::sleep;

use crate::harness::agent::{Agent, CONFIG, Fixture, Server};
use crate::harness::{SOON, run};

/// How long the management cluster is away. Whatever the agent repeats without a pause is noticed in less.
const AWAY: Duration = Duration::from_mins(1);
/// How long it may take after that until a change is deployed: watches try again every 5 s.
const RESTORED: Duration = Duration::from_secs(15);
/// Lines in the log about a fault that lasts, at most: none of them is repeated.
const LINES: usize = 30;

/// The number of lines in the log.
fn lines(agent: &Agent) -> usize {
    agent.process.log().lines().count()
}

/// A fixture whose agent reaches the management cluster through a proxy.
async fn behind_a_proxy(prefix: &str) -> (Fixture, ApiProxy) {
    let mut fixture = Fixture::new(prefix).await;
    let proxy = ApiProxy::start(&fixture.bed).await.unwrap();
    fixture.management = Server::of(&proxy);
    fixture.join_namespace(fixture.upstream.name()).await.unwrap();
    (fixture, proxy)
}

async fn delete_config(fixture: &Fixture, name: &str) -> String {
    let object = format!("configmap/{}-config", fixture.name(name));
    fixture.kubectl(&["delete", &object]).await;
    object
}

#[tokio::test]
async fn without_its_management_cluster_the_agent_keeps_what_is_deployed() {
    let (fixture, mut proxy) = behind_a_proxy("faults-away").await;
    let flags = ["--leader-elect=false", "--collection-interval=1s"];
    let agent = fixture.start_with("agent", &flags).await.unwrap();
    let corrected = json!({ "correctDrift": { "enabled": true } });
    for name in ["stays", "goes"] {
        fixture.deploy(name, "1.0.0", &corrected).await;
        fixture.until_ready(name).await;
    }
    // What is next to it cannot be compared with its source meanwhile.
    let source = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "source" }, "data": { "a": "1" } });
    let applied = fixture.upstream.kubectl().apply(&source.to_string()).await;
    applied.unwrap().ok().unwrap();
    let resources = json!([{ "kind": "ConfigMap", "name": "source" }]);
    let copied = json!({
        "options": { "correctDrift": { "enabled": true }, "downstreamResources": resources }, "downstreamResourcesGeneration": 1,
    });
    fixture.deploy("copied", "1.0.0", &copied).await;
    fixture.until_ready("copied").await;
    let (runs, before) = (fixture.helm_runs(), lines(&agent));
    proxy.close().await;
    // All of this is unknown to the agent, and searches for releases without a BundleDeployment go on.
    fixture.delete("goes").await;
    fixture.deploy("new", "1.0.0", &json!({})).await;
    // Drift is corrected as before.
    for name in ["stays", "copied"] {
        let object = delete_config(&fixture, name).await;
        crate::harness::until(&fixture.apps, &object, |_| Ok(())).await;
    }
    sleep(AWAY).await;
    for name in ["stays", "goes"] {
        assert_eq!(
            fixture.msg(&fixture.name(name)).await.as_deref(),
            Some("hello"),
            "{name}"
        );
    }
    assert_eq!(fixture.helm_runs(), runs);
    let client = probe::client(None).unwrap();
    let alive = probe::get(&client, &format!("{}/livez", agent.admin)).await;
    alive.unwrap();
    let logged = lines(&agent) - before;
    assert!(logged > 0, "an outage is logged");
    assert!(logged < LINES, "{logged} lines:\n{}", agent.process.tail());

    proxy.reopen().await.unwrap();
    let new = format!("configmap/{}-config", fixture.name("new"));
    eventually(&new, RESTORED, async || {
        fixture.object(&new).await.context("it is not deployed")
    })
    .await
    .unwrap();
    fixture.until_ready("new").await;
    let goes = fixture.name("goes");
    fixture.until_none(&format!("configmap/{goes}-config")).await;
    assert_eq!(fixture.helm_runs_of(&goes), ["install", "uninstall"]);
    for name in ["stays", "copied"] {
        fixture.until_ready(name).await;
        assert_eq!(fixture.helm_runs_of(&fixture.name(name)), ["install"], "{name}");
    }
}

/// Both clusters, and Helm's requests too.
#[tokio::test]
async fn an_overloaded_api_server_delays_deployments_and_repeats_none() {
    let (mut fixture, management) = behind_a_proxy("faults-overload").await;
    let workload = ApiProxy::start(&fixture.bed).await.unwrap();
    fixture.workload = Server::of(&workload);
    let agent = fixture.start().await;
    let busy = Load {
        delay: Duration::from_millis(50),
        reject_one_in: 5,
        retry_after: 1,
    };
    for proxy in [&management, &workload] {
        proxy.set_load(busy);
    }
    let names: Vec<_> = (0..4).map(|number| format!("web{number}")).collect();
    let spec = |msg: &str| json!({ "options": { "helm": { "values": { "msg": msg } } } });
    for msg in ["first", "second"] {
        for name in &names {
            fixture.deploy(name, "1.0.0", &spec(msg)).await;
        }
        let minute = Duration::from_mins(1);
        for name in &names {
            let release = fixture.name(name);
            eventually(&format!("{name} to be {msg}"), minute, async || {
                let found = fixture.msg(&release).await;
                ensure!(found.as_deref() == Some(msg), "it is {found:?}");
                Ok(())
            })
            .await
            .unwrap();
            fixture.until_ready(name).await;
        }
    }
    for (proxy, least) in [(&management, 1), (&workload, 10)] {
        let (rejected, requests) = (proxy.rejected(), proxy.requests());
        assert!(rejected >= least, "{rejected} of {requests}");
    }
    for name in &names {
        let release = fixture.name(name);
        fixture.until_status(&release, 2, "deployed").await;
        assert_eq!(
            fixture.record(&release, 3).await,
            None,
            "{name} has another revision"
        );
    }

    // Then it serves nothing at all for a while.
    for proxy in [&management, &workload] {
        proxy.set_load(Load {
            reject_one_in: 1,
            ..busy
        });
    }
    let before = (management.requests() + workload.requests(), lines(&agent));
    fixture.deploy("late", "1.0.0", &json!({})).await;
    delete_config(&fixture, "web0").await;
    sleep(Duration::from_secs(8)).await;
    let requests = management.requests() + workload.requests() - before.0;
    let logged = lines(&agent) - before.1;
    assert!(
        requests < 60 && logged < LINES,
        "{requests} requests and {logged} lines in 8 s:\n{}",
        agent.process.tail()
    );
    for proxy in [&management, &workload] {
        proxy.set_load(Load::default());
    }
    fixture.until_ready("late").await;
    fixture.until_error("web0", "Ready", &["missing"]).await;
    assert_eq!(fixture.helm_runs_of(&fixture.name("late")), ["install"]);
}

/// A file with so many bytes that cannot be compressed.
fn incompressible(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes);
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        write!(text, "{state:016x}").unwrap();
    }
    text
}

/// A command that runs another one with a tiny file system for each of these folders.
fn with_disks(disks: &[(&Path, &str)]) -> Vec<String> {
    let mut script = String::new();
    for (folder, size) in disks {
        let _ = write!(
            script,
            "mount -t tmpfs -o size={size} tmpfs '{}' && ",
            folder.display()
        );
    }
    script.push_str("exec \"$@\"");
    let unshare = ["unshare", "--user", "--map-root-user", "--mount"];
    let mut command: Vec<_> = unshare.map(str::to_owned).to_vec();
    command.extend(["sh", "-c", &script, "sh"].map(str::to_owned));
    let tried = Command::new(&command[0]).args(&command[1..]).arg("true").output();
    // `unshare` is a part of util-linux.
    let tried = tried.unwrap();
    assert!(
        tried.status.success(),
        "no file system can be mounted in a user namespace, so nothing can be tested (on Ubuntu: sysctl -w \
         kernel.apparmor_restrict_unprivileged_userns=0): {}",
        String::from_utf8_lossy(&tried.stderr)
    );
    command
}

#[tokio::test]
async fn a_full_disk_stops_only_the_charts_that_do_not_fit() {
    let fixture = Fixture::new("faults-disk").await;
    let folders = ["work", "cache"].map(|kind| fixture.folder("agent", kind));
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
    }
    let wrapper = with_disks(&[(&folders[0], "400k"), (&folders[1], "40k")]);
    // Hexadecimal digits take half of their size.
    for (version, bytes) in [("2.0.0", 150_000), ("3.0.0", 900_000)] {
        let files = [
            ("templates/config.yaml", CONFIG),
            ("files/data", &incompressible(bytes)),
        ];
        fixture.charts.add("web", version, &files).await;
    }
    let wrapper: Vec<_> = wrapper.iter().map(String::as_str).collect();
    let agent = fixture
        .start_within(&wrapper, "agent", &["--leader-elect=false"])
        .await
        .unwrap();
    // It is not kept in the cache.
    fixture.deploy("large", "2.0.0", &json!({})).await;
    fixture.until_ready("large").await;
    let log = agent.process.log();
    assert!(log.contains("a chart cannot be kept in the cache"), "{log}");
    fixture.deploy("huge", "3.0.0", &json!({})).await;
    fixture
        .until_error(
            "huge",
            "Deployed",
            &["cannot store the archive", "No space left on device"],
        )
        .await;
    fixture.deploy("small", "1.0.0", &json!({})).await;
    fixture.until_ready("small").await;
    let left = std::fs::read_dir(&folders[1]).unwrap().count();
    assert_eq!(left, 0, "the file systems are those of the agent only");
    // Nothing of the failed downloads is left over: there is as much room as before.
    fixture.deploy("again", "2.0.0", &json!({})).await;
    fixture.until_ready("again").await;
    assert!(fixture.helm_runs_of(&fixture.name("huge")).is_empty());
}

fn write_program(path: &Path, script: &str, mode: u32) {
    // Not in place: it may be running.
    let new = path.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// Waits for an Event about a failure with this text.
async fn until_event(fixture: &Fixture, text: &str) {
    eventually(&format!("an Event with {text:?}"), SOON, async || {
        let events = fixture.events().await;
        let is_it = |(reason, note): &(String, String)| reason == "HelmFailed" && note.contains(text);
        ensure!(events.iter().any(is_it), "{events:#?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_helm_that_cannot_run_is_reported_and_stops_nothing_else() {
    let fixture = Fixture::new("faults-helm").await;
    let program: PathBuf = fixture.folder("agent", "helm");
    let path = program.to_str().unwrap().to_owned();
    let good = format!("exec '{}' \"$@\"", fixture.helm().display());
    write_program(&program, &good, 0o755);
    let _agent = fixture
        .start_with("agent", &["--leader-elect=false", "--helm", &path])
        .await
        .unwrap();
    let corrected = json!({ "correctDrift": { "enabled": true } });
    fixture.deploy("other", "1.0.0", &corrected).await;
    fixture.until_ready("other").await;

    std::fs::remove_file(&program).unwrap();
    fixture.deploy("missing", "1.0.0", &json!({})).await;
    let missing = format!("cannot run Helm ({path}): No such file");
    fixture.until_error("missing", "Deployed", &[&missing]).await;
    until_event(&fixture, &missing).await;

    write_program(&program, &good, 0o644);
    fixture.deploy("denied", "1.0.0", &json!({})).await;
    let denied = format!("cannot run Helm ({path}): Permission denied");
    fixture.until_error("denied", "Deployed", &[&denied]).await;
    until_event(&fixture, &denied).await;

    // As Helm 3 writes it.
    let old = "echo 'Error: unknown flag: --server-side' >&2; exit 1";
    write_program(&program, old, 0o755);
    fixture.deploy("old", "1.0.0", &json!({})).await;
    let other = [
        "unknown flag: --server-side",
        "Use the helmops-helm that belongs to this agent",
    ];
    fixture.until_error("old", "Deployed", &other).await;
    until_event(&fixture, other[1]).await;

    // What needs no Helm goes on.
    let object = delete_config(&fixture, "other").await;
    crate::harness::until(&fixture.apps, &object, |_| Ok(())).await;
    fixture.until_ready("other").await;
    assert_eq!(fixture.records().await.len(), 1);

    // When it is back, everything is deployed without another change.
    write_program(&program, &good, 0o755);
    for name in ["missing", "denied", "old"] {
        fixture.until_ready(name).await;
        assert_eq!(fixture.helm_runs_of(&fixture.name(name)), ["install"]);
    }
}

/// A Deployment that never gets a pod: there are no nodes.
const NEVER_READY: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: never}\nspec:\n  selector: {matchLabels: {app: never}}\n  template:\n    metadata: {labels: {app: never}}\n    spec: {containers: [{name: a, image: a}]}\n";
const SERVICE: &str =
    "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 80}]}\n";

#[tokio::test]
async fn a_refused_object_and_one_that_is_never_ready_stop_nothing_else() {
    let fixture = Fixture::new("faults-objects").await;
    fixture.charts.web("2.0.0", &[("never", NEVER_READY)]).await;
    fixture.charts.web("3.0.0", &[("service", SERVICE)]).await;
    run(&fixture.apps, &["create", "quota", "none", "--hard=services=0"]).await;
    let _agent = fixture.start().await;
    fixture.deploy("never", "2.0.0", &json!({})).await;
    fixture.deploy("refused", "3.0.0", &json!({})).await;
    fixture
        .until_error("refused", "Deployed", &["refused", "exceeded quota: none"])
        .await;
    until_event(&fixture, "exceeded quota").await;
    fixture
        .until_error(
            "never",
            "Ready",
            &["deployment.apps", "never [progressing]", "Available: 0/1"],
        )
        .await;
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    // It is deployed, and there is nothing to repeat.
    let never = fixture.name("never");
    fixture.until_status(&never, 1, "deployed").await;
    assert_eq!(fixture.helm_runs_of(&never), ["install"]);
    // A failed attempt is repeated when the object is accepted, and no attempt adds a record.
    run(&fixture.apps, &["delete", "quota", "none"]).await;
    fixture.until_ready("refused").await;
    let records = fixture.records().await;
    let refused = records
        .iter()
        .filter(|record| record.contains(&fixture.name("refused")))
        .count();
    assert!(refused <= 2, "{records:?}");
}
