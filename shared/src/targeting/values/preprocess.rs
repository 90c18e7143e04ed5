//! What a cluster makes of values.

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{
    labels::{self, MAX_DEPTH},
    yaml,
};
use crate::{
    api::{BundleDeploymentOptions, Cluster, HelmOptions, free_form::FreeForm},
    targeting::{
        go_json,
        template::{self, TemplateError},
    },
    text::cut,
};

/// Longest rendered text that an error repeats, in bytes.
const MAX_SHOWN: usize = 200;

/// Values cannot be made for a cluster.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{path}: {fault}")]
pub struct ValuesError {
    /// Path of the field, such as `helm.values.image.tag`.
    pub path: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with values.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Fault {
    /// The template cannot be parsed or rendered.
    #[error(
        "the template cannot be rendered: {0}; mend it, give the Cluster what it wants, or set helm.disablePreProcess"
    )]
    Template(#[from] TemplateError),
    /// What it renders to is no YAML.
    #[error(
        "the template renders to what is not YAML: {error}, at {rendered:?}; quote what may hold special characters"
    )]
    NotYaml {
        /// What is wrong with it.
        error: yaml::Unreadable,
        /// The line that is wrong, or the beginning of the text.
        rendered: String,
    },
    /// All values together render to something else than a mapping.
    #[error("the values render to something else than a mapping")]
    NotAMapping,
    /// Values nest too deeply.
    #[error(
        "the values nest more than {MAX_DEPTH} deep, which is as far as labels of the Cluster are put in"
    )]
    TooDeep,
}

/// Makes the Helm values of a cluster from what they are for all.
///
/// # Errors
/// Where a template is wrong, or wants something that the Cluster does not have.
pub fn preprocess(options: &mut BundleDeploymentOptions, cluster: &Cluster) -> Result<(), ValuesError> {
    let fleets = ["fleet.cattle.io/", "management.cattle.io/"];
    let cluster_labels = labels::with_fleets(cluster.metadata.labels.as_ref(), &fleets);
    if let Some(helm) = &mut options.helm
        && let Some(values) = &helm.values
    {
        // In one form, so that equal values are equal texts.
        helm.values = Some(canonical(&values.to_value()));
    }
    if cluster_labels.is_empty() {
        return Ok(());
    }
    let Some(helm) = &mut options.helm else {
        options.helm = Some(HelmOptions::default());
        return Ok(());
    };
    let mut values = match helm.values.as_ref().map(FreeForm::to_value) {
        Some(Value::Object(values)) => values,
        _ => Map::new(),
    };
    if !labels::replace(&mut values, &cluster_labels, 0) {
        return Err(ValuesError {
            path: "helm.values".to_owned(),
            fault: Fault::TooDeep,
        });
    }
    if !helm.disable_pre_process {
        values = render(values, helm, || context(cluster, &cluster_labels))?;
    }
    helm.values = Some(canonical(&Value::Object(values)));
    Ok(())
}

fn canonical(values: &Value) -> FreeForm {
    FreeForm::from_text(go_json::encode(values)).unwrap_or_else(|| FreeForm::from(values))
}

fn render(
    mut values: Map<String, Value>,
    helm: &HelmOptions,
    context: impl Fn() -> Value,
) -> Result<Map<String, Value>, ValuesError> {
    let emitted = has_actions(&values).then(|| yaml::emit(&values));
    if emitted.is_none() {
        // Writing and reading would give the same, but for this.
        values.values_mut().for_each(without_negative_zero);
        if helm.template_values.is_empty() {
            return Ok(values);
        }
    }
    let context = context();
    if let Some(emitted) = emitted {
        values = render_values(&emitted, &context)?;
    }
    for (key, text) in &helm.template_values {
        let fail = |fault| ValuesError {
            path: format!("helm.templateValues.{key}"),
            fault,
        };
        let rendered = template::render(text, &context).map_err(|error| fail(error.into()))?;
        let value = yaml::read(&rendered).map_err(|error| fail(not_yaml(error, &rendered)))?;
        values.insert(key.clone(), value);
    }
    Ok(values)
}

fn render_values(emitted: &yaml::Emitted, context: &Value) -> Result<Map<String, Value>, ValuesError> {
    let fail = |path: Option<&str>, fault| ValuesError {
        path: format!(
            "helm.values{}{}",
            if path.is_some() { "." } else { "" },
            path.unwrap_or_default()
        ),
        fault,
    };
    let rendered = template::render(&emitted.text, context)
        .map_err(|error| fail(emitted.path_at(error.offset), error.into()))?;
    match yaml::read(&rendered) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(fail(None, Fault::NotAMapping)),
        Err(error) => Err(fail(None, not_yaml(error, &rendered))),
    }
}

fn not_yaml(error: yaml::Unreadable, rendered: &str) -> Fault {
    let shown = error.line(rendered).unwrap_or(rendered);
    Fault::NotYaml {
        rendered: cut(shown.trim().to_owned(), MAX_SHOWN),
        error,
    }
}

/// Whether any text or key in values has a template, or means something else once it is written as YAML.
fn has_actions(values: &Map<String, Value>) -> bool {
    fn has(value: &Value) -> bool {
        match value {
            Value::String(text) => template::has_actions(text),
            Value::Array(items) => items.iter().any(has),
            Value::Object(entries) => has_actions(entries),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    values
        .iter()
        .any(|(key, value)| template::has_actions(key) || key == "<<" || has(value))
}

/// YAML has an integer for it, which has no sign.
fn without_negative_zero(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = Value::from(0),
        Value::Array(items) => items.iter_mut().for_each(without_negative_zero),
        Value::Object(entries) => entries.values_mut().for_each(without_negative_zero),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What templates can use.
fn context(cluster: &Cluster, cluster_labels: &std::collections::BTreeMap<String, String>) -> Value {
    let values = cluster.spec.template_values.as_ref().map(FreeForm::to_value);
    json!({
        "ClusterNamespace": cluster.metadata.namespace.as_deref().unwrap_or_default(),
        "ClusterName": cluster.metadata.name.as_deref().unwrap_or_default(),
        "ClusterLabels": cluster_labels,
        "ClusterAnnotations": labels::clean(cluster.metadata.annotations.as_ref()),
        "ClusterValues": values.filter(Value::is_object).unwrap_or_else(|| json!({})),
    })
}
