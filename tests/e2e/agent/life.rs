//! The life of a release, from the BundleDeployment to the objects and back to its status.

use anyhow::{Context, ensure};
use helmops_bed::audit::Request;
use serde_json::{Value, json};

use super::safety::uid;
use crate::harness::agent::{CONFIG, Fixture};
use crate::harness::until;

fn values(hash: &str) -> Value {
    json!({ "valuesHash": hash })
}

/// Changes the value in the ConfigMap of a release, as a user.
pub(super) async fn edit(fixture: &Fixture, release: &str, msg: &str) {
    let object = format!("configmap/{release}-config");
    let patch = json!({ "data": { "msg": msg } }).to_string();
    let arguments = [
        "patch",
        &object,
        "--type=merge",
        "--field-manager=by-hand",
        "-p",
        &patch,
    ];
    fixture.kubectl(&arguments).await;
}

#[tokio::test]
async fn a_chart_is_installed_upgraded_and_uninstalled() {
    let fixture = Fixture::new("life").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let hash = fixture.values("web", "msg: first\n").await;
    fixture.deploy("web", "1.0.0", &values(&hash)).await;
    let installed = fixture.until_ready("web").await;
    assert_eq!(
        installed["status"]["release"],
        format!("{}/{release}:1", fixture.apps.name())
    );
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("first"));
    assert_eq!(installed["status"]["resourceCounts"]["ready"], 1);

    let hash = fixture.values("web", "msg: second\n").await;
    fixture.deploy("web", "1.0.0", &values(&hash)).await;
    fixture.until_revision("web", 2).await;
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("second"));
    let (_, record) = fixture.record(&release, 2).await.unwrap();
    let id = fixture.until_ready("web").await["spec"]["deploymentID"].clone();
    assert!(
        record.info.description.contains(id.as_str().unwrap()),
        "{}",
        record.info.description
    );

    fixture.delete("web").await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
    for revision in [1, 2] {
        fixture
            .until_none(&format!("secret/sh.helm.release.v1.{release}.v{revision}"))
            .await;
    }
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install", "upgrade", "uninstall"]
    );
}

/// Most of the processor time of a deployment is that of the API server.
#[tokio::test]
async fn the_requests_of_a_deployment_are_few() {
    let fixture = Fixture::new("life-requests").await;
    let _agent = fixture.start().await;
    // The kinds of its objects are watched from now on.
    let barrier = fixture.barrier_without_removal().await;
    let mut before = fixture.requests().len();
    let mut sent = async || {
        fixture.barrier().await;
        let all = fixture.requests();
        let sent = all.iter().skip(before);
        // It sees the records of other tests as well.
        let is_own = |request: &&Request| {
            let namespaces =
                [&fixture.apps, &fixture.system].map(|namespace| format!("/{}", namespace.name()));
            !request.uri.contains("/namespaces/") || namespaces.iter().any(|own| request.uri.contains(own))
        };
        let of_web = sent
            .take_while(|request| !request.uri.contains("barrier-"))
            .filter(is_own);
        let (of_helm, of_agent): (Vec<_>, Vec<_>) = of_web
            .map(|request| format!("{} {} ({})", request.verb, request.uri, request.user_agent))
            .partition(|request| request.contains("(Helm/"));
        before = all.len();
        (of_helm, of_agent)
    };
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let (of_helm, of_agent) = sent().await;
    assert!(
        of_helm.len() <= 8 && of_agent.len() <= 10,
        "{of_helm:#?} {of_agent:#?}"
    );
    let hash = fixture.values("web", "msg: second\n").await;
    fixture.deploy("web", "1.0.0", &values(&hash)).await;
    fixture.until_revision("web", 2).await;
    let (of_helm, of_agent) = sent().await;
    assert!(
        of_helm.len() <= 9 && of_agent.len() <= 11,
        "{of_helm:#?} {of_agent:#?}"
    );
    fixture.delete(&barrier).await;
}

/// Once before Helm runs, and once after it. After a failure, the next reconciliation reads how the attempt ended.
#[tokio::test]
async fn the_records_of_a_release_are_listed_before_and_after_an_attempt() {
    let fixture = Fixture::new("life-lists").await;
    fixture.charts.web("2.0.0", &[("config", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, typo: 1}]}\n")]).await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let mut lists = 0;
    let mut added = async |attempt: &str, expected: usize| {
        fixture.barrier().await;
        let before = std::mem::replace(&mut lists, fixture.lists_of_records(&release));
        assert!(lists - before <= expected, "{attempt}: {before} {lists}");
    };
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    added("installation", 2).await;
    let hash = fixture.values("web", "msg: second\n").await;
    fixture.deploy("web", "1.0.0", &values(&hash)).await;
    fixture.until_revision("web", 2).await;
    added("upgrade", 2).await;
    fixture
        .deploy(
            "web",
            "2.0.0",
            &json!({ "lifecycle": { "upgrade": { "retryInterval": "1h" } } }),
        )
        .await;
    fixture.until_error("web", "Deployed", &["typo"]).await;
    added("failed upgrade", 3).await;
}

