//! Charts that travel through the management cluster: one Content for all clusters, which is deleted when nothing refers to it any more.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use axum::http::StatusCode;
use helmops_api::{Content, labels};
use helmops_bed::chart_server::{ChartServer, FixedResponse};
use helmops_bed::helm::Helm;
use helmops_bed::helmops::{self, Part};
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::wait::eventually;
use helmops_content::{ContentId, Limits, Manifest, Opened, open};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::standalone::{Fixture, Repository, Suite};
use crate::harness::{SOON, beside_fleet, condition, run};

/// What is not used any more is deleted after the shortest time that is allowed.
const FLAGS: [(&str, &str); 2] = [
    ("HELMOPS_MIN_POLLING_INTERVAL", "1s"),
    ("HELMOPS_CONTENT_GRACE_PERIOD", "5s"),
];

async fn suite() -> InUse<Suite> {
    static SUITE: Shared<Suite> = Shared::new();
    let start = async || {
        let bed = helmops::control_plane_with(&[Part::Standalone], false).await?;
        Suite::on(bed, &FLAGS).await
    };
    SUITE.get(start).await.unwrap()
}

async fn fixture(clusters: usize) -> Fixture {
    Fixture::in_suite(suite().await, "content", clusters).await
}

fn deliver(delivery: &str) -> Value {
    json!({ "chartSource": { "deliver": delivery } })
}

/// The ID of the content that a BundleDeployment deploys.
fn content_of(deployment: &Value) -> Option<ContentId> {
    helmops_content::deployment_content(deployment["spec"]["deploymentID"].as_str()?)
}

/// Waits until the deployment on a cluster has some content in a version, and returns its ID.
async fn until_delivered(fixture: &Fixture, cluster: usize, version: &str) -> ContentId {
    let deployment = fixture
        .until_on(cluster, "bundledeployment/web", |found| {
            ensure!(content_of(found).is_some(), "{}", found["spec"]["deploymentID"]);
            let desired = &found["spec"]["options"]["helm"]["version"];
            ensure!(desired == version, "it is {desired}");
            Ok(())
        })
        .await;
    content_of(&deployment).unwrap()
}

async fn object(fixture: &Fixture, name: &str) -> Result<Option<Content>> {
    let found = fixture
        .suite
        .bed
        .kubectl()
        .get(&format!("content/{name}"))
        .await?;
    Ok(found
        .map(|found| serde_json::from_str(&found.to_string()))
        .transpose()?)
}

/// The files of some content, as an agent reads them.
async fn files(fixture: &Fixture, id: &ContentId) -> Manifest {
    let head = object(fixture, id.as_str()).await.unwrap().unwrap();
    let compressed = match open(&head, id, Limits::CHART).unwrap() {
        Opened::Whole(compressed) => compressed,
        Opened::Split(mut parts) => {
            let mut compressed = Vec::new();
            while let Some(name) = parts.next_name() {
                let part = object(fixture, &name).await.unwrap().unwrap();
                compressed.extend(parts.read(&part).unwrap());
            }
            compressed
        }
    };
    Manifest::decompress(&*compressed, id, Limits::CHART).unwrap()
}

/// The objects of some content.
async fn objects(fixture: &Fixture, id: &ContentId) -> BTreeSet<String> {
    let names = run(
        &fixture.namespace,
        &["get", "contents", "-l", labels::CONTENT, "-o", "name"],
    )
    .await;
    let names = names.lines().filter_map(|line| line.rsplit('/').next());
    let of_id = |name: &&str| ContentId::of_object(name).as_ref() == Some(id);
    names.filter(of_id).map(str::to_owned).collect()
}

