//! `dependsOn`: objects of the cluster, and releases of other namespaces.

use std::time::{Duration, Instant};

use helmops_bed::random;
use serde_json::{Value, json};

use super::spec;
use crate::harness::agent::Fixture;
use crate::harness::until;

/// Less than anything that is repeated: what is watched is noticed earlier.
const NOTICED: Duration = Duration::from_secs(10);

async fn apply(fixture: &Fixture, object: &Value) {
    let applied = fixture.apps.kubectl().apply(&object.to_string()).await;
    applied.unwrap().ok().unwrap();
}

fn depending(entry: &Value) -> Value {
    spec("x", &json!({ "dependsOn": [entry] }))
}

/// A CRD of certificates with a status of their own.
fn crd(group: &str) -> Value {
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": { "status": {} } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("certificates.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": { "kind": "Certificate", "plural": "certificates" },
        },
    })
}

/// Its kind is installed, it is created, and it becomes ready: each of these is noticed.
#[tokio::test]
async fn a_release_waits_for_an_object_and_its_kind() {
    let fixture = Fixture::new("depends-object").await;
    let _agent = fixture.start().await;
    let group = format!("{}.example.com", random::word());
    let api_version = format!("{group}/v1");
    let entry = json!({
        "apiVersion": api_version, "kind": "Certificate", "name": "tls",
        "ready": "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
    });
    fixture.deploy("web", "1.0.0", &depending(&entry)).await;
    let unserved = format!("the cluster has no kind Certificate of {api_version} yet");
    fixture
        .until_error("web", "Deployed", &["lifecycle.dependsOn[0]: ", &unserved])
        .await;

    apply(&fixture, &crd(&group)).await;
    let object = format!(
        "lifecycle.dependsOn[0]: certificate.{group} {}/tls is not ready: ",
        fixture.apps.name()
    );
    let missing = format!("{object}it does not exist on this cluster yet");
    fixture.until_error("web", "Deployed", &[&missing]).await;

    let certificate =
        json!({ "apiVersion": api_version, "kind": "Certificate", "metadata": { "name": "tls" } });
    apply(&fixture, &certificate).await;
    let not_ready = format!("{object}status.conditions.exists(");
    fixture.until_error("web", "Deployed", &[&not_ready]).await;
    assert!(fixture.helm_runs_of(&fixture.name("web")).is_empty());

    let start = Instant::now();
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }).to_string();
    let name = format!("certificates.{group}/tls");
    fixture
        .kubectl(&[
            "patch",
            &name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
        .await;
    fixture.until_ready("web").await;
    assert!(start.elapsed() < NOTICED, "{:?}", start.elapsed());
    fixture
        .kubectl(&["delete", &format!("crd/certificates.{group}")])
        .await;
}

/// Two that wait for objects of one kind: each change concerns the one that it is about, and the watch stays as long as one of them waits.
#[tokio::test]
async fn objects_are_watched_as_long_as_a_release_waits_for_them() {
    let fixture = Fixture::new("depends-watch").await;
    let _agent = fixture.start().await;
    for name in ["first", "second"] {
        let entry =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "ready": "data.phase == 'go'" });
        fixture.deploy(name, "1.0.0", &depending(&entry)).await;
        fixture
            .until_error(name, "Deployed", &["does not exist on this cluster yet"])
            .await;
    }
    for name in ["first", "second"] {
        for phase in ["stop", "go"] {
            let start = Instant::now();
            apply(
                &fixture,
                &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "phase": phase } }),
            )
            .await;
            if phase == "go" {
                fixture.until_ready(name).await;
            } else {
                fixture
                    .until_error(name, "Deployed", &["data.phase == 'go' is not true yet"])
                    .await;
            }
            assert!(start.elapsed() < NOTICED, "{name} {phase}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test]
async fn a_release_waits_for_an_object_of_the_whole_cluster() {
    let fixture = Fixture::new("depends-cluster").await;
    let _agent = fixture.start().await;
    let name = format!("{}:reader", fixture.apps.name());
    let entry = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": name });
    fixture.deploy("web", "1.0.0", &depending(&entry)).await;
    let missing = format!("clusterrole.rbac.authorization.k8s.io {name} is not ready: it does not exist");
    fixture.until_error("web", "Deployed", &[&missing]).await;
    let start = Instant::now();
    fixture
        .kubectl(&["create", "clusterrole", &name, "--verb=get", "--resource=pods"])
        .await;
    fixture.until_ready("web").await;
    assert!(start.elapsed() < NOTICED, "{:?}", start.elapsed());
    fixture.kubectl(&["delete", "clusterrole", &name]).await;
}

/// Its message shows nothing of the object, and the permission is used as soon as it is there.
#[tokio::test]
async fn an_object_is_read_as_the_account_that_deploys() {
    let fixture = Fixture::new("depends-account").await;
    let _agent = fixture.start().await;
    let account = format!("{}:deployer", fixture.system.name());
    fixture
        .system
        .kubectl()
        .run(&["create", "serviceaccount", "deployer"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    // All that the release itself needs.
    fixture
        .kubectl(&[
            "create",
            "role",
            "deploy",
            "--verb=*",
            "--resource=configmaps,secrets",
        ])
        .await;
    let binding = format!("--serviceaccount={account}");
    fixture
        .kubectl(&["create", "rolebinding", "deploy", "--role=deploy", &binding])
        .await;
    fixture
        .kubectl(&["create", "service", "clusterip", "backend", "--tcp=80"])
        .await;
    let mut spec = depending(
        &json!({ "apiVersion": "v1", "kind": "Service", "name": "backend", "ready": "spec.ports[0].port == 80" }),
    );
    spec["options"]["serviceAccount"] = json!("deployer");
    spec["options"]["createNamespace"] = json!(false);
    fixture.deploy("web", "1.0.0", &spec).await;
    let message = fixture
        .until_error("web", "Deployed", &["may not read it; grant it the verb get"])
        .await;
    let expected = format!(
        "lifecycle.dependsOn[0]: service.v1 {}/backend is not ready: ServiceAccount {}/deployer may not read it",
        fixture.apps.name(),
        fixture.system.name()
    );
    assert!(message.contains(&expected), "{message}");
    fixture
        .kubectl(&["create", "role", "read", "--verb=get", "--resource=services"])
        .await;
    fixture
        .kubectl(&["create", "rolebinding", "read", "--role=read", &binding])
        .await;
    fixture.until_ready("web").await;
}

#[tokio::test]
async fn a_release_waits_for_that_of_another_namespace() {
    let fixture = Fixture::new("depends-namespace").await;
    let _agent = fixture.start().await;
    let database = fixture.name("db");
    let entry = json!({ "name": database, "namespace": "data", "ready": "dep.status.ready && dep.spec.options.helm.values.msg == 'go'" });
    fixture.deploy("web", "1.0.0", &depending(&entry)).await;
    let absent = format!("lifecycle.dependsOn[0]: data/{database} is not ready: it is not on this cluster");
    fixture.until_error("web", "Deployed", &[&absent]).await;
    for msg in ["stop", "go"] {
        let start = Instant::now();
        let spec = fixture.spec("1.0.0", &spec(msg, &json!({})));
        fixture.put_of("data", &database, spec).await;
        until(&fixture.apps, &format!("configmap/{database}-config"), |found| {
            anyhow::ensure!(found["data"]["msg"] == msg, "{found}");
            Ok(())
        })
        .await;
        if msg == "go" {
            fixture.until_ready("web").await;
        } else {
            fixture.until_error("web", "Deployed", &["is not true"]).await;
        }
        assert!(start.elapsed() < NOTICED, "{msg}: {:?}", start.elapsed());
    }
}
