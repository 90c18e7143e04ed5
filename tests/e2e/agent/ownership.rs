//! Owners: objects, records and namespaces that the agent must not touch, although a release names them.

use anyhow::ensure;
use helmops_bed::wait::eventually;
use helmops_release::marks;
use serde_json::{Value, json};

use super::engine::ENDLESS_HOOK;
use super::life::edit;
use super::lifecycle::attempts::INVALID;
use super::safety::{renamed, uid, until_logged};
use crate::harness::agent::{CONFIG, Fixture};
use crate::harness::{SOON, run, until};

/// An object whose name is not that of the release.
fn fixed(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: fixed}}\ndata: {{value: {value}}}\n")
}

async fn until_owner(fixture: &Fixture, release: &str, value: &str) {
    until(&fixture.apps, "configmap/fixed", |found| {
        let owner = &found["metadata"]["annotations"][marks::RELEASE_NAME];
        let expected = (&json!(release), &json!(value));
        ensure!((owner, &found["data"]["value"]) == expected, "it is {found}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn what_another_release_has_taken_over_stays_when_the_first_one_is_removed() {
    let fixture = Fixture::new("owner-taken").await;
    let files = [("config", CONFIG), ("fixed", &fixed("one"))];
    fixture.charts.web("2.0.0", &files).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, "configmap/fixed").await;
    let takes_over = json!({ "options": { "helm": { "takeOwnership": true } } });
    fixture.deploy("other", "2.0.0", &takes_over).await;
    fixture.until_ready("other").await;
    until_owner(&fixture, &fixture.name("other"), "one").await;
    let web = fixture.name("web");
    fixture.delete("web").await;
    fixture
        .until_none(&format!("secret/sh.helm.release.v1.{web}.v1"))
        .await;
    fixture.until_none(&format!("configmap/{web}-config")).await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
    let (_, note) = fixture.event("ObjectsKept").await;
    assert!(note.contains("fixed belongs to release"), "{note}");
    fixture.delete("other").await;
    fixture.until_none("configmap/fixed").await;
}

/// A version of the chart without the object, and one that has it and fails.
async fn successors(fixture: &Fixture) {
    fixture.charts.web("3.0.0", &[("config", CONFIG)]).await;
    let failing = [("config", CONFIG), ("invalid", INVALID)];
    fixture.charts.web("4.0.0", &failing).await;
    let with = [
        ("config", CONFIG),
        ("fixed", &*fixed("five")),
        ("invalid", INVALID),
    ];
    fixture.charts.web("5.0.0", &with).await;
}

/// The usual way to split a chart: first the new release takes the object over, and then the old one is upgraded without it.
#[tokio::test]
async fn what_another_release_has_taken_over_stays_when_the_first_one_is_upgraded_without_it() {
    let fixture = Fixture::new("owner-upgrade").await;
    let files = [("config", CONFIG), ("fixed", &*fixed("one"))];
    fixture.charts.web("2.0.0", &files).await;
    successors(&fixture).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, "configmap/fixed").await;
    let takes_over = json!({ "options": { "helm": { "takeOwnership": true } } });
    fixture.deploy("base", "2.0.0", &takes_over).await;
    until_owner(&fixture, &fixture.name("base"), "one").await;
    fixture.deploy("web", "3.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
    fixture.until_ready("base").await;
    let (_, note) = fixture.event("ObjectsKept").await;
    let owner = format!(
        "fixed belongs to release {}/{}",
        fixture.apps.name(),
        fixture.name("base")
    );
    assert!(note.contains(&owner), "{note}");
}

/// Neither the failed version nor the one before may take it away or back.
#[tokio::test]
async fn what_another_release_has_taken_over_stays_with_it_when_the_first_one_is_rolled_back() {
    let fixture = Fixture::new("owner-rollback").await;
    let files = [("config", CONFIG), ("fixed", &*fixed("one"))];
    fixture.charts.web("2.0.0", &files).await;
    successors(&fixture).await;
    let _agent = fixture.start().await;
    let atomic = json!({ "options": { "helm": { "atomic": true } } });
    fixture.deploy("web", "2.0.0", &atomic).await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, "configmap/fixed").await;
    let takes_over = json!({ "options": { "helm": { "takeOwnership": true } } });
    fixture.deploy("base", "2.0.0", &takes_over).await;
    until_owner(&fixture, &fixture.name("base"), "one").await;
    fixture.deploy("web", "4.0.0", &atomic).await;
    fixture.until_error("web", "Deployed", &["rolled back"]).await;
    until_owner(&fixture, &fixture.name("base"), "one").await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
    // The next version takes it back, and fails: the release that is restored had it.
    let forced = json!({ "options": { "helm": { "atomic": true, "force": true } } });
    fixture.deploy("web", "5.0.0", &forced).await;
    until_owner(&fixture, &fixture.name("web"), "one").await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
}

#[tokio::test]
async fn an_object_that_was_created_again_by_hand_stays() {
    let fixture = Fixture::new("owner-hand").await;
    let files = [("config", CONFIG), ("fixed", &*fixed("one"))];
    fixture.charts.web("2.0.0", &files).await;
    successors(&fixture).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    fixture.kubectl(&["delete", "configmap/fixed"]).await;
    fixture.kubectl(&["create", "configmap", "fixed"]).await;
    let before = uid(&fixture, "configmap/fixed").await;
    fixture.deploy("web", "3.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    fixture.delete("web").await;
    fixture
        .until_none(&format!("configmap/{}-config", fixture.name("web")))
        .await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
}

/// A user's Helm leaves the annotation of the agent.
#[tokio::test]
async fn what_a_users_helm_has_taken_over_stays_when_the_release_is_renamed() {
    let fixture = Fixture::new("owner-renamed").await;
    let files = [("config", CONFIG), ("fixed", &*fixed("one"))];
    fixture.charts.web("2.0.0", &files).await;
    successors(&fixture).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &renamed("old", &json!({}))).await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, "configmap/fixed").await;
    let annotation = format!("{}=by-hand", marks::RELEASE_NAME);
    fixture
        .kubectl(&["annotate", "configmap/fixed", "--overwrite", &annotation])
        .await;
    fixture.deploy("web", "3.0.0", &renamed("new", &json!({}))).await;
    fixture.until_none("secret/sh.helm.release.v1.old.v1").await;
    fixture.until_none("configmap/old-config").await;
    assert_eq!(uid(&fixture, "configmap/fixed").await, before);
}

