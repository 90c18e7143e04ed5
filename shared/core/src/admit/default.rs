//! Defaults for fields that the user did not set.

use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::PointerBuf};
use serde::Deserialize;
use serde_json::{Value, json};

/// Polling is off by default.
pub const POLLING_INTERVAL: &str = "0s";

/// The fields of a HelmOp that defaulting depends on.
///
/// Nothing else is decoded, so that an object with another invalid field gets its defaults, and then the API server's
/// own error about that field.
#[derive(Debug, Default, Deserialize)]
pub struct DefaultingInput {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    polling_interval: Option<serde::de::IgnoredAny>,
}

impl DefaultingInput {
    /// The patch that sets missing fields, or `None` if none is missing. It is idempotent: the patched object gets `None`.
    pub fn patch(&self) -> Option<Patch> {
        if self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        // `add` also replaces a null.
        match &self.spec {
            None => Some(add(["spec"], json!({ "pollingInterval": POLLING_INTERVAL }))),
            Some(Spec {
                polling_interval: None,
            }) => Some(add(["spec", "pollingInterval"], json!(POLLING_INTERVAL))),
            Some(_) => None,
        }
    }
}

fn add<const N: usize>(path: [&str; N], value: Value) -> Patch {
    Patch(vec![PatchOperation::Add(AddOperation {
        path: PointerBuf::from_tokens(path),
        value,
    })])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(mut object: Value) -> Value {
        let input: DefaultingInput = serde_json::from_value(object.clone()).unwrap();
        if let Some(patch) = input.patch() {
            json_patch::patch(&mut object, &patch).unwrap();
        }
        object
    }

    #[test]
    fn polling_is_off_by_default() {
        for (input, expected) in [
            (
                json!({ "spec": { "helm": {} } }),
                json!({ "spec": { "helm": {}, "pollingInterval": "0s" } }),
            ),
            (
                json!({ "spec": { "pollingInterval": null } }),
                json!({ "spec": { "pollingInterval": "0s" } }),
            ),
            (json!({}), json!({ "spec": { "pollingInterval": "0s" } })),
            (
                json!({ "spec": null }),
                json!({ "spec": { "pollingInterval": "0s" } }),
            ),
        ] {
            let once = defaulted(input);
            assert_eq!(once, expected);
            assert_eq!(defaulted(once.clone()), once, "a second pass changes nothing");
        }
    }

    #[test]
    fn fields_that_are_set_are_not_changed() {
        for input in [
            json!({ "spec": { "pollingInterval": "15m" } }),
            json!({ "spec": { "pollingInterval": "" } }),
            json!({ "spec": { "pollingInterval": 5 } }),
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        ] {
            assert_eq!(defaulted(input.clone()), input);
        }
    }
}
