//! What a deployment needs besides its chart.

use std::time::{Duration, Instant};

use anyhow::ensure;
use helmops_bed::namespace::TestNamespace;
use helmops_model::deployment_state::DeploymentState;
use serde_json::{Value, json};

use crate::harness::agent::Fixture;
use crate::harness::{condition, run, until, until_none};

/// A template that shows the labels of the values.
const VALUES: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  msg: {{ .Values.msg | quote }}\n  own: {{ .Values.own | quote }}\n  map: {{ .Values.map | quote }}\n  secret: {{ .Values.secret | quote }}\n";

async fn apply(fixture: &Fixture, object: &Value) {
    let applied = fixture.apps.kubectl().apply(&object.to_string()).await;
    applied.unwrap().ok().unwrap();
}

async fn apply_upstream(fixture: &Fixture, object: &Value) {
    let applied = fixture.upstream.kubectl().apply(&object.to_string()).await;
    applied.unwrap().ok().unwrap();
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

fn secret(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data })
}

#[tokio::test]
async fn later_values_override_earlier_ones() {
    let fixture = Fixture::new("inputs-values").await;
    fixture.charts.web("2.0.0", &[("config", VALUES)]).await;
    let _agent = fixture.start().await;
    let hash = fixture
        .values("web", "{msg: own, own: own, map: own, secret: own}\n")
        .await;
    let values_from = json!([
        { "configMapKeyRef": { "name": "values" }, "secretKeyRef": { "name": "values", "key": "other" } },
    ]);
    let spec = json!({ "valuesHash": hash, "options": { "helm": { "valuesFrom": values_from } } });
    fixture.deploy("web", "2.0.0", &spec).await;
    let message = fixture
        .until_error(
            "web",
            "Deployed",
            &["helm.valuesFrom[0].configMapKeyRef", "does not exist"],
        )
        .await;
    assert!(
        message.contains(&format!("ConfigMap {}/values", fixture.apps.name())),
        "{message}"
    );

    apply(
        &fixture,
        &config_map(
            "values",
            &json!({ "values.yaml": "{map: map, secret: map, msg: map}" }),
        ),
    )
    .await;
    apply(&fixture, &secret("values", &json!({ "wrong": "" }))).await;
    let mut again = spec.clone();
    again["options"]["forceSyncGeneration"] = json!(1);
    fixture.deploy("web", "2.0.0", &again).await;
    fixture
        .until_error("web", "Deployed", &["secretKeyRef", "has no key \"other\""])
        .await;

    apply(
        &fixture,
        &secret("values", &json!({ "other": "{secret: secret, msg: last}" })),
    )
    .await;
    again["options"]["forceSyncGeneration"] = json!(2);
    fixture.deploy("web", "2.0.0", &again).await;
    fixture.until_ready("web").await;
    let config = fixture
        .object(&format!("configmap/{}-config", fixture.name("web")))
        .await
        .unwrap();
    assert_eq!(
        config["data"],
        json!({ "msg": "last", "own": "own", "map": "map", "secret": "secret" })
    );
}

/// Files of the chart override its values.yaml, and are overridden by all others.
#[tokio::test]
async fn files_of_the_chart_have_values() {
    let fixture = Fixture::new("inputs-files").await;
    fixture
        .charts
        .add(
            "web",
            "2.0.0",
            &[
                (
                    "values.yaml",
                    "{msg: chart, own: chart, map: chart, secret: chart}\n",
                ),
                ("templates/config.yaml", VALUES),
                ("eu/prod.yaml", "{own: file, map: file}\n"),
            ],
        )
        .await;
    let _agent = fixture.start().await;
    let hash = fixture.values("web", "{map: own}\n").await;
    let spec = |files: Value, ignores: bool| {
        let lifecycle = json!({ "ignoreMissingValuesFiles": ignores });
        let options = json!({ "helm": { "valuesFiles": files } });
        json!({ "valuesHash": hash, "options": options, "lifecycle": lifecycle, "deploymentID": format!(":{ignores}") })
    };
    let files = json!(["eu/prod.yaml", "eu/none.yaml"]);
    fixture.deploy("web", "2.0.0", &spec(files.clone(), false)).await;
    let missing = ["helm.valuesFiles[1]: the chart has no file \"eu/none.yaml\", but values.yaml;"];
    fixture.until_error("web", "Deployed", &missing).await;
    fixture.deploy("web", "2.0.0", &spec(files, true)).await;
    fixture.until_ready("web").await;
    let config = format!("configmap/{}-config", fixture.name("web"));
    let config = fixture.object(&config).await.unwrap();
    assert_eq!(
        config["data"],
        json!({ "msg": "chart", "own": "file", "map": "own", "secret": "chart" })
    );
}

