//! The first span of a trace: the admission of a HelmOp.

use std::time::SystemTime;

use helmops_api::WithoutStatus;
use helmops_trace::{Attribute, SpanRecord, Tracer};
use serde::Deserialize;

use crate::review::{AdmissionRequest, AdmissionResponse};

/// The part of a stored object that shows whether its spec changes.
#[derive(Default, Deserialize)]
struct Stored {
    #[serde(default)]
    metadata: StoredMetadata,
}

#[derive(Default, Deserialize)]
struct StoredMetadata {
    generation: Option<i64>,
}

/// The span of the validation of a HelmOp whose spec changes, which took from `start` until now. A denied object has no trace: it is not
/// stored, and a new one may never get the UID that it was reviewed with.
pub fn admission(
    tracer: &Tracer,
    request: &AdmissionRequest<'_, WithoutStatus>,
    response: &AdmissionResponse,
    start: SystemTime,
) -> Option<SpanRecord> {
    if !tracer.is_enabled()
        || request.info.is_dry_run
        || response.denial.is_some()
        || !request.info.is_helmop()
    {
        return None;
    }
    let metadata = &request.object.as_ref().ok()?.as_ref()?.metadata;
    let generation = metadata.generation?;
    let stored = request
        .old_object
        .map(|stored| serde_json::from_str::<Stored>(stored.get()).unwrap_or_default());
    if stored.is_some_and(|stored| stored.metadata.generation == Some(generation)) {
        return None;
    }
    let root = tracer.root(metadata.uid.as_deref()?, generation, 0)?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into();
    Some(SpanRecord {
        context: tracer.child(root),
        parent: Some(root),
        name: "admission",
        start,
        end: SystemTime::now(),
        attributes: vec![
            Attribute {
                key: "helmops.namespace",
                value: text(&metadata.namespace),
            },
            Attribute {
                key: "helmops.name",
                value: text(&metadata.name),
            },
        ],
        error: None,
    })
}

#[cfg(test)]
mod tests {
    use helmops_trace::TraceArgs;
    use serde_json::{Value, json};

    use super::*;
    use crate::review::Status;

    fn tracer() -> Tracer {
        TraceArgs::unexported().unwrap()
    }

    fn review(over: &Value) -> Vec<u8> {
        let helmop = |generation| json!({ "metadata": { "name": "web", "namespace": "a", "uid": "4f3c", "generation": generation } });
        let mut review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "operation": "UPDATE", "name": "web", "namespace": "a",
                "resource": { "group": "fleet.cattle.io", "version": "v1alpha1", "resource": "helmops" },
                "object": helmop(2), "oldObject": helmop(1),
            },
        });
        json_patch::merge(&mut review["request"], over);
        review.to_string().into_bytes()
    }

    fn span_of(over: &Value, response: &AdmissionResponse) -> Option<SpanRecord> {
        let body = review(over);
        let request = AdmissionRequest::decode(&body).unwrap();
        admission(&tracer(), &request, response, SystemTime::now())
    }

    #[test]
    fn a_change_of_the_spec_starts_a_trace_that_the_controller_knows() {
        let root = tracer().root("4f3c", 2, 0);
        let allowed = AdmissionResponse::default();
        for over in [json!({}), json!({ "operation": "CREATE", "oldObject": null })] {
            let span = span_of(&over, &allowed).unwrap();
            assert_eq!((span.parent, span.name), (root, "admission"));
            assert_eq!(span.context.trace_id(), root.unwrap().trace_id());
            assert_ne!(Some(span.context), root);
        }
    }

    #[test]
    fn what_is_not_stored_or_not_changed_is_not_traced() {
        let allowed = AdmissionResponse::default();
        for over in [
            json!({ "dryRun": true }),
            json!({ "oldObject": { "metadata": { "generation": 2 } } }),
            json!({ "subResource": "status" }),
            json!({ "object": { "metadata": { "uid": null } } }),
        ] {
            assert_eq!(span_of(&over, &allowed), None, "{over}");
        }
        let denial = Status {
            status: "Failure",
            message: String::new(),
            reason: "Invalid",
            code: 422,
            details: None,
        };
        let denied = AdmissionResponse {
            denial: Some(denial),
            ..AdmissionResponse::default()
        };
        assert_eq!(span_of(&json!({}), &denied), None);
    }
}
