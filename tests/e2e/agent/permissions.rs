//! The permissions of the agent in both clusters, with those of `manifests/agent/namespaced` in the workload cluster: each of them is
//! used, and no other one is needed.

use std::collections::BTreeSet;

use anyhow::ensure;
use helmops_bed::helmops::objects;
use helmops_bed::permissions::{GrantedPermission, Permission, findings, granted, used_in};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::agent::{Fixture, Permissions};
use crate::harness::standalone::decoded;
use crate::harness::{SOON, run, until};

/// The roles of these manifests with the name of the agent.
async fn roles(fixture: &Fixture, folder: &str) -> BTreeSet<GrantedPermission> {
    let mut granted = granted(&objects(&fixture.bed.tools, folder).await.unwrap()).unwrap();
    granted.retain(|one| one.role.contains(" helmops-agent") && !registers(&one.permission));
    assert!(!granted.is_empty());
    granted
}

/// Whether an agent needs a permission only to register its cluster: `agents::registering_with_fleet` does that with this Role.
fn registers(permission: &Permission) -> bool {
    let Permission {
        verb, resource, name, ..
    } = permission;
    match (&**resource, name.as_deref()) {
        ("secrets", Some(name)) => name == "fleet-agent-bootstrap",
        ("secrets", None) => verb == "create",
        ("configmaps", Some(name)) => name == "fleet-agent",
        _ => false,
    }
}

async fn apply(kubectl: impl AsRef<helmops_bed::kubectl::Kubectl>, object: &Value) {
    kubectl
        .as_ref()
        .apply(&object.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
}

/// Everything that an agent does.
async fn work(fixture: &Fixture) {
    let kind = |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "copied" } });
    apply(&fixture.upstream, &kind("Secret")).await;
    apply(&fixture.upstream, &kind("ConfigMap")).await;
    run(&fixture.system, &["create", "serviceaccount", "deployer"]).await;
    let account = format!("--serviceaccount={}:deployer", fixture.system.name());
    run(
        &fixture.apps,
        &[
            "create",
            "rolebinding",
            "deployer",
            "--clusterrole=cluster-admin",
            &account,
        ],
    )
    .await;
    let hash = fixture.values("web", "msg: first\n").await;
    let resources =
        json!([{ "kind": "Secret", "name": "copied" }, { "kind": "ConfigMap", "name": "copied" }]);
    let mut spec = json!({
        "valuesHash": hash, "correctDrift": { "enabled": true },
        "options": { "downstreamResources": resources, "createNamespace": false },
    });
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_ready("web").await;
    spec["options"]["forceSyncGeneration"] = json!(1);
    fixture.deploy("web", "1.0.0", &spec).await;
    fixture.until_revision("web", 2).await;
    fixture.until_ready("web").await;
    let other = json!({ "options": { "serviceAccount": "deployer", "createNamespace": false } });
    fixture.deploy("other", "1.0.0", &other).await;
    fixture.until_ready("other").await;
    let object = format!("configmap/{}-config", fixture.name("web"));
    fixture.kubectl(&["delete", &object]).await;
    until(&fixture.apps, &object, |_| Ok(())).await;
    fixture.until_ready("web").await;
    let files = json!({
        "options": { "defaultNamespace": fixture.apps.name() }, "deploymentID": format!("s-{}:1", "0".repeat(61)),
    });
    fixture.put(&fixture.name("files"), files).await;
    fixture
        .until_error("files", "Deployed", &["does not exist in the management cluster"])
        .await;
    fixture.delete("files").await;
    for name in ["web", "other"] {
        fixture.delete(name).await;
        let secret = format!("secret/sh.helm.release.v1.{}.v1", fixture.name(name));
        fixture.until_none(&secret).await;
    }
    fixture.until_none("configmap/copied").await;
    fixture.until_none("secret/copied").await;
}

/// Refuses a removal twice. The second Event counts in the series of the first one.
async fn refuse_removals(fixture: &Fixture) {
    let state = "configmap/helmops-agent";
    let remembered = fixture.system.kubectl().get(state).await.unwrap().unwrap();
    let remember = async |data: &Value| {
        let patch = json!({ "data": data }).to_string();
        run(&fixture.system, &["patch", state, "--type=merge", "-p", &patch]).await;
    };
    for name in ["first", "second"] {
        fixture
            .deploy(name, "1.0.0", &json!({ "options": { "createNamespace": false } }))
            .await;
        fixture.until_ready(name).await;
        remember(&json!({ "deploymentNamespace": "namespace/other" })).await;
        fixture.delete(name).await;
        let count = if name == "first" { "" } else { "2" };
        eventually("the Event", SOON, async || {
            let path = "--output=jsonpath={.items[?(@.reason==\"RemovalRefused\")].series.count}";
            let found = run(&fixture.system, &["get", "events.events.k8s.io", path]).await;
            ensure!(found.trim() == count, "the count is {found}");
            let all = run(&fixture.system, &["get", "events.events.k8s.io"]).await;
            ensure!(all.contains("RemovalRefused"), "{all}");
            Ok(())
        })
        .await
        .unwrap();
        remember(&remembered["data"]).await;
        let secret = format!("secret/sh.helm.release.v1.{}.v1", fixture.name(name));
        fixture.until_none(&secret).await;
    }
}

#[tokio::test]
async fn each_permission_of_the_agent_is_used_and_no_other_is_needed() {
    let fixture = Fixture::with_permissions("permissions", Permissions::Namespaced).await;
    let flags = ["--renew-token-at=0.002"];
    let before = fixture
        .system
        .kubectl()
        .get("secret/fleet-agent")
        .await
        .unwrap()
        .unwrap();
    // It remembers a namespace after a user has deleted that.
    run(&fixture.system, &["create", "configmap", "helmops-agent"]).await;
    let _agent = fixture.start_with("agent", &flags).await.unwrap();
    work(&fixture).await;
    refuse_removals(&fixture).await;
    until(&fixture.system, "secret/fleet-agent", |secret| {
        ensure!(
            decoded(secret, "kubeconfig") != decoded(&before, "kubeconfig"),
            "it is not renewed"
        );
        Ok(())
    })
    .await;
    until(&fixture.upstream, "cluster/edge", |cluster| {
        ensure!(cluster["status"]["agent"]["lastSeen"].is_string(), "no heartbeat");
        Ok(())
    })
    .await;

    let check = async |namespace: &str, granted: &BTreeSet<GrantedPermission>| {
        let found = findings(granted, &used_in(&fixture.bed.audit_log(), namespace).unwrap());
        ensure!(found.is_empty(), "{found:#?}");
        Ok(())
    };
    let mut downstream = roles(&fixture, "agent/namespaced").await;
    let namespaced = granted(
        &objects(&fixture.bed.tools, "agent/namespaced/role")
            .await
            .unwrap(),
    )
    .unwrap();
    downstream.extend(namespaced);
    let mut upstream = roles(&fixture, "standalone").await;
    let role = fixture
        .upstream
        .kubectl()
        .get("role/helmops-agent-edge")
        .await
        .unwrap()
        .unwrap();
    upstream.extend(granted(&[role]).unwrap());
    // Some requests are repeated in intervals.
    let result = eventually("the permissions to be used", SOON, async || {
        check(fixture.upstream.name(), &upstream).await?;
        check(fixture.system.name(), &downstream).await
    })
    .await;
    result.unwrap();
}