/// As in Flux: references below the values of the options, paths above all, and what may be missing is left out. A change is deployed
/// within ten seconds, unless it counts only with the next release.
#[tokio::test]
async fn changed_values_are_deployed() {
    let fixture = Fixture::new("inputs-changed").await;
    fixture.charts.web("2.0.0", &[("config", VALUES)]).await;
    let _agent = fixture.start().await;
    let hash = fixture.values("web", "{msg: own, own: own, map: own}\n").await;
    let references = json!([
        { "kind": "ConfigMap", "name": "below", "optional": true },
        { "kind": "Secret", "name": "token", "valuesKey": "token", "targetPath": "secret", "literal": true },
        { "kind": "ConfigMap", "name": "below", "valuesKey": "msg", "targetPath": "msg" },
        { "kind": "ConfigMap", "name": "late", "valuesKey": "map", "targetPath": "map", "optional": true },
    ]);
    let spec = |policy: &str| {
        let lifecycle = json!({ "valuesFrom": references, "valuesFromPolicy": policy });
        json!({ "valuesHash": hash, "lifecycle": lifecycle })
    };
    let data = async || {
        let config = format!("configmap/{}-config", fixture.name("web"));
        fixture.object(&config).await.unwrap_or_default()["data"].clone()
    };
    apply(&fixture, &secret("token", &json!({ "token": "a,b=c" }))).await;
    apply(
        &fixture,
        &config_map(
            "below",
            &json!({ "values.yaml": "{map: below, own: below}", "msg": "path" }),
        ),
    )
    .await;
    fixture.deploy("web", "2.0.0", &spec("")).await;
    fixture.until_ready("web").await;
    assert_eq!(
        data().await,
        json!({ "msg": "path", "own": "own", "map": "own", "secret": "a,b=c" })
    );

    let start = Instant::now();
    apply(&fixture, &secret("token", &json!({ "token": "new" }))).await;
    fixture.until_revision("web", 2).await;
    let after = start.elapsed();
    assert!(after < Duration::from_secs(10), "{after:?}");
    assert_eq!(data().await["secret"], "new");
    let (_, note) = fixture.event("ValuesChanged").await;
    assert!(
        note.contains("/token; it is upgraded") && !note.contains("new"),
        "{note}"
    );

    // The object changes, and not its values.
    fixture.kubectl(&["label", "secret", "token", "a=b"]).await;
    // Without the object, what is deployed stays.
    fixture.kubectl(&["delete", "secret", "token"]).await;
    fixture.deploy("web", "2.0.0", &spec("NextRelease")).await;
    apply(&fixture, &secret("token", &json!({ "token": "later" }))).await;
    fixture.barrier().await;
    let ready = fixture.until_ready("web").await;
    assert!(
        ready["status"]["release"].as_str().unwrap().ends_with(":2"),
        "{ready}"
    );

    // It is the policy alone that holds the value back.
    fixture.deploy("web", "2.0.0", &spec("Immediate")).await;
    fixture.until_revision("web", 3).await;
    assert_eq!(data().await["secret"], "later");

    // What may be missing appears.
    apply(&fixture, &config_map("late", &json!({ "map": "late" }))).await;
    fixture.until_revision("web", 4).await;
    assert_eq!(data().await["map"], "late");

    // What is no values is no reason to change what runs, and the correction waits for nothing.
    let below = |values: &str| config_map("below", &json!({ "values.yaml": values, "msg": "path" }));
    apply(&fixture, &below("[a, b]")).await;
    let error = "lifecycle.valuesFrom[0]: the values are a list, and not a mapping";
    fixture.until_error("web", "Deployed", &[error]).await;
    let failed = fixture
        .until("web", |object| {
            let state = DeploymentState::of(&serde_json::from_str(&object.to_string())?);
            ensure!(state == DeploymentState::ErrApplied, "it is {state:?}");
            Ok(())
        })
        .await;
    assert!(
        failed["status"]["release"].as_str().unwrap().ends_with(":4"),
        "{failed}"
    );
    let start = Instant::now();
    apply(&fixture, &below("{own: below}")).await;
    fixture.until_revision("web", 5).await;
    let after = start.elapsed();
    assert!(after < Duration::from_secs(10), "{after:?}");
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn downstream_resources_are_copied_updated_and_deleted() {
    let fixture = Fixture::new("inputs-copies").await;
    let _agent = fixture.start().await;
    let resources = json!([{ "kind": "Secret", "name": "login" }, { "kind": "configmap", "name": "ca" }]);
    let spec = |generation: u32| json!({ "options": { "downstreamResources": resources }, "downstreamResourcesGeneration": generation });
    fixture.deploy("web", "1.0.0", &spec(1)).await;
    let source = format!("Secret {}/login", fixture.upstream.name());
    fixture
        .until_error("web", "Deployed", &[&source, "not found"])
        .await;

    apply_upstream(&fixture, &secret("login", &json!({ "password": "one" }))).await;
    apply_upstream(&fixture, &config_map("ca", &json!({ "ca.crt": "one" }))).await;
    fixture.deploy("web", "1.0.0", &spec(2)).await;
    let ready = fixture.until_ready("web").await;
    assert_eq!(ready["status"]["downstreamResourcesGeneration"], 2);
    let copy = fixture.object("secret/login").await.unwrap();
    assert_eq!(
        copy["metadata"]["labels"]["fleet.cattle.io/bundledeployment"],
        fixture.name("web")
    );
    assert!(fixture.object("configmap/ca").await.is_some());

    // A new content deploys the release again, so that its pods see it.
    apply_upstream(&fixture, &config_map("ca", &json!({ "ca.crt": "two" }))).await;
    fixture.deploy("web", "1.0.0", &spec(3)).await;
    fixture.until_revision("web", 2).await;
    assert_eq!(
        fixture.object("configmap/ca").await.unwrap()["data"]["ca.crt"],
        "two"
    );

    fixture.delete("web").await;
    fixture.until_none("secret/login").await;
    fixture.until_none("configmap/ca").await;
}

/// A login that was withdrawn is readable no longer.
#[tokio::test]
async fn copies_that_a_settled_release_does_without_are_deleted() {
    let fixture = Fixture::new("inputs-withdrawn").await;
    let flags = ["--leader-elect=false"];
    let mut agent = fixture.start_with("agent", &flags).await.unwrap();
    for name in ["login", "ca", "kept"] {
        let mut source = config_map(name, &json!({ "of": name }));
        if name == "kept" {
            source["metadata"]["annotations"] = json!({ "helm.sh/resource-policy": "keep" });
        }
        apply_upstream(&fixture, &source).await;
    }
    let spec = |names: &[&str], namespace: &str| {
        let resources: Vec<_> = names
            .iter()
            .map(|name| json!({ "kind": "ConfigMap", "name": name }))
            .collect();
        json!({ "options": { "downstreamResources": resources, "defaultNamespace": namespace } })
    };
    let (apps, other) = (
        fixture.apps.name().to_owned(),
        TestNamespace::create(&fixture.bed, "withdrawn").await.unwrap(),
    );
    fixture
        .deploy("web", "1.0.0", &spec(&["login", "ca", "kept"], &apps))
        .await;
    fixture.until_ready("web").await;
    assert!(fixture.object("configmap/login").await.is_some());
    // One that another client has made with the label of the BundleDeployment is no copy of this agent.
    let mut foreign = config_map("foreign", &json!({}));
    foreign["metadata"]["labels"] = json!({ "fleet.cattle.io/bundledeployment": fixture.name("web") });
    apply(&fixture, &foreign).await;
    fixture
        .deploy("web", "1.0.0", &spec(&["ca", "kept"], &apps))
        .await;
    fixture.until_none("configmap/login").await;
    assert!(fixture.object("configmap/ca").await.is_some());
    fixture.deploy("web", "1.0.0", &spec(&["ca"], other.name())).await;
    fixture.until_none("configmap/ca").await;
    let moved = run(&other, &["get", "configmap", "ca", "--output=name"]).await;
    assert_eq!(moved.trim(), "configmap/ca");
    // Not while the agent runs.
    agent.process.kill().await.unwrap();
    fixture.deploy("web", "1.0.0", &spec(&[], other.name())).await;
    let flags = ["--leader-elect=false", "--collection-interval=1s"];
    let _agent = fixture.start_with("again", &flags).await.unwrap();
    until_none(&other, "configmap/ca").await;
    for stays in ["configmap/kept", "configmap/foreign"] {
        assert!(fixture.object(stays).await.is_some(), "{stays}");
    }
}

/// While the account does not exist, nothing is deployed in its place with the permissions of the agent.
#[tokio::test]
async fn a_deployment_without_an_account_uses_the_default_one_of_the_agent() {
    let fixture = Fixture::new("inputs-default").await;
    let flags = ["--leader-elect=false", "--default-service-account=tenants"];
    let _agent = fixture.start_with("agent", &flags).await.unwrap();
    fixture.deploy("web", "1.0.0", &json!({})).await;
    let missing = format!(
        "service account {}/tenants: it does not exist",
        fixture.system.name()
    );
    let parts = [&*missing, "--default-service-account"];
    fixture.until_error("web", "Deployed", &parts).await;
    assert_eq!(fixture.records().await, Vec::<String>::new());
    run(&fixture.system, &["create", "serviceaccount", "tenants"]).await;
    let generation = json!({ "options": { "forceSyncGeneration": 1 } });
    fixture.deploy("web", "1.0.0", &generation).await;
    let user = format!("system:serviceaccount:{}:tenants", fixture.system.name());
    fixture.until_error("web", "Deployed", &[&user]).await;
}

#[tokio::test]
async fn a_namespace_that_is_no_name_is_refused() {
    let fixture = Fixture::new("inputs-name").await;
    let _agent = fixture.start().await;
    let spec = json!({ "options": { "defaultNamespace": "../../secrets?x=" } });
    fixture.deploy("web", "1.0.0", &spec).await;
    let parts = ["\"../../secrets?x=\"", "not a DNS label", "defaultNamespace"];
    fixture.until_error("web", "Deployed", &parts).await;
}

#[tokio::test]
async fn a_foreign_object_is_not_overwritten_by_a_copy() {
    let fixture = Fixture::new("inputs-foreign").await;
    let _agent = fixture.start().await;
    apply_upstream(&fixture, &secret("login", &json!({ "password": "copy" }))).await;
    apply(&fixture, &secret("login", &json!({ "password": "mine" }))).await;
    let before = fixture.object("secret/login").await;
    let resources = json!([{ "kind": "Secret", "name": "login" }]);
    fixture
        .deploy(
            "web",
            "1.0.0",
            &json!({ "options": { "downstreamResources": resources } }),
        )
        .await;
    let object = format!("Secret {}/login exists and is no copy", fixture.apps.name());
    fixture.until_error("web", "Deployed", &[&object]).await;
    assert_eq!(fixture.object("secret/login").await, before);
    fixture.delete("web").await;
    fixture.barrier().await;
    assert_eq!(fixture.object("secret/login").await, before);
}

#[tokio::test]
async fn a_namespace_must_have_the_labels_that_are_required() {
    let fixture = Fixture::new("inputs-selector").await;
    let _agent = fixture.start().await;
    let selector = json!({ "matchLabels": { "team": "web" } });
    let spec = |namespace: &str| json!({ "options": { "defaultNamespace": namespace, "allowedTargetNamespaceSelector": selector } });
    let missing = format!("{}-missing", fixture.apps.name());
    fixture.deploy("missing", "1.0.0", &spec(&missing)).await;
    fixture.deploy("web", "1.0.0", &spec(fixture.apps.name())).await;
    fixture
        .until_error("missing", "Deployed", &[&format!("{missing} does not exist")])
        .await;
    fixture
        .until_error("web", "Deployed", &["does not match", "\"team\":\"web\""])
        .await;
    assert!(fixture.helm_runs().is_empty());
    let namespace = format!("namespace/{}", fixture.apps.name());
    fixture.kubectl(&["label", &namespace, "team=web"]).await;
    let mut again = spec(fixture.apps.name());
    again["options"]["forceSyncGeneration"] = json!(1);
    fixture.deploy("web", "1.0.0", &again).await;
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn labels_of_the_namespace_are_set_and_those_of_others_stay() {
    let fixture = Fixture::new("inputs-labels").await;
    let _agent = fixture.start().await;
    let namespace = format!("namespace/{}", fixture.apps.name());
    fixture.kubectl(&["label", &namespace, "of=others"]).await;
    let spec = |labels: Value| json!({ "options": { "namespaceLabels": labels, "namespaceAnnotations": { "note": "a" } } });
    let first = json!({ "a": "1", "b": "1", "pod-security.kubernetes.io/enforce": "privileged" });
    fixture.deploy("web", "1.0.0", &spec(first)).await;
    fixture.until_ready("web").await;
    let found = fixture.object(&namespace).await.unwrap();
    let labels = found["metadata"]["labels"].as_object().unwrap();
    assert_eq!(labels.get("b"), Some(&json!("1")));
    assert!(
        !labels.contains_key("pod-security.kubernetes.io/enforce"),
        "{labels:?}"
    );
    fixture.deploy("web", "1.0.0", &spec(json!({ "a": "2" }))).await;
    let found = until(&fixture.apps, &namespace, |found| {
        ensure!(
            found["metadata"]["labels"]["a"] == "2",
            "{}",
            found["metadata"]["labels"]
        );
        Ok(())
    })
    .await;
    let labels = found["metadata"]["labels"].as_object().unwrap();
    assert_eq!(labels.get("of"), Some(&json!("others")));
    assert!(!labels.contains_key("b"), "{labels:?}");
    assert_eq!(found["metadata"]["annotations"]["note"], "a");
}

#[tokio::test]
async fn a_deployment_has_the_permissions_of_its_service_account_only() {
    let fixture = Fixture::new("inputs-account").await;
    let _agent = fixture.start().await;
    let mut spec = json!({ "options": { "serviceAccount": "deployer", "createNamespace": false } });
    fixture.deploy("web", "1.0.0", &spec).await;
    let missing = format!(
        "service account {}/deployer: it does not exist",
        fixture.system.name()
    );
    fixture.until_error("web", "Deployed", &[&missing]).await;

    run(&fixture.system, &["create", "serviceaccount", "deployer"]).await;
    spec["options"]["forceSyncGeneration"] = json!(1);
    fixture.deploy("web", "1.0.0", &spec).await;
    let user = format!("system:serviceaccount:{}:deployer", fixture.system.name());
    fixture
        .until_error("web", "Deployed", &[&user, "configmaps"])
        .await;
    assert_eq!(fixture.records().await, Vec::<String>::new());

    // The objects, and not yet the records.
    let role = |verb: &str, resource: &str| {
        vec![
            "create".to_owned(),
            "role".to_owned(),
            format!("deploy-{resource}"),
            format!("--verb={verb}"),
            format!("--resource={resource}"),
        ]
    };
    for resource in ["configmaps", "secrets"] {
        let arguments = role("*", resource);
        fixture
            .kubectl(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
        let (role, account) = (
            format!("--role=deploy-{resource}"),
            format!("--serviceaccount={}:deployer", fixture.system.name()),
        );
        fixture
            .kubectl(&[
                "create",
                "rolebinding",
                &format!("deploy-{resource}"),
                &role,
                &account,
            ])
            .await;
        spec["options"]["forceSyncGeneration"] =
            json!(spec["options"]["forceSyncGeneration"].as_u64().unwrap() + 1);
        fixture.deploy("web", "1.0.0", &spec).await;
        if resource == "configmaps" {
            fixture.until_error("web", "Deployed", &[&user, "secrets"]).await;
        }
    }
    fixture.until_ready("web").await;
    // Drift is corrected with the same permissions.
    let role = ["get", "role", "deploy-configmaps", "--output=json"];
    let role = fixture.kubectl(&role).await;
    fixture.kubectl(&["delete", "role", "deploy-configmaps"]).await;
    let object = format!("configmap/{}-config", fixture.name("web"));
    let change = r#"{"data":{"msg":"changed"}}"#;
    fixture
        .kubectl(&["patch", &object, "--type=merge", "-p", change])
        .await;
    spec["correctDrift"] = json!({ "enabled": true });
    fixture.deploy("web", "1.0.0", &spec).await;
    let refused = format!("User \\\"{user}\\\" cannot patch resource");
    fixture
        .until("web", |found| {
            let status = found["status"].to_string();
            ensure!(status.contains(&refused), "{status}");
            Ok(())
        })
        .await;
    assert_eq!(
        fixture.msg(&fixture.name("web")).await.as_deref(),
        Some("changed")
    );
    let mut role: Value = serde_json::from_str(&role).unwrap();
    role["metadata"] = json!({ "name": "deploy-configmaps" });
    apply(&fixture, &role).await;
    spec["correctDrift"]["force"] = json!(true);
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_msg(&fixture.name("web"), "hello").await;
    // It is removed with the same permissions.
    fixture.delete("web").await;
    fixture
        .until_none(&format!("configmap/{}-config", fixture.name("web")))
        .await;
}

#[tokio::test]
async fn a_deployment_waits_for_its_dependencies_and_no_longer() {
    let fixture = Fixture::new("inputs-depends").await;
    let _agent = fixture.start().await;
    let database = fixture.name("db");
    let spec = json!({ "dependsOn": [{ "name": database }] });
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture
        .until_error("web", "Deployed", &["dependsOn[0] matches no bundle", &database])
        .await;

    // Its values are missing.
    fixture.deploy("db", "1.0.0", &json!({ "valuesHash": "a" })).await;
    let not_ready =
        format!("waiting for dependent bundle(s) to reach an accepted state: {database} (state: ErrApplied");
    fixture.until_error("web", "Deployed", &[&not_ready]).await;
    fixture
        .until("web", |object| {
            let state = DeploymentState::of(&serde_json::from_str(&object.to_string())?);
            ensure!(state == DeploymentState::WaitingForDependency, "it is {state:?}");
            Ok(())
        })
        .await;
    assert!(fixture.helm_runs_of(&fixture.name("web")).is_empty());

    fixture.deploy("db", "1.0.0", &json!({})).await;
    fixture.until_ready("db").await;
    let ready = Instant::now();
    fixture
        .until("web", |found| {
            let deployed = condition(found, "Deployed").cloned().unwrap_or_default();
            ensure!(deployed["status"] == "True", "it is {deployed}");
            Ok(())
        })
        .await;
    // Less than anything that is repeated.
    assert!(ready.elapsed() < Duration::from_secs(10), "{:?}", ready.elapsed());
    assert_eq!(fixture.helm_runs_of(&fixture.name("web")), ["install"]);
}
