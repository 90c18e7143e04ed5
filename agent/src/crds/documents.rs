//! From YAML documents to CRDs.

use helmops_helm::{Failure, FailureReason, MAX_CRDS};
use helmops_release::manifest;
use serde_json::{Map, Value};

use super::plan::{KIND, text};

/// Maximum number of other documents that are logged.
const MAX_IGNORED: usize = 20;
/// Metadata that a person writes; the rest comes from an export of a cluster.
const METADATA: [&str; 3] = ["name", "labels", "annotations"];

/// The CRDs of a text in their order, and what else is in it. What the API server sets is removed from them.
///
/// # Errors
/// If the text is not YAML, or has too many CRDs.
pub fn crds(text: &str) -> Result<(Vec<Value>, Vec<String>), Failure> {
    let invalid = |message: String| Failure::new(FailureReason::ChartInvalid, message);
    let objects = manifest::objects(text);
    let objects = objects.map_err(|error| invalid(format!("the folder crds of the chart: {error}")))?;
    let (crds, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_crd);
    if crds.len() > MAX_CRDS {
        let count = crds.len();
        return Err(invalid(format!(
            "the chart and its subcharts have {count} CRDs in folders crds, more than the maximum of {MAX_CRDS}"
        )));
    }
    let others = others.iter().map(described).take(MAX_IGNORED).collect();
    Ok((crds.into_iter().map(cleaned).collect(), others))
}

/// Of any version: one that the API server does not serve is an error later.
fn is_crd(object: &Value) -> bool {
    let group = text(object, "/apiVersion").split('/').next();
    text(object, "/kind") == KIND && group == Some("apiextensions.k8s.io")
}

fn described(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    bounded_text::cut(format!("{kind} {name}"), 200)
}

fn cleaned(mut crd: Value) -> Value {
    if let Some(fields) = crd.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = crd.get_mut("metadata").and_then(Value::as_object_mut) {
        let kept = std::mem::take(metadata).into_iter();
        *metadata = kept
            .filter(|(key, value)| METADATA.contains(&&**key) && !value.is_null())
            .collect::<Map<_, _>>();
    }
    crd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_no_crds_are_ignored() {
        let text = "---\n# Source: web/crds/a.yaml\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
            metadata: {name: a.example.com, creationTimestamp: null, uid: x, labels: {team: a}}\nspec: {group: example.com}\n\
            status: {storedVersions: []}\n---\n# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n\
            apiVersion: example.com/v1\nkind: CustomResourceDefinition\nmetadata: {name: other}\n---\n\
            apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: old.example.com}\n";
        let (crds, ignored) = crds(text).unwrap();
        let expected = serde_json::json!([
            {
                "apiVersion": "apiextensions.k8s.io/v1", "kind": KIND,
                "metadata": { "name": "a.example.com", "labels": { "team": "a" } }, "spec": { "group": "example.com" },
            },
            {
                "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": KIND, "metadata": { "name": "old.example.com" },
            },
        ]);
        assert_eq!(Value::from(crds), expected);
        assert_eq!(ignored, ["ConfigMap c", "CustomResourceDefinition other"]);
    }

    #[test]
    fn what_is_not_yaml_is_an_error_of_the_chart() {
        let failure = crds("a: [").unwrap_err();
        assert_eq!(failure.reason, FailureReason::ChartInvalid);
        assert!(
            failure.message.starts_with("the folder crds of the chart: "),
            "{failure}"
        );
    }

    #[test]
    fn the_number_of_crds_is_bounded() {
        let one =
            "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n";
        assert_eq!(crds(&one.repeat(MAX_CRDS)).unwrap().0.len(), MAX_CRDS);
        assert!(crds(&one.repeat(MAX_CRDS + 1)).is_err());
    }
}
