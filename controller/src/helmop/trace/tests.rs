//! Which trace a HelmOp and its Bundle belong to.

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
    for (index, trace) in traces.iter().enumerate() {
        assert!(
            traces[..index].iter().all(|other| !other.is_same_trace(trace)),
            "{traces:?}"
        );
    }
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

#[test]
fn the_root_lasts_from_the_change_until_all_clusters_are_ready() {
    let time = |text: &str| SystemTime::from(text.parse::<Timestamp>().unwrap());
    let next =
        |status| serde_json::from_str::<HelmOpStatus>(&ready(Some(1), status, "").to_string()).unwrap();
    let root = |helmop: &HelmOp, generation, status| {
        root_span(&tracer(), helmop, Some(&bundle(generation, None)), &next(status))
    };
    let created = time("2026-01-01T00:00:00Z");
    let new = helmop(1, &ready(Some(1), "False", "2026-01-01T00:00:01Z"));
    assert_eq!(root(&new, 1, "True").unwrap().start, created);
    assert_eq!(root(&new, 1, "False"), None);
    let changed = helmop(2, &ready(Some(2), "False", "2026-01-02T00:00:00Z"));
    assert_eq!(
        root(&changed, 2, "True").unwrap().start,
        time("2026-01-02T00:00:00Z")
    );
    let already = helmop(1, &ready(Some(1), "True", "2026-01-02T00:00:00Z"));
    assert_eq!(root(&already, 1, "True"), None, "it is recorded once");
}
