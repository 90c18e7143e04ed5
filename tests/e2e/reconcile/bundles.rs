//! From HelmOps to Bundles.

use anyhow::ensure;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::namespace::TestNamespace;
use serde_json::{Value, json};

use crate::harness::beside_fleet::{
    apply, assert_no_bundle, suite, until_accepted, until_no_bundle, until_refused,
};
use crate::harness::denial::{Denial, Rule};
use crate::harness::{condition, helmop, run, until, until_reason, until_version};

async fn fixture() -> (TestNamespace, ChartServer) {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "reconcile").await.unwrap();
    let server = ChartServer::http(suite.charts.folder()).await.unwrap();
    (namespace, server)
}

fn alpine(server: &ChartServer, version: &str) -> Value {
    json!({ "helm": { "repo": server.url(), "chart": "alpine", "version": version } })
}

#[tokio::test]
async fn a_helmop_creates_a_bundle_that_follows_its_version() {
    let (namespace, server) = fixture().await;
    let mut spec = alpine(&server, "");
    spec["labels"] = json!({ "team": "a" });
    spec["helmSecretName"] = json!("");
    spec["resources"] = json!([{ "name": "ignored" }]);
    apply(&namespace, "web", &spec).await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["metadata"]["labels"],
        json!({ "team": "a", "fleet.cattle.io/fleet-helm-name": "web" })
    );
    assert_eq!(
        bundle["spec"]["targets"],
        json!([{ "name": "default", "clusterGroup": "default" }])
    );
    assert_eq!(bundle["spec"]["helmOpOptions"], json!({}));
    assert_eq!(bundle["spec"].get("resources"), None);
    let helmop = until_accepted(&namespace, "web").await;
    assert_eq!(helmop["status"]["version"], "0.2.0");
    assert_eq!(
        bundle["metadata"]["ownerReferences"][0]["uid"],
        helmop["metadata"]["uid"]
    );
    assert_eq!(
        condition(&helmop, "Ready").unwrap()["reason"],
        "Progressing",
        "no agent has deployed it"
    );

    apply(&namespace, "web", &alpine(&server, "0.1.0")).await;
    until_version(&namespace, "web", "0.1.0").await;
    assert_eq!(
        until_accepted(&namespace, "web").await["status"]["version"],
        "0.1.0"
    );
}

#[tokio::test]
async fn targets_are_kept_and_their_versions_resolved() {
    let (namespace, server) = fixture().await;
    let mut spec = alpine(&server, "0.x");
    spec["targets"] = json!([
        { "name": "one", "clusterName": "a" },
        { "name": "two", "clusterGroup": "b", "helm": { "version": "~0.1" } },
        { "clusterSelector": {}, "helm": { "chart": "nginx", "version": "1" } }
    ]);
    apply(&namespace, "web", &spec).await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    let repo = server.url();
    assert_eq!(
        bundle["spec"]["targets"],
        json!([
            { "name": "one", "clusterName": "a" },
            { "name": "two", "clusterGroup": "b", "helm": { "repo": repo, "chart": "alpine", "version": "0.1.0" } },
            { "name": "target002", "clusterSelector": {}, "helm": { "repo": repo, "chart": "nginx", "version": "1.1.0" } }
        ])
    );
}

#[tokio::test]
async fn deleting_a_helmop_deletes_its_bundle() {
    let (namespace, server) = fixture().await;
    apply(&namespace, "web", &alpine(&server, "")).await;
    until_version(&namespace, "web", "0.2.0").await;
    run(&namespace, &["delete", "helmop/web"]).await;
    until_no_bundle(&namespace, "web").await;
}

#[tokio::test]
async fn ranges_resolve_to_the_highest_version_and_exact_versions_replace_them() {
    let (namespace, server) = fixture().await;
    for (number, range) in ["", "*", "0.2.x", "> 0.1", "0.x.x"].into_iter().enumerate() {
        let name = format!("web{number}");
        apply(&namespace, &name, &alpine(&server, range)).await;
        until_version(&namespace, &name, "0.2.0").await;
        apply(&namespace, &name, &alpine(&server, "0.1.0")).await;
        until_version(&namespace, &name, "0.1.0").await;
    }
}

