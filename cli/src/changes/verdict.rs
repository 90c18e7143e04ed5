//! Whether what a command waits for has been reached.

use helmops_api::{Bundle, BundleDeployment, Condition, HelmOp, labels, lifecycle::Requests};
use helmops_model::condition::ConditionType;

use super::observed::Observed;

/// What becomes of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is reached. The text says what is so now.
    Reached(String),
    /// It is not reached yet. The text says what is awaited.
    Pending(String),
    /// It is not reached without a change of the HelmOp or its surroundings. The text says why.
    Failed(String),
}

/// Whether the HelmOp is ready on all clusters, in the generation that is stored.
pub fn ready(observed: &Observed) -> Verdict {
    let helmop = &observed.helmop;
    let status = helmop.status.clone().unwrap_or_default();
    // Fleet's own CRD does not have this field; its conditions have to do then.
    if status
        .observed_generation
        .is_some_and(|seen| Some(seen) != helmop.metadata.generation)
    {
        return Verdict::Pending("the controller has not seen the change yet".into());
    }
    if let Some(stalled) =
        condition(helmop, ConditionType::Stalled).filter(|condition| condition.status == "True")
    {
        return Verdict::Failed(explained(stalled));
    }
    let counts = format!(
        "{} of {} clusters ready",
        status.base.ready_clusters.unwrap_or_default(),
        status.base.desired_ready_clusters.unwrap_or_default()
    );
    match condition(helmop, ConditionType::Ready) {
        None => Verdict::Pending("the controller has not reported yet".into()),
        Some(ready) if ready.status == "True" => {
            Verdict::Reached(format!("version {}, {counts}", status.version))
        }
        Some(ready) => Verdict::Pending(format!("{counts}: {}", explained(ready))),
    }
}

/// Whether the HelmOp is ready in this version of its chart.
pub fn ready_in_version(observed: &Observed, version: &str) -> Verdict {
    let current = observed
        .helmop
        .status
        .as_ref()
        .map_or("", |status| &status.version);
    match ready(observed) {
        Verdict::Reached(_) if current != version => {
            Verdict::Pending(format!("version {current} is ready, and not {version}"))
        }
        verdict => verdict,
    }
}

/// Whether the HelmOp has this condition with status `True`.
pub fn condition_is_true(observed: &Observed, r#type: &str) -> Verdict {
    let conditions = observed
        .helmop
        .status
        .iter()
        .flat_map(|status| &status.base.conditions);
    match conditions
        .into_iter()
        .find(|condition| condition.r#type.eq_ignore_ascii_case(r#type))
    {
        None => Verdict::Pending(format!("there is no condition {type}")),
        Some(condition) if condition.status == "True" => Verdict::Reached(explained(condition)),
        Some(condition) => Verdict::Pending(explained(condition)),
    }
}

/// Whether a requested poll was handled; then, what it has found.
pub fn polled(observed: &Observed, token: &str, before: &str) -> Verdict {
    let helmop = &observed.helmop;
    if let Some(stalled) =
        condition(helmop, ConditionType::Stalled).filter(|condition| condition.status == "True")
    {
        return Verdict::Failed(explained(stalled));
    }
    let bundle = observed.bundle.as_ref();
    let handled = bundle.and_then(|bundle| labels::annotation(&bundle.metadata, labels::LAST_HANDLED_POLL));
    if !is_handled(helmop, labels::POLL_REQUESTED_AT, token, handled) {
        return match condition(helmop, ConditionType::Polled).filter(|condition| condition.status == "False")
        {
            Some(polled) => Verdict::Pending(explained(polled)),
            None => Verdict::Pending("the controller polls".into()),
        };
    }
    // The status of the HelmOp is written after the Bundle.
    let version = observed.bundle.as_ref().map_or("", resolved);
    Verdict::Reached(if version == before || before.is_empty() {
        format!("version {version} is the newest in the range")
    } else {
        format!("version {before} is replaced by {version}")
    })
}

/// Whether a request was handled, or a later one that has replaced it: a HelmOp has one at a time, so that of another person or of a
/// push to a Receiver takes the place of this one. Which is later cannot be seen from their texts; but this one was stored before the
/// HelmOp was read, so what the HelmOp has now is this one or a later one.
fn is_handled(helmop: &HelmOp, annotation: &str, token: &str, handled: Option<&str>) -> bool {
    let requested = labels::annotation(&helmop.metadata, annotation);
    handled.is_some_and(|handled| handled == token || Some(handled) == requested)
}

/// The version of the chart that a Bundle deploys.
fn resolved(bundle: &Bundle) -> &str {
    let helm = bundle.spec.options.helm.as_ref();
    helm.map_or("", |helm| &helm.version)
}

/// Which request is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The next attempt is made immediately.
    Reconcile,
    /// The release is deployed again.
    Force,
    /// Failed attempts are forgotten.
    Reset,
}

