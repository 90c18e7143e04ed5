//! What the agent must not destroy, nor do twice.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::helm::Helm;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::probe;
use helmops_bed::wait::eventually;
use helmops_release::{marks, record::Status};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::engine::ENDLESS_HOOK;
use super::lifecycle::attempts::INVALID;
use crate::harness::agent::{Agent, CONFIG, DEPLOYMENT, Fixture};
use crate::harness::{SOON, run, until};

/// Waits until the log of an agent contains this.
pub(super) async fn until_logged(agent: &Agent, text: &str) {
    eventually(&format!("{text} in the log"), SOON, async || {
        ensure!(
            agent.process.log().contains(text),
            "the log ends with\n{}",
            agent.process.tail()
        );
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits until the removal of the releases of so many BundleDeployments is refused because of a restore.
async fn until_refused(agent: &Agent, number: u8) {
    let client = probe::client(None).unwrap();
    let expected = format!("helmops_agent_removals_refused{{reason=\"restored\"}} {number}\n");
    eventually("removals to be refused or not", SOON, async || {
        let metrics = probe::get(&client, &format!("{}/metrics", agent.admin)).await?;
        ensure!(metrics.contains(&expected), "there is no {expected}");
        Ok(())
    })
    .await
    .unwrap();
}

/// The uid of an object of the namespace of the releases.
pub(super) async fn uid(fixture: &Fixture, object: &str) -> Value {
    fixture.object(object).await.unwrap()["metadata"]["uid"].clone()
}

/// The processes of the machine whose parent is this one.
fn children(parent: u32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let process: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let of: u32 = rest.split(' ').nth(1)?.parse().ok()?;
        (of == parent).then_some(process)
    });
    processes.collect()
}

/// Kills the agent together with its Helm, so that Helm cannot record that it was stopped.
async fn kill_with_helm(mut agent: Agent) {
    agent.process.signal(Signal::STOP).unwrap();
    let helms = children(agent.process.pid().unwrap());
    assert_eq!(helms.len(), 1, "one Helm runs");
    for helm in helms {
        kill_process(Pid::from_raw(helm).unwrap(), Signal::KILL).unwrap();
    }
    agent.process.kill().await.unwrap();
}

#[tokio::test]
async fn a_release_completes_although_the_agent_was_killed_while_helm_ran() {
    let fixture = Fixture::new("safety-killed").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("hook", ENDLESS_HOOK)])
        .await;
    let agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_status(&release, 1, "pending-install").await;
    kill_with_helm(agent).await;
    assert_eq!(
        fixture.record(&release, 1).await.unwrap().1.info.status,
        Status::PendingInstall
    );
    fixture.charts.web("3.0.0", &[("config", CONFIG)]).await;
    fixture.deploy("web", "3.0.0", &json!({})).await;
    let _agent = fixture.start().await;
    fixture.until_ready("web").await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
    let pending = [
        "get",
        "secrets",
        "--selector=owner=helm,status in (pending-install,pending-upgrade)",
        "--output=name",
    ];
    assert_eq!(fixture.kubectl(&pending).await, "");
}

/// The charts of a user's Helm, and Helm itself.
pub(super) async fn user_helm(fixture: &Fixture, arguments: &[&str]) -> Result<String> {
    let folder = fixture.bed.directory.clone();
    let kubeconfig = fixture.bed.kubeconfig.to_str().context("no UTF-8")?;
    let mut all = arguments.to_vec();
    all.extend(["--namespace", fixture.apps.name(), "--kubeconfig", kubeconfig]);
    Helm::new(&fixture.bed.tools, &folder).run(&all).await
}

