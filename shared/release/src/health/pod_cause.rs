//! Why a pod is not ready, as its status shows it: what `kubectl describe pod` would lead a person to.
//!
//! The text does not change with each restart, and what does is kept apart: each change of a text is a write of a status.

use bounded_text::{cut, printable};
use helmops_model::chart::url::redacted_urls;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::fields::{at, flag, list, number, text, time};

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCause {
    /// How bad it is.
    pub severity: Severity,
    /// The cause for people, with the container. It is the same as long as the cause is.
    pub text: String,
    /// What the kubelet or the container adds to that; it may change with each restart.
    pub detail: Option<Detail>,
    /// Since when the pod is not ready.
    pub since: Option<Timestamp>,
    /// What shows more of the cause.
    pub evidence: Evidence,
}

/// A text about a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The text, on one line, without control characters and logins in URLs.
    pub text: String,
    /// Whether the container has written it: it may be the end of its log.
    pub is_output: bool,
}

impl Detail {
    /// A text of the kubelet, of the runtime or of a container; `None` if it is empty.
    pub fn of(message: &str, is_output: bool) -> Option<Self> {
        let text = one_line(message);
        (!text.is_empty()).then_some(Self { text, is_output })
    }
}

/// How certain it is that a pod does not become ready without an action, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It starts.
    Starting,
    /// It runs, but its probes do not succeed.
    NotReady,
    /// No node takes it.
    Unschedulable,
    /// A container cannot be started.
    Blocked,
    /// A container ends again and again, or for good.
    Crashed,
}

/// What shows more of a cause than the status of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing does.
    Status,
    /// The warnings about the pod since this time.
    Events(Option<Timestamp>),
    /// The log of a container, and warnings about probes that have ended it.
    Log {
        /// The name of the container.
        container: String,
        /// Whether it is the log of the run before, since a new one has started.
        is_previous: bool,
    },
}

/// The longest message that is kept, in bytes.
const MAX_MESSAGE: usize = 300;
/// A container that runs as long as this does not crash any more: the longest pause between two runs is five minutes.
const STABLE: SignedDuration = SignedDuration::from_mins(10);

/// Why a pod is not ready at the time `now`; `None` if it is, or if it has ended successfully or is being deleted.
pub fn pod_cause(pod: &Value, now: Timestamp) -> Option<PodCause> {
    let phase = text(pod, &["status", "phase"]);
    let is_deleted = at(pod, &["metadata", "deletionTimestamp"]).is_some();
    if is_true(pod, "Ready") || phase == "Succeeded" || is_deleted {
        return None;
    }
    let pod = Pod { pod, now };
    let cause = pod.ended_by_the_kubelet().or_else(|| pod.unschedulable());
    let cause = cause
        .or_else(|| pod.init_container())
        .or_else(|| pod.worst_container());
    Some(cause.unwrap_or_else(|| pod.starting()))
}

/// A pod that is not ready.
#[derive(Clone, Copy)]
struct Pod<'p> {
    pod: &'p Value,
    now: Timestamp,
}

impl<'p> Pod<'p> {
    /// An eviction, or the shutdown of the node.
    fn ended_by_the_kubelet(self) -> Option<PodCause> {
        let reason = text(self.pod, &["status", "reason"]);
        (text(self.pod, &["status", "phase"]) == "Failed" && !reason.is_empty()).then(|| PodCause {
            severity: Severity::Crashed,
            text: one_line(reason),
            detail: Detail::of(text(self.pod, &["status", "message"]), false),
            since: since(self.pod, "Ready"),
            evidence: Evidence::Status,
        })
    }

    fn unschedulable(self) -> Option<PodCause> {
        let scheduled = condition(self.pod, "PodScheduled")?;
        (text(scheduled, &["status"]) == "False").then(|| PodCause {
            severity: Severity::Unschedulable,
            text: one_line(text(scheduled, &["reason"])),
            detail: Detail::of(text(scheduled, &["message"]), false),
            since: since(self.pod, "PodScheduled"),
            evidence: Evidence::Status,
        })
    }

    /// Init containers run one after the other: the first one that has not succeeded is the cause.
    fn init_container(self) -> Option<PodCause> {
        if is_true(self.pod, "Initialized") {
            return None;
        }
        let is_current = |status: &&Value| {
            !self.is_sidecar(status) && number(status, &["state", "terminated", "exitCode"]) != Some(0)
        };
        let current = self.statuses("initContainerStatuses").find(is_current)?;
        Some(PodCause {
            since: since(self.pod, "Initialized"),
            ..self.container("init container", current)?
        })
    }

