//! HelmOps that cannot be deployed: the controller has the rules of the webhook, which allows changes of old invalid objects.

use anyhow::ensure;
use helmops_bed::helmops;
use helmops_bed::wait::eventually;
use serde_json::json;

use crate::harness::SOON;
use crate::harness::own::Fixture;

#[tokio::test]
async fn the_controller_refuses_what_the_webhook_would_deny() {
    let fixture = Fixture::start(None).await.unwrap();
    let mistakes = helmops_mistakes::of_group("chart forms")
        .into_iter()
        .chain(helmops_mistakes::of_group("versions"));
    for (number, mistake) in mistakes.enumerate() {
        let (name, error) = (format!("v{number}"), &mistake.errors[0]);
        let spec = &mistake.object["spec"];
        let fields = ["helm", "targets", "chartSource"].map(|field| (field.to_owned(), spec[field].clone()));
        fixture.apply(&name, &fields.into_iter().collect()).await;
        let message = fixture.until(&name, "Accepted", error.reason).await;
        assert!(error.words.iter().all(|word| message.contains(word)), "{message}");
        assert_eq!(fixture.until(&name, "Ready", error.reason).await, message);
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
    fixture.apply("v0", &json!({})).await;
    assert_eq!(fixture.until("v0", "Accepted", "Accepted").await, "");
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