async fn install_by_user(fixture: &Fixture, release: &str) {
    let url = fixture.charts.url();
    user_helm(
        fixture,
        &["install", release, "web", "--repo", &url, "--version=1.0.0"],
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_foreign_release_is_refused_and_taken_over_if_that_is_wanted() {
    let fixture = Fixture::new("safety-foreign").await;
    let release = fixture.name("web");
    install_by_user(&fixture, &release).await;
    let object = format!("configmap/{release}-config");
    let before = fixture.object(&object).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture
        .until_error(
            "web",
            "Deployed",
            &["was not made by this agent", "takeOwnership"],
        )
        .await;
    assert_eq!(fixture.object(&object).await, before);
    assert!(fixture.helm_runs().is_empty());

    // A removal does not concern it either.
    fixture.delete("web").await;
    fixture.barrier().await;
    assert_eq!(fixture.object(&object).await, before);

    fixture
        .deploy(
            "web",
            "1.0.0",
            &json!({ "options": { "helm": { "takeOwnership": true } } }),
        )
        .await;
    // It is what is wanted already, so that only the record changes.
    fixture.until_revision("web", 1).await;
    fixture.until_ready("web").await;
    assert_eq!(fixture.object(&object).await, before);
    assert!(!fixture.helm_runs().iter().any(|run| run.starts_with("upgrade")));
    let (_, record) = fixture.record(&release, 1).await.unwrap();
    assert_eq!(record.bundle_deployment(fixture.system.name()), Some(&*release));
    assert_eq!(record.info.description, "Install complete");
    assert_eq!(fixture.records().await.len(), 1);

    // The next version is an upgrade like any other, which adds the marks.
    let changed = CONFIG.replace("msg: {{ .Values.msg | quote }}", "other: changed");
    let files = [("templates/config.yaml", &*changed)];
    fixture.charts.add("web", "1.1.0", &files).await;
    let take_over = json!({ "options": { "helm": { "takeOwnership": true } } });
    fixture.deploy("web", "1.1.0", &take_over).await;
    fixture.until_revision("web", 2).await;
    fixture.until_ready("web").await;
    let after = fixture.object(&object).await.unwrap();
    // What the new version does not have is gone: no other manager has kept it.
    assert_eq!(after["data"], json!({ "other": "changed" }));
    assert_eq!(after["metadata"]["uid"], before.unwrap()["metadata"]["uid"]);
    assert!(after["metadata"]["labels"]["objectset.rio.cattle.io/hash"].is_string());
}

/// Anything that differs is deployed, which makes a revision.
#[tokio::test]
async fn a_foreign_release_with_other_values_is_taken_over_by_an_upgrade() {
    let fixture = Fixture::new("safety-differs").await;
    let release = fixture.name("web");
    install_by_user(&fixture, &release).await;
    let _agent = fixture.start().await;
    let hash = fixture.values("web", "{\"msg\":\"other\"}").await;
    let over = json!({ "valuesHash": hash, "options": { "helm": { "takeOwnership": true } } });
    fixture.deploy("web", "1.0.0", &over).await;
    fixture.until_revision("web", 2).await;
    fixture.until_msg(&release, "other").await;
}

#[tokio::test]
async fn an_operation_of_another_helm_is_waited_for() {
    let fixture = Fixture::new("safety-pending").await;
    let release = fixture.name("web");
    install_by_user(&fixture, &release).await;
    let (_, record) = fixture.record(&release, 1).await.unwrap();
    let pending = record.with_status(Status::PendingUpgrade, "Preparing upgrade".to_owned());
    fixture.write_record(&pending).await;
    let _agent = fixture.start().await;
    fixture
        .deploy(
            "web",
            "1.0.0",
            &json!({ "options": { "helm": { "takeOwnership": true } } }),
        )
        .await;
    fixture
        .until_error(
            "web",
            "Deployed",
            &["pending-upgrade", "another Helm", &pending.secret_name()],
        )
        .await;
    assert_eq!(
        fixture.record(&release, 1).await.unwrap().1.info.status,
        Status::PendingUpgrade
    );
    assert!(fixture.helm_runs().is_empty());
    // It ends. What it has deployed is what is wanted, so the release is adopted without a change.
    fixture
        .write_record(&pending.with_status(Status::Deployed, "Upgrade complete".to_owned()))
        .await;
    fixture.until_ready("web").await;
    assert_eq!(fixture.helm_runs_of(&release), ["render"]);
    fixture.until_revision("web", 1).await;
}

#[tokio::test]
async fn the_second_deployment_of_a_release_is_refused() {
    let fixture = Fixture::new("safety-twice").await;
    let _agent = fixture.start().await;
    let spec =
        |msg: &str| json!({ "options": { "helm": { "releaseName": "same", "values": { "msg": msg } } } });
    fixture.deploy("first", "1.0.0", &spec("first")).await;
    fixture
        .until("first", |found| {
            ensure!(found["status"]["ready"] == true, "it is not ready");
            Ok(())
        })
        .await;
    fixture.deploy("second", "1.0.0", &spec("second")).await;
    let owner = format!("belongs to BundleDeployment {}", fixture.name("first"));
    fixture
        .until_error("second", "Deployed", &[&owner, "releaseName"])
        .await;
    fixture.delete("second").await;
    fixture.barrier().await;
    assert_eq!(fixture.msg("same").await.as_deref(), Some("first"));
    assert_eq!(fixture.helm_runs_of("same"), ["install"]);
}

#[tokio::test]
async fn the_objects_of_a_renamed_release_survive() {
    let fixture = Fixture::new("safety-renamed").await;
    let fixed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed}\n";
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("fixed", fixed)])
        .await;
    let _agent = fixture.start().await;
    let spec = |name: &str| json!({ "options": { "helm": { "releaseName": name } } });
    fixture.deploy("web", "2.0.0", &spec("old")).await;
    fixture.until_msg("old", "hello").await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, "configmap/fixed").await;
    fixture.deploy("web", "2.0.0", &spec("new")).await;
    fixture.until_msg("new", "hello").await;
    fixture.until_none("configmap/old-config").await;
    fixture.until_none("secret/sh.helm.release.v1.old.v1").await;
    fixture.until_ready("web").await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
    let fixed = fixture.object("configmap/fixed").await.unwrap();
    assert_eq!(
        fixed["metadata"]["annotations"]["meta.helm.sh/release-name"],
        "new"
    );
    assert!(
        !fixture.helm_runs().iter().any(|run| run.starts_with("uninstall")),
        "{:?}",
        fixture.helm_runs()
    );
}

