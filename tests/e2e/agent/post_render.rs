//! What a user changes in rendered objects.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::harness::agent::{CONFIG, Fixture};
use crate::harness::{condition, until};

/// A hook that is deleted when it has run: there are no nodes, and a ConfigMap is done when it is made.
const HOOK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations: {helm.sh/hook: post-install}\n";

fn spec(lifecycle: &Value, id: &str) -> Value {
    json!({ "deploymentID": format!(":{id}"), "lifecycle": lifecycle })
}

fn json_patch(kind: &str, operations: &str) -> Value {
    json!({ "patch": operations, "target": { "kind": kind } })
}

/// Objects and hooks, the record and drift: what is deployed is what the patches say, with the marks of the agent.
#[tokio::test]
async fn patches_change_what_is_deployed_and_recorded() {
    let fixture = Fixture::new("post-render").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("hook", HOOK)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let config = format!("{release}-config");
    let merge = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {config}}}\ndata: {{msg: null, added: yes}}\n"
    );
    let lifecycle = json!({
        "postRenderers": [
            { "kustomize": { "patches": [
                { "patch": merge },
                json_patch("ConfigMap", "[{op: add, path: /data/all, value: \"1\"}]"),
                json_patch("Deployment", "[{op: remove, path: /spec}]"),
            ]}},
        ],
        "commonMetadata": { "labels": { "team": "a", "objectset.rio.cattle.io/hash": "forged" } },
        "drift": { "mode": "enabled" },
    });
    // The hook has no data.
    fixture.deploy("web", "2.0.0", &spec(&lifecycle, "1")).await;
    let message = fixture
        .until_error(
            "web",
            "Deployed",
            &["lifecycle.postRenderers", "add operation does not apply"],
        )
        .await;
    assert!(fixture.records().await.is_empty(), "{message}");

    let mut without_hooks = lifecycle.clone();
    without_hooks["postRenderStrategy"] = json!("nohooks");
    fixture.deploy("web", "2.0.0", &spec(&without_hooks, "2")).await;
    fixture.until_ready("web").await;
    let object = fixture.object(&format!("configmap/{config}")).await.unwrap();
    assert_eq!(object["data"], json!({ "added": "yes", "all": "1" }));
    assert_eq!(object["metadata"]["labels"]["team"], "a");
    assert_ne!(
        object["metadata"]["labels"]["objectset.rio.cattle.io/hash"],
        "forged"
    );
    let hook = fixture
        .object(&format!("configmap/{release}-hook"))
        .await
        .unwrap();
    assert_eq!(hook["data"], Value::Null);
    assert_eq!(hook["metadata"]["labels"]["team"], Value::Null);
    let (_, note) = fixture.event("PatchMatchedNothing").await;
    assert!(
        note.contains("lifecycle.postRenderers[0].kustomize.patches[2]"),
        "{note}"
    );
    let (_, record) = fixture.record(&release, 1).await.unwrap();
    assert!(record.manifest.contains("added:"), "{}", record.manifest);

    // What is patched is desired: a change of it is drift, and a correction brings it back without another revision.
    let change = json!({ "data": { "added": "other", "msg": "own" } }).to_string();
    fixture
        .kubectl(&["patch", "configmap", &config, "--type=merge", "-p", &change])
        .await;
    let corrected = |object: &Value| {
        let expected = json!({ "added": "yes", "all": "1", "msg": "own" });
        ensure!(object["data"] == expected, "{object}");
        Ok(())
    };
    until(fixture.apps.kubectl(), &format!("configmap/{config}"), corrected).await;

    without_hooks["postRenderers"] = json!([]);
    fixture.deploy("web", "2.0.0", &spec(&without_hooks, "3")).await;
    fixture.until_revision("web", 2).await;
    let ready = fixture.until_ready("web").await;
    assert_eq!(
        condition(&ready, "Deployed").unwrap()["status"],
        "True",
        "{ready}"
    );
    let object = fixture.object(&format!("configmap/{config}")).await.unwrap();
    assert!(object["data"]["added"].is_null(), "{object}");
    assert!(object["data"]["msg"].is_string(), "{object}");
}
