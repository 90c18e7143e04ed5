//! Several replicas of the exposed process, which know nothing of each other but the status of Receivers.

use anyhow::{Context, ensure};
use futures::future::join_all;
use helmops_bed::namespace::TestNamespace;
use reqwest::Client;
use serde_json::{Value, json};

use super::receiver_suite::{TOKEN, create, served, status, suite, until_handled};
use crate::harness::{helmop, until};

const CHARTS: usize = 10;

fn push(url: &str, chart: usize) -> reqwest::RequestBuilder {
    let body = json!({ "repository": format!("registry.example/charts/web-{chart}"), "tag": "1.2.3" });
    Client::new().post(url).bearer_auth(TOKEN).body(body.to_string())
}

/// The annotation with which a HelmOp was polled last.
fn requested(helmop: &Value) -> Option<&str> {
    helmop["metadata"]["annotations"]["helmops.fleet.cattle.io/poll-requested-at"].as_str()
}

/// Both replicas write the same status at the same time, and no push is lost. The memory of handled requests is that of a replica, so a
/// request that is repeated at the other one is another push: it polls the same chart once more, and changes nothing else.
#[tokio::test]
async fn each_replica_records_its_pushes_and_a_replay_at_another_one_polls_once_more() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "replicas").await.unwrap();
    let kubectl = namespace.kubectl();
    for chart in 0..CHARTS {
        let repo = format!("oci://registry.example/charts/web-{chart}");
        let spec = json!({ "helm": { "repo": repo, "version": "1.x" }, "pollingInterval": "0s", "targets": [{ "clusterSelector": {} }] });
        let name = format!("web-{chart}");
        kubectl.apply(&helmop(&name, &spec)).await.unwrap().ok().unwrap();
    }
    let first = create(kubectl, "shared", &json!({ "type": "generic" })).await;
    let receiver = kubectl.get("receiver/shared").await.unwrap().unwrap();
    let second = served(&suite.second, &receiver).await;

    let pushes = (0..CHARTS).map(|chart| {
        let url = if chart % 2 == 0 { &first } else { &second };
        status(push(url, chart))
    });
    assert_eq!(join_all(pushes).await, vec![202; CHARTS]);
    for chart in 0..CHARTS {
        until(kubectl, &format!("helmop/web-{chart}"), |helmop| {
            requested(helmop).context("it was not polled").map(drop)
        })
        .await;
    }
    until_handled(kubectl, "shared", 10).await;
    let handled = kubectl.get("receiver/shared").await.unwrap().unwrap();
    assert_eq!(
        handled["status"]["handledPush"], 10,
        "each push has a number of its own: {handled}"
    );

    // The same request again.
    assert_eq!(status(push(&first, 0)).await, 200, "this replica has handled it");
    let before = kubectl.get("helmop/web-0").await.unwrap().unwrap();
    assert_eq!(status(push(&second, 0)).await, 202, "this one does not know it");
    assert_eq!(
        until_handled(kubectl, "shared", 11).await,
        1,
        "one HelmOp is polled"
    );
    let after = until(kubectl, "helmop/web-0", |helmop| {
        ensure!(requested(helmop) != requested(&before), "it was not polled again");
        Ok(())
    })
    .await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(after["status"]["version"], before["status"]["version"]);
    assert_eq!(status(push(&second, 0)).await, 200, "now both know it");
}
