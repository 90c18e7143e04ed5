use bounded_text::cut;
use gotmpl::Budget;
use helmops_api::{Bundle, BundleDeployment, Cluster, labels};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    status::{RolloutRound, TargetStatus},
    targeting::{Member, RolloutStep, plan, rollout::Rollout, targets},
};

/// A Bundle with one cluster in each partition, of which the last one has a gate.
struct Fixture {
    bundle: Bundle,
    clusters: Vec<Cluster>,
    deployments: Vec<BundleDeployment>,
    now: i64,
}

fn decoded<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn evaluate(request: &GateRequest, now: Timestamp) -> GateState {
    let Gate::Expression(expression) = &request.gate else {
        panic!("{request:?}");
    };
    GateState::of_expression(expression, &request.facts, now)
}

impl Fixture {
    fn new(expression: &str, over: &Value) -> Self {
        let names = ["first", "second", "last"];
        let mut partitions: Vec<_> = names
            .iter()
            .map(|name| json!({ "name": name, "clusterName": name }))
            .collect();
        partitions[2]["gate"] = json!({ "expression": expression });
        json_patch::merge(&mut partitions[2], over);
        let charts = json!([{ "chart": "web", "version": "1.2.3", "digest": "sha256:a" }]);
        let bundle = json!({
            "metadata": {
                "name": "web", "namespace": "fleet", "labels": { labels::HELM_NAME: "web" },
                "annotations": { labels::RESOLVED: charts.to_string() },
            },
            "spec": {
                "rolloutStrategy": { "partitions": partitions }, "helm": { "chart": "web", "version": "1.2.3" },
                "targets": [{ "clusterSelector": {} }],
            },
        });
        let cluster = |name: &&str| {
            decoded(&json!({
                "metadata": { "name": name, "namespace": "fleet" }, "status": { "namespace": format!("cluster-{name}") },
            }))
        };
        Self {
            bundle: decoded(&bundle),
            clusters: names.iter().map(cluster).collect(),
            deployments: Vec::new(),
            now: 1_800_000_000,
        }
    }

    /// One round, in which the gate is evaluated as it is. Returns what it was evaluated with.
    fn round(&mut self) -> Option<GateRequest> {
        let now = Timestamp::from_second(self.now).unwrap();
        let existing: Vec<_> = self.deployments.iter().collect();
        let members = self.clusters.iter().map(|cluster| Member::new(cluster, []));
        let found = targets(&self.bundle, members, &existing, false, &Budget::default()).unwrap();
        let mut gates = GateStates::default();
        let mut request = None;
        let rollout = loop {
            let rollout = plan(&self.bundle, &found, &gates, now).unwrap();
            let Some(required) = rollout.required_gate.clone() else {
                break rollout;
            };
            gates.add(required.partition, evaluate(&required, now));
            request = Some(*required);
        };
        let promoted: Vec<_> = found
            .iter()
            .zip(&rollout.steps)
            .filter(|(_, step)| **step == RolloutStep::Promote)
            .map(|(target, _)| {
                let id = &target.desired.as_ref().unwrap().id;
                decoded(&json!({
                    "metadata": { "name": "web", "namespace": target.namespace().unwrap() },
                    "spec": { "deploymentID": id, "stagedDeploymentID": id },
                }))
            })
            .collect();
        self.bundle.status = Some(Box::new(status(&self.bundle, &found, &rollout, now)));
        for deployment in promoted {
            self.deployments.push(deployment);
        }
        request
    }

    fn make_ready(&mut self) {
        for deployment in &mut self.deployments {
            let (spec, status) = (&deployment.spec, &mut deployment.status);
            status.applied_deployment_id.clone_from(&spec.deployment_id);
            status.ready = true;
            status.non_modified = true;
        }
    }

    fn waits(&self) -> (String, String, String) {
        let rollout = self.bundle.status.as_ref().unwrap().rollout.clone().unwrap();
        (rollout.waits_for, rollout.since, rollout.message)
    }

    fn passed_at(&self) -> &str {
        &self.bundle.status.as_ref().unwrap().partitions[2].gate_passed_at
    }
}

