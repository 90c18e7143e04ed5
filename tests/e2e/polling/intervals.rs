//! Polling for newer versions.

use anyhow::{Context, Result, ensure};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::InUse;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::beside_fleet::{Suite, apply, secret, suite, until_accepted};
use crate::harness::{SOON, condition, helmop, until, until_version};

/// A namespace with a repository of its own, whose versions can change: `web` 0.1.0.
struct Fixture {
    namespace: TestNamespace,
    server: ChartServer,
    charts: ChartRepo,
    _folder: TempDir,
    _suite: InUse<Suite>,
}

impl Fixture {
    async fn new() -> Self {
        let suite = suite().await;
        let namespace = TestNamespace::create(&suite.bed, "polling").await.unwrap();
        let folder = TempDir::new().unwrap();
        let charts = ChartRepo::build(&suite.bed.tools, folder.path(), &[("web", &["0.1.0"])])
            .await
            .unwrap();
        let server = ChartServer::http(folder.path()).await.unwrap();
        Self {
            namespace,
            server,
            charts,
            _folder: folder,
            _suite: suite,
        }
    }

    /// Applies HelmOp `web` of any version, with `over` merged over it.
    async fn apply(&self, over: &Value) {
        let mut spec = json!({ "helm": { "repo": self.server.url(), "chart": "web" } });
        json_patch::merge(&mut spec, over);
        apply(&self.namespace, "web", &spec).await;
    }

    async fn kubectl(&self, arguments: &[&str]) {
        self.namespace
            .kubectl()
            .run(arguments)
            .await
            .unwrap()
            .ok()
            .unwrap();
    }

    async fn until_helmop(&self, check: impl Fn(&Value) -> Result<()>) -> Value {
        until(&self.namespace, "helmop/web", check).await
    }

    async fn until_status_version(&self, version: &str) -> Value {
        until_version(&self.namespace, "web", version).await;
        self.until_helmop(|helmop| {
            let found = &helmop["status"]["version"];
            ensure!(found == version, "its version is {found}");
            Ok(())
        })
        .await
    }

    /// Waits until condition `Polled` has this status.
    async fn until_polled(&self, status: &str) -> Value {
        self.until_helmop(|helmop| {
            let polled = condition(helmop, "Polled").context("no condition")?;
            ensure!(polled["status"] == status, "it is {polled}");
            Ok(())
        })
        .await
    }