    fn worst_container(self) -> Option<PodCause> {
        let containers = self.statuses("containerStatuses");
        let sidecars = self
            .statuses("initContainerStatuses")
            .filter(|status| self.is_sidecar(status));
        let causes = containers
            .chain(sidecars)
            .filter_map(|status| self.container("container", status));
        // Of several that are as bad, the first.
        causes.reduce(|worst, next| {
            if next.severity > worst.severity {
                next
            } else {
                worst
            }
        })
    }

    /// Why a container is not ready; `None` if it is, or has ended as it should, or has only not been started yet.
    fn container(self, role: &str, status: &Value) -> Option<PodCause> {
        if flag(status, &["ready"]) {
            return None;
        }
        let name = text(status, &["name"]);
        let cause = |severity, what: &str, detail, evidence| PodCause {
            severity,
            text: one_line(&format!("{role} {name} {what}")),
            detail,
            since: since(self.pod, "Ready"),
            evidence,
        };
        let log = |is_previous| Evidence::Log {
            container: name.to_owned(),
            is_previous,
        };
        let crashed = |what: &str, ended: &Value, is_previous| {
            let what = format!("{what}: {}", self.exit(name, ended));
            // A file that the container writes, the end of its log, or an error of the runtime.
            let detail = Detail::of(text(ended, &["message"]), true);
            cause(Severity::Crashed, &what, detail, log(is_previous))
        };
        if let Some(ended) = at(status, &["state", "terminated"]) {
            return (number(ended, &["exitCode"]) != Some(0)).then(|| crashed("failed", ended, false));
        }
        let last = at(status, &["lastState", "terminated"]);
        let started = time(status, &["state", "running", "startedAt"]);
        let is_stable = started.is_some_and(|started| self.now.duration_since(started) >= STABLE);
        let reason = text(status, &["state", "waiting", "reason"]);
        match (reason, last) {
            // Between two runs, and while the next one has not lasted, it is the same cause.
            ("" | "CrashLoopBackOff", Some(last)) if !is_stable => Some(crashed("crashes", last, true)),
            ("", _) if at(status, &["state", "running"]).is_some() => {
                let what = if role == "container" {
                    "runs, but is not ready"
                } else {
                    "has not ended yet"
                };
                Some(cause(Severity::NotReady, what, None, Evidence::Events(started)))
            }
            ("" | "PodInitializing" | "ContainerCreating", _) => None,
            (reason, _) => {
                let (reason, message) = start_error(reason, text(status, &["state", "waiting", "message"]));
                let what = format!("does not start: {reason}");
                Some(cause(
                    Severity::Blocked,
                    &what,
                    Detail::of(message, false),
                    Evidence::Status,
                ))
            }
        }
    }

    /// How a container has ended.
    fn exit(self, container: &str, ended: &Value) -> String {
        let code = number(ended, &["exitCode"]).unwrap_or_default();
        let limit = self.memory_limit(container);
        match (text(ended, &["reason"]), limit) {
            ("" | "Error" | "Completed", _) => format!("exit code {code}"),
            (reason @ "OOMKilled", Some(limit)) => {
                format!("{reason}, exit code {code}, memory limit {limit}")
            }
            (reason, _) => format!("{reason}, exit code {code}"),
        }
    }

    fn memory_limit(self, container: &str) -> Option<&'p str> {
        let limit = text(self.spec(container)?, &["resources", "limits", "memory"]);
        (!limit.is_empty()).then_some(limit)
    }

    /// An init container that goes on running.
    fn is_sidecar(self, status: &Value) -> bool {
        let spec = self.spec(text(status, &["name"]));
        spec.is_some_and(|spec| text(spec, &["restartPolicy"]) == "Always")
    }

    fn spec(self, container: &str) -> Option<&'p Value> {
        let lists = ["containers", "initContainers"].into_iter();
        let mut all = lists.flat_map(|field| list(self.pod, &["spec", field]));
        all.find(|spec| text(spec, &["name"]) == container)
    }

    fn statuses(self, field: &str) -> impl Iterator<Item = &'p Value> + use<'p> {
        list(self.pod, &["status", field]).iter()
    }

    /// Nothing is wrong yet, or only Events show what is: a volume that cannot be mounted, a network that cannot be set up.
    fn starting(self) -> PodCause {
        let created = time(self.pod, &["metadata", "creationTimestamp"]);
        PodCause {
            severity: Severity::Starting,
            text: "is starting".to_owned(),
            detail: None,
            since: created,
            evidence: Evidence::Events(created),
        }
    }
}

/// The two states of a failing pull, which alternate, as one. Only the newer kubelets have the cause in both.
fn start_error<'m>(reason: &'m str, message: &'m str) -> (&'m str, &'m str) {
    const PULL: &str = "ErrImagePull";
    match (reason, message.split_once("ErrImagePull: ")) {
        ("ImagePullBackOff", None) => (PULL, ""),
        ("ImagePullBackOff" | PULL, Some((_, cause))) => (PULL, cause),
        _ => (reason, message),
    }
}

