//! Metadata of objects, as the API server checks it for every kind.

use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path, names, selector},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// Characters of a prefix that the API server keeps before it adds random ones.
const MAX_PREFIX: usize = 58;
/// Bytes of all annotations of an object, keys included.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// The schema of the metadata that users write. What the API server sets itself is ignored by it.
pub fn schema() -> Value {
    let text = json!({ "type": "string", "nullable": true });
    let texts = json!({ "type": "object", "nullable": true, "additionalProperties": { "type": "string", "nullable": true } });
    let any = json!({ "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "type": "object",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "labels": texts, "annotations": texts,
            "finalizers": { "type": "array", "nullable": true, "items": { "type": "string" } },
            "ownerReferences": any, "managedFields": any, "creationTimestamp": any, "deletionTimestamp": any,
            "deletionGracePeriodSeconds": any, "generation": any, "resourceVersion": any, "selfLink": any, "uid": any,
        },
    })
}

/// The errors of the metadata of an object that has a namespace.
pub fn check(metadata: &ObjectMeta) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let root = Path::root("metadata");
    let path = root.field("name");
    match metadata.name.as_deref().unwrap_or_default() {
        "" if metadata.generate_name.as_deref().is_none_or(str::is_empty) => {
            errors.required(&path, Reason::InvalidName, "name the object");
        }
        "" => {}
        name => check_name(&mut errors, &path, name, names::subdomain),
    }
    if let Some(prefix) = metadata
        .generate_name
        .as_deref()
        .filter(|prefix| !prefix.is_empty())
    {
        check_name(&mut errors, &root.field("generateName"), prefix, generated);
    }
    if let Some(namespace) = metadata.namespace.as_deref().filter(|name| !name.is_empty()) {
        check_name(&mut errors, &root.field("namespace"), namespace, names::namespace);
    }
    if let Some(labels) = &metadata.labels {
        selector::check_labels(&mut errors, &root.field("labels"), Reason::InvalidLabel, labels);
    }
    if let Some(annotations) = &metadata.annotations {
        selector::check_keys(
            &mut errors,
            &root.field("annotations"),
            Reason::InvalidLabel,
            annotations,
        );
        let size: usize = annotations
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if size > MAX_ANNOTATIONS {
            let shown = format!("{size} bytes");
            let problem = "all annotations together have at most 262144 bytes";
            errors.invalid(&root.field("annotations"), Reason::InvalidLabel, &shown, problem);
        }
    }
    errors
}

/// Whether a prefix and the names that are generated with it are valid.
fn generated(prefix: &str) -> Result<(), &'static str> {
    // A hyphen at the end is allowed, whatever is before it.
    let mut before = prefix.chars();
    if before.next_back() == Some('-') && before.next_back().is_some() {
        names::subdomain(&format!("{}a", before.as_str()))?;
    } else {
        names::subdomain(prefix)?;
    }
    let kept: String = prefix.chars().take(MAX_PREFIX).collect();
    names::subdomain(&format!("{kept}x"))
}

fn check_name(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    name: &str,
    rule: impl Fn(&str) -> Result<(), &'static str>,
) {
    if let Err(problem) = rule(name) {
        errors.invalid(path, Reason::InvalidName, name, problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_checked_as_by_the_api_server() {
        for (metadata, expected) in [
            (
                json!({ "name": "web", "labels": { "a/b": "" }, "annotations": { "a": "any text" } }),
                "",
            ),
            (json!({ "generateName": "web-" }), ""),
            (json!({ "generateName": "web--" }), ""),
            (
                json!({ "generateName": "-" }),
                "metadata.generateName: Invalid value: \"-\"",
            ),
            (json!({ "generateName": "a".repeat(253) }), ""),
            (
                json!({ "generateName": "web." }),
                "metadata.generateName: Invalid value: \"web.\"",
            ),
            (
                json!({ "generateName": "a".repeat(254) }),
                "metadata.generateName: Invalid value",
            ),
            (
                json!({ "generateName": "A_b-" }),
                "metadata.generateName: Invalid value: \"A_b-\"",
            ),
            (
                json!({ "name": "a", "generateName": "-b" }),
                "metadata.generateName: Invalid value: \"-b\"",
            ),
            (
                json!({ "name": "a", "annotations": { "a": "x".repeat((256 << 10) - 1) } }),
                "",
            ),
            (
                json!({ "name": "a", "annotations": { "a": "x".repeat(256 << 10) } }),
                "metadata.annotations: Invalid value: \"262145 bytes\"",
            ),
            (json!({}), "metadata.name: Required value: name the object"),
            (
                json!({ "name": "My Web" }),
                "metadata.name: Invalid value: \"My Web\"",
            ),
            (
                json!({ "name": "a", "namespace": "a.b" }),
                "metadata.namespace: Invalid value: \"a.b\"",
            ),
            (
                json!({ "name": "a", "labels": { "a": "b c" } }),
                "metadata.labels[a]: Invalid value: \"b c\"",
            ),
            (
                json!({ "name": "a", "annotations": { "a b": "" } }),
                "metadata.annotations: Invalid value: \"a b\"",
            ),
        ] {
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            let found = check(&metadata).to_string();
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
    }
}
