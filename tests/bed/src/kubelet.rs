//! A simulated node: gives the control plane a scheduler and a kubelet, without containers.
//!
//! Every pod is bound to the node, and immediately gets the status that its annotations choose (see [`behavior`]): by default a pod
//! runs and is ready, and one that is not restarted, as those of Jobs and of chart tests, succeeds. Deployments, StatefulSets,
//! DaemonSets and Jobs are those of the real kube-controller-manager, which sees nothing but these statuses.
//!
//! ```text
//! watch of pods ─► a task for each pod: bind, then write its status when time or annotations change it; confirm its deletion
//!              └─► logs ◄── kube-apiserver, for kubectl logs
//! ```

pub mod behavior;
mod logs;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::logs::Logs;
use crate::api::{Api, value_at};
use crate::cluster::Cluster;
use crate::wait::eventually;

/// The name of the node.
pub const NODE: &str = "node";

/// The controller manager considers a node lost after 40 seconds without a renewal.
const RENEWAL: Duration = Duration::from_secs(10);
/// Pause before a failed request is repeated.
const RETRY: Duration = Duration::from_millis(200);
/// The API server creates the namespace of the leases within a second.
const REGISTRATION: Duration = Duration::from_secs(30);
/// Pods in one /24 of addresses.
const SUBNET: u32 = 250;

/// The node; it is lost when this value is dropped.
#[derive(Debug)]
pub struct Kubelet {
    _tasks: JoinSet<()>,
}

impl Kubelet {
    /// Registers the node, and runs every pod of the control plane from now on.
    ///
    /// # Errors
    /// If the node cannot be registered.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let api = Api::new(cluster)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        register(&api, port).await?;
        let logs = Logs::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(logs::server(listener, logs.clone())?);
        tasks.spawn(renew(api.clone()));
        tasks.spawn(Pods::new(api, logs).run());
        Ok(Self { _tasks: tasks })
    }
}

async fn register(api: &Api, port: u16) -> Result<()> {
    let now = Timestamp::now().to_string();
    let amounts = json!({ "cpu": "64", "memory": "256Gi", "pods": "10000", "ephemeral-storage": "1Ti" });
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": NODE, "labels": {
            "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        } },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        },
    });
    api.call(Method::POST, "api/v1/nodes", node).await?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": NODE },
        "spec": { "holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": micro_time() },
    });
    eventually("the namespace of the node's Lease", REGISTRATION, async || {
        api.call(Method::POST, LEASES, lease.clone()).await.map(drop)
    })
    .await
}

const LEASES: &str = "apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn micro_time() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Times of pods have whole seconds.
fn seconds() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

async fn renew(api: Api) {
    loop {
        sleep(RENEWAL).await;
        let renewed = json!({ "spec": { "renewTime": micro_time() } });
        // While the control plane stops, or is stopped by a test, nothing can be done about it.
        let _ = api
            .call(Method::PATCH, &format!("{LEASES}/{NODE}"), renewed)
            .await;
    }
}

/// The pods, by UID, each with a task that gets every change.
struct Pods {
    api: Api,
    logs: Logs,
    known: HashMap<String, watch::Sender<Value>>,
    tasks: JoinSet<()>,
    /// The number of pods so far, for their addresses.
    count: u32,
}

impl Pods {
    fn new(api: Api, logs: Logs) -> Self {
        let (known, tasks) = (HashMap::new(), JoinSet::new());
        Self {
            api,
            logs,
            known,
            tasks,
            count: 0,
        }
    }

    /// Lists and watches pods, again and again: a watch ends after some minutes, and when the API server is restarted.
    async fn run(mut self) {
        loop {
            // While the control plane stops, or is stopped by a test, nothing can be done about it.
            let _ = self.list_and_watch().await;
            sleep(RETRY).await;
        }
    }