/// The Secret is written before the BundleDeployment refers to it, but the other way round must not deploy the old values.
#[tokio::test]
async fn values_with_another_hash_are_not_deployed() {
    let fixture = Fixture::new("life-hash").await;
    let _agent = fixture.start().await;
    let hash = fixture.values("web", "msg: right\n").await;
    fixture.values("web", "msg: wrong\n").await;
    fixture.deploy("web", "1.0.0", &values(&hash)).await;
    fixture
        .until_error("web", "Deployed", &["hash mismatch", &hash])
        .await;
    assert_eq!(fixture.records().await, Vec::<String>::new());
    fixture.values("web", "msg: right\n").await;
    fixture.until_msg(&fixture.name("web"), "right").await;
}

#[tokio::test]
async fn drift_is_reported_and_corrected_without_a_revision() {
    let fixture = Fixture::new("life-drift").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;

    edit(&fixture, &release, "mine").await;
    fixture
        .until_error("web", "Ready", &["configmap", "modified", "msg"])
        .await;
    let modified = fixture.until("web", |_| Ok(())).await["status"].clone();
    assert_ne!(modified["nonModified"], true);
    assert_eq!(modified["modifiedStatus"][0]["name"], format!("{release}-config"));
    assert_eq!(
        fixture.msg(&release).await.as_deref(),
        Some("mine"),
        "nothing is corrected without correctDrift"
    );

    let corrected = json!({ "correctDrift": { "enabled": true } });
    fixture.deploy("web", "1.0.0", &corrected).await;
    fixture.until_msg(&release, "hello").await;
    fixture.until_ready("web").await;
    // Now within a moment.
    edit(&fixture, &release, "again").await;
    fixture.until_msg(&release, "hello").await;
    let found = fixture.until_ready("web").await;
    assert_eq!(
        found["status"]["release"],
        format!("{}/{release}:1", fixture.apps.name())
    );
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
    assert_eq!(fixture.records().await.len(), 1);
}

