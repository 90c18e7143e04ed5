//! A control plane with all of helmops, the notifier and two replicas of the receiver, with the permissions of the manifests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use helmops_bed::helmops::{self, Part, ReceiverProcess, Running, Webhook};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::metrics::Metrics;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::google::KeyServer;
use crate::harness::{SOON, condition, until};

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The processes, two replicas of the exposed one.
pub struct Suite {
    pub bed: TestBed,
    pub receiver: ReceiverProcess,
    pub second: ReceiverProcess,
    pub notifier: Running,
    pub keys: KeyServer,
    _webhook: Webhook,
    _controller: Running,
    _agent: Running,
}

/// The suite. It ends soon after the last test that uses it.
pub async fn suite() -> InUse<Suite> {
    static SUITE: Shared<Suite> = Shared::new();
    SUITE.get(Suite::start).await.unwrap()
}

impl Suite {
    async fn start() -> Result<Self> {
        let bed = helmops::local_control_plane(true).await?;
        helmops::apply(&bed.kubectl(), &[Part::Notifications]).await?;
        let command = |program: &Path| bed.command(program);
        let webhook = helmops::start_webhook(&bed, "webhook", &command).await?;
        helmops::register_webhook(&bed.kubectl(), &webhook).await?;
        let keys = KeyServer::start().await?;
        let of_notifier = |program: &Path| {
            let mut command = bed.command(program);
            command.env("HELMOPS_GOOGLE_KEYS_URL", keys.url());
            command
        };
        Ok(Self {
            second: helmops::start_receiver(&bed, "receiver-2", &command).await?,
            receiver: helmops::start_receiver(&bed, "receiver", &command).await?,
            _controller: helmops::start_standalone_controller(&bed, "controller", &command).await?,
            _agent: helmops::start_local_agent(&bed, "agent", &command).await?,
            notifier: helmops::start_notifier(&bed, "notifier", &of_notifier).await?,
            _webhook: webhook,
            keys,
            bed,
        })
    }

    /// The number of requests with these labels.
    pub async fn count(&self, receiver_type: &str, result: &str) -> f64 {
        let metrics = Metrics::scrape(&format!("{}/metrics", self.receiver.running.admin))
            .await
            .unwrap();
        let labels = [("type", receiver_type), ("result", result)];
        metrics
            .sum("helmops_receiver_requests_total", &labels)
            .unwrap_or_default()
    }
}

/// A Receiver with a Secret.
pub fn receiver(name: &str, spec: &Value) -> String {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
        "stringData": { "token": TOKEN, "email": "pubsub@my-project.iam.gserviceaccount.com", "audience": "https://hooks.example/charts" },
    });
    let mut all = json!({ "secretRef": { "name": name } });
    json_patch::merge(&mut all, spec);
    let receiver = json!({
        "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": "Receiver", "metadata": { "name": name }, "spec": all,
    });
    format!("{secret}\n---\n{receiver}\n")
}

/// Creates a Receiver, and returns its URL.
pub async fn create(kubectl: &Kubectl, name: &str, spec: &Value) -> String {
    kubectl.apply(&receiver(name, spec)).await.unwrap().ok().unwrap();
    url(kubectl, name).await
}

/// The URL of a Receiver, when it accepts requests.
pub async fn url(kubectl: &Kubectl, name: &str) -> String {
    let receiver = until(kubectl, &format!("receiver/{name}"), |receiver| {
        let ready = condition(receiver, "Ready").context("no condition")?;
        ensure!(ready["status"] == "True", "it is {ready}");
        Ok(())
    })
    .await;
    served(&suite().await.receiver, &receiver).await
}

/// The URL of a Receiver at a replica, when it is served there.
pub async fn served(replica: &ReceiverProcess, receiver: &Value) -> String {
    let path = receiver["status"]["webhookPath"].as_str().unwrap();
    let url = format!("{}{path}", replica.url);
    // The Secret reaches the other process a moment later.
    eventually("the path to be served", SOON, async || {
        let status = Client::new().post(&url).send().await?.status();
        ensure!(status != StatusCode::NOT_FOUND, "it is not served yet");
        Ok(())
    })
    .await
    .unwrap();
    url
}

pub async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

pub fn payload(file: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/notify/src/push/body/testdata");
    std::fs::read(folder.join(file)).unwrap()
}

/// Waits until a push was handled, and returns how many HelmOps it has polled.
pub async fn until_handled(kubectl: &Kubectl, name: &str, push: i64) -> i64 {
    let receiver = until(kubectl, &format!("receiver/{name}"), |receiver| {
        let handled = receiver["status"]["handledPush"].as_i64().unwrap_or_default();
        ensure!(handled >= push, "{handled} is handled");
        Ok(())
    })
    .await;
    receiver["status"]["polled"].as_i64().unwrap_or_default()
}
