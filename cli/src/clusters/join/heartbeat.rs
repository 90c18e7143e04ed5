//! Waiting for an agent to report, and why it does not.

use std::time::Duration;

use helmops_api::{Cluster, NamespacedName};
use helmops_core::status::last_seen;
use helmops_join::agent_objects::{NAME, SELECTOR};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Pod},
};
use kube::{
    Api, Client,
    api::{ListParams, LogParams},
};

use crate::{
    cluster::{api_error, until::until},
    failure::Failure,
    terminal::age,
};

/// An agent that was not restarted reports at this interval, and needs no other proof within it.
const INTERVAL: Duration = Duration::from_mins(16);
/// Lines of the log in which the reason is.
const LINES: i64 = 20;

pub struct Wait<'a> {
    pub management: &'a Client,
    pub workload: &'a Client,
    /// The namespace of the agent on the workload cluster.
    pub agent_namespace: &'a str,
    pub cluster: &'a NamespacedName,
    /// When the agent reported before this command; empty if it never has.
    pub last_seen: &'a str,
    /// Whether this command has started the agent.
    pub is_restarted: bool,
    /// How long to wait.
    pub timeout: Duration,
}

impl Wait<'_> {
    /// Waits until the agent has reported since the command began. A running agent that this command has not restarted may have
    /// reported some minutes before.
    pub async fn run(self) -> Result<((), String), Failure> {
        let clusters = Api::<Cluster>::namespaced(self.management.clone(), &self.cluster.namespace);
        let read = async || {
            let found = clusters.get(&self.cluster.name).await;
            let found = found.map_err(|error| {
                api_error::failed(format!("cannot read Cluster {}", self.cluster), &error)
            })?;
            Ok(self.is_seen(&found, Timestamp::now()).then_some(found))
        };
        let Some(found) = until(self.timeout, read).await? else {
            return Err(self.silent().await);
        };
        let since = last_seen(&found.status)
            .parse()
            .unwrap_or_else(|_| Timestamp::now());
        Ok((
            (),
            format!("the agent reported {} ago", age::age(since, Timestamp::now())),
        ))
    }

    fn is_seen(&self, cluster: &Cluster, now: Timestamp) -> bool {
        let seen = last_seen(&cluster.status);
        if seen.is_empty() || seen != self.last_seen {
            return !seen.is_empty();
        }
        let recent = |seen: Timestamp| now.duration_since(seen).unsigned_abs() < INTERVAL;
        !self.is_restarted && seen.parse().is_ok_and(recent)
    }

    async fn silent(&self) -> Failure {
        let pods = Api::<Pod>::namespaced(self.workload.clone(), self.agent_namespace);
        let deployments = Api::<Deployment>::namespaced(self.workload.clone(), self.agent_namespace);
        let selected = pods.list(&ListParams::default().labels(SELECTOR)).await;
        let selected = selected.map(|list| list.items).unwrap_or_default();
        let deployment = deployments.get_opt(NAME).await.ok().flatten();
        let cause = match cause_of(deployment.as_ref(), &selected) {
            Some(cause) => cause,
            None => self.last_words(&pods, &selected).await,
        };
        let (waited, namespace) = (self.timeout.as_secs(), self.agent_namespace);
        Failure::unable(format!("the agent has not reported within {waited} s: {cause}")).with_hint(format!(
            "see what it does, on the workload cluster: kubectl --namespace {namespace} logs deployment/{NAME}"
        ))
    }

    /// The last warning or error in the log of a pod.
    async fn last_words(&self, pods: &Api<Pod>, selected: &[Pod]) -> String {
        let params = LogParams {
            tail_lines: Some(LINES),
            ..LogParams::default()
        };
        let name = selected.first().and_then(|pod| pod.metadata.name.as_deref());
        let log = match name {
            Some(name) => pods.logs(name, &params).await.unwrap_or_default(),
            None => String::new(),
        };
        match log
            .lines()
            .rev()
            .find(|line| line.contains("WARN") || line.contains("ERROR"))
        {
            Some(line) => format!("its log says {line}"),
            None => "it runs, and its log has no error; it may not reach the management cluster (--server)"
                .to_owned(),
        }
    }
}