async fn until_collected(fixture: &Fixture, id: &ContentId) {
    eventually("its deletion", SOON, async || {
        let left = objects(fixture, id).await;
        ensure!(left.is_empty(), "there are {left:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_chart_is_one_content_for_all_clusters_until_nothing_needs_it() {
    let fixture = fixture(3).await;
    let repository = Repository::new(&fixture).await;
    repository.helmop(&fixture, &deliver("Content")).await;
    let first = until_delivered(&fixture, 0, "1.0.0").await;
    for cluster in 0..3 {
        assert_eq!(until_delivered(&fixture, cluster, "1.0.0").await, first);
        let deployment = fixture.deployment(cluster, "web").await;
        let spec = &deployment["spec"];
        assert_eq!(spec.get("helmChartOptions"), None, "{spec}");
        assert_eq!(
            spec["options"]["helm"],
            json!({ "chart": "web", "version": "1.0.0" })
        );
    }
    assert_eq!(objects(&fixture, &first).await.len(), 1);
    let files = files(&fixture, &first).await;
    let paths: Vec<_> = files.resources.iter().map(|file| &*file.name).collect();
    assert!(
        paths.contains(&"web/Chart.yaml") && paths.contains(&"web/values.yaml"),
        "{paths:?}"
    );

    // Each cluster gets the new version, so the old content is not needed.
    repository.add("1.1.0").await;
    let second = until_delivered(&fixture, 0, "1.1.0").await;
    assert_ne!(first, second);
    until_collected(&fixture, &first).await;
    assert_eq!(objects(&fixture, &second).await.len(), 1, "it is in use");

    fixture.kubectl(&["delete", "helmop/web"]).await;
    for cluster in 0..3 {
        fixture.until_none_on(cluster, "bundledeployment/web").await;
    }
    until_collected(&fixture, &second).await;
}

#[tokio::test]
async fn helmops_with_the_same_files_share_a_content() {
    let fixture = fixture(1).await;
    let repository = Repository::new(&fixture).await;
    repository.helmop(&fixture, &deliver("Content")).await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    let mut spec = json!({
        "helm": { "repo": repository.server.url(), "chart": "web", "version": "1.0.0" },
        "targets": [{ "clusterGroup": "all" }],
    });
    json_patch::merge(&mut spec, &deliver("Content"));
    fixture
        .apply(&json!({ "kind": "HelmOp", "metadata": { "name": "second" }, "spec": spec }))
        .await;
    let second = fixture.deployment(0, "second").await;
    assert_eq!(content_of(&second), Some(id.clone()));
    assert_eq!(objects(&fixture, &id).await.len(), 1);
    let used = object(&fixture, id.as_str()).await.unwrap().unwrap();
    let annotations = used.metadata.annotations.clone().unwrap();
    assert!(
        annotations.contains_key(labels::CONTENT_USED_AT),
        "no deletion may follow from before"
    );
}

#[tokio::test]
async fn a_helmop_switches_to_content_and_back() {
    let fixture = fixture(2).await;
    let repository = Repository::new(&fixture).await;
    let secret = json!({ "username": "u", "password": "p" });
    fixture.secret("access", &secret).await;
    let over = json!({ "helmSecretName": "access" });
    let with_access = |delivery: &str| {
        let mut over = over.clone();
        json_patch::merge(&mut over, &deliver(delivery));
        over
    };
    repository.helmop(&fixture, &over).await;
    let direct = fixture.deployment(0, "web").await;
    let access = direct["spec"]["helmChartOptions"]["helmOpSecretName"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(direct["spec"]["deploymentID"].as_str().unwrap().starts_with(':'));
    fixture.until_on(0, &format!("secret/{access}"), |_| Ok(())).await;

    repository.helmop(&fixture, &with_access("Content")).await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    let delivered = fixture.deployment(0, "web").await;
    assert_eq!(delivered["spec"].get("helmChartOptions"), None);
    // Credentials are only where they are needed.
    fixture.until_none_on(0, &format!("secret/{access}")).await;

    repository.helmop(&fixture, &with_access("Direct")).await;
    fixture
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(
                found["spec"]["deploymentID"] == direct["spec"]["deploymentID"],
                "{}",
                found["spec"]
            );
            ensure!(found["spec"]["helmChartOptions"] == direct["spec"]["helmChartOptions"]);
            ensure!(found["spec"]["options"] == direct["spec"]["options"]);
            Ok(())
        })
        .await;
    until_collected(&fixture, &id).await;
}

#[tokio::test]
async fn content_that_a_user_deletes_is_written_again() {
    let fixture = fixture(1).await;
    let repository = Repository::new(&fixture).await;
    repository.helmop(&fixture, &deliver("Content")).await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    fixture.kubectl(&["delete", &format!("content/{id}")]).await;
    eventually("the content", SOON, async || {
        ensure!(object(&fixture, id.as_str()).await?.is_some(), "it is gone");
        Ok(())
    })
    .await
    .unwrap();
}

/// Text that compresses to three quarters of its length.
fn noise(bytes: usize) -> String {
    let mut state = 7_u64;
    let alphabet: Vec<char> = ('a'..='z')
        .chain('A'..='Z')
        .chain('0'..='9')
        .chain(['-', '_'])
        .collect();
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        alphabet[usize::try_from(state % 64).unwrap()]
    };
    (0..bytes).map(step).collect()
}

/// The chart `web` 1.0.0 with files that no other test has, and its HelmOps.
struct OwnChart {
    server: ChartServer,
    _folder: TempDir,
}

impl OwnChart {
    async fn new(fixture: &Fixture, files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let helm = Helm::new(&fixture.suite.bed.tools, folder.path());
        let own = [("files/test.txt", fixture.namespace.name())];
        let files = [&own[..], files].concat();
        helm.publish("web", "1.0.0", &files).await.unwrap();
        Self {
            server: ChartServer::http(folder.path()).await.unwrap(),
            _folder: folder,
        }
    }

    async fn helmop(&self, fixture: &Fixture, name: &str) {
        let mut spec = json!({
            "helm": { "repo": self.server.url(), "chart": "web", "version": "1.0.0" },
            "targets": [{ "clusterGroup": "all" }],
        });
        json_patch::merge(&mut spec, &deliver("Content"));
        fixture
            .apply(&json!({ "kind": "HelmOp", "metadata": { "name": name }, "spec": spec }))
            .await;
    }

    fn downloads(&self) -> u64 {
        self.server.requests("/web-1.0.0.tgz")
    }
}

/// Waits until an object is there and `check` accepts it.
async fn until_object(fixture: &Fixture, name: &str, check: impl Fn(&Content) -> Result<()>) {
    eventually("the content", SOON, async || {
        check(&object(fixture, name).await?.context("it is gone")?)
    })
    .await
    .unwrap();
}

/// The poll has failed, what is deployed stays, and a change that needs no other version is deployed.
#[tokio::test]
async fn a_newer_version_that_cannot_be_stored_is_a_failed_poll() {
    let fixture = fixture(1).await;
    let repository = Repository::new(&fixture).await;
    repository.helmop(&fixture, &deliver("Content")).await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    let missing = FixedResponse {
        status: StatusCode::NOT_FOUND,
        content_type: "text/plain",
        body: String::new(),
    };
    repository.server.set_response("/web-1.1.0.tgz", missing);
    repository.add("1.1.0").await;
    let is_failed = |found: &Value| {
        let accepted = condition(found, "Accepted").context("not accepted")?;
        ensure!(accepted["status"] == "True", "{accepted}");
        let polled = condition(found, "Polled").context("not polled")?;
        let message = polled["message"].as_str().unwrap_or_default();
        let start = "there is a newer version, which is not deployed: the chart cannot be stored";
        ensure!(
            polled["status"] == "False" && message.starts_with(start),
            "{polled}"
        );
        Ok(())
    };
    fixture.until("helmop/web", is_failed).await;
    let over = json!({ "helm": { "values": { "a": 1 } } });
    fixture.patch("helmop/web", &json!({ "spec": over })).await;
    fixture
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(found["spec"]["valuesHash"].is_string(), "{}", found["spec"]);
            ensure!(content_of(found).as_ref() == Some(&id));
            Ok(())
        })
        .await;
    fixture.until("helmop/web", is_failed).await;
}

