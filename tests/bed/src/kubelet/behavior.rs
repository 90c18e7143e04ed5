//! What a simulated pod does: its annotations, and from them its state after some time.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Time until the pod is ready or its containers end, such as `3s`; by default none.
pub const AFTER: &str = "helmops.test/after";
/// Exit code of the containers, or `never`. By default 0 for pods that are not restarted, as those of Jobs, and `never` for others.
pub const EXIT: &str = "helmops.test/exit";
/// `false`: the containers run, and the pod is never ready.
pub const READY: &str = "helmops.test/ready";
/// The containers do not start, for this reason, such as `ImagePullBackOff`.
pub const WAITING: &str = "helmops.test/waiting";
/// What the containers have logged.
pub const LOG: &str = "helmops.test/log";

/// Pause between two starts of a container that fails; a real kubelet waits ten seconds and more.
const RESTART: Duration = Duration::from_secs(1);
/// A container is not started again after that many times.
const MAX_RESTARTS: u32 = 10;

/// The state of the containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// They do not start.
    Waiting {
        /// Why, as one word.
        reason: String,
        /// Why, in a sentence.
        message: String,
    },
    /// They run.
    Running {
        /// Whether the pod is ready.
        is_ready: bool,
    },
    /// They failed, and will be started again.
    CrashLoop {
        /// Exit code.
        code: u8,
        /// How often they were started again.
        restarts: u32,
    },
    /// They ended, and are not started again.
    Ended {
        /// Exit code.
        code: u8,
    },
}

/// The state of a pod some time after its start, and when that changes; `None` if only a change of the pod changes it.
pub(crate) fn state(pod: &Value, elapsed: Duration) -> (State, Option<Duration>) {
    match Behavior::of(pod) {
        Ok(behavior) => behavior.after(elapsed),
        Err(error) => {
            let (reason, message) = ("InvalidAnnotation".to_owned(), format!("{error:#}"));
            (State::Waiting { reason, message }, None)
        }
    }
}

/// What the containers of a pod have logged.
pub(crate) fn log(pod: &Value) -> &str {
    annotation(pod, LOG).unwrap_or("started\n")
}

struct Behavior {
    after: Duration,
    outcome: Outcome,
    restarts: Restarts,
}

enum Outcome {
    Waits(String),
    Runs { becomes_ready: bool },
    Exits(u8),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Restarts {
    Always,
    OnFailure,
    Never,
}

impl Behavior {
    fn of(pod: &Value) -> Result<Self> {
        let restarts = match pod.pointer("/spec/restartPolicy").and_then(Value::as_str) {
            Some("Never") => Restarts::Never,
            Some("OnFailure") => Restarts::OnFailure,
            _ => Restarts::Always,
        };
        let after = match annotation(pod, AFTER) {
            Some(text) => go_formats::duration::parse(text).with_context(|| format!("{AFTER}: {text:?}"))?,
            None => Duration::ZERO,
        };
        let becomes_ready = match annotation(pod, READY) {
            None | Some("true") => true,
            Some(text) => {
                ensure!(text == "false", "{READY}: {text:?} is not true or false");
                false
            }
        };
        let runs = Outcome::Runs { becomes_ready };
        let outcome = match (annotation(pod, WAITING), annotation(pod, EXIT)) {
            (Some(reason), _) => Outcome::Waits(reason.to_owned()),
            (None, Some("never")) => runs,
            (None, Some(code)) => {
                let number = code.parse();
                Outcome::Exits(number.with_context(|| format!("{EXIT}: {code:?} is not a number up to 255"))?)
            }
            (None, None) if restarts == Restarts::Always || !becomes_ready => runs,
            (None, None) => Outcome::Exits(0),
        };
        Ok(Self {
            after,
            outcome,
            restarts,
        })
    }

    fn after(&self, elapsed: Duration) -> (State, Option<Duration>) {
        let remaining = self.after.saturating_sub(elapsed);
        let is_over = remaining.is_zero();
        let running = |is_ready| (State::Running { is_ready }, Some(remaining));
        match &self.outcome {
            Outcome::Waits(reason) => {
                let message = format!("because of the annotation {WAITING}");
                let reason = reason.clone();
                (State::Waiting { reason, message }, None)
            }
            Outcome::Runs { becomes_ready } if is_over || !becomes_ready => {
                let is_ready = *becomes_ready;
                (State::Running { is_ready }, None)
            }
            Outcome::Runs { .. } => running(false),
            // Without a probe, a container is ready as long as it runs.
            Outcome::Exits(_) if !is_over => running(true),
            Outcome::Exits(code) => self.exited(*code, elapsed.saturating_sub(self.after)),
        }
    }

