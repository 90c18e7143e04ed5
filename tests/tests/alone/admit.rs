//! What cannot be deployed: the rule of the webhook is the controller's too, and spares what is old.

use anyhow::ensure;
use helmops_tests::helmops;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

use crate::bed::{Alone, SOON};

/// The rule of the webhook is the controller's too.
#[tokio::test]
async fn the_controller_refuses_what_the_webhook_would() {
    let alone = Alone::start(None).await.unwrap();
    let archive = "https://charts.example.com/web-1.2.3.tgz";
    let cases = [
        (Value::Null, "HelmRequired", "helm options are empty"),
        (
            json!({ "chart": archive, "repo": "https://h" }),
            "RepoForbidden",
            "tarball chart with a non-empty repo field",
        ),
        (
            json!({ "chart": archive, "version": "1.2.3" }),
            "VersionForbidden",
            "tarball chart with a non-empty version field",
        ),
        (
            json!({ "chart": archive, "version": "latest" }),
            "VersionForbidden",
            "tarball chart with a non-empty version field",
        ),
        (
            json!({ "chart": archive, "version": "*" }),
            "VersionForbidden",
            "tarball chart with a non-empty version field",
        ),
        (
            json!({ "repo": "oci://h/c", "chart": "c" }),
            "ChartForbidden",
            "OCI repository with a non-empty chart field",
        ),
        (
            json!({ "repo": "https://h" }),
            "ChartRequired",
            "non-OCI repository with an empty chart field",
        ),
        (
            json!({ "chart": "foo" }),
            "RepoRequired",
            "non-tarball chart with an empty repo field",
        ),
        (
            json!({}),
            "ChartRequired",
            "non-OCI repository with an empty chart field",
        ),
        (
            json!({ "repo": "https://h", "chart": "c", "version": "foo" }),
            "InvalidVersion",
            "improper constraint: \"foo\"",
        ),
    ];
    for (number, (helm, reason, words)) in cases.into_iter().enumerate() {
        let name = format!("v{number}");
        alone.apply(&name, &json!({ "helm": helm })).await;
        let message = alone.until(&name, "Accepted", reason).await;
        assert!(message.contains(words), "{message}");
        assert_eq!(alone.until(&name, "Ready", reason).await, message);
        assert!(
            alone
                .kubectl
                .get(&format!("bundle/{name}"))
                .await
                .unwrap()
                .is_none()
        );
    }
    // Mended, it is accepted.
    alone.apply("v9", &json!({})).await;
    assert_eq!(alone.until("v9", "Accepted", "Accepted").await, "");
}

#[tokio::test]
async fn objects_stored_before_the_webhook_came_stay_editable() {
    let alone = Alone::start(None).await.unwrap();
    let bad = json!({ "repo": "https://charts.example.com", "chart": "web", "version": "foo" });
    alone.apply("old", &json!({ "helm": bad })).await;
    alone.apply("doomed", &json!({ "helm": bad })).await;
    let finalizer = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    alone
        .kubectl
        .run(&["patch", "helmop/doomed", "--type=merge", "-p", finalizer])
        .await
        .unwrap()
        .ok()
        .unwrap();
    let webhook = helmops::start_webhook(&alone.bed, "webhook", &|program| alone.bed.command(program))
        .await
        .unwrap();
    helmops::register_webhook(&alone.kubectl, &webhook).await.unwrap();

    let patch = async |name: &str, patch: &str| {
        alone
            .kubectl
            .run(&["patch", &format!("helmop/{name}"), "--type=merge", "-p", patch])
            .await
            .unwrap()
    };
    alone
        .kubectl
        .run(&["label", "helmop/old", "team=a"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    let edited = patch("old", r#"{"spec":{"paused":true}}"#).await;
    assert!(edited.status.success(), "{}", edited.stderr);
    assert!(
        edited
            .stderr
            .contains("not new, but still wrong: spec.helm.version"),
        "{}",
        edited.stderr
    );
    let worse = patch("old", r#"{"spec":{"helm":{"chart":""}}}"#).await;
    assert!(
        worse.stderr.contains("spec.helm.chart: Required value"),
        "{}",
        worse.stderr
    );
    assert!(
        !worse.stderr.contains("spec.helm.version: Invalid value"),
        "{}",
        worse.stderr
    );

    alone
        .kubectl
        .run(&["delete", "helmop/doomed", "--wait=false"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    patch("doomed", r#"{"metadata":{"finalizers":null}}"#)
        .await
        .ok()
        .unwrap();
    eventually("the HelmOp to go", SOON, async || {
        ensure!(alone.kubectl.get("helmop/doomed").await?.is_none(), "it is there");
        Ok(())
    })
    .await
    .unwrap();
}