fn status(
    bundle: &Bundle,
    found: &[crate::targeting::Target<'_>],
    rollout: &Rollout,
    now: Timestamp,
) -> helmops_api::bundle::BundleStatus {
    let statuses: Vec<_> = found
        .iter()
        .map(|target| TargetStatus {
            target,
            deployment: target.existing,
            problem: None,
        })
        .collect();
    crate::status::bundle(bundle, RolloutRound::Done(rollout, &statuses), &now.to_string())
}

#[test]
fn a_gate_decides_on_what_is_rolled_out_and_how_far_it_is() {
    let mut fixture = Fixture::new("false", &json!({}));
    assert!(fixture.round().is_none(), "earlier partitions are not complete");
    assert_eq!(fixture.deployments.len(), 2);
    let (waits_for, since, message) = fixture.waits();
    assert_eq!((&*waits_for, &*since), ("Gate", ""));
    assert_eq!(
        message,
        "partition \"last\" waits until partition \"first\" is complete, and then for its gate: 1 of its 1 clusters are not up to date and \
         ready"
    );
    fixture.make_ready();
    let request = fixture.round().unwrap();
    fixture.now += 60;
    fixture.deployments[1].status.non_modified = false;
    let later = fixture.round().unwrap();
    let partition = |name: &str, counts: [i64; 3], since: i64| PartitionFacts {
        name: name.to_owned(),
        clusters: 1,
        ready: counts[0],
        modified: counts[1],
        waiting: counts[2],
        failed: 0,
        since,
    };
    let began = fixture.now - 60;
    let mut expected = GateFacts {
        rollout: fixture
            .bundle
            .status
            .as_ref()
            .unwrap()
            .rollout
            .as_ref()
            .unwrap()
            .id
            .clone(),
        version: "1.2.3".to_owned(),
        digest: "sha256:a".to_owned(),
        now: began,
        partition: partition("last", [0, 0, 1], began),
        previous: vec![
            partition("first", [1, 0, 0], began),
            partition("second", [1, 0, 0], began),
        ],
    };
    assert_eq!(request.facts, expected);
    expected.now = fixture.now;
    expected.previous[1] = partition("second", [0, 1, 0], began);
    assert_eq!(later.facts, expected);
    let (waits_for, since, message) = fixture.waits();
    assert_eq!((&*waits_for, &*since), ("Gate", ""), "it opens by itself");
    assert_eq!(
        message,
        "partition \"last\" waits for its gate: false is not true"
    );
}

#[test]
fn a_gate_that_was_passed_stays_passed_for_the_rollout() {
    let mut fixture = Fixture::new("now - partition.since >= 120", &json!({}));
    fixture.round();
    fixture.make_ready();
    fixture.round();
    assert_eq!((fixture.deployments.len(), fixture.passed_at()), (2, ""));
    fixture.now += 120;
    fixture.round();
    let passed = Timestamp::from_second(fixture.now).unwrap().to_string();
    assert_eq!((fixture.deployments.len(), fixture.passed_at()), (3, &*passed));
    // The cluster is away, and joins again.
    fixture.deployments.pop();
    fixture.deployments[0].status.ready = false;
    fixture.now += 60;
    assert!(fixture.round().is_none());
    assert_eq!((fixture.deployments.len(), fixture.passed_at()), (3, &*passed));
    // Another version has to pass it again.
    fixture.make_ready();
    let helm = fixture.bundle.spec.options.helm.as_mut().unwrap();
    helm.version = "1.3.0".to_owned();
    fixture.round();
    assert_eq!((&*fixture.waits().0, fixture.passed_at()), ("Gate", ""));
}

#[test]
fn a_gate_comes_before_the_approval_and_is_passed_with_it() {
    let mut fixture = Fixture::new(
        "now < 1800000060 || now > 1800000120",
        &json!({ "approval": "Manual" }),
    );
    fixture.round();
    fixture.make_ready();
    fixture.round();
    assert_eq!((&*fixture.waits().0, fixture.passed_at()), ("Approval", ""));
    fixture.now += 90;
    fixture.round();
    assert_eq!(&*fixture.waits().0, "Gate", "it has closed again");
    let annotations = fixture.bundle.metadata.annotations.as_mut().unwrap();
    let id = fixture
        .bundle
        .status
        .as_ref()
        .unwrap()
        .rollout
        .as_ref()
        .unwrap()
        .id
        .clone();
    annotations.insert(labels::APPROVED_ROLLOUT.to_owned(), id);
    fixture.round();
    assert_eq!(&*fixture.waits().0, "Gate", "an approval does not open it");
    fixture.now += 90;
    fixture.round();
    assert_eq!(&*fixture.waits().0, "");
    assert_eq!(fixture.deployments.len(), 3);
}

#[test]
fn a_gate_that_cannot_be_evaluated_stays_closed_until_a_user_corrects_it() {
    let mut fixture = Fixture::new("1 / partition.ready > 0", &json!({}));
    fixture.round();
    fixture.make_ready();
    for _ in 0..2 {
        let began = Timestamp::from_second(1_800_000_000).unwrap().to_string();
        fixture.round();
        let (waits_for, since, message) = fixture.waits();
        assert_eq!((&*waits_for, &*since), ("Gate", &*began));
        let expected = "partition \"last\" waits for its gate, which cannot be evaluated: 1 / partition.ready > 0: Division by zero";
        assert!(message.starts_with(expected), "{message}");
        fixture.now += 60;
    }
    assert_eq!(fixture.deployments.len(), 2);
}

#[test]
fn a_gate_is_not_evaluated_while_the_rollout_is_paused() {
    let mut fixture = Fixture::new("true", &json!({}));
    fixture.round();
    fixture.make_ready();
    fixture.bundle.spec.paused = true;
    assert!(fixture.round().is_none());
    assert_eq!((&*fixture.waits().0, fixture.passed_at()), ("", ""));
    fixture.bundle.spec.paused = false;
    assert!(fixture.round().is_some());
    assert_eq!(fixture.deployments.len(), 3);
}

#[test]
fn an_expression_that_depends_on_the_time_is_evaluated_again() {
    let again = |expression: &str| {
        let gate = decoded(&json!({ "expression": expression }));
        let request = GateRequest {
            partition: 0,
            gate: Gate::parse(&gate).unwrap(),
            facts: GateFacts::examples(&["a"], 0)[0].clone(),
        };
        evaluate(&request, Timestamp::UNIX_EPOCH)
            .again
            .map(Timestamp::as_second)
    };
    assert_eq!(again("now > 5"), Some(60));
    assert_eq!(again("partition.ready > 5"), None);
}

#[test]
fn an_invalid_gate_is_an_error_of_the_strategy() {
    let mut fixture = Fixture::new("true", &json!({}));
    let strategy = fixture.bundle.spec.rollout_strategy.as_mut().unwrap();
    strategy.partitions[2].gate = Some(decoded(&json!({ "expression": "ready > 1" })));
    let members = fixture.clusters.iter().map(|cluster| Member::new(cluster, []));
    let found = targets(&fixture.bundle, members, &[], false, &Budget::default()).unwrap();
    let error = plan(
        &fixture.bundle,
        &found,
        &GateStates::default(),
        Timestamp::UNIX_EPOCH,
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("rolloutStrategy.partitions: gate.expression: unknown variable \"ready\""),
        "{error}"
    );
}

#[test]
fn the_variables_and_fields_of_an_expression_are_those_that_it_decides_on() {
    let example = serde_json::to_value(&GateFacts::examples(&["a", "b"], 1)[1]).unwrap();
    let names = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&example), facts::VARIABLES);
    assert_eq!(names(&example["partition"]), facts::FIELDS);
    assert_eq!(example["previous"][0], {
        let mut first = example["partition"].clone();
        first["name"] = json!("a");
        first
    });
}