impl Request {
    /// The annotation of the HelmOp.
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::Reconcile => labels::RECONCILE_REQUESTED_AT,
            Self::Force => labels::FORCE_REQUESTED_AT,
            Self::Reset => labels::RESET_REQUESTED_AT,
        }
    }

    const fn of(self, requests: &Requests) -> &String {
        match self {
            Self::Reconcile => &requests.reconcile,
            Self::Force => &requests.force,
            Self::Reset => &requests.reset,
        }
    }
}

/// Whether the agents of all clusters have handled a request, and the HelmOp is ready then.
pub fn reconciled(observed: &Observed, request: Request, token: &str) -> Verdict {
    let is_open = |deployment: &&BundleDeployment| {
        let lifecycle = deployment.status.lifecycle.as_ref();
        let handled = lifecycle.and_then(|lifecycle| lifecycle.handled.as_ref());
        let handled = handled.map(|handled| request.of(handled).as_str());
        !is_handled(&observed.helmop, request.annotation(), token, handled)
    };
    let open: Vec<_> = observed.deployments.iter().filter(is_open).collect();
    let Some(first) = open.first() else {
        return ready(observed);
    };
    let (open, all) = (open.len(), observed.deployments.len());
    let cluster = cluster_of(first);
    Verdict::Pending(format!(
        "{open} of {all} agents have not handled the request, such as that of cluster {cluster}"
    ))
}

/// The name of the cluster of a deployment, or else its namespace.
pub fn cluster_of(deployment: &BundleDeployment) -> &str {
    let labels = deployment.metadata.labels.as_ref();
    let name = labels.and_then(|labels| labels.get(labels::CLUSTER));
    name.map_or_else(
        || deployment.metadata.namespace.as_deref().unwrap_or_default(),
        String::as_str,
    )
}

