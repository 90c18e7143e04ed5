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