/// It may refer to what it names, and keeps nothing else.
#[tokio::test]
async fn a_bundle_that_does_not_decode_stops_no_deletion() {
    let fixture = fixture(1).await;
    // The CRD allows any integer; this one is more than the field holds.
    let spec = json!({ "rolloutStrategy": { "maxUnavailable": 5_000_000_000_u64 } });
    fixture
        .apply(&json!({ "kind": "Bundle", "metadata": { "name": "invalid" }, "spec": spec }))
        .await;
    let chart = OwnChart::new(&fixture, &[]).await;
    chart.helmop(&fixture, "web").await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    fixture.kubectl(&["delete", "helmop/web"]).await;
    until_collected(&fixture, &id).await;
}

#[tokio::test]
async fn content_that_was_changed_is_written_again_when_it_is_used() {
    let fixture = fixture(1).await;
    let chart = OwnChart::new(&fixture, &[]).await;
    chart.helmop(&fixture, "web").await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    let before = object(&fixture, id.as_str()).await.unwrap().unwrap();
    let change = json!({ "content": "YQ==", "metadata": { "annotations": { labels::CONTENT_PARTS: "x" } } });
    fixture.patch(&format!("content/{id}"), &change).await;
    chart.helmop(&fixture, "second").await;
    until_object(&fixture, id.as_str(), |found| {
        ensure!(found.content == before.content, "it is {:?}", found.content);
        let annotations = found.metadata.annotations.as_ref().context("no annotations")?;
        ensure!(!annotations.contains_key(labels::CONTENT_PARTS));
        Ok(())
    })
    .await;
    let second = fixture.deployment(0, "second").await;
    assert_eq!(content_of(&second), Some(id));
}

