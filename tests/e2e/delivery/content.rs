//! Charts that travel through the management cluster: one Content for all clusters, which is deleted when nothing refers to it any more.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use helmops_api::{Content, labels};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::helm::Helm;
use helmops_bed::helmops::{self, Part};
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::wait::eventually;
use helmops_content::{ContentId, Limits, Manifest, Opened, open};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::standalone::{Fixture, Repository, Suite};
use crate::harness::{SOON, beside_fleet, run};

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
    match open(&head, id, Limits::CHART).unwrap() {
        Opened::Whole(manifest) => manifest,
        Opened::Split(mut assembly) => {
            while let Some(name) = assembly.next_part() {
                let part = object(fixture, &name).await.unwrap().unwrap();
                assembly.add(&part).unwrap();
            }
            assembly.finish().unwrap()
        }
    }
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

#[tokio::test]
async fn a_chart_that_is_larger_than_an_object_is_split() {
    let fixture = fixture(1).await;
    let folder = TempDir::new().unwrap();
    let helm = Helm::new(&fixture.suite.bed.tools, folder.path());
    let large = noise(4 << 20);
    helm.publish(
        "web",
        "1.0.0",
        &[("values.yaml", "a: 1\n"), ("files/large.txt", &large)],
    )
    .await
    .unwrap();
    let server = ChartServer::http(folder.path()).await.unwrap();
    let mut spec = json!({
        "helm": { "repo": server.url(), "chart": "web", "version": "1.0.0" },
        "targets": [{ "clusterGroup": "all" }],
    });
    json_patch::merge(&mut spec, &deliver("Content"));
    fixture
        .apply(&json!({ "kind": "HelmOp", "metadata": { "name": "web" }, "spec": spec }))
        .await;
    let id = until_delivered(&fixture, 0, "1.0.0").await;
    let stored = objects(&fixture, &id).await;
    assert!(stored.len() > 3, "{stored:?}");
    let files = files(&fixture, &id).await;
    let found = files
        .resources
        .iter()
        .find(|file| file.name == "web/files/large.txt");
    assert!(found.unwrap().content == large);

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