/// What is wanted last counts, although it was not deployed: the BundleDeployment is paused.
#[tokio::test]
async fn objects_are_kept_although_that_was_not_deployed() {
    let fixture = Fixture::new("owner-keep").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let keep = json!({ "paused": true, "options": { "keepResources": true } });
    fixture.deploy("web", "1.0.0", &keep).await;
    let record = format!("secret/sh.helm.release.v1.{release}.v1");
    until(&fixture.apps, &record, |found| {
        let label = &found["metadata"]["labels"][marks::ON_DELETE];
        ensure!(label == "Forget", "it is {label}");
        Ok(())
    })
    .await;
    fixture.delete("web").await;
    fixture.until_none(&record).await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("hello"));
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

/// Everyone who may write Secrets in one namespace can write a record there that names a BundleDeployment: as of a release that it had under
/// another name.
#[tokio::test]
async fn a_forged_record_is_no_release_of_another_name() {
    let fixture = Fixture::new("owner-forged").await;
    let flags = ["--leader-elect=false", "--collection-interval=1s"];
    let agent = fixture.start_with("agent", &flags).await.unwrap();
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    // An object with the marks of the release, which its manifest does not have: such as a hook.
    let config = fixture.object(&format!("configmap/{release}-config")).await;
    let metadata = &config.unwrap()["metadata"];
    let victim = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "victim", "labels": metadata["labels"], "annotations": metadata["annotations"] },
    });
    let applied = fixture.apps.kubectl().apply(&victim.to_string()).await;
    applied.unwrap().ok().unwrap();
    let before = uid(&fixture, "configmap/victim").await;
    let (_, mut forged) = fixture.record(&release, 1).await.unwrap();
    forged.name = fixture.name("forged");
    forged
        .manifest
        .push_str("\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: victim}\n");
    fixture.write_record(&forged).await;
    until_logged(&agent, "this agent has not deployed it").await;
    fixture.barrier().await;
    assert_eq!(uid(&fixture, "configmap/victim").await, before);
    assert!(fixture.record(&forged.name, 1).await.is_some());
}

/// A change of the name that failed may have changed what both releases have.
#[tokio::test]
async fn a_rename_that_is_taken_back_is_repaired() {
    let fixture = Fixture::new("owner-back").await;
    let first = [("config", CONFIG), ("fixed", &*fixed("two"))];
    fixture.charts.web("2.0.0", &first).await;
    let second = [
        ("config", CONFIG),
        ("fixed", &*fixed("three")),
        ("invalid", INVALID),
    ];
    fixture.charts.web("3.0.0", &second).await;
    let _agent = fixture.start().await;
    let spec = |name: &str| renamed(name, &json!({}));
    fixture.deploy("web", "2.0.0", &spec("old")).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "3.0.0", &spec("new")).await;
    until_owner(&fixture, "new", "three").await;
    fixture.until_error("web", "Deployed", &["invalid"]).await;
    fixture.deploy("web", "2.0.0", &spec("old")).await;
    until_owner(&fixture, "old", "two").await;
    fixture.until_none("secret/sh.helm.release.v1.new.v1").await;
    fixture.until_none("configmap/new-config").await;
    fixture.until_ready("web").await;
    assert_eq!(fixture.helm_runs_of("old"), ["install", "upgrade"]);
}

