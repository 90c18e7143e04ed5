//! Charts in Git repositories: which commits release something, the access, and what is refused.

use anyhow::ensure;
use helmops_bed::git_server::GitServer;
use helmops_bed::wait::eventually;
use helmops_git::ObjectId;
use serde_json::{Value, json};

use crate::harness::standalone::Fixture;
use crate::harness::{SOON, run};

/// A repository with the charts `web` and `db`.
struct Charts(GitServer);

impl Charts {
    async fn start() -> Self {
        let charts = Self(GitServer::start().await.unwrap());
        charts.commit("1.0.0", "hello");
        charts
    }

    /// Commits both charts. `greeting` is in a template of `web`.
    fn commit(&self, version: &str, greeting: &str) -> ObjectId {
        self.commit_with_db(version, greeting, "1")
    }

    fn commit_with_db(&self, version: &str, greeting: &str, db: &str) -> ObjectId {
        let chart = format!("apiVersion: v2\nname: web\nversion: {version}\n");
        let template = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  greeting: {greeting}\n"
        );
        let files = [
            ("charts/web/Chart.yaml", &*chart),
            ("charts/web/templates/web.yaml", &*template),
            (
                "charts/db/Chart.yaml",
                "apiVersion: v2\nname: db\nversion: 1.0.0\n",
            ),
            ("charts/db/values.yaml", &*format!("replicas: {db}\n")),
        ];
        self.0.commit("main", &files)
    }

    fn source(&self) -> Value {
        json!({ "url": self.0.url(), "path": "charts/web" })
    }

    async fn helmop(&self, fixture: &Fixture, over: &Value) {
        let mut spec = json!({
            "chartSource": { "git": self.source() },
            "pollingInterval": "1s",
            "targets": [{ "clusterGroup": "all" }],
        });
        json_patch::merge(&mut spec, over);
        fixture
            .apply(&json!({ "kind": "HelmOp", "metadata": { "name": "web" }, "spec": spec }))
            .await;
    }

    /// Waits until the repository was polled once more from the beginning to the end.
    async fn until_polled_again(&self) {
        let before = self.0.requests();
        eventually("two more polls", SOON, async || {
            let polls = self.0.requests();
            ensure!(polls >= before + 2, "{polls} requests, {before} before");
            Ok(())
        })
        .await
        .unwrap();
    }
}

fn git(over: &Value) -> Value {
    json!({ "chartSource": { "git": over } })
}

/// Waits until the deployment of a cluster has a version that begins so, and returns its deployment ID and this version.
pub async fn until_version(fixture: &Fixture, start: &str, other_than: &str) -> (String, String) {
    let deployment = fixture
        .until_on(0, "bundledeployment/web", |found| {
            let version = found["spec"]["options"]["helm"]["version"]
                .as_str()
                .unwrap_or_default();
            ensure!(
                version.starts_with(start) && version != other_than,
                "{}",
                found["spec"]["options"]
            );
            Ok(())
        })
        .await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (
        text(&deployment["spec"]["deploymentID"]),
        text(&deployment["spec"]["options"]["helm"]["version"]),
    )
}

/// Waits until the condition of the HelmOp has this reason, and returns its message.
pub async fn until(fixture: &Fixture, condition: &str, reason: &str) -> String {
    crate::harness::until_reason(&fixture.namespace, "web", condition, reason).await
}

#[tokio::test]
async fn only_commits_that_change_the_chart_release_it() {
    let fixture = Fixture::new("git", 2).await;
    let charts = Charts::start().await;
    charts
        .helmop(&fixture, &json!({ "helm": { "values": { "a": 1 } } }))
        .await;
    let (first, version) = until_version(&fixture, "1.0.0+", "").await;
    let deployment = fixture.deployment(0, "web").await;
    let spec = &deployment["spec"];
    assert_eq!(spec.get("helmChartOptions"), None, "{spec}");
    assert_eq!(spec["options"]["helm"]["chart"], "web");
    assert_eq!(spec["options"]["helm"].get("repo"), None, "{spec}");
    let bundle = fixture
        .namespace
        .kubectl()
        .get("bundle/web")
        .await
        .unwrap()
        .unwrap();
    let repo = bundle["spec"]["helm"]["repo"].as_str().unwrap();
    assert_eq!(repo, format!("git+{}", charts.0.url()));

    // Another chart of the repository.
    charts.commit_with_db("1.0.0", "hello", "2");
    charts.until_polled_again().await;
    let unchanged = fixture
        .namespace
        .kubectl()
        .get("bundle/web")
        .await
        .unwrap()
        .unwrap();
    for field in ["generation", "annotations"] {
        assert_eq!(
            unchanged["metadata"][field], bundle["metadata"][field],
            "another chart has changed"
        );
    }

    // The chart, in the same version.
    let commit = charts.commit("1.0.0", "hi");
    let (second, changed) = until_version(&fixture, "1.0.0+", &version).await;
    assert_ne!(first, second);
    let resolved = fixture
        .until("helmop/web", |found| {
            ensure!(found["status"]["version"] == *changed, "{}", found["status"]);
            Ok(())
        })
        .await;
    let record = &resolved["status"]["resolved"][0];
    assert!(
        record["url"].as_str().unwrap().ends_with(&commit.to_string()),
        "{record}"
    );
    assert_eq!(record["chart"], "charts/web");
    assert_eq!(record["constraint"], "the default branch");
}

