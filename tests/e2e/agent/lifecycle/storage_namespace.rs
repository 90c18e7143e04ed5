//! Records in another namespace than that of the release, as of a HelmRelease.

use anyhow::ensure;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::wait::eventually;
use helmops_release::record::secret_name;
use reqwest::Method;
use serde_json::{Value, json};

use super::attempts::INVALID;
use super::{state, until_state};
use crate::agent::safety::user_helm;
use crate::harness::agent::{CONFIG, Fixture, records_in};
use crate::harness::{SOON, condition, message, until_none};

/// A namespace for records, as that of HelmReleases.
async fn storage(fixture: &Fixture, prefix: &str) -> TestNamespace {
    TestNamespace::create(&fixture.bed, prefix).await.unwrap()
}

/// A release with its records in `storage`, and with more of its life cycle.
fn stored(storage: &str, more: &Value, options: &Value) -> Value {
    let mut lifecycle = json!({ "storageNamespace": storage });
    json_patch::merge(&mut lifecycle, more);
    let mut spec =
        json!({ "lifecycle": lifecycle, "options": { "lifecycle": { "storageNamespace": storage } } });
    json_patch::merge(&mut spec, &json!({ "options": options }));
    spec
}

fn msg(msg: &str) -> Value {
    json!({ "helm": { "values": { "msg": msg } } })
}

fn secrets(release: &str, revisions: &[u64]) -> Vec<String> {
    let names = revisions.iter().map(|revision| secret_name(release, *revision));
    names.map(|name| format!("secret/{name}")).collect()
}

/// The records in a namespace, and those beside the objects.
async fn records(fixture: &Fixture, storage: &TestNamespace) -> [Vec<String>; 2] {
    [
        records_in(&fixture.api, storage.name()).await,
        records_in(&fixture.api, fixture.apps.name()).await,
    ]
}

async fn uid(fixture: &Fixture, object: &str) -> String {
    let found = fixture.object(object).await.unwrap();
    found["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_release_lives_with_its_records_elsewhere() {
    let fixture = Fixture::new("storage-life").await;
    let storage = storage(&fixture, "storage-life-records").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("invalid", INVALID)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let rolls_back = json!({ "upgrade": { "remediation": "rollback" } });
    let spec = |text: &str| stored(storage.name(), &rolls_back, &msg(text));
    fixture.deploy("web", "1.0.0", &spec("first")).await;
    fixture.until_revision("web", 1).await;
    fixture.until_ready("web").await;
    fixture.until_msg(&release, "first").await;
    assert_eq!(
        records(&fixture, &storage).await,
        [secrets(&release, &[1]), vec![]]
    );
    assert_eq!(
        storage
            .kubectl()
            .get(&format!("configmap/{release}-config"))
            .await
            .unwrap(),
        None,
        "its objects are not there"
    );

    fixture.deploy("web", "1.0.0", &spec("second")).await;
    fixture.until_revision("web", 2).await;
    fixture.until_msg(&release, "second").await;
    // A failed upgrade is rolled back.
    fixture.deploy("web", "2.0.0", &spec("third")).await;
    until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    fixture.until_msg(&release, "second").await;
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install", "upgrade", "upgrade", "rollback"]
    );
    let [elsewhere, beside] = records(&fixture, &storage).await;
    assert!(
        elsewhere.len() > 1 && beside.is_empty(),
        "{elsewhere:?} {beside:?}"
    );

    // Drift is found.
    let patch = r#"{"data":{"msg":"drift"}}"#;
    fixture
        .kubectl(&["patch", &format!("configmap/{release}-config"), "--patch", patch])
        .await;
    fixture
        .until("web", |found| {
            let modified = !found["status"]["modifiedStatus"].is_null();
            ensure!(modified, "{}", found["status"]);
            Ok(())
        })
        .await;

    fixture.delete("web").await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
    eventually("no records", SOON, async || {
        let left = records_in(&fixture.api, storage.name()).await;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn tests_of_a_chart_are_in_records_elsewhere() {
    let fixture = Fixture::new("storage-tests").await;
    let storage = storage(&fixture, "storage-tests-records").await;
    let test =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: checked, annotations: {helm.sh/hook: test}}\n";
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("test", test)])
        .await;
    let _agent = fixture.start().await;
    let enabled = json!({ "test": { "enable": true } });
    let spec = stored(storage.name(), &enabled, &msg("tested"));
    fixture.deploy("web", "2.0.0", &spec).await;
    until_state(&fixture, "web", "TestSuccess", "True TestSucceeded").await;
    let release = fixture.name("web");
    assert_eq!(fixture.helm_runs_of(&release), ["install", "test"]);
    // What the condition shows is also what the object of the test shows.
    assert!(fixture.object("configmap/checked").await.is_some());
}