const FIXED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed}\n";

pub(super) fn renamed(name: &str, options: &Value) -> Value {
    let mut spec = json!({ "options": { "helm": { "releaseName": name } } });
    json_patch::merge(&mut spec, options);
    spec
}

/// The failed release has taken over objects of the one before, and so would delete them.
#[tokio::test]
async fn a_rename_that_fails_uninstalls_nothing() {
    let fixture = Fixture::new("safety-unnamed").await;
    let files = [("config", CONFIG), ("fixed", FIXED)];
    fixture.charts.web("2.0.0", &files).await;
    let invalid = [&files[..], &[("invalid", INVALID)]].concat();
    fixture.charts.web("3.0.0", &invalid).await;
    let late = [&files[..], &[("late", DEPLOYMENT)]].concat();
    fixture.charts.web("4.0.0", &late).await;
    let _agent = fixture.start().await;
    let atomic = json!({ "options": { "helm": { "atomic": true, "timeoutSeconds": 2 } } });
    let spec = |name: &str| renamed(name, &atomic);
    fixture.deploy("web", "2.0.0", &spec("old")).await;
    fixture.until_msg("old", "hello").await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, "configmap/fixed").await;
    // Helm fails, or an object is late.
    for version in ["3.0.0", "4.0.0"] {
        let cause = if version == "3.0.0" { "invalid" } else { "late" };
        fixture.deploy("web", version, &spec("new")).await;
        let parts = [cause, "may have the same objects"];
        fixture.until_error("web", "Deployed", &parts).await;
        assert_eq!(uid(&fixture, "configmap/fixed").await, before);
        assert_eq!(fixture.msg("old").await.as_deref(), Some("hello"));
    }
    fixture.deploy("web", "2.0.0", &spec("new")).await;
    fixture.until_none("secret/sh.helm.release.v1.old.v1").await;
    fixture.until_none("configmap/old-config").await;
    fixture.until_ready("web").await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
    assert_eq!(fixture.msg("new").await.as_deref(), Some("hello"));
    let runs = fixture.helm_runs();
    assert!(!runs.iter().any(|run| run.starts_with("uninstall")), "{runs:?}");
}