    async fn list_and_watch(&mut self) -> Result<()> {
        let list = self.api.get("api/v1/pods").await?;
        let pods = list.get("items").and_then(Value::as_array).context("no list")?;
        let listed: Vec<_> = pods.iter().map(uid).collect();
        self.known.retain(|uid, _| listed.contains(uid));
        for pod in pods {
            self.changed(pod.clone());
        }
        let version = value_at(&list, "/metadata/resourceVersion");
        let version = version.as_str().context("the list has no version")?;
        let path = format!("api/v1/pods?watch=true&resourceVersion={version}");
        let mut events = self.api.open(&path).await?;
        let mut buffer = Vec::new();
        while let Some(chunk) = events.chunk().await? {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = buffer.drain(..=end).collect();
                self.event(serde_json::from_slice(&line)?)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, mut event: Value) -> Result<()> {
        let pod = event.get_mut("object").map(Value::take).unwrap_or_default();
        match event.get("type").and_then(Value::as_str) {
            Some("ADDED" | "MODIFIED") => self.changed(pod),
            Some("DELETED") => {
                let (namespace, name) = name(&pod);
                self.logs.remove(&namespace, &name);
                self.known.remove(&uid(&pod));
            }
            // Such as an expired resource version.
            _ => anyhow::bail!("{event}"),
        }
        Ok(())
    }

    fn changed(&mut self, pod: Value) {
        while self.tasks.try_join_next().is_some() {}
        let (namespace, name) = name(&pod);
        self.logs.set(&namespace, &name, behavior::log(&pod));
        let uid = uid(&pod);
        if let Some(known) = self.known.get(&uid) {
            known.send_replace(pod);
            return;
        }
        self.count += 1;
        let address = format!(
            "10.64.{}.{}",
            self.count / SUBNET % SUBNET,
            1 + self.count % SUBNET
        );
        let path = format!("api/v1/namespaces/{namespace}/pods/{name}");
        let (sender, changes) = watch::channel(pod);
        self.known.insert(uid, sender);
        let api = self.api.clone();
        let pod = Pod { api, path, address };
        self.tasks.spawn(pod.run(changes));
    }
}

fn uid(pod: &Value) -> String {
    value_at(pod, "/metadata/uid")
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn name(pod: &Value) -> (String, String) {
    let text = |pointer| value_at(pod, pointer).as_str().unwrap_or_default().to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}

/// A pod that runs.
struct Pod {
    api: Api,
    /// Its path at the API server.
    path: String,
    address: String,
}

impl Pod {
    /// Runs the pod until it is gone.
    async fn run(self, mut changes: watch::Receiver<Value>) {
        let (start, started) = (Instant::now(), seconds());
        let mut written = None;
        let mut is_bound = false;
        loop {
            let pod = changes.borrow_and_update().clone();
            if !is_bound {
                is_bound = value_at(&pod, "/spec/nodeName").is_string() || self.bind(&pod).await.is_ok();
            }
            let mut wait = (!is_bound).then_some(RETRY);
            if value_at(&pod, "/metadata/deletionTimestamp").is_string() {
                wait = self.delete(&pod).await.err().map(|_| RETRY);
            } else if is_bound && !is_over(&pod) {
                let (state, next) = behavior::state(&pod, start.elapsed());
                wait = next;
                if written.as_ref() != Some(&state) {
                    let status = behavior::status(&pod, &state, &self.address, &started, &seconds());
                    match self.send(Method::PATCH, "/status", status).await {
                        Ok(()) => written = Some(state),
                        Err(_) => wait = Some(RETRY),
                    }
                }
            }
            let gone = match wait {
                Some(wait) => tokio::select! {
                    result = changes.changed() => result.is_err(),
                    () = sleep(wait) => false,
                },
                None => changes.changed().await.is_err(),
            };
            if gone {
                return;
            }
        }
    }

    async fn bind(&self, pod: &Value) -> Result<()> {
        let (_, name) = name(pod);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NODE },
        });
        self.send(Method::POST, "/binding", binding).await
    }

    /// Confirms a deletion. Finalizers may keep the object after that.
    async fn delete(&self, pod: &Value) -> Result<()> {
        if value_at(pod, "/metadata/deletionGracePeriodSeconds") == 0 {
            return Ok(());
        }
        let options = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": uid(pod) } });
        self.send(Method::DELETE, "", options).await
    }

    /// Sends a request for the pod. A pod that does not exist any more needs none.
    async fn send(&self, method: Method, subresource: &str, body: Value) -> Result<()> {
        let status = self
            .api
            .status_of(method, &format!("{}{subresource}", self.path), &body)
            .await?;
        anyhow::ensure!(status.is_success() || status == StatusCode::NOT_FOUND, "{status}");
        Ok(())
    }
}

/// Whether the pod has ended, which is final.
fn is_over(pod: &Value) -> bool {
    matches!(
        value_at(pod, "/status/phase").as_str(),
        Some("Succeeded" | "Failed")
    )
}
