//! Looking for newer versions.

use anyhow::{Context, Result, ensure};
use helmops_tests::chart_server::ChartServer;
use helmops_tests::charts::ChartRepo;
use helmops_tests::namespace::TestNamespace;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::suite::{SOON, apply, condition, helmop, secret, suite, until, until_accepted, until_version};

/// A repository of its own, whose versions can change: `web` 0.1.0.
struct Setting {
    namespace: TestNamespace,
    server: ChartServer,
    charts: ChartRepo,
    _folder: TempDir,
}

impl Setting {
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
        }
    }

    /// Applies HelmOp `web` of any version, with `over` over it.
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

    /// Waits until a look has failed, or succeeded.
    async fn until_polled(&self, status: &str) -> Value {
        self.until_helmop(|helmop| {
            let polled = condition(helmop, "Polled").context("no condition")?;
            ensure!(polled["status"] == status, "it is {polled}");
            Ok(())
        })
        .await
    }

    /// Waits for a look that began after the one that `helmop` tells of.
    async fn until_looked_again(&self, helmop: &Value) -> Value {
        let before = last(helmop).to_owned();
        self.until_helmop(|helmop| {
            ensure!(last(helmop) > &*before, "none since {before}");
            Ok(())
        })
        .await
    }
}

fn last(helmop: &Value) -> &str {
    helmop["status"]["lastPollingTriggered"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_newer_version_is_deployed_and_each_look_is_told() {
    let setting = Setting::new().await;
    setting.apply(&json!({ "pollingInterval": "1s" })).await;
    setting.until_status_version("0.1.0").await;
    let first = setting.until_polled("True").await;
    assert_ne!(last(&first), "");
    let quiet = setting.until_looked_again(&first).await;
    assert_eq!(quiet["status"]["version"], "0.1.0");
    setting.charts.add_version("web", "0.2.0").await.unwrap();
    let newer = setting.until_status_version("0.2.0").await;
    assert_eq!(condition(&newer, "Accepted").unwrap()["status"], "True");
    let polled = condition(&newer, "Polled").unwrap();
    assert_eq!(
        (&polled["reason"], &polled["message"]),
        (&json!("Polled"), &Value::Null)
    );
}

#[tokio::test]
async fn a_target_is_polled_too() {
    let setting = Setting::new().await;
    let over = json!({
        "helm": { "version": "0.1.0" }, "pollingInterval": "1s",
        "targets": [{ "clusterSelector": {}, "helm": { "version": "0.x" } }],
    });
    setting.apply(&over).await;
    setting.until_status_version("0.1.0").await;
    setting.charts.add_version("web", "0.2.0").await.unwrap();
    let bundle = until(&setting.namespace, "bundle/web", |bundle| {
        let found = &bundle["spec"]["targets"][0]["helm"]["version"];
        ensure!(found == "0.2.0", "it is {found}");
        Ok(())
    })
    .await;
    assert_eq!(bundle["spec"]["helm"]["version"], "0.1.0");
}

/// A version that cannot change, or an interval of zero: nobody looks.
#[tokio::test]
async fn what_cannot_move_is_not_polled() {
    let setting = Setting::new().await;
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
        setting.apply(&over).await;
        setting.until_status_version("0.1.0").await;
        let helmop = until_accepted(&setting.namespace, "web").await;
        assert_eq!(condition(&helmop, "Polled"), None, "{over}");
        assert_eq!(setting.server.requests("/index.yaml"), requests, "{over}");
    }
    let archive = format!("{}/web-0.1.0.tgz", setting.server.url());
    let spec = json!({ "helm": { "chart": archive }, "pollingInterval": "1s" });
    setting.kubectl(&["delete", "helmop/web"]).await;
    let applied = setting.namespace.kubectl().apply(&helmop("web", &spec)).await;
    applied.unwrap().ok().unwrap();
    let helmop = until_accepted(&setting.namespace, "web").await;
    assert_eq!((condition(&helmop, "Polled"), last(&helmop)), (None, ""));
}

#[tokio::test]
async fn an_outage_is_told_and_changes_nothing() {
    let mut setting = Setting::new().await;
    setting
        .apply(&json!({ "helm": { "version": "0.x.x" }, "pollingInterval": "1s" }))
        .await;
    setting.until_status_version("0.1.0").await;
    setting.until_polled("True").await;
    setting.server.close().await;
    let failed = setting.until_polled("False").await;
    let polled = condition(&failed, "Polled").unwrap();
    assert_eq!(polled["reason"], "ConnectionFailed", "{polled}");
    assert!(
        polled["message"]
            .as_str()
            .unwrap()
            .contains("could not look for a newer version"),
        "{polled}"
    );
    assert_eq!(condition(&failed, "Accepted").unwrap()["status"], "True");
    assert_eq!(condition(&failed, "Stalled"), None, "it may pass by itself");
    let again = setting.until_looked_again(&failed).await;
    assert_eq!(again["status"]["version"], "0.1.0");

    // What needs no repository is not held up.
    let values = json!({ "helm": { "version": "0.x.x", "values": { "a": 1 } }, "pollingInterval": "1s" });
    setting.apply(&values).await;
    until(&setting.namespace, "bundle/web", |bundle| {
        ensure!(bundle["spec"]["helm"]["values"]["a"] == 1, "not yet");
        Ok(())
    })
    .await;
    setting.server.reopen().await.unwrap();
    let healed = setting.until_polled("True").await;
    assert_eq!(condition(&healed, "Polled").unwrap().get("message"), None);
}

#[tokio::test]
async fn what_somebody_must_mend_stalls_until_it_is_mended_or_polling_ends() {
    let setting = Setting::new().await;
    setting.apply(&json!({ "pollingInterval": "1s" })).await;
    setting.until_status_version("0.1.0").await;
    setting.server.require_login("user", "geheim");
    let stalled = setting.until_polled("False").await;
    assert_eq!(condition(&stalled, "Polled").unwrap()["reason"], "Unauthorized");
    assert_eq!(condition(&stalled, "Stalled").unwrap()["reason"], "Unauthorized");
    setting.apply(&json!({ "pollingInterval": "0s" })).await;
    setting
        .until_helmop(|helmop| {
            ensure!(condition(helmop, "Polled").is_none(), "still polled");
            ensure!(condition(helmop, "Stalled").is_none(), "still stalled");
            Ok(())
        })
        .await;
}

/// A Secret that is mended is tried at once, long before the next try is due.
#[tokio::test]
async fn a_password_that_is_mended_is_tried_at_once() {
    let setting = Setting::new().await;
    setting.server.require_login("user", "geheim");
    secret(
        &setting.namespace,
        json!({ "username": "user", "password": "wrong" }),
    )
    .await;
    setting.apply(&json!({ "helmSecretName": "access" })).await;
    // Tries are 5, 10 and 20 seconds apart: after the third there is time enough.
    eventually("three tries", SOON, async || {
        ensure!(setting.server.requests("/index.yaml") >= 3, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    let mended = std::time::Instant::now();
    secret(
        &setting.namespace,
        json!({ "username": "user", "password": "geheim" }),
    )
    .await;
    setting.until_status_version("0.1.0").await;
    let took = mended.elapsed();
    assert!(took.as_secs() < 12, "{took:?}: by chance at the next try");
}

#[tokio::test]
async fn a_token_asks_for_one_look() {
    let setting = Setting::new().await;
    setting.apply(&json!({ "helm": { "version": "0.x" } })).await;
    setting.until_status_version("0.1.0").await;
    setting.charts.add_version("web", "0.2.0").await.unwrap();
    let poll = async |token: &str| {
        let annotation = format!("helmops.fleet.cattle.io/poll-requested-at={token}");
        setting
            .kubectl(&["annotate", "--overwrite", "helmop/web", &annotation])
            .await;
    };
    poll("1").await;
    let bundle = setting.until_status_version("0.2.0").await;
    assert_eq!(condition(&bundle, "Polled"), None, "it is not repeated");
    let bundle = until_version(&setting.namespace, "web", "0.2.0").await;
    assert_eq!(
        bundle["metadata"]["annotations"]["helmops.fleet.cattle.io/last-handled-poll"],
        "1"
    );

    // The same token once more, and a change that is no look.
    setting.charts.add_version("web", "0.3.0").await.unwrap();
    poll("1").await;
    setting
        .apply(&json!({ "helm": { "version": "0.x", "values": { "a": 1 } } }))
        .await;
    let helmop = until_accepted(&setting.namespace, "web").await;
    assert_eq!(helmop["status"]["version"], "0.2.0");
    poll("2").await;
    setting.until_status_version("0.3.0").await;
}

/// A status that somebody wiped is filled again, and nothing is looked up for it.
#[tokio::test]
async fn a_lost_status_changes_no_version() {
    let setting = Setting::new().await;
    setting.apply(&json!({ "pollingInterval": "12h" })).await;
    let before = setting.until_polled("True").await;
    setting.charts.add_version("web", "0.2.0").await.unwrap();
    let requests = setting.server.requests("/index.yaml");
    setting
        .kubectl(&[
            "patch",
            "helmop/web",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":null}"#,
        ])
        .await;
    let filled = setting.until_polled("Unknown").await;
    assert_eq!(filled["status"]["version"], before["status"]["version"]);
    assert_eq!(setting.server.requests("/index.yaml"), requests);
    until_version(&setting.namespace, "web", "0.1.0").await;
}

#[tokio::test]
async fn an_interval_that_is_too_short_is_raised_and_told() {
    let setting = Setting::new().await;
    setting.apply(&json!({ "pollingInterval": "300ms" })).await;
    let helmop = setting.until_polled("True").await;
    let message = condition(&helmop, "Polled").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.contains("polled every 1s instead of 300ms"), "{message}");
}

/// Polling that is turned on begins at once, and a shorter interval counts from then on.
#[tokio::test]
async fn turning_it_on_looks_at_once() {
    let setting = Setting::new().await;
    setting.apply(&json!({})).await;
    setting.until_status_version("0.1.0").await;
    setting.charts.add_version("web", "0.2.0").await.unwrap();
    setting.apply(&json!({ "pollingInterval": "12h" })).await;
    setting.until_status_version("0.2.0").await;
    let looked = setting.until_polled("True").await;
    setting.apply(&json!({ "pollingInterval": "1s" })).await;
    setting.until_looked_again(&looked).await;
}

/// New credentials are no new question.
#[tokio::test]
async fn a_rotated_secret_changes_no_version() {
    let setting = Setting::new().await;
    secret(
        &setting.namespace,
        json!({ "username": "user", "password": "old" }),
    )
    .await;
    let spec =
        |values: Value| json!({ "helm": { "version": "0.x", "values": values }, "helmSecretName": "access" });
    setting.apply(&spec(json!({}))).await;
    setting.until_status_version("0.1.0").await;
    let requests = setting.server.requests("/index.yaml");
    setting.charts.add_version("web", "0.2.0").await.unwrap();
    secret(
        &setting.namespace,
        json!({ "username": "user", "password": "new" }),
    )
    .await;
    setting.apply(&spec(json!({ "a": 1 }))).await;
    let bundle = until(&setting.namespace, "bundle/web", |bundle| {
        ensure!(bundle["spec"]["helm"]["values"]["a"] == 1, "not yet");
        Ok(())
    })
    .await;
    assert_eq!(bundle["spec"]["helm"]["version"], "0.1.0");
    assert_eq!(setting.server.requests("/index.yaml"), requests);
}

/// HelmOps of one repository and interval share their requests.
#[tokio::test]
async fn one_request_serves_all_who_poll_a_repository() {
    const HELMOPS: usize = 20;
    let setting = Setting::new().await;
    let spec = json!({ "helm": { "repo": setting.server.url(), "chart": "web" }, "pollingInterval": "3s" });
    for number in 0..HELMOPS {
        let applied = setting
            .namespace
            .kubectl()
            .apply(&helmop(&format!("web{number}"), &spec))
            .await;
        applied.unwrap().ok().unwrap();
    }
    for number in 0..HELMOPS {
        until_accepted(&setting.namespace, &format!("web{number}")).await;
    }
    setting.charts.add_version("web", "0.2.0").await.unwrap();
    for number in 0..HELMOPS {
        until_version(&setting.namespace, &format!("web{number}"), "0.2.0").await;
    }
    let before = setting.server.requests("/index.yaml");
    let started = std::time::Instant::now();
    eventually("four rounds", SOON, async || {
        ensure!(started.elapsed().as_secs() >= 12, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    let rounds = started.elapsed().as_secs() / 3 + 1;
    let requests = setting.server.requests("/index.yaml") - before;
    assert!(
        requests <= 2 * rounds,
        "{requests} requests in {rounds} rounds of {HELMOPS} HelmOps"
    );
}
