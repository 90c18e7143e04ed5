//! HelmOps that cannot be deployed: the controller has the rules of the webhook, which allows changes of old invalid objects.

use anyhow::ensure;
use helmops_bed::helmops;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::SOON;
use crate::harness::own::Fixture;

#[tokio::test]
async fn the_controller_refuses_what_the_webhook_would_deny() {
    let fixture = Fixture::start(None).await.unwrap();
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
        fixture.apply(&name, &json!({ "helm": helm })).await;
        let message = fixture.until(&name, "Accepted", reason).await;
        assert!(message.contains(words), "{message}");
        assert_eq!(fixture.until(&name, "Ready", reason).await, message);
        assert!(
            fixture
                .kubectl
                .get(&format!("bundle/{name}"))
                .await
                .unwrap()
                .is_none()
        );
    }
    // The corrected HelmOp is accepted.
    fixture.apply("v9", &json!({})).await;
    assert_eq!(fixture.until("v9", "Accepted", "Accepted").await, "");
}

#[tokio::test]
async fn invalid_objects_stored_before_the_webhook_stay_editable() {
    let fixture = Fixture::start(None).await.unwrap();
    let invalid = json!({ "repo": "https://charts.example.com", "chart": "web", "version": "foo" });
    fixture.apply("old", &json!({ "helm": invalid })).await;
    fixture.apply("deleted", &json!({ "helm": invalid })).await;
    let finalizer = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    fixture
        .run(&["patch", "helmop/deleted", "--type=merge", "-p", finalizer])
        .await;
    let webhook = helmops::start_webhook(&fixture.bed, "webhook", &|program| fixture.bed.command(program))
        .await
        .unwrap();
    helmops::register_webhook(&fixture.kubectl, &webhook)
        .await
        .unwrap();

    let patch = async |name: &str, patch: &str| {
        fixture
            .kubectl
            .run(&["patch", &format!("helmop/{name}"), "--type=merge", "-p", patch])
            .await
            .unwrap()
    };
    fixture.run(&["label", "helmop/old", "team=a"]).await;
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

    fixture.run(&["delete", "helmop/deleted", "--wait=false"]).await;
    patch("deleted", r#"{"metadata":{"finalizers":null}}"#)
        .await
        .ok()
        .unwrap();
    eventually("the HelmOp to go", SOON, async || {
        ensure!(
            fixture.kubectl.get("helmop/deleted").await?.is_none(),
            "it is there"
        );
        Ok(())
    })
    .await
    .unwrap();
}
