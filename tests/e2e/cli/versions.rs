//! Charts with unusual versions: promoted by an entry in the index, so that `Chart.yaml` still has the version of the candidate, or with
//! two numbers.

use serde_json::{Value, json};

use super::environment::Environment;
use crate::harness::agent::CONFIG;

/// Publishes `candidate` as `version`. The index lists nothing else.
async fn promote(environment: &Environment, versions: &[(&str, &str)]) {
    let charts = &environment.cluster.charts;
    let mut entries = Vec::new();
    for (version, candidate) in versions {
        charts.web(candidate, &[("config", CONFIG)]).await;
        let url = format!("web-{candidate}.tgz");
        entries.push(json!({ "apiVersion": "v2", "name": "web", "version": version, "urls": [url] }));
    }
    let index = json!({ "apiVersion": "v1", "entries": { "web": entries } });
    charts.file("index.yaml", index.to_string().as_bytes());
}

/// The version in `Chart.yaml` of a revision, and the resolved one that is recorded beside it.
async fn recorded(environment: &Environment, revision: u64) -> (String, Value) {
    let (_, record) = environment.cluster.record("shop", revision).await.unwrap();
    let metadata = record.chart_metadata();
    let resolved = metadata["annotations"]["helmops.fleet.cattle.io/resolved-version"].clone();
    (metadata["version"].as_str().unwrap().to_owned(), resolved)
}

/// A user's Helm deploys such a chart, the agent adopts the release, upgrades it once, keeps it over a restart, and goes back to a
/// version that the index has.
#[tokio::test]
async fn a_promoted_chart_is_adopted_upgraded_and_rolled_back() {
    let mut environment = Environment::new("promoted").await;
    promote(&environment, &[("1.2.3", "1.2.3-rc.4"), ("1.3.0", "1.3.0-rc.1")]).await;
    let url = environment.cluster.charts.url();
    let install = ["install", "shop", "web", "--repo", &url, "--version=1.2.3"];
    environment.user_helm(&install).await;

    let release = format!("{}/shop", environment.apps());
    let mut adopt = vec!["create", "web", "--from-release", &release, "--repo", &url];
    adopt.push("--cluster=c0");
    let error = environment.fails(2, &adopt).await;
    assert!(
        error.contains("1.2.3-rc.4") && error.contains("--version"),
        "{error}"
    );
    adopt.push("--version=1.2.3");
    environment.ok(&adopt).await;
    environment.until_revision("web", "shop", 1).await;
    assert_eq!(environment.cluster.helm_runs_of("shop"), ["render"]);
    let expected = ("1.2.3-rc.4".to_owned(), json!("1.2.3"));
    assert_eq!(recorded(&environment, 1).await, expected);

    let change =
        json!({ "spec": { "helm": { "version": "1.3.0" }, "lifecycle": { "upgrade": { "retries": 1 } } } });
    environment.helmops.patch("helmop/web", &change).await;
    environment.until_revision("web", "shop", 2).await;
    let expected = ("1.3.0-rc.1".to_owned(), json!("1.3.0"));
    assert_eq!(recorded(&environment, 2).await, expected);
    let ready = environment.ok(&["wait", "web", "--for=version=1.3.0"]).await;
    assert!(
        ready.ends_with("version 1.3.0, 1 of 1 clusters ready\n"),
        "{ready}"
    );
    let tree = environment.ok(&["tree", "web", "--clusters=all"]).await;
    assert!(tree.contains("runs web 1.3.0, revision 2"), "{tree}");

    // Helm's record has another version than the options: that is no difference.
    let runs = environment.cluster.helm_runs_of("shop");
    environment.agent.process.kill().await.unwrap();
    environment.agent = environment.cluster.start().await;
    environment.agent.until_reconciled(1).await;
    environment.ok(&["reconcile", "web"]).await;
    assert_eq!(environment.cluster.helm_runs_of("shop"), runs);
    assert_eq!(environment.cluster.records().await.len(), 2);

    let back = environment.ok(&["rollback", "web"]).await;
    assert!(
        back.contains("spec.helm.version is \"1.2.3\" now, \"1.3.0\" before"),
        "{back}"
    );
    environment.until_revision("web", "shop", 3).await;
    let expected = ("1.2.3-rc.4".to_owned(), json!("1.2.3"));
    assert_eq!(recorded(&environment, 3).await, expected);
}

/// In a version field `1.2` is a range, unless the index has that very version.
#[tokio::test]
async fn a_chart_whose_version_has_two_numbers_is_deployed() {
    let environment = Environment::new("two-part").await;
    promote(&environment, &[("1.2", "1.2"), ("1.2.5", "1.2.5")]).await;
    let url = environment.cluster.charts.url();
    let mut create = vec!["create", "web", "--repo", &url, "--chart=web", "--cluster=c0"];
    let namespace = format!("--target-namespace={}", environment.apps());
    create.extend(["--version=1.2", "--release-name=shop", &namespace]);
    environment.ok(&create).await;
    let deployment = environment.until_revision("web", "shop", 1).await;
    assert_eq!(deployment["spec"]["options"]["helm"]["version"], "1.2");
    assert_eq!(recorded(&environment, 1).await, ("1.2".to_owned(), Value::Null));
    environment
        .ok(&["wait", "web", "--for=version=1.2", "--timeout=20s"])
        .await;

    // Without it, the field is a range again.
    promote(&environment, &[("1.2.5", "1.2.5")]).await;
    environment.ok(&["poll", "web"]).await;
    let deployment = environment.until_revision("web", "shop", 2).await;
    assert_eq!(deployment["spec"]["options"]["helm"]["version"], "1.2.5");
}