/// As Fleet does, which writes no label. It may be deleted at any time.
#[tokio::test]
async fn content_of_another_client_is_used_and_replaced_when_it_is_gone() {
    let fixture = fixture(1).await;
    let chart = OwnChart::new(&fixture, &[]).await;
    chart.helmop(&fixture, "web").await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    let own = object(&fixture, id.as_str()).await.unwrap().unwrap();
    fixture.kubectl(&["delete", "helmop/web"]).await;
    fixture.until_none_on(0, "bundledeployment/web").await;
    until_collected(&fixture, &id).await;

    let other = json!({
        "kind": "Content", "metadata": { "name": id.as_str() }, "content": own.content, "sha256sum": own.sha256sum,
    });
    fixture.apply(&other).await;
    let role = |role: &'static str| {
        move |found: &Content| {
            let found = labels::of(&found.metadata, labels::CONTENT);
            ensure!(found == Some(role), "it is {found:?}");
            Ok(())
        }
    };
    chart.helmop(&fixture, "web").await;
    assert_eq!(until_delivered(&fixture, 0, "1.0.0").await, id);
    until_object(&fixture, id.as_str(), role(labels::CONTENT_SHARED)).await;
    // A change that needs no other chart downloads none.
    let downloads = chart.downloads();
    fixture
        .patch(
            "helmop/web",
            &json!({ "spec": { "helm": { "values": { "a": 1 } } } }),
        )
        .await;
    fixture
        .until_on(0, "bundledeployment/web", |found| {
            ensure!(found["spec"]["valuesHash"].is_string(), "{}", found["spec"]);
            Ok(())
        })
        .await;
    assert_eq!(chart.downloads(), downloads);

    fixture.kubectl(&["delete", &format!("content/{id}")]).await;
    until_object(&fixture, id.as_str(), role(labels::CONTENT_HEAD)).await;
}

#[tokio::test]
async fn a_chart_that_is_larger_than_an_object_is_split() {
    let fixture = fixture(1).await;
    let large = noise(4 << 20);
    let chart = OwnChart::new(&fixture, &[("files/large.txt", &large)]).await;
    chart.helmop(&fixture, "web").await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    let stored = objects(&fixture, &id).await;
    assert!(stored.len() > 3, "{stored:?}");
    let files = files(&fixture, &id).await;
    let found = files
        .resources
        .iter()
        .find(|file| file.name == "web/files/large.txt");
    assert!(found.unwrap().content == large);

    // A part that is gone is written again.
    let part = stored.iter().find(|name| **name != id.as_str()).unwrap();
    fixture.kubectl(&["delete", &format!("content/{part}")]).await;
    until_object(&fixture, part, |_| Ok(())).await;

    fixture.kubectl(&["delete", "helmop/web"]).await;
    until_collected(&fixture, &id).await;
}

#[tokio::test]
async fn a_policy_decides_how_charts_are_delivered() {
    let fixture = fixture(1).await;
    let repository = Repository::new(&fixture).await;
    let policy = |allowed: &[&str]| {
        let helm_op = json!({ "allowedDelivery": allowed });
        json!({ "kind": "Policy", "metadata": { "name": "delivery" }, "helmOp": helm_op })
    };
    fixture.apply(&policy(&["Direct"])).await;
    repository.helmop(&fixture, &deliver("Content")).await;
    let text = beside_fleet::until_refused(&fixture.namespace, "web", "PolicyViolation").await;
    assert!(
        text.contains("spec.chartSource.deliver") && text.contains("allowedDelivery of Policy \"delivery\""),
        "{text}"
    );
    fixture.apply(&policy(&["Content"])).await;
    until_delivered(&fixture, 0, "1.0.0").await;
}

#[tokio::test]
async fn fleets_bundle_controller_is_no_way_for_content() {
    let suite = beside_fleet::suite().await;
    let server = ChartServer::http(suite.charts.folder()).await.unwrap();
    let namespace = TestNamespace::create(&suite.bed, "content").await.unwrap();
    let mut spec = json!({ "helm": { "repo": server.url(), "chart": "alpine", "version": "0.1.0" } });
    json_patch::merge(&mut spec, &deliver("Content"));
    beside_fleet::apply(&namespace, "web", &spec).await;
    let text = beside_fleet::until_refused(&namespace, "web", "ContentUnsupported").await;
    assert!(
        text.contains("--controllers=helmop,bundle") && text.contains("Direct"),
        "{text}"
    );
    beside_fleet::assert_no_bundle(&namespace, "web").await;
}
