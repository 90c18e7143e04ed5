//! Pushes of Google Artifact Registry, whose tokens are verified with keys that the notifier fetches.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::State;
use helmops_bed::metrics::Metrics;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::wait::eventually;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::receiver_suite::{payload, receiver, served, status, suite, until_handled};
use crate::harness::{SOON, condition, helmop, until};

/// The notifier tries again a minute after a failure.
const AFTER_RETRY: Duration = Duration::from_mins(2);

/// Serves the keys of Google, as soon as a test releases them; until then, it does not respond.
pub struct KeyServer {
    address: SocketAddr,
    released: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl KeyServer {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (released, gate) = watch::channel(false);
        let address = listener.local_addr()?;
        let router = Router::new().fallback(keys).with_state(gate);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // It ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            released,
            _tasks: tasks,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}/oauth2/v3/certs", self.address)
    }
}

async fn keys(State(mut gate): State<watch::Receiver<bool>>) -> Vec<u8> {
    // It fails only if the server is dropped.
    let _ = gate.wait_for(|released| *released).await;
    testdata("google-keys.json")
}

fn testdata(file: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/notify/src/push/testdata");
    std::fs::read(folder.join(file)).unwrap()
}

/// A push with a token that Google's key has signed polls the chart. Without keys, and with any other token, it is refused.
#[tokio::test]
async fn a_push_of_google_needs_a_token_that_a_fetched_key_verifies() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "google").await.unwrap();
    let kubectl = namespace.kubectl();
    let spec = json!({
        "helm": { "repo": "oci://us-east1-docker.pkg.dev/my-project/charts/web", "version": "1.x" }, "targets": [{ "clusterSelector": {} }],
    });
    kubectl.apply(&helmop("web", &spec)).await.unwrap().ok().unwrap();
    let spec = json!({ "type": "gcr", "resources": [{ "name": "web" }] });
    kubectl
        .apply(&receiver("gcr", &spec))
        .await
        .unwrap()
        .ok()
        .unwrap();
    let tokens: Value = serde_json::from_slice(&testdata("google-tokens.json")).unwrap();
    let tokens = tokens.as_object().unwrap();

    // Before there are keys.
    let found = until(kubectl, "receiver/gcr", |receiver| {
        let ready = condition(receiver, "Ready").context("no condition")?;
        ensure!(ready["reason"] == "GoogleKeysNotFetched", "it is {ready}");
        ensure!(ready["status"] == "False", "it is {ready}");
        Ok(())
    })
    .await;
    let url = served(&suite.receiver, &found).await;
    let push = async |case: &str| {
        let token = tokens[case].as_str().unwrap();
        status(
            Client::new()
                .post(&url)
                .bearer_auth(token)
                .body(payload("gcr.json")),
        )
        .await
    };
    assert_eq!(push("valid").await, 401, "without keys nothing is accepted");

    suite.keys.released.send_replace(true);
    eventually("the keys to be fetched", AFTER_RETRY, async || {
        let receiver = kubectl.get("receiver/gcr").await?.context("none")?;
        let ready = condition(&receiver, "Ready").context("no condition")?;
        ensure!(ready["status"] == "True", "it is {ready}");
        Ok(())
    })
    .await
    .unwrap();
    let refused = suite.count("gcr", "unauthorized").await;
    let wrong: Vec<_> = tokens
        .keys()
        .filter(|case| !["valid", "issuer without scheme"].contains(&&***case))
        .collect();
    assert!(wrong.len() >= 9, "{wrong:?}");
    for case in &wrong {
        assert_eq!(push(case).await, 401, "{case}");
    }
    let counted = suite.count("gcr", "unauthorized").await - refused;
    let expected = f64::from(u32::try_from(wrong.len()).unwrap());
    assert!((counted - expected).abs() < 0.5, "{counted}");

    // The keys in the Secret reach the exposed process a moment later than the status.
    eventually("the push to be accepted", SOON, async || {
        let status = push("valid").await;
        ensure!(status == 202, "{status}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(until_handled(kubectl, "gcr", 1).await, 1);
    let helmop = kubectl.get("helmop/web").await.unwrap().unwrap();
    let requested = helmop["metadata"]["annotations"]["helmops.fleet.cattle.io/poll-requested-at"].as_str();
    assert!(
        requested.is_some_and(|token| token.starts_with("push-")),
        "{helmop}"
    );
    assert_eq!(push("valid").await, 200, "a replay");
    let metrics = Metrics::scrape(&format!("{}/metrics", suite.notifier.admin))
        .await
        .unwrap();
    let fetches = metrics.sum(
        "helmops_notifier_google_key_fetches_total",
        &[("result", "success")],
    );
    assert!(fetches.is_some_and(|fetches| fetches > 0.5), "{fetches:?}");
}
