//! What is wrong in a Policy: patterns that are not regular expressions, and sizes that are none.

use go_formats::quantity;
use helmops_api::Policy;
use helmops_model::validation::{FieldErrors, Path};

use super::{REASON, list::List, patterns::Patterns};

/// The first entry of each list of patterns that is not a regular expression, with its path. The API server accepts such a Policy, but from
/// this entry on the list allows nothing. A size that is none allows nothing, too.
pub fn pattern_errors(policy: &Policy) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let name = super::name(policy);
    let mut check = |path: &Path<'_>, texts: &[String]| {
        let mut list = List::new("");
        list.extend(texts, name);
        let patterns = Patterns::new("", list);
        if let Some((index, text, error)) = patterns.invalid_entry() {
            let detail = format!("{error}; this entry and those after it allow nothing");
            errors.invalid(&path.index(index), REASON, text, detail);
        }
    };
    check(
        &Path::root("allowedDownstreamResources"),
        &policy.allowed_downstream_resources,
    );
    check(
        &Path::root("allowedDependencyNamespaces"),
        &policy.allowed_dependency_namespaces,
    );
    check(
        &Path::root("allowedRegistrationLabels"),
        &policy.allowed_registration_labels,
    );
    if let Some(helm_op) = &policy.helm_op {
        let root = Path::root("helmOp");
        check(
            &root.field("allowedHelmRepoPatterns"),
            &helm_op.allowed_helm_repo_patterns,
        );
        check(
            &root.field("allowedChartPatterns"),
            &helm_op.allowed_chart_patterns,
        );
        let size = &helm_op.content_size;
        if !size.is_empty() && quantity::bytes(size).is_none() {
            let detail = "expected a number of bytes, such as 64Mi, 1Gi or 0; this allows nothing";
            errors.invalid(&root.field("contentSize"), REASON, size, detail);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_invalid_pattern_of_each_list_is_an_error() {
        let policy = json!({
            "metadata": { "name": "p" },
            "allowedDownstreamResources": ["Secret/[a"],
            "allowedDependencyNamespaces": ["team-a", "(b"],
            "helmOp": {
                "allowedHelmRepoPatterns": ["https://.*"], "allowedChartPatterns": ["web", "(", "["], "contentSize": "64MB",
            }
        });
        let policy: Policy = serde_json::from_str(&policy.to_string()).unwrap();
        let errors = pattern_errors(&policy);
        let paths: Vec<_> = errors
            .reported()
            .iter()
            .map(|error| error.path.as_str())
            .collect();
        assert_eq!(
            paths,
            [
                "allowedDownstreamResources[0]",
                "allowedDependencyNamespaces[1]",
                "helmOp.allowedChartPatterns[1]",
                "helmOp.contentSize",
            ]
        );
        let text = errors.to_string();
        assert!(
            text.contains("Invalid value: \"(\": ") && text.contains("allow nothing"),
            "{text}"
        );
    }
}