#[tokio::test]
async fn a_range_resolves_again_when_its_filter_changes() {
    let (namespace, server) = fixture().await;
    let mut spec = alpine(&server, "0.x");
    apply(&namespace, "web", &spec).await;
    until_version(&namespace, "web", "0.2.0").await;
    spec["semverFilter"] = json!("[.]1[.]0$");
    apply(&namespace, "web", &spec).await;
    until_version(&namespace, "web", "0.1.0").await;
    let recorded = |helmop: &Value| {
        let record = &helmop["status"]["resolved"][0];
        ensure!(record["semverFilter"] == "[.]1[.]0$", "{record}");
        Ok(())
    };
    until(&namespace, "helmop/web", recorded).await;
    spec["semverFilter"] = json!("-rc");
    apply(&namespace, "web", &spec).await;
    let message = until_refused(&namespace, "web", "NoMatchingVersion").await;
    assert!(
        message.contains("semverFilter \"-rc\" matches none of its 2 versions"),
        "{message}"
    );
}

#[tokio::test]
async fn a_range_without_a_match_is_reported_with_the_available_versions() {
    let (namespace, server) = fixture().await;
    apply(&namespace, "web", &alpine(&server, "0.3.x")).await;
    let message = until_refused(&namespace, "web", "NoMatchingVersion").await;
    assert!(
        message.contains("no chart version found for alpine-0.3.x"),
        "{message}"
    );
    assert!(message.contains("its versions are 0.2.0, 0.1.0"), "{message}");
    assert_no_bundle(&namespace, "web").await;
}

#[tokio::test]
async fn a_refused_change_leaves_the_bundle_unchanged() {
    let (namespace, server) = fixture().await;
    apply(&namespace, "web", &alpine(&server, "0.2.0")).await;
    until_version(&namespace, "web", "0.2.0").await;
    apply(&namespace, "web", &alpine(&server, "9.x")).await;
    until_refused(&namespace, "web", "NoMatchingVersion").await;
    until_version(&namespace, "web", "0.2.0").await;
    apply(&namespace, "web", &alpine(&server, "0.1.x")).await;
    until_accepted(&namespace, "web").await;
    until_version(&namespace, "web", "0.1.0").await;
}

#[tokio::test]
async fn a_bundle_of_another_owner_is_not_modified() {
    let (namespace, server) = fixture().await;
    let foreign = r#"{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Bundle","metadata":{"name":"web"},"spec":{"paused":true}}"#;
    namespace.kubectl().apply(foreign).await.unwrap().ok().unwrap();
    apply(&namespace, "web", &alpine(&server, "")).await;
    let message = until_refused(&namespace, "web", "BundleConflict").await;
    assert!(
        message.contains("a non-helmops bundle already exists with name web"),
        "{message}"
    );
    assert_eq!(
        namespace.kubectl().get("bundle/web").await.unwrap().unwrap()["spec"]["paused"],
        true
    );
    run(&namespace, &["delete", "bundle/web"]).await;
    until_version(&namespace, "web", "0.2.0").await;
    until_accepted(&namespace, "web").await;
}

#[tokio::test]
async fn an_edited_or_deleted_bundle_is_restored_with_the_same_version() {
    let (namespace, mut server) = fixture().await;
    apply(&namespace, "web", &alpine(&server, "0.x")).await;
    until_version(&namespace, "web", "0.2.0").await;
    until_accepted(&namespace, "web").await;
    server.close().await;
    let edit = r#"{"spec":{"helm":{"version":"9.9.9"}},"metadata":{"labels":null}}"#;
    run(&namespace, &["patch", "bundle/web", "--type=merge", "-p", edit]).await;
    let bundle = until_version(&namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["metadata"]["labels"]["fleet.cattle.io/fleet-helm-name"],
        "web"
    );

    server.reopen().await.unwrap();
    run(&namespace, &["delete", "bundle/web"]).await;
    until_version(&namespace, "web", "0.2.0").await;
}