#[tokio::test]
async fn a_rename_takes_no_object_of_another_owner() {
    let fixture = Fixture::new("safety-owner").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("fixed", FIXED)])
        .await;
    let _agent = fixture.start().await;
    let spec = |name: &str| renamed(name, &json!({}));
    fixture.deploy("web", "1.0.0", &spec("old")).await;
    fixture.until_ready("web").await;
    fixture
        .kubectl(&["create", "configmap", "fixed", "--from-literal=of=user"])
        .await;
    let before = fixture.object("configmap/fixed").await;
    fixture.deploy("web", "2.0.0", &spec("new")).await;
    let parts = ["fixed", "cannot be imported", "takeOwnership"];
    fixture.until_error("web", "Installed", &parts).await;
    assert_eq!(fixture.object("configmap/fixed").await, before);
    assert_eq!(fixture.msg("old").await.as_deref(), Some("hello"));
}

/// As when its BundleDeployment is deleted.
#[tokio::test]
async fn a_renamed_release_ends_as_its_options_say() {
    let fixture = Fixture::new("safety-end").await;
    let _agent = fixture.start().await;
    let options = |name: &str| match name {
        "resources" => json!({ "options": { "keepResources": true } }),
        "history" => json!({ "lifecycle": { "uninstall": { "keepHistory": true } } }),
        _ => json!({ "lifecycle": { "onDelete": "Keep" } }),
    };
    let names = ["resources", "history", "keep"];
    for (name, prefix) in names.into_iter().flat_map(|name| [(name, "old"), (name, "new")]) {
        let spec = renamed(&format!("{prefix}-{name}"), &options(name));
        fixture.deploy(name, "1.0.0", &spec).await;
        fixture.until_msg(&format!("{prefix}-{name}"), "hello").await;
        fixture.until_ready(name).await;
    }
    fixture
        .until_none("secret/sh.helm.release.v1.old-resources.v1")
        .await;
    assert!(fixture.msg("old-resources").await.is_some());
    fixture.until_status("old-history", 1, "uninstalled").await;
    assert_eq!(fixture.msg("old-history").await, None);
    fixture.barrier().await;
    fixture.until_status("old-keep", 1, "deployed").await;
    assert!(fixture.msg("old-keep").await.is_some());
}

/// A hook of one BundleDeployment runs for hours.
#[tokio::test]
async fn a_long_deployment_delays_no_collection_of_another_renamed_release() {
    let fixture = Fixture::new("safety-pass").await;
    fixture.charts.web("2.0.0", &[("hook", ENDLESS_HOOK)]).await;
    let flags = ["--leader-elect=false", "--collection-interval=1s"];
    let _agent = fixture.start_with("agent", &flags).await.unwrap();
    let spec = |name: &str| renamed(name, &json!({}));
    for name in ["busy", "web"] {
        fixture.deploy(name, "1.0.0", &spec(&format!("old-{name}"))).await;
        fixture.until_ready(name).await;
    }
    let (_, old) = fixture.record("old-web", 1).await.unwrap();
    fixture.deploy("busy", "2.0.0", &spec("new-busy")).await;
    fixture.until_status("new-busy", 1, "pending-install").await;
    fixture.deploy("web", "1.0.0", &spec("new-web")).await;
    fixture.until_none("secret/sh.helm.release.v1.old-web.v1").await;
    // As after an agent that was killed between the installation and the removal.
    fixture.write_record(&old).await;
    let apps = fixture.apps.name();
    let owned = json!([{ "release": format!("{apps}/new-web") }, { "release": format!("{apps}/old-web") }]);
    let patch = json!({ "data": { fixture.name("web"): owned.to_string() } }).to_string();
    let arguments = [
        "patch",
        "configmap/helmops-agent-releases",
        "--type=merge",
        "-p",
        &patch,
    ];
    run(&fixture.system, &arguments).await;
    fixture.until_none("secret/sh.helm.release.v1.old-web.v1").await;
    fixture.until_status("new-busy", 1, "pending-install").await;
}

/// A ServiceAccount that may do everything in the namespace of the releases.
async fn deployer(fixture: &Fixture) {
    run(&fixture.system, &["create", "serviceaccount", "deployer"]).await;
    let account = format!("--serviceaccount={}:deployer", fixture.system.name());
    let binding = ["create", "rolebinding", "deployer", "--clusterrole=cluster-admin"];
    fixture.kubectl(&[&binding[..], &[&account]].concat()).await;
}