    /// The state some time after the first exit.
    fn exited(&self, code: u8, elapsed: Duration) -> (State, Option<Duration>) {
        let is_restarted = match self.restarts {
            Restarts::Always => true,
            Restarts::OnFailure => code != 0,
            Restarts::Never => false,
        };
        if !is_restarted {
            return (State::Ended { code }, None);
        }
        let restarts = u32::try_from(elapsed.as_secs()).unwrap_or(u32::MAX);
        let restarts = restarts.saturating_add(1).min(MAX_RESTARTS);
        let next = RESTART.saturating_mul(restarts).saturating_sub(elapsed);
        let again = (restarts < MAX_RESTARTS).then_some(next);
        (State::CrashLoop { code, restarts }, again)
    }
}

fn annotation<'p>(pod: &'p Value, key: &str) -> Option<&'p str> {
    pod.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// The status of a pod in a state. `now` and `started` are times in RFC 3339.
pub(crate) fn status(pod: &Value, state: &State, address: &str, started: &str, now: &str) -> Value {
    let is_ready = matches!(state, State::Running { is_ready: true });
    let phase = match state {
        State::Waiting { .. } => "Pending",
        State::Running { .. } | State::CrashLoop { .. } => "Running",
        State::Ended { code: 0 } => "Succeeded",
        State::Ended { .. } => "Failed",
    };
    let ended = |code: u8| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        json!({ "terminated": {
            "exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now,
        } })
    };
    let (current, last, restarts) = match state {
        State::Waiting { reason, message } => {
            let waiting = json!({ "waiting": { "reason": reason, "message": message } });
            (waiting, json!({}), 0)
        }
        State::Running { .. } => (json!({ "running": { "startedAt": started } }), json!({}), 0),
        State::CrashLoop { code, restarts } => {
            let message = "back-off restarting failed container";
            let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } });
            (waiting, ended(*code), *restarts)
        }
        State::Ended { code } => (ended(*code), json!({}), 0),
    };
    let is_started = matches!(state, State::Running { .. });
    let containers = containers(pod, "containers").map(|(name, image)| {
        json!({
            "name": name, "image": image, "imageID": "", "ready": is_ready, "started": is_started,
            "restartCount": restarts, "state": current, "lastState": last,
        })
    });
    let initial = containers_ended(pod, &ended(0));
    let condition = |kind: &str, is_true: bool| {
        let status = if is_true { "True" } else { "False" };
        let reason = match (is_true, state) {
            (false, State::Ended { code: 0 }) => "PodCompleted",
            (false, _) => "ContainersNotReady",
            (true, _) => "",
        };
        json!({ "type": kind, "status": status, "reason": reason, "lastTransitionTime": now })
    };
    json!({ "status": {
        "phase": phase,
        "startTime": started,
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{ "ip": address }],
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", is_ready),
            condition("Ready", is_ready),
        ],
        "initContainerStatuses": initial,
        "containerStatuses": containers.collect::<Vec<_>>(),
    } })
}

/// Init containers have always ended.
fn containers_ended(pod: &Value, ended: &Value) -> Vec<Value> {
    let ended = containers(pod, "initContainers").map(|(name, image)| {
        json!({
            "name": name, "image": image, "imageID": "", "ready": true, "started": false,
            "restartCount": 0, "state": ended, "lastState": {},
        })
    });
    ended.collect()
}