/// Helm replaces the object by the hook, and the other way round takes it over.
#[tokio::test]
async fn an_object_that_becomes_a_hook_and_an_object_again_is_no_drift() {
    let fixture = Fixture::new("owner-hook").await;
    let report = |more: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: report{more}}}\ndata: {{v: \"{{{{ .Chart.Version }}}}\"}}\n"
        )
    };
    let (object, hook) = (report(""), report(", annotations: {helm.sh/hook: post-upgrade}"));
    for (version, template, report) in [
        ("2.0.0", "report", &object),
        ("3.0.0", "report", &hook),
        ("4.0.0", "moved", &object),
    ] {
        fixture
            .charts
            .web(version, &[("config", CONFIG), (template, report)])
            .await;
    }
    let _agent = fixture.start().await;
    for (version, has_annotation) in [("2.0.0", false), ("3.0.0", true), ("4.0.0", false)] {
        fixture.deploy("web", version, &json!({})).await;
        let deployed = fixture.until_ready("web").await;
        assert_eq!(deployed["status"]["nonModified"], true, "{deployed}");
        let found = fixture.object("configmap/report").await.unwrap();
        assert_eq!(found["data"]["v"], version);
        let annotation = &found["metadata"]["annotations"][marks::HOOK];
        assert_eq!(!annotation.is_null(), has_annotation, "{found}");
    }
    fixture.delete("web").await;
    fixture.until_none("configmap/report").await;
}

/// The hook cannot be created: the release stays, until its hooks are disabled.
#[tokio::test]
async fn a_release_whose_hook_fails_at_its_end_is_uninstalled_as_the_message_says() {
    const HOOK: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: clean, annotations: {helm.sh/hook: pre-delete}}\nspec: {}\n";
    let fixture = Fixture::new("owner-pre-delete").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("hook", HOOK)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    fixture.delete("web").await;
    let (_, note) = fixture.event("HelmFailed").await;
    assert!(
        note.contains("lifecycle.uninstall.disableHooks: true, wait until it is Ready, and remove it"),
        "{note}"
    );
    assert!(fixture.msg(&release).await.is_some());
    let disabled = json!({ "lifecycle": { "uninstall": { "disableHooks": true } } });
    fixture.deploy("web", "2.0.0", &disabled).await;
    fixture.until_ready("web").await;
    fixture.delete("web").await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
    fixture
        .until_none(&format!("secret/sh.helm.release.v1.{release}.v1"))
        .await;
}

/// An account that may deploy in a namespace, and not delete it.
#[tokio::test]
async fn a_namespace_is_deleted_with_the_permissions_of_the_account() {
    let fixture = Fixture::new("owner-namespace").await;
    run(&fixture.system, &["create", "serviceaccount", "deployer"]).await;
    let account = format!("--serviceaccount={}:deployer", fixture.system.name());
    for arguments in [
        &[
            "create",
            "role",
            "most",
            "--verb=*",
            "--resource=secrets,configmaps",
        ][..],
        &["create", "rolebinding", "most", "--role=most", &account],
    ] {
        fixture.kubectl(arguments).await;
    }
    let agent = fixture.start().await;
    let options = json!({ "serviceAccount": "deployer", "createNamespace": false, "deleteNamespace": true });
    fixture
        .deploy("web", "1.0.0", &json!({ "options": options }))
        .await;
    fixture.until_ready("web").await;
    fixture.delete("web").await;
    fixture.until_status(&fixture.name("web"), 1, "uninstalled").await;
    until_logged(&agent, "could not delete Namespace").await;
    let namespace = format!("namespace/{}", fixture.apps.name());
    let found = fixture.bed.kubectl().get(&namespace).await.unwrap().unwrap();
    assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null);
}

/// Helm runs for two other releases, whose hooks never end, and more wait for it than there are workers.
#[tokio::test]
async fn releases_are_observed_and_corrected_while_others_wait_for_helm() {
    let fixture = Fixture::new("owner-waiting").await;
    fixture.charts.web("2.0.0", &[("hook", ENDLESS_HOOK)]).await;
    let flags = ["--leader-elect=false", "--workers=3"];
    let _agent = fixture.start_with("agent", &flags).await.unwrap();
    let release = fixture.name("web");
    let corrected = json!({ "correctDrift": { "enabled": true } });
    fixture.deploy("web", "1.0.0", &corrected).await;
    fixture.until_ready("web").await;
    for name in ["one", "two"] {
        // The hooks have the same name.
        let apart = json!({ "options": { "defaultNamespace": format!("{}-{name}", fixture.apps.name()) } });
        fixture.deploy(name, "2.0.0", &apart).await;
    }
    eventually("two runs of Helm", SOON, async || {
        let runs = fixture.helm_runs();
        ensure!(runs.len() == 3, "{runs:?}");
        Ok(())
    })
    .await
    .unwrap();
    for name in ["three", "four", "five", "six"] {
        fixture.deploy(name, "1.0.0", &json!({})).await;
    }
    edit(&fixture, &release, "edited").await;
    fixture.until_msg(&release, "hello").await;
    assert_eq!(fixture.helm_runs().len(), 3);
    for name in ["one", "two"] {
        fixture.delete(name).await;
    }
    for name in ["three", "four", "five", "six"] {
        fixture.until_ready(name).await;
    }
    for name in ["one", "two"] {
        let namespace = format!("{}-{name}", fixture.apps.name());
        run(
            &fixture.bed.kubectl(),
            &["delete", "namespace", &namespace, "--wait=false"],
        )
        .await;
    }
}
