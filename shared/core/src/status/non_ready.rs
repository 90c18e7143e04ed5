//! The objects of a deployment that is not ready, truncated to the budget.

use bounded_text::excerpt;
use helmops_api::status::{ModifiedStatus, NonReadyResource, NonReadyStatus, ObjectSummary};

use super::budget::{self, Budget};

/// How many modified objects, how many objects that are not ready, and how many messages of each object are listed. Fleet's
/// agent lists no more objects.
const MAX_OBJECTS: usize = 10;
/// Maximum length of a patch or message of an object, in bytes.
const MAX_DETAIL: usize = 512;
/// The JSON of an object without its texts, in bytes.
const FRAME: usize = 160;
/// Maximum length of a name: an API version is a group of at most 253 bytes, a slash, and a version of at most 63.
pub const MAX_NAME: usize = 317;

/// The objects of a deployment that are not ready or modified, within the budget.
pub fn objects(
    modified: &[ModifiedStatus],
    non_ready: &[NonReadyStatus],
    budget: &mut Budget,
) -> NonReadyResource {
    let modified = modified.iter().take(MAX_OBJECTS).map(|object| ModifiedStatus {
        kind: short(&object.kind),
        api_version: short(&object.api_version),
        namespace: short(&object.namespace),
        name: short(&object.name),
        patch: excerpt(&object.patch, MAX_DETAIL),
        ..*object
    });
    let non_ready = non_ready.iter().take(MAX_OBJECTS).map(|object| NonReadyStatus {
        uid: short(&object.uid),
        kind: short(&object.kind),
        api_version: short(&object.api_version),
        namespace: short(&object.namespace),
        name: short(&object.name),
        summary: object.summary.as_ref().map(|summary| ObjectSummary {
            state: short(&summary.state),
            message: details(&summary.message),
            ..*summary
        }),
    });
    NonReadyResource {
        modified_status: modified
            .filter(|object| budget.take(modified_bytes(object)))
            .collect(),
        non_ready_status: non_ready
            .filter(|object| budget.take(non_ready_bytes(object)))
            .collect(),
        ..NonReadyResource::default()
    }
}

fn short(name: &str) -> String {
    excerpt(name, MAX_NAME)
}

fn details(messages: &[String]) -> Vec<String> {
    let messages = messages.iter().take(MAX_OBJECTS);
    messages.map(|message| excerpt(message, MAX_DETAIL)).collect()
}

fn modified_bytes(object: &ModifiedStatus) -> usize {
    let texts = [
        &object.kind,
        &object.api_version,
        &object.namespace,
        &object.name,
        &object.patch,
    ];
    texts.map(|text| budget::text(text)).iter().sum::<usize>() + FRAME
}

fn non_ready_bytes(object: &NonReadyStatus) -> usize {
    let summary = object
        .summary
        .iter()
        .flat_map(|summary| summary.message.iter().chain([&summary.state]));
    let texts = [
        &object.uid,
        &object.kind,
        &object.api_version,
        &object.namespace,
        &object.name,
    ];
    texts
        .into_iter()
        .chain(summary)
        .map(|text| budget::text(text))
        .sum::<usize>()
        + FRAME
}