    /// Waits for another poll. Its time alone is not written to the status.
    async fn until_polled_again(&self) {
        let before = self.server.requests("/index.yaml");
        eventually("another poll", SOON, async || {
            ensure!(
                self.server.requests("/index.yaml") > before,
                "none since {before}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }
}

fn last_poll(helmop: &Value) -> &str {
    helmop["status"]["lastPollingTriggered"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_newer_version_is_deployed_and_each_poll_is_reported() {
    let fixture = Fixture::new().await;
    fixture.apply(&json!({ "pollingInterval": "1s" })).await;
    fixture.until_status_version("0.1.0").await;
    let first = fixture.until_polled("True").await;
    assert_ne!(last_poll(&first), "");
    fixture.until_polled_again().await;
    fixture.charts.add_version("web", "0.2.0").await.unwrap();
    let newer = fixture.until_status_version("0.2.0").await;
    assert_eq!(condition(&newer, "Accepted").unwrap()["status"], "True");
    let polled = condition(&newer, "Polled").unwrap();
    assert_eq!(
        (&polled["reason"], &polled["message"]),
        (&json!("Polled"), &Value::Null)
    );
}

#[tokio::test]
async fn a_newer_version_outside_of_the_range_is_reported_once() {
    let fixture = Fixture::new().await;
    let over = json!({ "helm": { "version": "0.x" }, "pollingInterval": "1s" });
    fixture.apply(&over).await;
    fixture.until_status_version("0.1.0").await;
    let events = async || {
        let list = ["get", "events.events.k8s.io", "--output=json"];
        let list = fixture
            .namespace
            .kubectl()
            .run(&list)
            .await
            .unwrap()
            .ok()
            .unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let events = list["items"].as_array().unwrap().iter();
        let found = events.filter(|event| event["reason"] == "NewVersionOutsideRange");
        found
            .map(|event| event["note"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for version in ["1.0.0", "2.0.0"] {
        fixture.charts.add_version("web", version).await.unwrap();
        let part = format!("web {version} is newer than");
        fixture
            .until_helmop(|helmop| {
                let found = condition(helmop, "NewVersionOutsideRange").context("no condition")?;
                ensure!(
                    found["message"]
                        .as_str()
                        .is_some_and(|text| text.starts_with(&part)),
                    "{found}"
                );
                Ok(())
            })
            .await;
        fixture.until_polled_again().await;
        eventually("one event", SOON, async || {
            let events = events().await;
            let number = events.iter().filter(|note| note.starts_with(&part)).count();
            ensure!(number == 1, "{events:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
    fixture
        .apply(&json!({ "helm": { "version": "*" }, "pollingInterval": "1s" }))
        .await;
    let newest = fixture.until_status_version("2.0.0").await;
    assert!(condition(&newest, "NewVersionOutsideRange").is_none(), "{newest}");
    assert_eq!(events().await.len(), 2);
}

#[tokio::test]
async fn target_versions_are_polled_too() {
    let fixture = Fixture::new().await;
    let over = json!({
        "helm": { "version": "0.1.0" }, "pollingInterval": "1s",
        "targets": [{ "clusterSelector": {}, "helm": { "version": "0.x" } }],
    });
    fixture.apply(&over).await;
    fixture.until_status_version("0.1.0").await;
    fixture.charts.add_version("web", "0.2.0").await.unwrap();
    let bundle = until(&fixture.namespace, "bundle/web", |bundle| {
        let found = &bundle["spec"]["targets"][0]["helm"]["version"];
        ensure!(found == "0.2.0", "it is {found}");
        Ok(())
    })
    .await;
    assert_eq!(bundle["spec"]["helm"]["version"], "0.1.0");
}

/// The same applies to archives.
#[tokio::test]
async fn exact_versions_and_zero_intervals_are_not_polled() {
    let fixture = Fixture::new().await;
    for (over, requests) in [
        (
            json!({ "helm": { "version": "0.1.0" }, "pollingInterval": "1s" }),
            1,
        ),
        (json!({ "helm": { "version": "0.x" } }), 2),
        (
            json!({ "helm": { "version": "0.x" }, "pollingInterval": "0s" }),
            2,
        ),
    ] {
        fixture.apply(&over).await;
        fixture.until_status_version("0.1.0").await;
        let helmop = until_accepted(&fixture.namespace, "web").await;
        assert_eq!(condition(&helmop, "Polled"), None, "{over}");
        assert_eq!(fixture.server.requests("/index.yaml"), requests, "{over}");
    }
    let archive = format!("{}/web-0.1.0.tgz", fixture.server.url());
    let spec = json!({ "helm": { "chart": archive }, "pollingInterval": "1s" });
    fixture.kubectl(&["delete", "helmop/web"]).await;
    let applied = fixture.namespace.kubectl().apply(&helmop("web", &spec)).await;
    applied.unwrap().ok().unwrap();
    let helmop = until_accepted(&fixture.namespace, "web").await;
    assert_eq!((condition(&helmop, "Polled"), last_poll(&helmop)), (None, ""));
}

#[tokio::test]
async fn an_outage_is_reported_and_changes_nothing() {
    let mut fixture = Fixture::new().await;
    fixture
        .apply(&json!({ "helm": { "version": "0.x.x" }, "pollingInterval": "1s" }))
        .await;
    fixture.until_status_version("0.1.0").await;
    fixture.until_polled("True").await;
    fixture.server.close().await;
    let failed = fixture.until_polled("False").await;
    let polled = condition(&failed, "Polled").unwrap();
    assert_eq!(polled["reason"], "ConnectionFailed", "{polled}");
    assert!(
        polled["message"]
            .as_str()
            .unwrap()
            .contains("could not poll for a newer version"),
        "{polled}"
    );
    assert_eq!(condition(&failed, "Accepted").unwrap()["status"], "True");
    assert_eq!(condition(&failed, "Stalled"), None, "an outage may be transient");
    assert_eq!(failed["status"]["version"], "0.1.0");

    // A change that needs no repository is applied.
    let values = json!({ "helm": { "version": "0.x.x", "values": { "a": 1 } }, "pollingInterval": "1s" });
    fixture.apply(&values).await;
    until(&fixture.namespace, "bundle/web", |bundle| {
        ensure!(bundle["spec"]["helm"]["values"]["a"] == 1, "not yet");
        Ok(())
    })
    .await;
    fixture.server.reopen().await.unwrap();
    let recovered = fixture.until_polled("True").await;
    assert_eq!(condition(&recovered, "Polled").unwrap().get("message"), None);
}

#[tokio::test]
async fn an_unauthorized_poll_stalls_until_polling_is_disabled() {
    let fixture = Fixture::new().await;
    fixture.apply(&json!({ "pollingInterval": "1s" })).await;
    fixture.until_status_version("0.1.0").await;
    fixture.server.require_login("user", "geheim");
    let stalled = fixture.until_polled("False").await;
    assert_eq!(condition(&stalled, "Polled").unwrap()["reason"], "Unauthorized");
    assert_eq!(condition(&stalled, "Stalled").unwrap()["reason"], "Unauthorized");
    fixture.apply(&json!({ "pollingInterval": "0s" })).await;
    fixture
        .until_helmop(|helmop| {
            ensure!(condition(helmop, "Polled").is_none(), "still polled");
            ensure!(condition(helmop, "Stalled").is_none(), "still stalled");
            Ok(())
        })
        .await;
}

/// A changed Secret triggers a retry immediately, long before the next one is due.
#[tokio::test]
async fn a_corrected_password_is_tried_immediately() {
    let fixture = Fixture::new().await;
    fixture.server.require_login("user", "geheim");
    secret(
        &fixture.namespace,
        json!({ "username": "user", "password": "wrong" }),
    )
    .await;
    fixture.apply(&json!({ "helmSecretName": "access" })).await;
    // The backoff is 5, 10 and 20 seconds: after the third try there is enough time.
    eventually("three tries", SOON, async || {
        ensure!(fixture.server.requests("/index.yaml") >= 3, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    let corrected = std::time::Instant::now();
    secret(
        &fixture.namespace,
        json!({ "username": "user", "password": "geheim" }),
    )
    .await;
    fixture.until_status_version("0.1.0").await;
    let took = corrected.elapsed();
    assert!(
        took.as_secs() < 12,
        "{took:?}: it may have been the next scheduled retry"
    );
}

#[tokio::test]
async fn a_poll_request_annotation_triggers_one_poll() {
    let fixture = Fixture::new().await;
    fixture.apply(&json!({ "helm": { "version": "0.x" } })).await;
    fixture.until_status_version("0.1.0").await;
    fixture.charts.add_version("web", "0.2.0").await.unwrap();
    let poll = async |token: &str| {
        let annotation = format!("helmops.fleet.cattle.io/poll-requested-at={token}");
        fixture
            .kubectl(&["annotate", "--overwrite", "helmop/web", &annotation])
            .await;
    };
    poll("1").await;
    let bundle = fixture.until_status_version("0.2.0").await;
    assert_eq!(condition(&bundle, "Polled"), None, "it is not repeated");
    let bundle = until_version(&fixture.namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["metadata"]["annotations"]["helmops.fleet.cattle.io/last-handled-poll"],
        "1"
    );

    // The same token again, and a change that triggers no poll.
    fixture.charts.add_version("web", "0.3.0").await.unwrap();
    poll("1").await;
    fixture
        .apply(&json!({ "helm": { "version": "0.x", "values": { "a": 1 } } }))
        .await;
    let helmop = until_accepted(&fixture.namespace, "web").await;
    assert_eq!(helmop["status"]["version"], "0.2.0");
    poll("2").await;
    fixture.until_status_version("0.3.0").await;
}

/// A wiped status is restored without a request to the repository.
#[tokio::test]
async fn a_lost_status_changes_no_version() {
    let fixture = Fixture::new().await;
    fixture.apply(&json!({ "pollingInterval": "12h" })).await;
    let before = fixture.until_polled("True").await;
    fixture.charts.add_version("web", "0.2.0").await.unwrap();
    let requests = fixture.server.requests("/index.yaml");
    fixture
        .kubectl(&[
            "patch",
            "helmop/web",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":null}"#,
        ])
        .await;
    let restored = fixture.until_polled("Unknown").await;
    assert_eq!(restored["status"]["version"], before["status"]["version"]);
    assert_eq!(fixture.server.requests("/index.yaml"), requests);
    until_version(&fixture.namespace, "web", "0.1.0").await;
}

#[tokio::test]
async fn a_too_short_interval_is_raised_and_reported() {
    let fixture = Fixture::new().await;
    fixture.apply(&json!({ "pollingInterval": "300ms" })).await;
    let helmop = fixture.until_polled("True").await;
    let message = condition(&helmop, "Polled").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.contains("polled every 1s instead of 300ms"), "{message}");
}

/// A shorter interval applies immediately too.
#[tokio::test]
async fn enabling_polling_polls_immediately() {
    let fixture = Fixture::new().await;
    fixture.apply(&json!({})).await;
    fixture.until_status_version("0.1.0").await;
    fixture.charts.add_version("web", "0.2.0").await.unwrap();
    fixture.apply(&json!({ "pollingInterval": "12h" })).await;
    fixture.until_status_version("0.2.0").await;
    fixture.until_polled("True").await;
    fixture.apply(&json!({ "pollingInterval": "1s" })).await;
    fixture.until_polled_again().await;
    fixture.until_polled_again().await;
}

/// New credentials are no reason to resolve again.
#[tokio::test]
async fn a_rotated_secret_changes_no_version() {
    let fixture = Fixture::new().await;
    secret(
        &fixture.namespace,
        json!({ "username": "user", "password": "old" }),
    )
    .await;
    let spec =
        |values: Value| json!({ "helm": { "version": "0.x", "values": values }, "helmSecretName": "access" });
    fixture.apply(&spec(json!({}))).await;
    fixture.until_status_version("0.1.0").await;
    let requests = fixture.server.requests("/index.yaml");
    fixture.charts.add_version("web", "0.2.0").await.unwrap();
    secret(
        &fixture.namespace,
        json!({ "username": "user", "password": "new" }),
    )
    .await;
    fixture.apply(&spec(json!({ "a": 1 }))).await;
    let bundle = until(&fixture.namespace, "bundle/web", |bundle| {
        ensure!(bundle["spec"]["helm"]["values"]["a"] == 1, "not yet");
        Ok(())
    })
    .await;
    assert_eq!(bundle["spec"]["helm"]["version"], "0.1.0");
    assert_eq!(fixture.server.requests("/index.yaml"), requests);
}

/// HelmOps with the same repository and interval share requests.
#[tokio::test]
async fn helmops_that_poll_one_repository_share_requests() {
    const HELMOPS: usize = 20;
    let fixture = Fixture::new().await;
    let spec = json!({ "helm": { "repo": fixture.server.url(), "chart": "web" }, "pollingInterval": "3s" });
    for number in 0..HELMOPS {
        let applied = fixture
            .namespace
            .kubectl()
            .apply(&helmop(&format!("web{number}"), &spec))
            .await;
        applied.unwrap().ok().unwrap();
    }
    for number in 0..HELMOPS {
        until_accepted(&fixture.namespace, &format!("web{number}")).await;
    }
    fixture.charts.add_version("web", "0.2.0").await.unwrap();
    for number in 0..HELMOPS {
        until_version(&fixture.namespace, &format!("web{number}"), "0.2.0").await;
    }
    let before = fixture.server.requests("/index.yaml");
    let started = std::time::Instant::now();
    eventually("four rounds", SOON, async || {
        ensure!(started.elapsed().as_secs() >= 12, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    let rounds = started.elapsed().as_secs() / 3 + 1;
    let requests = fixture.server.requests("/index.yaml") - before;
    assert!(
        requests <= 2 * rounds,
        "{requests} requests in {rounds} rounds of {HELMOPS} HelmOps"
    );
}