/// Why no container of the agent works, as far as Kubernetes says.
fn cause_of(deployment: Option<&Deployment>, pods: &[Pod]) -> Option<String> {
    let Some(deployment) = deployment else {
        return Some(format!("Deployment {NAME} was deleted"));
    };
    if pods.is_empty() {
        let conditions = deployment
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let failed = conditions
            .into_iter()
            .flatten()
            .find(|one| one.type_ == "ReplicaFailure" && one.status == "True");
        let message = failed.and_then(|condition| condition.message.as_deref());
        return Some(match message {
            Some(message) => format!("its pods cannot be created: {message}"),
            None => "it has no pod yet".to_owned(),
        });
    }
    pods.iter().find_map(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        cause_of_pod(pod).map(|cause| format!("pod {name} {cause}"))
    })
}

fn cause_of_pod(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    if let Some(cause) = containers.into_iter().find_map(cause_of_container) {
        return Some(cause);
    }
    let conditions = status.conditions.iter().flatten();
    let mut unscheduled = conditions.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
    let message = unscheduled.next()?.message.as_deref().unwrap_or_default();
    Some(format!("is not scheduled: {message}"))
}

fn cause_of_container(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let (reason, message) = (
        waiting.reason.as_deref()?,
        waiting.message.as_deref().unwrap_or_default(),
    );
    let image = &container.image;
    Some(match reason {
        "ContainerCreating" | "PodInitializing" => format!("is being created ({reason})"),
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
            format!("cannot pull the image {image} ({reason}): {message}; name another one with --image")
        }
        _ => format!("does not run ({reason}): {message}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "a-1" }, "status": status })).unwrap()
    }

    fn waiting(reason: &str, message: &str) -> Value {
        let state = json!({ "waiting": { "reason": reason, "message": message } });
        json!({ "containerStatuses": [{
            "name": "agent", "image": "helmops-agent:0.1.0", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }] })
    }

    #[test]
    fn the_cause_is_that_of_kubernetes_if_there_is_one() {
        let deployment =
            |status: &Value| -> Deployment { serde_json::from_value(json!({ "status": status })).unwrap() };
        let quota = json!({ "conditions": [{ "type": "ReplicaFailure", "status": "True", "message": "exceeded quota" }] });
        let unscheduled =
            json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "message": "no nodes" }] });
        let (none, quota) = (deployment(&json!({})), deployment(&quota));
        let cases: Vec<(Option<&Deployment>, Option<Value>, Option<&str>)> = vec![
            (None, None, Some("Deployment helmops-agent was deleted")),
            (Some(&none), None, Some("it has no pod yet")),
            (
                Some(&quota),
                None,
                Some("its pods cannot be created: exceeded quota"),
            ),
            (
                Some(&none),
                Some(waiting("ImagePullBackOff", "not found")),
                Some(
                    "pod a-1 cannot pull the image helmops-agent:0.1.0 (ImagePullBackOff): not found; name another one with --image",
                ),
            ),
            (
                Some(&none),
                Some(waiting("CrashLoopBackOff", "back-off")),
                Some("pod a-1 does not run (CrashLoopBackOff): back-off"),
            ),
            (
                Some(&none),
                Some(unscheduled),
                Some("pod a-1 is not scheduled: no nodes"),
            ),
            (Some(&none), Some(json!({})), None),
        ];
        for (deployment, status, expected) in cases {
            let pods: Vec<_> = status.iter().map(pod).collect();
            assert_eq!(cause_of(deployment, &pods).as_deref(), expected);
        }
    }

    fn is_seen(before: &str, is_restarted: bool, seen: &str) -> bool {
        let name = NamespacedName::new("a", "b");
        let client = || {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
            helmops_kube::client(config, None).unwrap()
        };
        let (management, workload) = (client(), client());
        let wait = Wait {
            management: &management,
            workload: &workload,
            agent_namespace: "a",
            cluster: &name,
            last_seen: before,
            is_restarted,
            timeout: Duration::ZERO,
        };
        let cluster = json!({ "metadata": {}, "status": { "agent": { "lastSeen": seen } } });
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        wait.is_seen(&cluster, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    #[tokio::test]
    async fn only_a_report_of_the_started_agent_counts() {
        let (old, recent, new) = (
            "2026-01-01T10:00:00Z",
            "2026-01-01T11:50:00Z",
            "2026-01-01T12:00:00Z",
        );
        for (before, is_restarted, seen, expected) in [
            ("", true, "", false),
            ("", true, new, true),
            (old, true, old, false),
            (old, true, new, true),
            // The old agent has reported, and the new one not yet.
            (recent, true, recent, false),
            (recent, false, recent, true),
            (old, false, old, false),
            // The clock of the workload cluster is behind.
            (recent, true, old, true),
        ] {
            assert_eq!(
                is_seen(before, is_restarted, seen),
                expected,
                "{before} {is_restarted} {seen}"
            );
        }
    }
}