fn endpoint(over: &Value) -> Result<GateEndpoint, InvalidGate> {
    let mut gate = json!({ "url": "https://gates.example.com/web" });
    json_patch::merge(&mut gate, over);
    match Gate::parse(&decoded(&gate))? {
        Gate::Endpoint(endpoint) => Ok(*endpoint),
        Gate::Expression(expression) => panic!("{expression:?}"),
    }
}

#[test]
fn an_endpoint_is_checked() {
    let found = endpoint(&json!({})).unwrap();
    assert_eq!((found.interval.as_secs(), found.timeout.as_secs()), (60, 5));
    let found = endpoint(&json!({ "interval": "10s", "timeout": "10s", "secretName": "gate" })).unwrap();
    assert_eq!((found.interval.as_secs(), found.timeout.as_secs()), (10, 10));
    for (over, field, words) in [
        (
            json!({ "url": "http://gates.example.com" }),
            "url",
            "over HTTPS only",
        ),
        (
            json!({ "url": "gates.example.com" }),
            "url",
            "not the URL of an endpoint",
        ),
        (
            json!({ "url": "https://user:secret@gates.example.com" }),
            "url",
            "write it into the Secret",
        ),
        (
            json!({ "interval": "9s" }),
            "interval",
            "must be from 10s to 86400s",
        ),
        (json!({ "interval": "1d" }), "interval", "Go duration"),
        (
            json!({ "timeout": "11s" }),
            "timeout",
            "must be from 100ms to 10s",
        ),
        (json!({ "secretName": "A_b" }), "secretName", ""),
        (json!({ "expression": "true" }), "url", "not both"),
        (
            json!({ "url": null, "expression": "true", "timeout": "5s" }),
            "timeout",
            "no effect without url",
        ),
        (json!({ "url": null }), "expression", "needs an expression"),
    ] {
        let error = endpoint(&over).unwrap_err();
        assert_eq!(error.field, field, "{over}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!format!("{error:?}").contains("secret@"), "{error:?}");
    }
}

#[test]
fn the_response_of_an_endpoint_decides() {
    let endpoint = endpoint(&json!({})).unwrap();
    let closed = |text: &str| Verdict::Closed(format!("gates.example.com {text}"));
    let failed = |text: &str| {
        Verdict::Failed(format!(
            "gates.example.com: {text}; the next request follows in 60s"
        ))
    };
    let no_json = "the response is not JSON such as {\"open\": true}";
    let long = "x".repeat(300);
    for (response, expected) in [
        (json!({ "open": true }).to_string(), Verdict::Open),
        (
            json!({ "open": true, "message": "ok", "more": 1 }).to_string(),
            Verdict::Open,
        ),
        (
            json!({ "open": false }).to_string(),
            closed("responds that it is closed"),
        ),
        (
            json!({ "open": false, "message": "2%" }).to_string(),
            closed("responds: 2%"),
        ),
        (
            json!({ "open": false, "message": long }).to_string(),
            closed(&format!("responds: {}", cut(long.clone(), 256))),
        ),
        (
            json!({ "open": false, "message": "2%\u{1b}[31m\u{202e}" }).to_string(),
            closed(&format!(
                "responds: {}",
                bounded_text::printable("2%\u{1b}[31m\u{202e}")
            )),
        ),
        (json!({ "message": "ok" }).to_string(), failed(no_json)),
        (json!({ "open": "true" }).to_string(), failed(no_json)),
        ("<html>".to_owned(), failed(no_json)),
        (String::new(), failed(no_json)),
        (
            format!("{{\"open\":true,\"more\":\"{}\"}}", "x".repeat(4 << 10)),
            failed("the response has more than 4 KiB"),
        ),
    ] {
        let state = endpoint.responded(response.as_bytes(), Timestamp::UNIX_EPOCH);
        assert_eq!(state.verdict, expected, "{response}");
    }
}

#[test]
fn a_request_that_has_failed_is_repeated_soon_and_is_a_mistake_only_if_it_does_not_resolve_itself() {
    let after = |interval: &str, failure: &EndpointFailure| {
        let endpoint = endpoint(&json!({ "interval": interval })).unwrap();
        let state = endpoint.failed(failure, Timestamp::UNIX_EPOCH);
        let again = state.again.unwrap().as_second();
        match &state.verdict {
            Verdict::Open => panic!("{failure:?}"),
            Verdict::Closed(cause) | Verdict::Failed(cause) => {
                let expected = format!("gates.example.com: status 1; the next request follows in {again}s");
                assert_eq!(*cause, expected);
            }
        }
        (again, state.has_failed())
    };
    let failure = |is_transient: bool, in_a_row: usize, retry_after: Option<u64>| EndpointFailure {
        cause: "status 1".to_owned(),
        is_transient,
        retry_after: retry_after.map(std::time::Duration::from_secs),
        in_a_row,
    };
    for (interval, failure, expected) in [
        ("12h", failure(false, 1, None), (60, true)),
        ("12h", failure(true, 1, None), (60, false)),
        ("12h", failure(true, 4, Some(90)), (90, false)),
        ("12h", failure(true, 5, Some(5)), (60, true)),
        ("10s", failure(true, 1, None), (10, false)),
        ("10s", failure(true, 1, Some(30)), (30, false)),
    ] {
        assert_eq!(after(interval, &failure), expected, "{interval} {failure:?}");
    }
    let endpoint = endpoint(&json!({ "interval": "12h" })).unwrap();
    let again = |response: &[u8]| {
        let state = endpoint.responded(response, Timestamp::UNIX_EPOCH);
        state.again.unwrap().as_second()
    };
    assert_eq!(again(br#"{"open": false}"#), 12 * 3600);
    assert_eq!(again(b"<html>"), 60);
}

#[test]
fn an_expression_is_tried_out_with_what_it_is_evaluated_with() {
    let tried = |expression: &str, index: usize| {
        let gate = Gate::parse(&decoded(&json!({ "expression": expression }))).unwrap();
        gate.try_out(&GateFacts::examples(&["a", "b"], index))
            .map_err(|error| error.to_string())
    };
    for accepted in [
        "previous.all(p, p.failed == 0 && p.modified == 0)",
        "previous.filter(p, p.ready == p.clusters)[0].since > 0",
        "previous.filter(p, p.failed > 0)[0].since > 0",
        "partition.clusters / partition.ready > 1",
    ] {
        assert_eq!(tried(accepted, 1), Ok(()), "{accepted}");
    }
    for (denied, words) in [
        ("previous.all(p, p.failed == 0 && p.ready)", ""),
        ("previous.all(p, p.failed > 0 || p.ready)", ""),
        ("previous.all(p, p.failed == 0 && p.name > 1)", ""),
        ("previous.all(p, p.failed > 0 && p.name > 1)", ""),
        ("previous[5].ready > 1", "out of bounds"),
        ("1 / (partition.clusters - 10) > 1", "zero"),
    ] {
        let error = tried(denied, 1).unwrap_err();
        assert!(error.contains(words), "{denied}: {error}");
    }
    assert!(
        tried("previous[0].ready > 1", 0).is_err(),
        "the first has none before it"
    );
}