#[tokio::test]
async fn with_chart_version_only_another_version_is_a_release() {
    let fixture = Fixture::new("git", 1).await;
    let charts = Charts::start().await;
    charts
        .helmop(&fixture, &git(&json!({ "reconcileStrategy": "ChartVersion" })))
        .await;
    let (first, version) = until_version(&fixture, "1.0.0", "").await;
    assert_eq!(version, "1.0.0");
    charts.commit("1.0.0", "hi");
    let message = until(&fixture, "DigestChanged", "DigestChanged").await;
    assert!(
        message.contains("1.0.0") && message.contains("reconcileStrategy: Revision"),
        "{message}"
    );
    charts.until_polled_again().await;
    let (held, _) = until_version(&fixture, "1.0.0", "").await;
    assert_eq!(held, first);
    charts.commit("1.1.0", "hi");
    let (second, _) = until_version(&fixture, "1.1.0", "").await;
    assert_ne!(second, first);
}

#[tokio::test]
async fn a_tag_of_a_range_is_followed_with_a_login_that_stays_here() {
    let fixture = Fixture::new("git", 1).await;
    let charts = Charts::start().await;
    let first = charts.commit("1.0.0", "first");
    charts.0.tag("v1.0.0", first);
    charts.0.require_login("reader", "geheim");
    let over = git(&json!({ "ref": { "semver": "1.x" }, "secretRef": { "name": "git" } }));
    charts.helmop(&fixture, &over).await;
    let message = until(&fixture, "Accepted", "SecretNotFound").await;
    assert!(message.contains("spec.chartSource.git.secretRef"), "{message}");
    fixture
        .secret("git", &json!({ "username": "reader", "password": "falsch" }))
        .await;
    let message = until(&fixture, "Accepted", "Unauthorized").await;
    assert!(
        message.contains("spec.chartSource.git.secretRef") && !message.contains("falsch"),
        "{message}"
    );
    fixture
        .secret("git", &json!({ "username": "reader", "password": "geheim" }))
        .await;
    let (_, version) = until_version(&fixture, "1.0.0+", "").await;
    let secrets = run(&fixture.namespace, &["get", "secrets", "-A", "-o", "name"]).await;
    assert_eq!(
        secrets.lines().filter(|name| name.ends_with("/git")).count(),
        1,
        "no cluster has the login: {secrets}"
    );

    // The branch has moved on, but no tag is on it.
    charts.commit("1.1.0", "second");
    charts.until_polled_again().await;
    assert_eq!(until_version(&fixture, "1.0.0+", "").await.1, version);
    let third = charts.commit("1.2.0", "third");
    charts.0.tag("v1.2.0", third);
    until_version(&fixture, "1.2.0+", "").await;
}

#[tokio::test]
async fn what_cannot_be_deployed_keeps_what_is_deployed() {
    let fixture = Fixture::new("git", 1).await;
    let charts = Charts::start().await;
    charts.helmop(&fixture, &json!({})).await;
    let (first, _) = until_version(&fixture, "1.0.0+", "").await;
    charts.0.commit(
        "main",
        &[(
            "charts/db/Chart.yaml",
            "apiVersion: v2\nname: db\nversion: 1.0.0\n",
        )],
    );
    let message = until(&fixture, "Polled", "ChartNotFound").await;
    assert!(
        message.contains("charts/web") && message.contains("charts/db"),
        "{message}"
    );
    assert_eq!(until_version(&fixture, "1.0.0+", "").await.0, first);
    assert_eq!(until(&fixture, "Accepted", "Accepted").await, "");

    charts
        .helmop(&fixture, &git(&json!({ "ref": { "branch": "none" } })))
        .await;
    let message = until(&fixture, "Accepted", "NoMatchingVersion").await;
    assert!(message.contains("no branch \"none\""), "{message}");
    assert_eq!(until_version(&fixture, "1.0.0+", "").await.0, first);
}
