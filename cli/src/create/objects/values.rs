//! Values of an object, as those of a HelmOp.

use go_formats::yaml::{self, Quota};
use helmops_api::free_form::FreeForm;
use serde_json::{Map, Value};

use super::fields::Fields;
use crate::create::{draft::Draft, note::Gap};

/// What to do about references to objects with values.
pub const ON_CLUSTERS: &str = "its objects are read on each cluster, and are not in the output: create them where they are missing, or name them in downstreamResources";
/// How texts start that Fleet renders as templates.
const TEMPLATE: &str = "${";
/// How a text starts that Fleet replaces.
const CLUSTER_LABELS: &str = "global.fleet.clusterLabels.";

/// Takes values that are a mapping, with no entries if they are missing.
pub fn mapping(fields: &mut Fields<'_>, name: &str, draft: &mut Draft) -> Option<Map<String, Value>> {
    match fields.take(name) {
        Some(Value::Object(values)) => {
            draft.locate_nulls(&values, |null| fields.position(&format!("{name}{null}")));
            Some(values)
        }
        Some(_) => {
            let note = fields.refusal(name, Gap::Source, "this is no mapping");
            draft.notes.push(note);
            None
        }
        None => None,
    }
}

/// Takes values that are YAML in a text, as Helm reads a file of them.
pub fn text(fields: &mut Fields<'_>, name: &str, draft: &mut Draft) -> Option<Map<String, Value>> {
    let text = fields.text(name)?;
    let problem = match yaml::read_exact(&text, &mut Quota::default()) {
        Ok(Value::Object(values)) => {
            let position = fields.position(name);
            draft.locate_nulls(&values, |_| position.clone());
            return Some(values);
        }
        Ok(Value::Null) => return Some(Map::new()),
        Ok(_) => "the text is no mapping of values".to_owned(),
        Err(error) => format!("the text is no valid YAML: {error}"),
    };
    draft.notes.push(fields.refusal(name, Gap::Valid, problem));
    None
}

/// Sets the values of the chart. `field` is where they are from.
pub fn set(fields: &Fields<'_>, field: &str, values: Map<String, Value>, draft: &mut Draft) {
    if has_label(&values) {
        let text = format!(
            "a HelmOp replaces a text that starts with {CLUSTER_LABELS} by a label of the cluster; write another text"
        );
        draft.notes.push(fields.refusal(field, Gap::Valid, text));
    }
    if values.is_empty() {
        return;
    }
    let values = FreeForm::from(&Value::Object(values));
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    // Other tools have no templates in values.
    helm.disable_pre_process = values.as_str().contains(TEMPLATE);
    helm.values = Some(values);
}

/// Whether a value would be replaced by a label of the cluster. Nothing disables that.
fn has_label(values: &Map<String, Value>) -> bool {
    values.values().any(|value| match value {
        Value::String(text) => text.starts_with(CLUSTER_LABELS),
        Value::Object(values) => has_label(values),
        Value::Array(items) => items.iter().filter_map(Value::as_object).any(has_label),
        _ => false,
    })
}