#[tokio::test]
async fn records_of_others_are_never_overwritten() {
    let fixture = Fixture::new("storage-conflict").await;
    let storage = storage(&fixture, "storage-conflict-records").await;
    let other = TestNamespace::create(&fixture.bed, "storage-conflict-other")
        .await
        .unwrap();
    let _agent = fixture.start().await;
    let named = |name: &str, namespace: &str, at: &str| {
        let options = json!({ "defaultNamespace": namespace, "helm": { "releaseName": name } });
        stored(at, &json!({}), &options)
    };
    let apps = fixture.apps.name();
    fixture
        .deploy("web", "1.0.0", &named("same", apps, storage.name()))
        .await;
    fixture.until_ready("web").await;
    let before = records(&fixture, &storage).await;
    let object = uid(&fixture, "configmap/same-config").await;

    // The same records for objects in another namespace.
    let owner = fixture.name("web");
    fixture
        .deploy("second", "1.0.0", &named("same", other.name(), storage.name()))
        .await;
    let parts = [&*owner, "would overwrite them", "lifecycle.storageNamespace"];
    fixture.until_error("second", "Deployed", &parts).await;
    // The same objects with other records.
    fixture
        .deploy("third", "1.0.0", &named("same", apps, other.name()))
        .await;
    let parts = [storage.name(), &*owner, "would belong to two releases"];
    fixture.until_error("third", "Deployed", &parts).await;
    let beside = json!({ "options": { "helm": { "releaseName": "same" } } });
    fixture.deploy("fourth", "1.0.0", &beside).await;
    fixture.until_error("fourth", "Deployed", &parts).await;
    // The release itself cannot change its namespace alone.
    fixture
        .deploy("web", "1.0.0", &named("same", other.name(), storage.name()))
        .await;
    let parts = [apps, "cannot move it", "lifecycle.storageNamespace"];
    fixture.until_error("web", "Deployed", &parts).await;
    for name in ["second", "third", "fourth"] {
        fixture.delete(name).await;
    }
    fixture.barrier().await;
    assert_eq!(records(&fixture, &storage).await, before);
    assert_eq!(uid(&fixture, "configmap/same-config").await, object);
    assert_eq!(records_in(&fixture.api, other.name()).await, Vec::<String>::new());

    // With another name, it can.
    fixture
        .deploy("web", "1.0.0", &named("moved", other.name(), storage.name()))
        .await;
    fixture.until_none("configmap/same-config").await;
    until_none(&storage, &format!("secret/{}", secret_name("same", 1))).await;
    let moved = other.kubectl().get("configmap/moved-config").await.unwrap();
    assert!(moved.is_some());
}