#[tokio::test]
async fn a_deleted_object_is_reported_and_created_again() {
    let fixture = Fixture::new("life-deleted").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let object = format!("configmap/{release}-config");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    fixture.kubectl(&["delete", &object]).await;
    fixture.until_error("web", "Ready", &["missing"]).await;
    assert_eq!(fixture.object(&object).await, None);

    fixture
        .deploy("web", "1.0.0", &json!({ "correctDrift": { "enabled": true } }))
        .await;
    fixture.until_msg(&release, "hello").await;
    fixture.until_ready("web").await;
    let before = fixture.object(&object).await.unwrap();
    fixture.kubectl(&["delete", &object]).await;
    until(&fixture.apps, &object, |found| {
        ensure!(
            found["metadata"]["uid"] != before["metadata"]["uid"],
            "it is the old one"
        );
        Ok(())
    })
    .await;
    fixture.until_ready("web").await;
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

#[tokio::test]
async fn deleted_records_are_made_again() {
    let fixture = Fixture::new("life-records").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let object = format!("configmap/{release}-config");
    let uid = fixture.object(&object).await.unwrap()["metadata"]["uid"].clone();
    fixture
        .kubectl(&["delete", "secrets", "--selector=owner=helm"])
        .await;
    let record = fixture.until_status(&release, 1, "deployed").await;
    assert!(
        record.info.description.contains("because of a missing release"),
        "{}",
        record.info.description
    );
    fixture.until_ready("web").await;
    assert_eq!(
        fixture.object(&object).await.unwrap()["metadata"]["uid"],
        uid,
        "its objects stay"
    );
}

#[tokio::test]
async fn the_objects_are_kept_if_that_is_wanted() {
    let fixture = Fixture::new("life-keep").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    fixture
        .deploy("web", "1.0.0", &json!({ "options": { "keepResources": true } }))
        .await;
    fixture.until_ready("web").await;
    let object = format!("configmap/{release}-config");
    let before = fixture.object(&object).await.unwrap();
    fixture.delete("web").await;
    fixture
        .until_none(&format!("secret/sh.helm.release.v1.{release}.v1"))
        .await;
    assert_eq!(fixture.object(&object).await.unwrap(), before);
    assert_eq!(fixture.helm_runs_of(&release), ["install"]);
}

#[tokio::test]
async fn a_held_deployment_stays_as_it_is() {
    let fixture = Fixture::new("life-held").await;
    let _agent = fixture.start().await;
    let holds = ["paused", "offSchedule", "waitingForValues"];
    let names = holds.map(str::to_lowercase);
    let spec = |msg: &str| json!({ "options": { "helm": { "values": { "msg": msg } } }, "correctDrift": { "enabled": true } });
    for name in &names {
        fixture.deploy(name, "1.0.0", &spec("before")).await;
    }
    let mut statuses = Vec::new();
    for name in &names {
        statuses.push(fixture.until_ready(name).await["status"].clone());
    }
    for (hold, name) in holds.iter().zip(&names) {
        let mut spec = spec("after");
        spec[hold] = json!(true);
        fixture.deploy(name, "1.0.0", &spec).await;
        // The BundleDeployment is reconciled for its change, the drift, and a new one.
        edit(&fixture, &fixture.name(name), "drift").await;
    }
    let new = json!({ "paused": true });
    fixture.deploy("new", "1.0.0", &new).await;
    fixture.barrier().await;
    for (name, before) in names.iter().zip(&statuses) {
        assert_eq!(
            fixture.msg(&fixture.name(name)).await.as_deref(),
            Some("drift"),
            "{name}"
        );
        assert_eq!(fixture.until(name, |_| Ok(())).await["status"], *before, "{name}");
        assert_eq!(fixture.helm_runs_of(&fixture.name(name)), ["install"], "{name}");
    }
    assert!(fixture.helm_runs_of(&fixture.name("new")).is_empty());
    for name in &names {
        let mut spec = spec("after");
        // The edit is a conflict otherwise.
        spec["options"]["helm"]["force"] = json!(true);
        fixture.deploy(name, "1.0.0", &spec).await;
    }
    for name in &names {
        fixture.until_msg(&fixture.name(name), "after").await;
    }
    let held = fixture.until("new", |_| Ok(())).await;
    let status = held.get("status").cloned().unwrap_or_default();
    assert!(status.get("appliedDeploymentID").is_none(), "{status}");
}

/// Ready, and nothing more to be written: the heartbeat has shown the cluster.
#[tokio::test]
async fn the_cluster_shows_when_its_agent_was_last_seen() {
    let fixture = Fixture::new("life-beat").await;
    let _agent = fixture.start().await;
    let cluster = until(&fixture.upstream, "cluster/edge", |cluster| {
        cluster["status"]["agent"]["lastSeen"]
            .as_str()
            .context("no heartbeat")?;
        Ok(())
    })
    .await;
    assert_eq!(cluster["status"]["agent"]["namespace"], fixture.system.name());
}

/// Helm compares with the revision before. Quantities are the same in another form (`1000m`).
#[tokio::test]
async fn an_object_that_an_upgrade_has_added_is_changed_by_the_next_one() {
    const LIMITED: &str = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: limits}\nspec:\n  limits:\n  \
        - {type: Container, default: {cpu: 1000m, memory: 1024Mi}, defaultRequest: {cpu: 0.5}}\n";
    let added = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: added}}\ndata: {{value: {value}}}\n")
    };
    let fixture = Fixture::new("life-added").await;
    for (version, value) in [("2.0.0", "two"), ("3.0.0", "three")] {
        let templates = [("config", CONFIG), ("limits", LIMITED), ("added", &*added(value))];
        fixture.charts.web(version, &templates).await;
    }
    let _agent = fixture.start().await;
    for takes_over in [false, true] {
        let options = json!({ "options": { "helm": { "takeOwnership": takes_over } } });
        for (version, value) in [("1.0.0", None), ("2.0.0", Some("two")), ("3.0.0", Some("three"))] {
            fixture.deploy("web", version, &options).await;
            let deployed = fixture.until_ready("web").await;
            assert_eq!(deployed["status"]["nonModified"], true, "{deployed}");
            let found = fixture.object("configmap/added").await;
            let found = found.map(|found| found["data"]["value"].clone());
            assert_eq!(found, value.map(|value| json!(value)), "{takes_over} {version}");
        }
    }
}

#[tokio::test]
async fn an_object_with_the_policy_keep_stays_until_its_chart_has_it_again() {
    const KEPT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n\
        data: {release: \"{{ .Release.Name }}\"}\n";
    let fixture = Fixture::new("life-policy").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("kept", KEPT)])
        .await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let before = uid(&fixture, "configmap/kept").await;
    // Out of the chart and back, under another name, and after the removal of the release.
    let renamed = json!({ "options": { "helm": { "releaseName": "renamed" } } });
    for (version, over) in [
        ("1.0.0", &json!({})),
        ("2.0.0", &json!({})),
        ("1.0.0", &json!({})),
        ("1.0.0", &renamed),
        ("2.0.0", &renamed),
    ] {
        fixture.deploy("web", version, over).await;
        fixture.until_ready("web").await;
        assert_eq!(uid(&fixture, "configmap/kept").await, before, "{version} {over}");
    }
    fixture.delete("web").await;
    fixture.until_none("configmap/renamed-config").await;
    assert_eq!(uid(&fixture, "configmap/kept").await, before);
}