fn condition(helmop: &HelmOp, r#type: ConditionType) -> Option<&Condition> {
    let conditions = helmop.status.iter().flat_map(|status| &status.base.conditions);
    conditions
        .into_iter()
        .find(|condition| condition.r#type == r#type.as_str())
}

fn explained(condition: &Condition) -> String {
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn observed(generation: i64, status: &Value) -> Observed {
        let helmop = json!({
            "metadata": { "name": "web", "generation": generation },
            "spec": {},
            "status": status,
        });
        Observed {
            helmop: serde_json::from_value(helmop).unwrap(),
            ..Observed::default()
        }
    }

    fn conditions(conditions: &[[&str; 4]]) -> Value {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|[kind, status, reason, message]| {
                json!({ "type": kind, "status": status, "reason": reason, "message": message })
            })
            .collect();
        json!({
            "observedGeneration": 2, "version": "1.2.0", "readyClusters": 1, "desiredReadyClusters": 3, "conditions": conditions,
        })
    }

    #[test]
    fn a_helmop_is_ready_if_its_conditions_are_for_what_is_stored() {
        let is_ready = conditions(&[["Ready", "True", "Ready", ""]]);
        let is_late = conditions(&[["Ready", "False", "NotReady", "NotReady 2: …"]]);
        let stalled = ["Stalled", "True", "VersionNotFound", "no version matches ^9"];
        let is_stalled = conditions(&[["Ready", "False", "VersionNotFound", ""], stalled]);
        for (generation, status, expected) in [
            (
                2,
                is_ready.clone(),
                Verdict::Reached("version 1.2.0, 1 of 3 clusters ready".into()),
            ),
            (
                3,
                is_ready,
                Verdict::Pending("the controller has not seen the change yet".into()),
            ),
            (
                2,
                is_late,
                Verdict::Pending("1 of 3 clusters ready: NotReady: NotReady 2: …".into()),
            ),
            (
                2,
                is_stalled.clone(),
                Verdict::Failed("VersionNotFound: no version matches ^9".into()),
            ),
            (
                3,
                is_stalled,
                Verdict::Pending("the controller has not seen the change yet".into()),
            ),
            (
                1,
                Value::Null,
                Verdict::Pending("the controller has not reported yet".into()),
            ),
        ] {
            assert_eq!(
                ready(&observed(generation, &status)),
                expected,
                "{generation} {status}"
            );
        }
    }

    #[test]
    fn a_version_is_awaited() {
        let is_ready = observed(2, &conditions(&[["Ready", "True", "Ready", ""]]));
        assert!(matches!(
            ready_in_version(&is_ready, "1.2.0"),
            Verdict::Reached(_)
        ));
        assert_eq!(
            ready_in_version(&is_ready, "1.3.0"),
            Verdict::Pending("version 1.2.0 is ready, and not 1.3.0".into())
        );
    }

    #[test]
    fn a_condition_is_awaited_by_its_name_in_any_case() {
        let observed = observed(
            2,
            &conditions(&[["Polled", "True", "Polled", "ok"], ["Ready", "False", "A", "b"]]),
        );
        for (name, expected) in [
            ("polled", Verdict::Reached("Polled: ok".into())),
            ("Ready", Verdict::Pending("A: b".into())),
            ("Other", Verdict::Pending("there is no condition Other".into())),
        ] {
            assert_eq!(condition_is_true(&observed, name), expected, "{name}");
        }
    }

    #[test]
    fn a_poll_is_over_when_the_bundle_has_its_token() {
        let mut polled = observed(2, &conditions(&[["Polled", "False", "FetchFailed", "refused"]]));
        let verdict = |observed: &Observed, before| super::polled(observed, "7", before);
        assert_eq!(
            verdict(&polled, "1.1.0"),
            Verdict::Pending("FetchFailed: refused".into())
        );
        // The status still has version 1.2.0 when the Bundle has the next one.
        for (version, before, expected) in [
            ("1.2.0", "1.1.0", "version 1.1.0 is replaced by 1.2.0"),
            ("1.2.0", "1.2.0", "version 1.2.0 is the newest in the range"),
            ("1.3.0", "1.2.0", "version 1.2.0 is replaced by 1.3.0"),
            ("1.2.0", "", "version 1.2.0 is the newest in the range"),
        ] {
            let annotations = json!({ labels::LAST_HANDLED_POLL: "7" });
            let helm = json!({ "chart": "web", "version": version });
            let bundle = json!({ "metadata": { "annotations": annotations }, "spec": { "helm": helm } });
            polled.bundle = Some(serde_json::from_value(bundle).unwrap());
            assert_eq!(verdict(&polled, before), Verdict::Reached(expected.into()));
        }
    }

    /// A push to a Receiver, a second person or a second shell.
    #[test]
    fn a_later_request_that_was_handled_ends_the_wait_for_one_that_it_replaced() {
        let mut observed = observed(2, &conditions(&[["Ready", "True", "Ready", ""]]));
        let request = |observed: &mut Observed, annotation: &str, token: &str| {
            let annotations = observed.helmop.metadata.annotations.get_or_insert_default();
            annotations.insert(annotation.into(), token.into());
        };
        let handle = |observed: &mut Observed, token: &str| {
            let bundle =
                json!({ "metadata": { "annotations": { labels::LAST_HANDLED_POLL: token } }, "spec": {} });
            observed.bundle = Some(serde_json::from_value(bundle).unwrap());
            let deployment = json!({ "metadata": {}, "spec": {}, "status": { "lifecycle": { "handled": { "reconcile": token } } } });
            observed.deployments = vec![serde_json::from_value(deployment).unwrap()];
        };
        for (requested, handled, is_over) in [
            ("7", "6", false),
            ("7", "7", true),
            ("push-1-1", "6", false),
            // The request before ours is handled late.
            ("push-1-1", "", false),
            ("push-1-1", "7", true),
            ("push-1-1", "push-1-1", true),
        ] {
            for annotation in [labels::POLL_REQUESTED_AT, Request::Reconcile.annotation()] {
                request(&mut observed, annotation, requested);
            }
            handle(&mut observed, handled);
            for verdict in [
                polled(&observed, "7", "1.0.0"),
                reconciled(&observed, Request::Reconcile, "7"),
            ] {
                let is_reached = matches!(verdict, Verdict::Reached(_));
                assert_eq!(is_reached, is_over, "{requested} {handled}: {verdict:?}");
            }
        }
    }

    #[test]
    fn a_request_is_handled_when_every_agent_says_so() {
        let deployment = |cluster: &str, handled: &Value| -> BundleDeployment {
            let object = json!({
                "metadata": { "name": "web", "namespace": "c", "labels": { labels::CLUSTER: cluster } },
                "spec": {},
                "status": { "lifecycle": { "handled": handled } },
            });
            serde_json::from_value(object).unwrap()
        };
        let mut observed = observed(2, &conditions(&[["Ready", "True", "Ready", ""]]));
        observed.deployments = vec![
            deployment("a", &json!({ "reconcile": "7" })),
            deployment("b", &json!({ "reconcile": "6", "force": "7" })),
        ];
        assert_eq!(
            reconciled(&observed, Request::Reconcile, "7"),
            Verdict::Pending("1 of 2 agents have not handled the request, such as that of cluster b".into())
        );
        observed.deployments.truncate(1);
        assert!(matches!(
            reconciled(&observed, Request::Reconcile, "7"),
            Verdict::Reached(_)
        ));
        assert!(matches!(
            reconciled(&observed, Request::Reset, "7"),
            Verdict::Pending(_)
        ));
    }
}
