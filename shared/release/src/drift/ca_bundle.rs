//! CA certificates that are filled in on the cluster.
//!
//! Charts leave `caBundle` out, or write a placeholder, and an injector such as cert-manager sets it. What is left out is no problem,
//! since the chart does not own it then.

use serde_json::Value;

/// What charts write instead of a certificate: nothing, or a line break, as it is and in base64.
const PLACEHOLDERS: [&str; 3] = ["", "\n", "Cg=="];

/// Replaces placeholders in the predicted object by what the live object has.
pub fn keep_injected(predicted: &mut Value, live: &Value) {
    match predicted.get("kind").and_then(Value::as_str) {
        Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            let live = super::items(live.get("webhooks"));
            let webhooks = predicted.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                let same = live.iter().find(|live| live.get("name") == webhook.get("name"));
                keep(webhook, same, "/clientConfig");
            }
        }
        Some("CustomResourceDefinition") => {
            keep(predicted, Some(live), "/spec/conversion/webhook/clientConfig");
        }
        Some("APIService") => keep(predicted, Some(live), "/spec"),
        _ => {}
    }
}

fn keep(predicted: &mut Value, live: Option<&Value>, parent: &str) {
    let Some(fields) = predicted.pointer_mut(parent).and_then(Value::as_object_mut) else {
        return;
    };
    let is_placeholder = fields
        .get("caBundle")
        .is_some_and(|bundle| bundle.as_str().is_some_and(|text| PLACEHOLDERS.contains(&text)));
    if !is_placeholder {
        return;
    }
    match live.and_then(|live| live.pointer(parent)?.get("caBundle")) {
        Some(live) => fields.insert("caBundle".to_owned(), live.clone()),
        None => fields.remove("caBundle"),
    };
}
