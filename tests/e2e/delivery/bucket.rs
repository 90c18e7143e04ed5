//! Charts in buckets: which objects release something, the access, and archives.

use anyhow::ensure;
use helm_archive::ArchiveWriter;
use helmops_bed::bucket_server::{BUCKET, BucketServer};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::git::{until, until_version};
use crate::harness::standalone::Fixture;
use crate::harness::{SOON, run};

/// A bucket with the charts `web` and `db` in a folder.
struct Charts(BucketServer);

impl Charts {
    async fn start() -> Self {
        let charts = Self(BucketServer::start().await.unwrap());
        charts.0.put(
            "team/web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        );
        charts.greet("hello");
        charts
            .0
            .put("team/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n");
        charts
    }

    /// Writes a template of `web`.
    fn greet(&self, greeting: &str) {
        let template = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  greeting: {greeting}\n"
        );
        self.0.put("team/web/templates/web.yaml", template);
    }

    async fn helmop(&self, fixture: &Fixture, over: &Value) {
        let mut bucket = json!({
            "bucketName": BUCKET, "endpoint": self.0.endpoint(), "insecure": true, "prefix": "team", "path": "web",
        });
        json_patch::merge(&mut bucket, over);
        let spec = json!({
            "chartSource": { "bucket": bucket },
            "pollingInterval": "1s",
            "targets": [{ "clusterGroup": "all" }],
        });
        fixture
            .apply(&json!({ "kind": "HelmOp", "metadata": { "name": "web" }, "spec": spec }))
            .await;
    }

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

#[tokio::test]
async fn only_objects_of_the_chart_release_it() {
    let fixture = Fixture::new("bucket", 1).await;
    let charts = Charts::start().await;
    charts.0.require_key("reader");
    charts
        .helmop(&fixture, &json!({ "secretRef": { "name": "bucket" } }))
        .await;
    let message = until(&fixture, "Accepted", "SecretNotFound").await;
    assert!(message.contains("spec.chartSource.bucket.secretRef"), "{message}");
    let secret = |key: &str| json!({ "accesskey": key, "secretkey": "geheim" });
    fixture.secret("bucket", &secret("other")).await;
    let message = until(&fixture, "Accepted", "Unauthorized").await;
    assert!(
        message.contains("accesskey") && !message.contains("geheim"),
        "{message}"
    );
    fixture.secret("bucket", &secret("reader")).await;
    let (first, version) = until_version(&fixture, "1.0.0+", "").await;
    let secrets = run(&fixture.namespace, &["get", "secrets", "-A", "-o", "name"]).await;
    let named = secrets.lines().filter(|name| name.ends_with("/bucket")).count();
    assert_eq!(named, 1, "no cluster has the keys: {secrets}");
    let bundle = async || {
        let kubectl = fixture.namespace.kubectl();
        kubectl.get("bundle/web").await.unwrap().unwrap()
    };
    let before = bundle().await;
    let repo = before["spec"]["helm"]["repo"].as_str().unwrap();
    assert_eq!(
        repo,
        format!("bucket+http://{}/{BUCKET}/team", charts.0.endpoint())
    );

    // Another chart.
    charts.0.put("team/db/values.yaml", "a: 1");
    charts.until_polled_again().await;
    let unchanged = bundle().await;
    for field in ["generation", "annotations"] {
        assert_eq!(unchanged["metadata"][field], before["metadata"][field]);
    }

    charts.greet("hi");
    let (second, _) = until_version(&fixture, "1.0.0+", &version).await;
    assert_ne!(first, second);
}

#[tokio::test]
async fn an_archive_is_deployed_as_it_is() {
    let fixture = Fixture::new("bucket", 1).await;
    let charts = Charts::start().await;
    let upload = |version: &str| {
        let mut archive = ArchiveWriter::new(Vec::new());
        let chart = format!("apiVersion: v2\nname: web\nversion: {version}\n");
        archive.add("web/Chart.yaml", chart.as_bytes()).unwrap();
        charts.0.put("team/web.tgz", archive.finish().unwrap());
    };
    upload("1.2.3");
    charts.helmop(&fixture, &json!({ "path": "web.tgz" })).await;
    let (first, version) = until_version(&fixture, "1.2.3", "").await;
    assert_eq!(version, "1.2.3");
    let resolved = fixture
        .until("helmop/web", |found| {
            ensure!(found["status"]["version"] == "1.2.3", "{}", found["status"]);
            Ok(())
        })
        .await;
    assert_eq!(resolved["status"]["resolved"][0]["chart"], "web.tgz");
    upload("1.3.0");
    let (second, _) = until_version(&fixture, "1.3.0", "").await;
    assert_ne!(first, second);
}
