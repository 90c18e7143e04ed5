//! Policies as definitions and objects come and go.

use anyhow::{Context, ensure};
use helmops_tests::helmops;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::bed::{Alone, SOON};

/// A cluster may have no Policies at all, or get their definition late; and one Policy may be odd.
#[tokio::test]
async fn policies_come_late_and_one_of_them_is_odd() {
    let mut alone = Alone::start(None).await.unwrap();
    let definition = helmops::manifests().join("crd/bases/policies.yaml");
    let definition = definition.to_str().unwrap();
    let kubectl = alone.kubectl.clone();
    let run = async |arguments: &[&str]| kubectl.run(arguments).await.unwrap().ok().unwrap();
    let policy = |fields: Value| {
        let mut policy = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" } });
        policy
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        policy.to_string()
    };
    // The API server serves a new definition, or a changed one, a moment later.
    let until_applied = async |policy: String| {
        eventually("the Policy to be stored", SOON, async || {
            kubectl.apply(&policy).await?.ok().map(drop)
        })
        .await
        .unwrap();
    };
    run(&["delete", "-f", definition]).await;
    alone.restart_controller("controller-2").await;
    alone.apply("web", &json!({})).await;
    alone.until("web", "Accepted", "Accepted").await;
    let asked = alone.server.requests("/index.yaml");

    run(&["apply", "--server-side", "-f", definition]).await;
    let limits = json!({ "requireServiceAccount": true, "helmOp": { "allowedHelmSecretNames": ["charts"] } });
    until_applied(policy(limits)).await;
    let message = alone.until("web", "Accepted", "PolicyViolation").await;
    assert!(
        message.starts_with("spec.serviceAccount: Required value: serviceAccount is required by Policy"),
        "{message}"
    );
    // Nobody looks up what is refused, not even its Secret.
    for (name, over, words) in [
        ("e15", json!({}), "serviceAccount is required"),
        (
            "e16",
            json!({ "serviceAccount": "a", "helmSecretName": "other" }),
            "disallowed helmSecretName other",
        ),
    ] {
        alone.apply(name, &over).await;
        let message = alone.until(name, "Accepted", "PolicyViolation").await;
        assert!(message.contains(words), "{message}");
        let bundle = kubectl.get(&format!("bundle/{name}")).await.unwrap();
        assert!(bundle.is_none(), "{bundle:?}");
    }
    assert_eq!(alone.server.requests("/index.yaml"), asked);

    let anything = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/requireServiceAccount",
        "value": { "x-kubernetes-preserve-unknown-fields": true },
    }]);
    let crd = "policies.fleet.cattle.io";
    run(&["patch", "crd", crd, "--type=json", "-p", &anything.to_string()]).await;
    until_applied(policy(json!({ "requireServiceAccount": "perhaps" }))).await;
    eventually("the odd Policy to count", SOON, async || {
        let message = alone.until("web", "Accepted", "PolicyViolation").await;
        ensure!(
            message.starts_with("metadata.namespace: Forbidden: \"default\": Policy \"limits\" of this namespace does not decode: ")
                && message.contains("requireServiceAccount"),
            "{message}"
        );
        Ok(())
    })
    .await
    .unwrap();
    // Other namespaces, and later changes, are not concerned.
    run(&["create", "namespace", "elsewhere"]).await;
    let elsewhere = kubectl.in_namespace("elsewhere");
    elsewhere
        .apply(&alone.helmop("web", &json!({})))
        .await
        .unwrap()
        .ok()
        .unwrap();
    eventually("the HelmOp elsewhere", SOON, async || {
        elsewhere.get("bundle/web").await?.context("no Bundle").map(drop)
    })
    .await
    .unwrap();
    until_applied(policy(json!({ "requireServiceAccount": false, "helmOp": null }))).await;
    for name in ["web", "e15"] {
        alone.until(name, "Accepted", "Accepted").await;
    }
}

/// What a look-up finds does not count once a Policy that came meanwhile forbids it.
#[tokio::test]
async fn a_policy_that_comes_during_a_look_up_counts() {
    let alone = Alone::start(None).await.unwrap();
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let repo = format!("http://{}", slow.local_addr().unwrap());
    let chart = json!({ "repo": repo, "chart": "alpine", "version": "0.x" });
    alone.apply("web", &json!({ "helm": chart })).await;
    let (mut request, _) = slow.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(request.read_u8().await.unwrap());
    }
    // The controller waits for the index now.
    let policy = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" },
        "requireServiceAccount": true,
    });
    alone.apply_object(&policy).await;
    // Refused here, the other HelmOp shows that the controller knows the Policy.
    alone.apply("witness", &json!({})).await;
    alone.until("witness", "Accepted", "PolicyViolation").await;
    let index =
        "apiVersion: v1\nentries: {alpine: [{name: alpine, version: 0.1.0, urls: [alpine-0.1.0.tgz]}]}\n";
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/yaml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{index}",
        index.len()
    );
    request.write_all(answer.as_bytes()).await.unwrap();
    request.shutdown().await.unwrap();
    let message = alone.until("web", "Accepted", "PolicyViolation").await;
    assert!(message.contains("serviceAccount is required"), "{message}");
    let bundle = alone.kubectl.get("bundle/web").await.unwrap();
    assert!(bundle.is_none(), "{bundle:?}");
}
