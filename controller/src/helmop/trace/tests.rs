//! Which trace a HelmOp and its Bundle belong to.

use std::collections::HashSet;

use helmops_trace::TraceArgs;
use serde_json::{Value, json};

use super::*;

fn tracer() -> Tracer {
    TraceArgs::unexported().unwrap()
}

fn helmop(generation: i64, status: &Value) -> HelmOp {
    let object = json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": "4f3c", "generation": generation,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": status,
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn bundle(generation: i64, traceparent: Option<&str>) -> Bundle {
    let mut bundle = Bundle::default();
    bundle.metadata.generation = Some(generation);
    let annotation = traceparent.map(|text| [(labels::TRACEPARENT.to_owned(), text.to_owned())].into());
    bundle.metadata.annotations = annotation;
    bundle
}

fn ready(observed: Option<i64>, status: &str, since: &str) -> Value {
    json!({
        "observedGeneration": observed,
        "conditions": [{ "type": "Ready", "status": status, "lastTransitionTime": since }],
    })
}

/// The `traceparent` of the next write, and the trace of reconciliations after it.
fn write(helmop: &HelmOp, before: Option<&Bundle>, generation: i64) -> (Bundle, TraceContext) {
    let tracer = tracer();
    let next = next(&tracer, helmop, before).unwrap();
    let written = bundle(generation, Some(&next));
    let current = current(&tracer, helmop, Some(&written)).unwrap();
    assert_eq!(current.to_string(), next);
    (written, current)
}

#[test]
fn a_generation_has_a_trace_and_each_newer_version_another_one() {
    let (first, second) = (helmop(1, &Value::Null), helmop(2, &Value::Null));
    let admission = tracer().root("4f3c", 1, 0).unwrap();
    assert_eq!(
        current(&tracer(), &first, None),
        Some(admission),
        "before there is a Bundle"
    );
    let (created, applied) = write(&first, None, 1);
    assert_eq!(applied, admission);
    let (polled, poll) = write(&first, Some(&created), 2);
    let (_, next_poll) = write(&first, Some(&polled), 3);
    let (changed, change) = write(&second, Some(&polled), 3);
    assert_eq!(
        change,
        tracer().root("4f3c", 2, 0).unwrap(),
        "that of its admission"
    );
    let traces = [admission, poll, next_poll, change];
    let ids: HashSet<_> = traces.iter().map(TraceContext::trace_id).collect();
    assert_eq!(ids.len(), traces.len(), "{traces:?}");
    // Until its Bundle is written, a new generation is in its own trace.
    assert_eq!(
        current(&tracer(), &helmop(3, &Value::Null), Some(&changed)),
        tracer().root("4f3c", 3, 0)
    );
}

#[test]
fn a_bundle_of_a_controller_without_traces_starts_one() {
    let (_, trace) = write(&helmop(1, &Value::Null), Some(&bundle(4, None)), 5);
    assert_eq!(Some(trace), tracer().root("4f3c", 1, 0));
}

#[test]
fn without_traces_nothing_is_written() {
    assert_eq!(next(&Tracer::disabled(), &helmop(1, &Value::Null), None), None);
}

#[test]
fn what_is_ready_is_not_traced() {
    for (status, expected) in [
        (Value::Null, false),
        (ready(Some(1), "False", ""), false),
        (ready(Some(1), "True", ""), true),
        // A newer generation.
        (ready(Some(0), "True", ""), false),
        // Fleet's CRD.
        (ready(None, "True", ""), true),
    ] {
        assert_eq!(is_ready(&helmop(1, &status)), expected, "{status}");
    }
}

/// The spec was changed at noon; the HelmOp is ready a moment after.
const CHANGED: &str = "2026-03-01T12:00:00Z";
const NOW: &str = "2026-03-01T12:05:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The rollout that ends when a HelmOp with this status becomes ready.
fn ending_of(helmop: &HelmOp, bundle: &Bundle, status: &str) -> Option<Ending> {
    let next: HelmOpStatus = serde_json::from_str(&ready(Some(1), status, "").to_string()).unwrap();
    ending(&tracer(), helmop, Some(bundle), &next)
}

#[test]
fn a_rollout_ends_once_and_only_when_all_clusters_are_ready() {
    let bundle = bundle(1, None);
    let new = helmop(1, &ready(Some(1), "False", "2026-01-01T00:00:01Z"));
    assert!(ending_of(&new, &bundle, "False").is_none());
    let ending = ending_of(&new, &bundle, "True").unwrap();
    assert_eq!(Some(ending.trace), tracer().root("4f3c", 1, 0));
    let already = helmop(1, &ready(Some(1), "True", "2026-01-02T00:00:00Z"));
    assert!(ending_of(&already, &bundle, "True").is_none());
}

/// Whatever the condition `Ready` says, the root starts with the change: it must not last for the weeks before.
#[test]
fn the_root_starts_with_the_change() {
    let traced = |generation, trace| {
        let trace = tracer().root("4f3c", trace, generation).unwrap();
        bundle(generation, Some(&trace.to_string()))
    };
    let old = bundle(1, None);
    let cases = [
        (
            "an edit that rolls nothing out: Ready stays True, and its time is weeks old",
            (2, ready(Some(1), "True", "2026-01-01T00:00:09Z"), old.clone()),
            Change::HelmOp,
        ),
        (
            "an edit that rolls out",
            (2, ready(Some(2), "False", "2026-03-01T12:00:30Z"), old.clone()),
            Change::HelmOp,
        ),
        (
            "an edit that repairs what has failed for weeks",
            (2, ready(Some(2), "False", "2026-01-01T00:00:09Z"), old),
            Change::HelmOp,
        ),
        (
            "a newer version that a poll finds",
            (1, ready(Some(1), "False", "2026-03-01T12:00:01Z"), traced(7, 1)),
            Change::Bundle,
        ),
        (
            "a newer version that repairs what has failed for weeks",
            (1, ready(Some(1), "False", "2026-01-01T00:00:09Z"), traced(7, 1)),
            Change::Bundle,
        ),
        (
            "the first rollout after Fleet's controller, which has no times",
            (2, ready(None, "False", ""), traced(0, 2)),
            Change::HelmOp,
        ),
    ];
    for (case, (generation, status, bundle), change) in cases {
        let ending = ending_of(&helmop(generation, &status), &bundle, "True").expect(case);
        assert_eq!(ending.change, change, "{case}");
        let span = ending.started_at(Some(time(CHANGED)), time(NOW)).expect(case);
        assert_eq!(span.start, SystemTime::from(time(CHANGED)), "{case}");
    }
    // The creation needs no request.
    let first = helmop(1, &ready(Some(1), "False", "2026-01-01T00:00:01Z"));
    let ending = ending_of(&first, &bundle(1, None), "True").unwrap();
    assert_eq!(ending.change, Change::Creation(time("2026-01-01T00:00:00Z")));
}

/// A pod that crashes weeks after a rollout is no part of it.
#[test]
fn what_is_ready_again_without_a_change_has_no_second_root() {
    for (since, expected) in [
        ("2026-03-01T12:00:30Z", true),
        ("2026-03-01T12:59:00Z", true),
        ("2026-03-01T13:00:01Z", false),
        ("2026-03-20T00:00:00Z", false),
    ] {
        let status = ready(Some(2), "False", since);
        let ending = ending_of(&helmop(2, &status), &bundle(1, None), "True").unwrap();
        let span = ending.started_at(Some(time(CHANGED)), time("2026-03-20T00:05:00Z"));
        assert_eq!(span.is_some(), expected, "{since}");
    }
}

#[test]
fn without_the_time_of_the_change_the_root_is_short() {
    let status = ready(Some(1), "True", "2026-01-01T00:00:09Z");
    for changed in [None, Some(time("2026-03-01T12:06:00Z"))] {
        let ending = ending_of(&helmop(2, &status), &bundle(1, None), "True").unwrap();
        let span = ending.started_at(changed, time(NOW)).unwrap();
        assert_eq!(span.start, SystemTime::from(time(NOW)), "{changed:?}");
    }
}

#[test]
fn the_last_change_of_the_spec_is_the_one_of_any_client() {
    let metadata = |entries: Value| -> ObjectMeta {
        serde_json::from_value(json!({ "name": "web", "managedFields": entries })).unwrap()
    };
    let entry = |at: &str, field: &str, subresource: &str| json!({ "manager": at, "operation": "Update", "time": at, "subresource": subresource, "fieldsV1": { field: {} } });
    let all = json!([
        entry("2026-03-01T11:00:00Z", "f:spec", ""),
        entry(CHANGED, "f:spec", ""),
        entry("2026-03-01T12:01:00Z", "f:metadata", ""),
        entry("2026-03-01T12:02:00Z", "f:status", "status"),
        entry("2026-03-01T12:03:00Z", "f:spec", "scale"),
    ]);
    assert_eq!(last_change_of_spec(&metadata(all)), Some(time(CHANGED)));
    assert_eq!(last_change_of_spec(&metadata(json!([]))), None);
    assert_eq!(last_change_of_spec(&ObjectMeta::default()), None);
}

#[test]
fn a_change_of_an_untraced_bundle_is_not_the_one_of_the_helmop() {
    let reported = helmop(1, &ready(Some(1), "False", ""));
    let (_, trace) = write(&reported, Some(&bundle(4, None)), 5);
    assert_eq!(
        Some(trace),
        tracer().root("4f3c", 1, 5),
        "a poll has found a newer version"
    );
    let (_, trace) = write(&helmop(2, &ready(Some(1), "True", "")), Some(&bundle(4, None)), 5);
    assert_eq!(Some(trace), tracer().root("4f3c", 2, 0), "the HelmOp was changed");
}
