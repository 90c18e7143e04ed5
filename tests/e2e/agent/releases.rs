//! What Helm writes: records, objects and their marks.

use helmops_helm::Success;
use helmops_helm::request::{Action, Rollback, Uninstall};
use helmops_helm::settings::{ActionSettings, Apply};
use helmops_release::manifest;
use helmops_release::record::{ApplyMethod, Attempt, AttemptAction, Cause, Propagation, Status};
use serde_json::{Value, json};

use super::engine::{AGENT, CONFIG_MAP, Engine, install, upgrade};

const UNINSTALL: Action = Action::Uninstall(Uninstall {
    keeps_history: false,
    description: String::new(),
    runs_hooks: true,
    propagation: Propagation::Background,
});

/// The field managers of the ConfigMap, and how they apply.
async fn managers(engine: &Engine) -> Vec<String> {
    let arguments = [
        "get",
        "configmap/web-config",
        "--show-managed-fields",
        "--output=json",
    ];
    let object: Value = serde_json::from_str(&engine.run_kubectl(&arguments).await).unwrap();
    let fields = object["metadata"]["managedFields"].as_array().unwrap();
    let name = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let mut managers: Vec<_> = fields
        .iter()
        .map(|entry| format!("{}/{}", name(entry, "manager"), name(entry, "operation")))
        .collect();
    managers.sort();
    managers
}

#[tokio::test]
async fn a_release_is_installed_upgraded_and_removed() {
    let engine = Engine::start("agent-release").await;
    let namespace = engine.namespace.name();
    let chart = engine.simple_chart().await;
    let mut install = install(&chart);
    let attempt = Attempt {
        action: AttemptAction::Install,
        deployment_id: ":1".to_owned(),
        cause: Cause::Change,
        number: 1,
    };
    install.deploy.origin.attempt = Some(attempt.clone());
    install.deploy.description = attempt.to_string();
    install.deploy.values = vec![
        br#"{"msg":"overridden","count":7}"#.to_vec(),
        b"msg: first".to_vec(),
    ];
    let success = engine.run(Action::Install(install)).await.unwrap();
    let expected = Success {
        revision: Some(1),
        ..Success::default()
    };
    assert_eq!(success, expected);

    let record = engine.record(1).await.unwrap();
    assert_eq!(record.info.status, Status::Deployed);
    assert_eq!(record.apply_method(), ApplyMethod::ServerSide);
    assert_eq!(record.bundle_deployment(AGENT), Some("web-bundle"));
    assert_eq!(record.attempt(), Some(attempt.clone()));
    assert_eq!(record.info.description, attempt.to_string());
    assert_eq!(record.config, json!({ "msg": "first", "count": 7 }));
    let hash = "objectset.rio.cattle.io/hash";
    let marks = json!({
        "annotations": { "objectset.rio.cattle.io/id": "default-web-bundle" },
        "labels": { hash: "8135c1ad55d0309e2858c82b52bb4836084d4cd9" },
        "name": "web-config",
    });
    let recorded = manifest::objects(&record.manifest).unwrap();
    let mut expected =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "msg": "first" }, "metadata": marks });
    assert_eq!(recorded, [expected.clone()]);
    assert!(
        record
            .manifest
            .starts_with("---\n# Source: web/templates/config.yaml\napiVersion: v1\n"),
        "{}",
        record.manifest
    );

    let live = engine.object("configmap/web-config").await.unwrap();
    assert_eq!(managers(&engine).await, ["fleetagent/Apply"]);
    expected["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm");
    expected["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!("web");
    expected["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = json!(namespace);
    for field in ["labels", "annotations"] {
        assert_eq!(live["metadata"][field], expected["metadata"][field]);
    }

    // Without values, those of the chart apply again.
    for revision in 2..=3 {
        let upgraded = engine.run(Action::Upgrade(upgrade(&chart))).await.unwrap();
        assert_eq!(upgraded.revision, Some(revision));
    }
    let live = engine.object("configmap/web-config").await.unwrap();
    assert_eq!(live["data"]["msg"], "hello");
    assert!(engine.record(1).await.is_none(), "two revisions are kept");
    let old = engine.record(2).await.unwrap();
    assert_eq!(old.info.status, Status::Superseded);

    engine.run(UNINSTALL).await.unwrap();
    assert!(engine.object("configmap/web-config").await.is_none());
    assert_eq!(engine.records().await, Vec::<String>::new());
    let again = engine.run(UNINSTALL).await.unwrap_err();
    assert_eq!(again.reason.as_str(), "NoRecord");
}

#[tokio::test]
async fn a_rollback_restores_a_revision() {
    let engine = Engine::start("agent-rollback").await;
    let chart = engine.simple_chart().await;
    engine.installed(&chart).await;
    let mut upgrade = upgrade(&chart);
    upgrade.deploy.values = vec![br#"{"msg":"second"}"#.to_vec()];
    engine.run(Action::Upgrade(upgrade)).await.unwrap();
    let rollback = |revision| {
        Action::Rollback(Rollback {
            revision,
            settings: ActionSettings::default(),
            max_history: 5,
        })
    };
    engine.run(rollback(1)).await.unwrap();
    let record = engine.record(3).await.unwrap();
    assert_eq!(record.info.description, "Rollback to 1");
    assert_eq!(
        (record.info.status, record.apply_method()),
        (Status::Deployed, ApplyMethod::ServerSide)
    );
    let live = engine.object("configmap/web-config").await.unwrap();
    assert_eq!(live["data"]["msg"], "hello");
    let failure = engine.run(rollback(9)).await.unwrap_err();
    assert_eq!(failure.message, "release has no 9 version");
}

#[tokio::test]
async fn hooks_are_marked_and_are_no_part_of_the_manifest() {
    let engine = Engine::start("agent-hook").await;
    let hook = CONFIG_MAP.replace("-config\n", "-hook\n  annotations: {helm.sh/hook: pre-install}\n");
    let files = [
        ("templates/config.yaml", CONFIG_MAP),
        ("templates/hook.yaml", &*hook),
    ];
    let chart = engine.chart("1.0.0", &files).await;
    engine.installed(&chart).await;
    let record = engine.record(1).await.unwrap();
    assert_eq!(manifest::objects(&record.manifest).unwrap().len(), 1);
    assert_eq!(record.hooks.len(), 1);
    let live = engine.object("configmap/web-hook").await.unwrap();
    let labels = live["metadata"]["labels"].as_object().unwrap();
    assert!(labels.contains_key("objectset.rio.cattle.io/hash"), "{labels:?}");
}

#[tokio::test]
async fn objects_are_moved_to_the_namespace_of_the_options() {
    let engine = Engine::start("agent-namespace").await;
    let elsewhere = CONFIG_MAP.replace("  name:", "  namespace: elsewhere\n  name:");
    let chart = engine
        .chart("1.0.0", &[("templates/config.yaml", &*elsewhere)])
        .await;
    let mut install = install(&chart);
    install.deploy.post_render.namespace = Some(engine.namespace.name().to_owned());
    engine.run(Action::Install(install)).await.unwrap();
    assert!(engine.object("configmap/web-config").await.is_some());
}

/// Fleet's agent cannot install such a chart with `namespace`.
#[tokio::test]
async fn a_chart_with_a_crd_and_an_object_of_it_is_installed_in_a_namespace() {
    let engine = Engine::start("agent-crd").await;
    // CRDs are of the whole control plane.
    let group = format!("{}.example.com", engine.namespace.name());
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": { "group": group, "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }] },
    });
    let widget = format!("apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: w}}\n");
    let files = [
        ("crds/widget.yaml", &*crd.to_string()),
        ("templates/widget.yaml", &*widget),
    ];
    let chart = engine.chart("1.0.0", &files).await;
    let mut install = install(&chart);
    install.deploy.post_render.namespace = Some(engine.namespace.name().to_owned());
    install.deploy.post_render.scopes.insert_crd(&crd);
    engine.run(Action::Install(install)).await.unwrap();
    assert!(engine.object(&format!("widgets.{group}/w")).await.is_some());
    // A hook is of a kind that the same upgrade has created.
    let late = crd
        .to_string()
        .replace("widget", "gadget")
        .replace("Widget", "Gadget");
    let hook = "  annotations: {helm.sh/hook: post-upgrade}\n";
    let gadget = format!("apiVersion: {group}/v1\nkind: Gadget\nmetadata:\n  name: g\n{hook}");
    let files = [
        ("templates/crd.yaml", &*late),
        ("templates/gadget.yaml", &*gadget),
    ];
    let chart = engine.chart("1.1.0", &files).await;
    engine.run(Action::Upgrade(upgrade(&chart))).await.unwrap();
    assert!(engine.object(&format!("gadgets.{group}/g")).await.is_some());
}