#[tokio::test]
async fn other_changes_keep_the_version_and_need_no_repository() {
    let suite = suite().await;
    let (namespace, _) = fixture().await;
    let folder = tempfile::TempDir::new().unwrap();
    let versions: &[(&str, &[&str])] = &[("alpine", &["0.1.0"])];
    let charts = helmops_bed::charts::ChartRepo::build(&suite.bed.tools, folder.path(), versions)
        .await
        .unwrap();
    let mut server = ChartServer::http(charts.folder()).await.unwrap();
    apply(&namespace, "web", &alpine(&server, "0.x")).await;
    until_version(&namespace, "web", "0.1.0").await;
    until_accepted(&namespace, "web").await;

    charts.add_version("alpine", "0.5.0").await.unwrap();
    let wipe = r#"{"status":null}"#;
    run(
        &namespace,
        &[
            "patch",
            "helmop/web",
            "--subresource=status",
            "--type=merge",
            "-p",
            wipe,
        ],
    )
    .await;
    let mut spec = alpine(&server, "0.x");
    spec["helm"]["values"] = json!({ "replicas": 3 });
    apply(&namespace, "web", &spec).await;
    let bundle = until(&namespace, "bundle/web", |bundle| {
        ensure!(
            bundle["spec"]["helm"]["values"]["replicas"] == 3,
            "the values are not there"
        );
        Ok(())
    })
    .await;
    assert_eq!(bundle["spec"]["helm"]["version"], "0.1.0");
    assert_eq!(
        until_accepted(&namespace, "web").await["status"]["version"],
        "0.1.0",
        "a lost status is restored"
    );
    assert_eq!(server.requests("/index.yaml"), 1);

    server.close().await;
    spec["helm"]["values"] = json!({ "replicas": 4 });
    apply(&namespace, "web", &spec).await;
    until(&namespace, "bundle/web", |bundle| {
        ensure!(
            bundle["spec"]["helm"]["values"]["replicas"] == 4,
            "the values are not there"
        );
        Ok(())
    })
    .await;
    until_accepted(&namespace, "web").await;

    server.reopen().await.unwrap();
    apply(&namespace, "web", &alpine(&server, ">=0.1")).await;
    until_version(&namespace, "web", "0.5.0").await;
}

#[tokio::test]
async fn deletion_removes_fleets_finalizer_and_an_orphaned_bundle() {
    let (namespace, server) = fixture().await;
    let mut object: Value = serde_json::from_str(&helmop("web", &alpine(&server, ""))).unwrap();
    object["metadata"]["finalizers"] = json!(["fleet.cattle.io/helmop-finalizer"]);
    namespace
        .kubectl()
        .apply(&object.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
    until_version(&namespace, "web", "0.2.0").await;
    let orphan = r#"{"metadata":{"ownerReferences":null}}"#;
    run(&namespace, &["patch", "bundle/web", "--type=merge", "-p", orphan]).await;
    run(&namespace, &["delete", "helmop/web", "--timeout=30s"]).await;
    until_no_bundle(&namespace, "web").await;
}

#[tokio::test]
async fn readiness_follows_the_summary_of_the_bundle() {
    let (namespace, server) = fixture().await;
    apply(&namespace, "web", &alpine(&server, "")).await;
    until_version(&namespace, "web", "0.2.0").await;
    for (summary, ready, reason) in [
        (json!({ "ready": 0, "desiredReady": 0 }), "False", "NoClusters"),
        (
            json!({ "ready": 1, "desiredReady": 2, "notReady": 1 }),
            "False",
            "NotReady",
        ),
        (json!({ "ready": 2, "desiredReady": 2 }), "True", "Ready"),
    ] {
        let status = json!({ "status": { "observedGeneration": 1, "summary": summary } }).to_string();
        let patch = [
            "patch",
            "bundle/web",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ];
        namespace.kubectl().run(&patch).await.unwrap().ok().unwrap();
        until(&namespace, "helmop/web", |helmop| {
            let found = condition(helmop, "Ready").unwrap_or(&Value::Null);
            ensure!(
                found["status"] == ready && found["reason"] == reason,
                "it is {found}"
            );
            Ok(())
        })
        .await;
    }
}

/// An admission policy of the user denies Bundles.
#[tokio::test]
async fn a_bundle_that_the_api_server_rejects_stalls_its_helmop_until_that_is_corrected() {
    let (namespace, server) = fixture().await;
    let cluster = suite().await.bed.kubectl();
    let rule = Rule {
        group: "fleet.cattle.io",
        resource: "bundles",
        operation: "CREATE",
        allowed: "false",
        message: "no Bundles here",
    };
    let bundle = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle", "metadata": { "name": "probe" } });
    let create = ["create", "--dry-run=server", "--filename=-"];
    let denial = Denial::start(&cluster, namespace.name(), &rule, (&create, &bundle)).await;

    apply(&namespace, "web", &alpine(&server, "0.1.0")).await;
    let message = until_reason(&namespace, "web", "Stalled", "APIError").await;
    assert!(message.contains("no Bundles here"), "{message}");
    let helmop = namespace.kubectl().get("helmop/web").await.unwrap().unwrap();
    assert_eq!(condition(&helmop, "Reconciling"), None);

    // Nothing that the controller watches has changed then.
    denial.end().await;
    until_version(&namespace, "web", "0.1.0").await;
    until_accepted(&namespace, "web").await;
}