/// Names and images of the containers in a list of the pod.
fn containers<'p>(pod: &'p Value, list: &str) -> impl Iterator<Item = (&'p str, &'p str)> {
    let list = pod.get("spec").and_then(|spec| spec.get(list)?.as_array());
    let text = |container: &'p Value, key| container.get(key).and_then(Value::as_str).unwrap_or_default();
    list.into_iter()
        .flatten()
        .map(move |container| (text(container, "name"), text(container, "image")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(restart_policy: &str, annotations: &Value) -> Value {
        json!({
            "metadata": { "annotations": annotations },
            "spec": {
                "restartPolicy": restart_policy,
                "initContainers": [{ "name": "init", "image": "i" }],
                "containers": [{ "name": "a", "image": "x" }, { "name": "b", "image": "y" }],
            },
        })
    }

    fn after(restart_policy: &str, annotations: &Value, seconds: f32) -> (State, Option<Duration>) {
        state(
            &pod(restart_policy, annotations),
            Duration::from_secs_f32(seconds),
        )
    }

    const fn running(is_ready: bool) -> State {
        State::Running { is_ready }
    }

    #[test]
    fn annotations_and_time_decide_on_the_state() {
        let ended = |code| State::Ended { code };
        let crash = |code, restarts| State::CrashLoop { code, restarts };
        let seconds = |seconds: f32| Some(Duration::from_secs_f32(seconds));
        for (policy, annotations, elapsed, expected, change) in [
            ("Always", json!({}), 0.0, running(true), None),
            (
                "Always",
                json!({ AFTER: "3s" }),
                1.0,
                running(false),
                seconds(2.0),
            ),
            ("Always", json!({ AFTER: "3s" }), 3.0, running(true), None),
            ("Always", json!({ READY: "false" }), 9.0, running(false), None),
            ("Always", json!({ EXIT: "never" }), 9.0, running(true), None),
            ("Always", json!({ EXIT: "1" }), 0.0, crash(1, 1), seconds(1.0)),
            ("Always", json!({ EXIT: "1" }), 2.5, crash(1, 3), seconds(0.5)),
            ("Always", json!({ EXIT: "1" }), 900.0, crash(1, 10), None),
            ("Always", json!({ EXIT: "0" }), 0.0, crash(0, 1), seconds(1.0)),
            ("Never", json!({}), 0.0, ended(0), None),
            (
                "Never",
                json!({ EXIT: "2", AFTER: "1s" }),
                0.0,
                running(true),
                seconds(1.0),
            ),
            ("Never", json!({ EXIT: "2", AFTER: "1s" }), 1.0, ended(2), None),
            ("Never", json!({ EXIT: "never" }), 9.0, running(true), None),
            ("OnFailure", json!({ EXIT: "0" }), 0.0, ended(0), None),
            ("OnFailure", json!({ EXIT: "3" }), 0.0, crash(3, 1), seconds(1.0)),
        ] {
            let found = after(policy, &annotations, elapsed);
            assert_eq!(
                found,
                (expected, change),
                "{policy} {annotations} after {elapsed} s"
            );
        }
    }

    #[test]
    fn a_pod_can_wait_for_its_image() {
        let (state, change) = after("Always", &json!({ WAITING: "ImagePullBackOff" }), 1.0);
        assert!(matches!(&state, State::Waiting { reason, .. } if reason == "ImagePullBackOff"));
        assert_eq!(change, None);
    }

    #[test]
    fn an_invalid_annotation_is_shown_in_the_status() {
        for (annotations, expected) in [
            (json!({ EXIT: "256" }), "256"),
            (json!({ AFTER: "soon" }), "soon"),
            (json!({ READY: "no" }), "no"),
        ] {
            let (state, _) = after("Always", &annotations, 0.0);
            let State::Waiting { reason, message } = state else {
                panic!("{state:?}");
            };
            assert_eq!(reason, "InvalidAnnotation");
            assert!(message.contains(&format!("{expected:?}")), "{message}");
        }
    }

    #[test]
    fn the_status_has_the_phase_and_all_containers() {
        let pod = pod("Always", &json!({}));
        for (state, phase, is_ready) in [
            (running(true), "Running", true),
            (running(false), "Running", false),
            (State::CrashLoop { code: 1, restarts: 2 }, "Running", false),
            (State::Ended { code: 0 }, "Succeeded", false),
            (State::Ended { code: 1 }, "Failed", false),
        ] {
            let status = status(&pod, &state, "10.1.0.1", "t0", "t1");
            let status = &status["status"];
            assert_eq!(status["phase"], phase);
            assert_eq!(status["conditions"][3]["type"], "Ready");
            assert_eq!(
                status["conditions"][3]["status"],
                if is_ready { "True" } else { "False" }
            );
            assert_eq!(status["containerStatuses"].as_array().unwrap().len(), 2);
            assert_eq!(status["containerStatuses"][1]["ready"], is_ready);
            assert_eq!(
                status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"],
                0
            );
        }
        let failed = status(&pod, &State::Ended { code: 7 }, "", "t0", "t1");
        let terminated = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(
            (&terminated["exitCode"], &terminated["finishedAt"]),
            (&json!(7), &json!("t1"))
        );
    }
}