#[tokio::test]
async fn a_chart_without_objects_is_installed() {
    let engine = Engine::start("agent-empty").await;
    let nothing = "{{ if .Values.none }}a: b{{ end }}\n";
    let chart = engine.chart("1.0.0", &[("templates/none.yaml", nothing)]).await;
    engine.installed(&chart).await;
    assert_eq!(engine.record(1).await.unwrap().manifest, "");
}

#[tokio::test]
async fn an_object_of_others_is_taken_over_if_requested() {
    let engine = Engine::start("agent-adopt").await;
    let chart = engine.simple_chart().await;
    engine
        .run_kubectl(&["create", "configmap", "web-config", "--from-literal=own=1"])
        .await;
    let mut install = install(&chart);
    install.settings.takes_ownership = true;
    install.settings.apply = Apply::Client;
    engine.run(Action::Install(install)).await.unwrap();
    let live = engine.object("configmap/web-config").await.unwrap();
    assert_eq!(live["data"], json!({ "msg": "hello", "own": "1" }));
    let record = engine.record(1).await.unwrap();
    assert_eq!(record.apply_method(), ApplyMethod::ClientSide);
}

/// The agent creates it, if that is wanted.
#[tokio::test]
async fn a_missing_namespace_has_a_reason() {
    let engine = Engine::start("agent-create").await;
    let mut request = engine.request(Action::Install(install(&engine.simple_chart().await)));
    request.release.namespace = format!("{}-new", engine.namespace.name());
    let stop = tokio_util::sync::CancellationToken::new();
    let failure = engine.run_request(request, &stop).await.unwrap_err();
    assert_eq!(failure.reason.as_str(), "NamespaceMissing", "{failure}");
}