#[tokio::test]
async fn a_renamed_release_is_removed_as_its_account() {
    let fixture = Fixture::new("safety-account").await;
    run(&fixture.system, &["create", "serviceaccount", "deployer"]).await;
    let account = format!("--serviceaccount={}:deployer", fixture.system.name());
    // It may do everything but delete ConfigMaps.
    for (name, verbs, resource) in [
        ("secrets", "*", "secrets"),
        ("objects", "get,list,watch,create,update,patch", "configmaps"),
    ] {
        let (verbs, resource) = (format!("--verb={verbs}"), format!("--resource={resource}"));
        fixture
            .kubectl(&["create", "role", name, &verbs, &resource])
            .await;
        let role = format!("--role={name}");
        fixture
            .kubectl(&["create", "rolebinding", name, &role, &account])
            .await;
    }
    let flags = ["--leader-elect=false", "--collection-interval=1s"];
    let agent = fixture.start_with("agent", &flags).await.unwrap();
    let of_deployer = json!({ "options": { "serviceAccount": "deployer", "createNamespace": false } });
    fixture
        .deploy("web", "1.0.0", &renamed("old", &of_deployer))
        .await;
    fixture.until_ready("web").await;
    // The new release is that of the agent itself.
    fixture.deploy("web", "1.0.0", &renamed("new", &json!({}))).await;
    fixture.until_ready("web").await;
    let user = format!("system:serviceaccount:{}:deployer", fixture.system.name());
    until_logged(&agent, "cannot remove the release that was renamed").await;
    until_logged(&agent, &user).await;
    until_logged(&agent, "cannot delete resource").await;
    assert_eq!(fixture.msg("old").await.as_deref(), Some("hello"));
    let deletes = [
        "create",
        "role",
        "deletes",
        "--verb=delete",
        "--resource=configmaps",
    ];
    fixture.kubectl(&deletes).await;
    let binding = ["create", "rolebinding", "deletes", "--role=deletes"];
    fixture.kubectl(&[&binding[..], &[&account]].concat()).await;
    fixture.until_none("configmap/old-config").await;
    fixture.until_none("secret/sh.helm.release.v1.old.v1").await;
}

/// Everyone who may write Secrets in the namespace of a release can write another account into its record.
#[tokio::test]
async fn a_deployment_uninstalls_as_the_account_of_the_bundledeployment() {
    let fixture = Fixture::new("safety-forged").await;
    deployer(&fixture).await;
    let mut agent = fixture.start().await;
    let release = fixture.name("web");
    let spec = json!({ "options": { "serviceAccount": "deployer", "createNamespace": false } });
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_ready("web").await;
    agent.process.kill().await.unwrap();
    let (_, record) = fixture.record(&release, 1).await.unwrap();
    let mut forged = record.with_status(Status::Uninstalling, "Deletion in progress".to_owned());
    forged.chart["metadata"]["annotations"][marks::SERVICE_ACCOUNT] = json!("missing");
    fixture.write_record(&forged).await;
    let _agent = fixture.start().await;
    eventually("the release to be installed again", SOON, async || {
        let runs = fixture.helm_runs_of(&release);
        ensure!(runs == ["install", "uninstall", "install"], "{runs:?}");
        Ok(())
    })
    .await
    .unwrap();
    fixture.until_ready("web").await;
}

/// Everyone who may write Secrets in one namespace can write a record there. Its hooks would run with the permissions of the agent.
#[tokio::test]
async fn a_forged_record_of_a_bundledeployment_that_never_existed_is_not_uninstalled() {
    let fixture = Fixture::new("safety-ghost").await;
    let flags = ["--leader-elect=false", "--collection-interval=1s"];
    let agent = fixture.start_with("agent", &flags).await.unwrap();
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let (_, mut forged) = fixture.record(&release, 1).await.unwrap();
    forged.name = fixture.name("forged");
    let (ghost, annotations) = (
        fixture.name("ghost"),
        &mut forged.chart["metadata"]["annotations"],
    );
    annotations[marks::BUNDLE_ID] = json!(ghost);
    fixture.write_record(&forged).await;
    until_logged(&agent, "is not uninstalled").await;
    let expected = format!("was made for BundleDeployment {ghost}, which does not exist");
    eventually("an Event", SOON, async || {
        let events = fixture.events().await;
        let is_reported =
            |(reason, note): &(String, String)| reason == "ForeignRelease" && note.contains(&expected);
        ensure!(events.iter().any(is_reported), "there are {events:?}");
        Ok(())
    })
    .await
    .unwrap();
    // Its own release is uninstalled, although a forged record names the same BundleDeployment.
    forged.chart["metadata"]["annotations"][marks::BUNDLE_ID] = json!(release);
    fixture.write_record(&forged).await;
    fixture.delete("web").await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&forged.name), Vec::<String>::new());
    assert!(fixture.record(&forged.name, 1).await.is_some());
    let known = until(&fixture.system, "configmap/helmops-agent-releases", |_| Ok(())).await;
    assert!(known["data"].get(&release).is_none(), "{known}");
}

