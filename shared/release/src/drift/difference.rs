//! The difference between a live object and what applying its manifest would make of it.

use bounded_text::excerpt;
use helmops_api::merge_patch::merge_patch;
use serde_json::Value;

use super::{Autoscalers, DriftRules, ca_bundle, ephemeral, is_aggregated, is_secret, redact};
use crate::object::ObjectId;

/// Maximum length of the text of a patch, in bytes. A status has up to ten of them, and a condition one; a whole object can be in
/// one if a list changed.
const MAX_PATCH: usize = 2_048;

/// The fields of an object that were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// A JSON merge patch from the live object to the desired one, such as `{"data":{"key":"a"}}`. Data of Secrets is replaced by
    /// `<redacted>`. If it is longer than 2 KiB, it is truncated and ends with `…`.
    pub patch: String,
}

/// The difference between a live object and `predicted`, the result of a server-side dry run that applies the manifest's object
/// (with [`as_applied`](super::as_applied)), forced, by the field manager of the release. `None` if there is no drift.
///
/// Fields of other managers are in both, so they are no difference.
pub fn difference(
    predicted: &Value,
    live: &Value,
    rules: &DriftRules,
    autoscalers: &Autoscalers,
) -> Option<Drift> {
    if predicted == live {
        return None;
    }
    let id = ObjectId::of(live)?;
    if rules.ignores(&id, live) {
        return None;
    }
    let (mut predicted, mut live) = (predicted.clone(), live.clone());
    if autoscalers.allow(&live) {
        for object in [&mut predicted, &mut live] {
            remove(object, "/spec", "replicas");
        }
    }
    for object in [&mut predicted, &mut live] {
        ephemeral::remove(object);
        if is_aggregated(object) {
            remove(object, "", "rules");
        }
    }
    ca_bundle::keep_injected(&mut predicted, &live);
    rules.apply(&id, &mut predicted, &mut live);
    let mut patch = merge_patch(&live, &predicted)?;
    if is_secret(&live) {
        redact::secret(&mut patch);
    }
    Some(Drift {
        patch: excerpt(&patch.to_string(), MAX_PATCH),
    })
}

fn remove(object: &mut Value, parent: &str, key: &str) {
    if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(key);
    }
}
