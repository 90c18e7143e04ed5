//! Policies while their CRD and objects are created, changed and deleted.

use anyhow::{Context, ensure};
use helmops_bed::helmops;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::SOON;
use crate::harness::own::Fixture;

/// A cluster may have no CRD of Policies, or get it late; and a Policy may be invalid.
#[tokio::test]
async fn a_late_policy_crd_and_an_invalid_policy_are_enforced() {
    let mut fixture = Fixture::start(None).await.unwrap();
    let crd = helmops::manifests().join("crd/bases/policies.yaml");
    let crd = crd.to_str().unwrap();
    let kubectl = fixture.kubectl.clone();
    let run = async |arguments: &[&str]| kubectl.run(arguments).await.unwrap().ok().unwrap();
    let policy = |fields: Value| {
        let mut policy = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" } });
        policy
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        policy.to_string()
    };
    // The API server serves a new or changed CRD with a delay.
    let until_applied = async |policy: String| {
        eventually("the Policy to be stored", SOON, async || {
            kubectl.apply(&policy).await?.ok().map(drop)
        })
        .await
        .unwrap();
    };
    run(&["delete", "-f", crd]).await;
    fixture.restart_controller("controller-2").await;
    fixture.apply("web", &json!({})).await;
    fixture.until("web", "Accepted", "Accepted").await;
    let requests = fixture.server.requests("/index.yaml");

    run(&["apply", "--server-side", "-f", crd]).await;
    let limits = json!({ "requireServiceAccount": true, "helmOp": { "allowedHelmSecretNames": ["charts"] } });
    until_applied(policy(limits)).await;
    let message = fixture.until("web", "Accepted", "PolicyViolation").await;
    assert!(
        message.starts_with("spec.serviceAccount: Required value: serviceAccount is required by Policy"),
        "{message}"
    );
    // What is refused is not resolved: not even its Secret is read.
    for (name, over, words) in [
        ("e15", json!({}), "serviceAccount is required"),
        (
            "e16",
            json!({ "serviceAccount": "a", "helmSecretName": "other" }),
            "disallowed helmSecretName other",
        ),
        (
            "e17",
            json!({ "serviceAccount": "a", "lifecycle": { "dependsOn": [{ "name": "db", "namespace": "data" }] } }),
            "disallowed dependency namespace data: a dependency shows whether another release is ready",
        ),
    ] {
        fixture.apply(name, &over).await;
        let message = fixture.until(name, "Accepted", "PolicyViolation").await;
        assert!(message.contains(words), "{message}");
        let bundle = kubectl.get(&format!("bundle/{name}")).await.unwrap();
        assert!(bundle.is_none(), "{bundle:?}");
    }
    assert_eq!(fixture.server.requests("/index.yaml"), requests);

    let anything = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/requireServiceAccount",
        "value": { "x-kubernetes-preserve-unknown-fields": true },
    }]);
    run(&[
        "patch",
        "crd",
        "policies.fleet.cattle.io",
        "--type=json",
        "-p",
        &anything.to_string(),
    ])
    .await;
    until_applied(policy(json!({ "requireServiceAccount": "perhaps" }))).await;
    eventually("the invalid Policy to apply", SOON, async || {
        let message = fixture.until("web", "Accepted", "PolicyViolation").await;
        ensure!(
            message.starts_with("metadata.namespace: Forbidden: \"default\": Policy \"limits\" of this namespace does not decode: ")
                && message.contains("requireServiceAccount"),
            "{message}"
        );
        Ok(())
    })
    .await
    .unwrap();
    // Other namespaces are not affected, and a corrected Policy applies again.
    run(&["create", "namespace", "elsewhere"]).await;
    let elsewhere = kubectl.in_namespace("elsewhere");
    elsewhere
        .apply(&fixture.helmop("web", &json!({})))
        .await
        .unwrap()
        .ok()
        .unwrap();
    eventually("the HelmOp in the other namespace", SOON, async || {
        elsewhere.get("bundle/web").await?.context("no Bundle").map(drop)
    })
    .await
    .unwrap();
    until_applied(policy(json!({ "requireServiceAccount": false, "helmOp": null }))).await;
    for name in ["web", "e15"] {
        fixture.until(name, "Accepted", "Accepted").await;
    }
}

/// A resolved version is discarded when a Policy that was created meanwhile forbids it.
#[tokio::test]
async fn a_policy_created_during_a_resolution_applies() {
    let fixture = Fixture::start(None).await.unwrap();
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let repo = format!("http://{}", slow.local_addr().unwrap());
    let chart = json!({ "repo": repo, "chart": "alpine", "version": "0.x" });
    fixture.apply("web", &json!({ "helm": chart })).await;
    let (mut request, _) = slow.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(request.read_u8().await.unwrap());
    }
    // Now the controller waits for the index.
    let policy = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" },
        "requireServiceAccount": true,
    });
    fixture.apply_object(&policy).await;
    // Once this other HelmOp is refused, the controller has observed the Policy.
    fixture.apply("witness", &json!({})).await;
    fixture.until("witness", "Accepted", "PolicyViolation").await;
    let index =
        "apiVersion: v1\nentries: {alpine: [{name: alpine, version: 0.1.0, urls: [alpine-0.1.0.tgz]}]}\n";
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/yaml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{index}",
        index.len()
    );
    request.write_all(response.as_bytes()).await.unwrap();
    request.shutdown().await.unwrap();
    let message = fixture.until("web", "Accepted", "PolicyViolation").await;
    assert!(message.contains("serviceAccount is required"), "{message}");
    let bundle = fixture.kubectl.get("bundle/web").await.unwrap();
    assert!(bundle.is_none(), "{bundle:?}");
}