#[tokio::test]
async fn nothing_is_uninstalled_because_of_a_namespace_that_was_created_again() {
    let fixture = Fixture::new("safety-recreated").await;
    let mut agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    agent.process.kill().await.unwrap();
    // The same as a namespace that was created again: it has another UID.
    let state = "configmap/helmops-agent";
    let patch = json!({ "data": { "deploymentNamespace": "namespace/another" } }).to_string();
    run(&fixture.system, &["patch", state, "--type=merge", "-p", &patch]).await;
    fixture.delete("web").await;
    let agent = fixture.start().await;
    until_logged(&agent, "was created again").await;
    assert!(
        agent.process.log().contains("nothing is uninstalled"),
        "{}",
        agent.process.tail()
    );
    fixture.barrier_without_removal().await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

/// The namespace disappears and comes back while the agent runs.
#[tokio::test]
async fn nothing_is_uninstalled_when_the_namespace_of_the_cluster_is_deleted() {
    let fixture = Fixture::new("safety-deleted").await;
    let agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let namespace = format!("namespace/{}", fixture.upstream.name());
    let kubectl = fixture.bed.kubectl();
    run(&kubectl, &["delete", &namespace, "--wait=false"]).await;
    crate::harness::until_none(&kubectl, &namespace).await;
    run(&kubectl, &["create", "namespace", fixture.upstream.name()]).await;
    fixture.join().await.unwrap();
    drop(agent);
    let agent = fixture.start().await;
    until_logged(&agent, "was created again").await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
    // The BundleDeployment comes back as well: nothing is deployed again.
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

/// A backup lacks the latest BundleDeployments, and shows an older version than the agent has seen.
#[tokio::test]
async fn nothing_is_uninstalled_after_a_restore_of_the_management_cluster() {
    let fixture = Fixture::new("safety-restored").await;
    let flags = ["--leader-elect=false", "--collection-interval=1s"];
    let agent = fixture.start_with("agent", &flags).await.unwrap();
    let release = fixture.name("web");
    for name in ["web", "other"] {
        fixture.deploy(name, "1.0.0", &json!({})).await;
        fixture.until_ready(name).await;
    }
    let state = "configmap/helmops-agent";
    let seen = until(&fixture.system, state, |_| Ok(())).await;
    let version: u64 = seen["data"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(version > 0);
    let patch = json!({ "data": { "resourceVersion": u64::MAX.to_string() } }).to_string();
    run(&fixture.system, &["patch", state, "--type=merge", "-p", &patch]).await;
    fixture.delete("web").await;
    until_logged(&agent, "was restored from a backup").await;
    // Later versions are higher again, and change nothing.
    let patch = json!({ "data": { "resourceVersion": "1" } }).to_string();
    run(&fixture.system, &["patch", state, "--type=merge", "-p", &patch]).await;
    drop(agent);
    let agent = fixture.start_with("agent", &flags).await.unwrap();
    until_logged(&agent, "was restored from a backup").await;
    until_refused(&agent, 1).await;
    let event = [
        "get",
        "events.events.k8s.io",
        "--output=jsonpath={.items[*].reason}",
    ];
    eventually("the Event of the agent", SOON, async || {
        let reasons = run(&fixture.system, &event).await;
        ensure!(reasons.contains("RemovalRefused"), "there is {reasons}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
    // A person confirms it, without a restart.
    run(&fixture.system, &["delete", state]).await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
    assert_eq!(fixture.helm_runs_of(&release), ["install", "uninstall"]);
    until_refused(&agent, 0).await;
    assert_eq!(
        fixture.msg(&fixture.name("other")).await.as_deref(),
        Some("hello")
    );
}

/// With Fleet's Secret the agent may not read the namespace.
#[tokio::test]
async fn a_namespace_that_was_remembered_with_another_account_is_the_same() {
    let fixture = Fixture::new("safety-account").await;
    let mut agent = fixture.start().await;
    for name in ["web", "other"] {
        fixture.deploy(name, "1.0.0", &json!({})).await;
        fixture.until_ready(name).await;
    }
    agent.process.kill().await.unwrap();
    let state = "configmap/helmops-agent";
    let root_ca = until(&fixture.upstream, "configmap/kube-root-ca.crt", |_| Ok(())).await;
    let uid = root_ca["metadata"]["uid"].as_str().unwrap();
    let of_fleet = json!({ "deploymentNamespace": format!("configmap/{uid}"), "rootCertificates": null });
    let patch = json!({ "data": of_fleet }).to_string();
    run(&fixture.system, &["patch", state, "--type=merge", "-p", &patch]).await;
    fixture.delete("web").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.until_none(&format!("configmap/{release}-config")).await;
    until(&fixture.system, state, |state| {
        let recorded = state["data"]["deploymentNamespace"].as_str().unwrap_or_default();
        ensure!(recorded.starts_with("namespace/"), "it is {recorded}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn nothing_is_uninstalled_because_of_an_empty_wrong_namespace() {
    let fixture = Fixture::new("safety-wrong").await;
    let mut agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    agent.process.kill().await.unwrap();
    // As at the first start of this agent after Fleet's.
    run(&fixture.system, &["delete", "configmap", "helmops-agent"]).await;
    let wrong = TestNamespace::create(&fixture.bed, "safety-empty").await.unwrap();
    let binding = ["create", "rolebinding", "agent", "--clusterrole=helmops-agent"];
    let account = format!("--serviceaccount={}:helmops-agent", fixture.upstream.name());
    run(&wrong, &[&binding[..], &[&account]].concat()).await;
    fixture.join_namespace(wrong.name()).await.unwrap();
    let agent = fixture.start().await;
    until_logged(&agent, "may be the wrong one: nothing is uninstalled").await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
    drop(agent);

    fixture.join_namespace(fixture.upstream.name()).await.unwrap();
    let _agent = fixture.start().await;
    until(&fixture.system, "configmap/helmops-agent", |_| Ok(())).await;
    fixture.delete("web").await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
}

#[tokio::test]
async fn what_was_deleted_while_the_agent_was_away_is_uninstalled_at_its_start() {
    let fixture = Fixture::new("safety-away").await;
    let mut agent = fixture.start().await;
    for name in ["stays", "goes"] {
        fixture.deploy(name, "1.0.0", &json!({})).await;
        fixture.until_ready(name).await;
    }
    agent.process.kill().await.unwrap();
    fixture.delete("goes").await;
    let _agent = fixture.start().await;
    let goes = fixture.name("goes");
    fixture.until_none(&format!("configmap/{goes}-config")).await;
    fixture
        .until_none(&format!("secret/sh.helm.release.v1.{goes}.v1"))
        .await;
    assert_eq!(fixture.helm_runs_of(&goes), ["install", "uninstall"]);
    assert_eq!(fixture.helm_runs_of(&fixture.name("stays")), ["install"]);
    assert_eq!(
        fixture.msg(&fixture.name("stays")).await.as_deref(),
        Some("hello")
    );
}

/// SIGTERM lets a running Helm end within the grace period.
#[tokio::test]
async fn a_terminated_agent_leaves_no_pending_release() {
    let fixture = Fixture::new("safety-sigterm").await;
    fixture.charts.web("2.0.0", &[("hook", ENDLESS_HOOK)]).await;
    let mut agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_status(&release, 1, "pending-install").await;
    let status = agent.process.terminate(Duration::from_mins(1)).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(
        fixture.record(&release, 1).await.unwrap().1.info.status,
        Status::Failed
    );
}
