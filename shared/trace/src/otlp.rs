//! A batch of spans as the JSON of OTLP (`ExportTraceServiceRequest`).
//!
//! In this encoding, IDs are hexadecimal, enums are numbers, and 64-bit integers are strings.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::record::SpanRecord;

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;
/// `STATUS_CODE_OK`.
const OK: u8 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;
/// The name of the instrumentation scope.
const SCOPE: &str = "helmops";

/// What all spans of a process have in common.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Name of the program.
    pub service: &'static str,
    /// Its version.
    pub version: String,
    /// The replica.
    pub instance: String,
    /// Namespace of the process, if it runs in a pod.
    pub namespace: Option<String>,
}

/// Encodes a batch.
pub fn encode(resource: &Resource, spans: &[SpanRecord]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let mut attributes = vec![
        attribute("service.name", resource.service),
        attribute("service.version", &resource.version),
        attribute("service.instance.id", &resource.instance),
    ];
    let namespace = resource.namespace.as_deref();
    attributes.extend(namespace.map(|namespace| attribute("k8s.namespace.name", namespace)));
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes },
            "scopeSpans": [{ "scope": { "name": SCOPE, "version": resource.version }, "spans": spans }],
        }],
    })
}

fn span(span: &SpanRecord) -> Value {
    let attributes: Vec<Value> = span
        .attributes
        .iter()
        .map(|one| attribute(one.key, &one.value))
        .collect();
    let status = match &span.error {
        Some(message) => json!({ "code": ERROR, "message": message }),
        None => json!({ "code": OK }),
    };
    let mut encoded = json!({
        "traceId": span.context.trace_id(),
        "spanId": span.context.span_id(),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(span.start),
        "endTimeUnixNano": nanoseconds(span.end.max(span.start)),
        "attributes": attributes,
        "status": status,
    });
    if let (Some(parent), Some(fields)) = (&span.parent, encoded.as_object_mut()) {
        fields.insert("parentSpanId".to_owned(), parent.span_id().into());
    }
    encoded
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{context::TraceContext, record::Attribute};

    #[test]
    fn a_span_is_encoded_as_the_protocol_requires() {
        let root = TraceContext::root("uid", 1, 0);
        let start = UNIX_EPOCH + Duration::new(1_800_000_000, 5);
        let record = SpanRecord {
            context: root.child(0x1f),
            parent: Some(root),
            name: "resolve",
            start,
            end: start + Duration::from_millis(2),
            attributes: vec![Attribute {
                key: "helmops.version",
                value: "1.2.3".into(),
            }],
            error: None,
        };
        let resource = Resource {
            service: "helmops-controller",
            version: "0.1.0".to_owned(),
            instance: "pod-1".to_owned(),
            namespace: None,
        };
        let failed = SpanRecord {
            parent: None,
            error: Some("no such chart".to_owned()),
            end: start - Duration::from_secs(1),
            ..record.clone()
        };
        let encoded = encode(&resource, &[record, failed]);
        let group = &encoded["resourceSpans"][0];
        assert_eq!(
            group["resource"]["attributes"][0],
            json!({ "key": "service.name", "value": { "stringValue": "helmops-controller" } })
        );
        let spans = &group["scopeSpans"][0]["spans"];
        assert_eq!(
            spans[0],
            json!({
                "traceId": root.trace_id(),
                "spanId": "000000000000001f",
                "parentSpanId": root.span_id(),
                "name": "resolve",
                "kind": 1,
                "startTimeUnixNano": "1800000000000000005",
                "endTimeUnixNano": "1800000000002000005",
                "attributes": [{ "key": "helmops.version", "value": { "stringValue": "1.2.3" } }],
                "status": { "code": 1 },
            })
        );
        assert_eq!(
            spans[1]["status"],
            json!({ "code": 2, "message": "no such chart" })
        );
        assert_eq!(spans[1].get("parentSpanId"), None);
        assert_eq!(
            spans[1]["endTimeUnixNano"], spans[1]["startTimeUnixNano"],
            "a clock that was set back"
        );
    }
}