/// A text of others on one line, without control characters and logins in URLs.
fn one_line(message: &str) -> String {
    let printable = printable(message);
    let words: Vec<_> = printable.split_whitespace().collect();
    cut(redacted_urls(&words.join(" ")).into_owned(), MAX_MESSAGE)
}

fn condition<'p>(pod: &'p Value, r#type: &str) -> Option<&'p Value> {
    let mut conditions = list(pod, &["status", "conditions"]).iter();
    conditions.find(|condition| text(condition, &["type"]) == r#type)
}

fn is_true(pod: &Value, r#type: &str) -> bool {
    condition(pod, r#type).is_some_and(|condition| text(condition, &["status"]) == "True")
}

fn since(pod: &Value, r#type: &str) -> Option<Timestamp> {
    time(condition(pod, r#type)?, &["lastTransitionTime"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SINCE: &str = "2026-01-01T00:00:00Z";

    fn cause_of(pod: &Value) -> Option<PodCause> {
        pod_cause(pod, "2026-01-01T01:00:00Z".parse().unwrap())
    }

    fn pod(phase: &str, ready: &str, containers: &Value) -> Value {
        json!({
            "metadata": { "creationTimestamp": SINCE },
            "spec": {
                "containers": [{ "name": "app", "resources": { "limits": { "memory": "64Mi" } } }],
                "initContainers": [{ "name": "migrate" }, { "name": "proxy", "restartPolicy": "Always" }],
            },
            "status": {
                "phase": phase, "containerStatuses": containers,
                "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": SINCE }],
            },
        })
    }

    fn status(name: &str, state: &Value, last: &Value) -> Value {
        json!({ "name": name, "ready": false, "restartCount": 3, "state": state, "lastState": last })
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({ "waiting": { "reason": reason, "message": message } })
    }

    fn ended(code: i64, reason: &str) -> Value {
        json!({ "terminated": { "exitCode": code, "reason": reason } })
    }

    fn running(since: &str) -> Value {
        json!({ "running": { "startedAt": since } })
    }

    fn log(is_previous: bool) -> Evidence {
        Evidence::Log {
            container: "app".to_owned(),
            is_previous,
        }
    }

    /// The states that containers of a real node have, one after the other.
    #[test]
    fn each_state_of_a_container_has_its_cause() {
        use Severity::{Blocked, Crashed, NotReady, Starting};
        let none = json!({});
        let (new, old) = (running("2026-01-01T00:55:00Z"), running("2026-01-01T00:50:00Z"));
        let since = |running: &Value| Evidence::Events(time(running, &["running", "startedAt"]));
        let back_off = waiting(
            "CrashLoopBackOff",
            "back-off 40s restarting failed container=app pod=web_shop(1)",
        );
        let pull = "not found";
        let pull_again = waiting(
            "ImagePullBackOff",
            "Back-off pulling image \"web:2\": ErrImagePull: not found",
        );
        let old_kubelet = waiting("ImagePullBackOff", "Back-off pulling image \"web:2\"");
        let crash = "container app crashes: exit code 1";
        let oom = "container app crashes: OOMKilled, exit code 137, memory limit 64Mi";
        let missing = "container app does not start: ErrImagePull";
        let failed = "container app failed: exit code 1";
        let config = "container app does not start: CreateContainerConfigError";
        let not_ready = "container app runs, but is not ready";
        for (state, last, severity, text, detail, evidence) in [
            (&back_off, ended(1, "Error"), Crashed, crash, None, log(true)),
            // The next run of the same loop, and one that has lasted.
            (&new, ended(1, "Error"), Crashed, crash, None, log(true)),
            (&old, ended(1, "Error"), NotReady, not_ready, None, since(&old)),
            (&new, none.clone(), NotReady, not_ready, None, since(&new)),
            (
                &ended(1, "Error"),
                none.clone(),
                Crashed,
                failed,
                None,
                log(false),
            ),
            (
                &back_off,
                ended(0, "Completed"),
                Crashed,
                "container app crashes: exit code 0",
                None,
                log(true),
            ),
            (&back_off, ended(137, "OOMKilled"), Crashed, oom, None, log(true)),
            (
                &waiting("ErrImagePull", pull),
                none.clone(),
                Blocked,
                missing,
                Some(pull),
                Evidence::Status,
            ),
            (
                &pull_again,
                none.clone(),
                Blocked,
                missing,
                Some(pull),
                Evidence::Status,
            ),
            (
                &old_kubelet,
                none.clone(),
                Blocked,
                missing,
                None,
                Evidence::Status,
            ),
            (
                &waiting("CreateContainerConfigError", "secret \"db\" not found"),
                none.clone(),
                Blocked,
                config,
                Some("secret \"db\" not found"),
                Evidence::Status,
            ),
            (
                &waiting("ContainerCreating", ""),
                none.clone(),
                Starting,
                "is starting",
                None,
                Evidence::Events(SINCE.parse().ok()),
            ),
        ] {
            let cause = cause_of(&pod("Running", "False", &json!([status("app", state, &last)]))).unwrap();
            let shown = cause.detail.as_ref().map(|detail| &*detail.text);
            let found = (cause.severity, &*cause.text, shown, cause.evidence);
            assert_eq!(found, (severity, text, detail, evidence), "{state} {last}");
            assert_eq!(cause.since, SINCE.parse().ok());
        }
    }

    #[test]
    fn a_pod_that_is_ready_ended_or_deleted_has_no_cause() {
        let containers = json!([status("app", &running(SINCE), &json!({}))]);
        assert_eq!(cause_of(&pod("Running", "True", &containers)), None);
        assert_eq!(cause_of(&pod("Succeeded", "False", &containers)), None);
        let mut deleted = pod("Running", "False", &containers);
        deleted["metadata"]["deletionTimestamp"] = json!(SINCE);
        assert_eq!(cause_of(&deleted), None);
    }

    #[test]
    fn the_whole_pod_comes_before_its_containers() {
        let crash = status("app", &ended(1, "Error"), &json!({}));
        let mut evicted = pod("Failed", "False", &json!([crash]));
        evicted["status"]["reason"] = json!("Evicted");
        evicted["status"]["message"] = json!("The node was low on resource: memory.");
        let cause = cause_of(&evicted).unwrap();
        assert_eq!(cause.text, "Evicted");
        assert_eq!(
            cause.detail.unwrap().text,
            "The node was low on resource: memory."
        );

        let mut pending = pod("Pending", "False", &json!([]));
        let scheduled = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes" });
        pending["status"]["conditions"] = json!([scheduled]);
        let cause = cause_of(&pending).unwrap();
        assert_eq!(
            (cause.severity, &*cause.text),
            (Severity::Unschedulable, "Unschedulable")
        );
    }

    #[test]
    fn init_containers_count_until_they_have_ended_and_sidecars_as_containers() {
        let creating = status("app", &waiting("PodInitializing", ""), &json!({}));
        let mut init = pod("Pending", "False", &json!([creating]));
        let failed = status("migrate", &waiting("CrashLoopBackOff", ""), &ended(2, "Error"));
        init["status"]["initContainerStatuses"] = json!([failed]);
        assert_eq!(
            cause_of(&init).unwrap().text,
            "init container migrate crashes: exit code 2"
        );
        init["status"]["initContainerStatuses"] = json!([status("migrate", &running(SINCE), &json!({}))]);
        assert_eq!(
            cause_of(&init).unwrap().text,
            "init container migrate has not ended yet"
        );

        // When a pod has failed, its sidecars are ended.
        let mut failed = pod(
            "Failed",
            "False",
            &json!([status("app", &ended(3, "Error"), &json!({}))]),
        );
        failed["status"]["initContainerStatuses"] =
            json!([status("proxy", &ended(143, "Error"), &json!({}))]);
        assert_eq!(
            cause_of(&failed).unwrap().text,
            "container app failed: exit code 3"
        );
        let mut slow = pod("Running", "False", &json!([{ "name": "app", "ready": true }]));
        slow["status"]["initContainerStatuses"] = json!([status("proxy", &running(SINCE), &json!({}))]);
        assert_eq!(
            cause_of(&slow).unwrap().text,
            "container proxy runs, but is not ready"
        );
    }

    #[test]
    fn the_worst_container_is_the_cause_and_of_equal_ones_the_first() {
        let slow = status("slow", &running(SINCE), &json!({}));
        let crash = |name| status(name, &ended(1, "Error"), &json!({}));
        let cause = cause_of(&pod("Running", "False", &json!([slow, crash("a"), crash("b")]))).unwrap();
        assert_eq!(cause.text, "container a failed: exit code 1");
    }

    /// The termination message is a file that the container writes.
    #[test]
    fn a_message_of_a_container_is_bounded_printable_and_without_logins() {
        let hostile = format!("\u{1b}[31mred\npostgres://app:secret@db/x {}", "x".repeat(10_000));
        let mut ended = ended(1, "Error");
        ended["terminated"]["message"] = json!(hostile);
        let cause = cause_of(&pod(
            "Running",
            "False",
            &json!([status("app", &ended, &json!({}))]),
        ));
        let Detail { text, is_output } = cause.unwrap().detail.unwrap();
        assert!(is_output && text.len() <= MAX_MESSAGE, "{text}");
        assert!(
            text.starts_with("red postgres://") && !text.contains("secret"),
            "{text}"
        );
    }
}