#[tokio::test]
async fn a_change_of_the_namespace_of_records_keeps_the_objects() {
    let fixture = Fixture::new("storage-moved").await;
    let [first, second] = ["storage-moved-first", "storage-moved-second"];
    let (first, second) = (storage(&fixture, first).await, storage(&fixture, second).await);
    let extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n";
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("extra", extra)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let object = format!("configmap/{release}-config");
    fixture
        .deploy("web", "2.0.0", &json!({ "options": msg("beside") }))
        .await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, &object).await;

    // What the new release does not have is deleted with the old one.
    let spec = stored(first.name(), &json!({}), &msg("first"));
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_ready("web").await;
    fixture.until_none("configmap/extra").await;
    fixture
        .until_none(&format!("secret/{}", secret_name(&release, 1)))
        .await;
    fixture.until_msg(&release, "first").await;
    assert_eq!(records(&fixture, &first).await, [secrets(&release, &[1]), vec![]]);

    let spec = stored(second.name(), &json!({}), &msg("second"));
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_msg(&release, "second").await;
    until_none(&first, &format!("secret/{}", secret_name(&release, 1))).await;
    fixture.until_ready("web").await;
    assert_eq!(
        records(&fixture, &second).await,
        [secrets(&release, &[1]), vec![]]
    );
    assert_eq!(uid(&fixture, &object).await, before);
    let runs = fixture.helm_runs();
    assert!(!runs.iter().any(|run| run.starts_with("uninstall")), "{runs:?}");
    let owned = fixture.system.kubectl().get("configmap/helmops-agent-releases");
    let owned = owned.await.unwrap();
    let owned = owned.unwrap()["data"][&release].as_str().unwrap().to_owned();
    assert!(
        owned.contains(second.name()) && !owned.contains(first.name()),
        "{owned}"
    );

    // A namespace that does not exist is named, and nothing is lost.
    let spec = stored("storage-missing", &json!({}), &msg("third"));
    fixture.deploy("web", "1.0.0", &spec).await;
    let parts = ["storage-missing", "does not exist", "lifecycle.storageNamespace"];
    fixture.until_error("web", "Deployed", &parts).await;
    assert_eq!(
        records(&fixture, &second).await,
        [secrets(&release, &[1]), vec![]]
    );
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("second"));
}

/// Flux writes the record of a release into the namespace of the HelmRelease: otherwise it is one of Helm.
#[tokio::test]
async fn a_release_of_flux_is_adopted_where_its_records_are() {
    let fixture = Fixture::new("storage-flux").await;
    let flux = storage(&fixture, "storage-flux-records").await;
    let (release, url) = (fixture.name("web"), fixture.charts.url());
    for action in ["install", "upgrade"] {
        let arguments = [action, &*release, "web", "--repo", &url, "--version=1.0.0"];
        user_helm(&fixture, &arguments).await.unwrap();
    }
    for revision in [1, 2] {
        let name = secret_name(&release, revision);
        let mut secret = fixture.object(&format!("secret/{name}")).await.unwrap();
        let labels = secret["metadata"]["labels"].take();
        secret["metadata"] = json!({ "name": name, "labels": labels });
        let collection = format!("api/v1/namespaces/{}/secrets", flux.name());
        fixture.api.call(Method::POST, &collection, secret).await.unwrap();
        fixture.kubectl(&["delete", "secret", &name]).await;
    }
    let object = format!("configmap/{release}-config");
    let before = fixture.object(&object).await;
    let _agent = fixture.start().await;
    // Not without a word.
    let refused = stored(flux.name(), &json!({}), &json!({}));
    fixture.deploy("web", "1.0.0", &refused).await;
    fixture
        .until_error(
            "web",
            "Deployed",
            &["was not made by this agent", "takeOwnership"],
        )
        .await;
    // Nor for another namespace.
    let elsewhere = json!({ "defaultNamespace": fixture.system.name(), "helm": { "takeOwnership": true } });
    fixture
        .deploy("web", "1.0.0", &stored(flux.name(), &json!({}), &elsewhere))
        .await;
    let parts = [fixture.apps.name(), "cannot move it"];
    fixture.until_error("web", "Deployed", &parts).await;
    assert_eq!(fixture.helm_runs(), Vec::<String>::new());

    let adopts = stored(
        flux.name(),
        &json!({}),
        &json!({ "helm": { "takeOwnership": true } }),
    );
    fixture.deploy("web", "1.0.0", &adopts).await;
    let found = fixture.until_revision("web", 2).await;
    fixture.until_ready("web").await;
    assert_eq!(
        state(&found, "Released"),
        "True UpgradeSucceeded",
        "{}",
        message(&found, "Released")
    );
    assert!(condition(&found, "Deployed").is_some());
    assert_eq!(fixture.object(&object).await, before);
    assert!(!fixture.helm_runs().iter().any(|run| run.starts_with("upgrade")));
    assert_eq!(
        records(&fixture, &flux).await,
        [secrets(&release, &[1, 2]), vec![]]
    );
    let mut changed = adopts;
    json_patch::merge(&mut changed, &json!({ "options": msg("changed") }));
    fixture.deploy("web", "1.0.0", &changed).await;
    fixture.until_revision("web", 3).await;
    fixture.until_msg(&release, "changed").await;
}
