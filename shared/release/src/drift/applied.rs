//! The object of a manifest as Helm applies it.

use serde_json::{Value, json};

use super::ephemeral;
use crate::marks;

/// What Helm adds to the metadata of each object that it applies.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "Helm");

/// The object of a manifest as Helm applies it for a release: with Helm's label and annotations, which are not in the manifest.
///
/// This is the body of a dry run, and of a correction. Without these marks the field manager would give them up, and the API server
/// would remove them. Fields that the API server writes are omitted: a resource version would make the request fail.
pub fn as_applied(object: &Value, release_namespace: &str, release_name: &str) -> Value {
    let mut applied = object.clone();
    ephemeral::remove(&mut applied);
    let marks = json!({
        "metadata": {
            "labels": { MANAGED_BY.0: MANAGED_BY.1 },
            "annotations": { marks::RELEASE_NAME: release_name, marks::RELEASE_NAMESPACE: release_namespace },
        }
    });
    json_patch::merge(&mut applied, &marks);
    applied
}
