//! Label selectors, labels and annotations.

use std::collections::BTreeMap;

use helmops_api::target::ClusterCriteria;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{ErrorType, FieldErrors, Path, names};
use crate::reason::Reason;

/// Checks the selectors in the criteria for clusters.
pub fn check_criteria(errors: &mut FieldErrors, path: &Path<'_>, criteria: &ClusterCriteria) {
    check(
        errors,
        &path.field("clusterSelector"),
        criteria.cluster_selector.as_ref(),
    );
    check(
        errors,
        &path.field("clusterGroupSelector"),
        criteria.cluster_group_selector.as_ref(),
    );
}

/// Checks a label selector as `metav1.LabelSelectorAsSelector` does.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, selector: Option<&LabelSelector>) {
    let Some(selector) = selector else { return };
    if let Some(labels) = &selector.match_labels {
        let path = path.field("matchLabels");
        check_labels(errors, &path, Reason::InvalidSelector, labels);
    }
    let path = path.field("matchExpressions");
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        check_expression(errors, &path.index(index), expression);
    }
}

/// The errors of a label selector at `path`, if it has any.
pub fn errors(path: &str, selector: &LabelSelector) -> Option<String> {
    let mut errors = FieldErrors::default();
    check(&mut errors, &Path::root(path), Some(selector));
    (!errors.is_empty()).then(|| errors.to_string())
}

fn check_expression(errors: &mut FieldErrors, path: &Path<'_>, expression: &LabelSelectorRequirement) {
    const REASON: Reason = Reason::InvalidSelector;
    if let Err(problem) = names::label_key(&expression.key) {
        errors.invalid(&path.field("key"), REASON, &expression.key, problem);
    }
    let values = expression.values.as_deref().unwrap_or_default();
    let values_path = path.field("values");
    match expression.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(
                &values_path,
                REASON,
                format!("operator {} needs at least one value", expression.operator),
            );
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = format!("operator {} takes no values; remove them", expression.operator);
            errors.forbidden(&values_path, REASON, &values.join(", "), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.add(
            &path.field("operator"),
            REASON,
            ErrorType::NotSupported,
            other,
            "supported operators: In, NotIn, Exists, DoesNotExist",
        ),
    }
    for (index, value) in values.iter().enumerate() {
        if let Err(problem) = names::label_value(value) {
            errors.invalid(&values_path.index(index), REASON, value, problem);
        }
    }
}

/// Checks keys and values of labels.
pub fn check_labels(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    reason: Reason,
    labels: &BTreeMap<String, String>,
) {
    check_keys(errors, path, reason, labels);
    for (key, value) in labels {
        if let Err(problem) = names::label_value(value) {
            errors.invalid(&path.key(key), reason, value, problem);
        }
    }
}

/// Checks keys of annotations; any value is allowed.
pub fn check_keys(errors: &mut FieldErrors, path: &Path<'_>, reason: Reason, map: &BTreeMap<String, String>) {
    for key in map.keys() {
        if let Err(problem) = names::label_key(key) {
            errors.invalid(path, reason, key, format!("not a key: {problem}"));
        }
    }
}
