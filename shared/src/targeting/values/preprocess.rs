//! What a cluster makes of values.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{
    labels::{self, MAX_DEPTH},
    yaml,
};
use crate::{
    api::{
        BundleDeploymentOptions, Cluster, HelmOptions,
        free_form::{self, FreeForm, TooDeep},
    },
    targeting::{
        go_json,
        template::{self, Budget, Exceeded, Rendered, TemplateError, line_at},
    },
};

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
    /// What it renders to is no YAML. What that is stays out of the message: values may be secrets.
    #[error("the template renders to what is not YAML: {error}{}; quote what may hold special characters", at(*.line, .template))]
    NotYaml {
        /// What is wrong with it.
        error: yaml::Unreadable,
        /// The line of what it renders to, counted from 1, where it is known.
        line: Option<usize>,
        /// The line of the template that wrote it; empty where that is unknown.
        template: String,
    },
    /// The budget of the Bundle was exceeded here.
    #[error("{0}")]
    Exceeded(Exceeded),
    /// The budget of the Bundle was exceeded before.
    #[error("no values were made for this cluster, since others before it used up what the Bundle may: {0}")]
    NotMade(Exceeded),
    /// Values nest too deeply for JSON.
    #[error("{0}")]
    Deep(#[from] TooDeep),
    /// Values are too long for a template.
    #[error("{0}")]
    TooLong(#[from] yaml::TooLong),
    /// All values together render to something else than a mapping.
    #[error("the values render to something else than a mapping")]
    NotAMapping,
    /// Values nest too deeply.
    #[error(
        "the values nest more than {MAX_DEPTH} deep, which is as far as labels of the Cluster are put in"
    )]
    TooDeep,
}

impl ValuesError {
    fn new(path: impl Into<String>, fault: impl Into<Fault>) -> Self {
        Self {
            path: path.into(),
            fault: fault.into(),
        }
    }
}

fn at(line: Option<usize>, template: &str) -> String {
    match (line, template) {
        (None, _) => String::new(),
        (Some(line), "") => format!(", in line {line} of the result"),
        (Some(line), template) => format!(", in line {line} of the result, which <{template}> writes"),
    }
}

/// Makes the Helm values of a cluster from what they are for all. `budget` is that of the Bundle.
///
/// # Errors
/// Where a template is wrong, or wants something that the Cluster does not have, and where the budget is exceeded.
pub fn preprocess(
    options: &mut BundleDeploymentOptions,
    cluster: &Cluster,
    budget: &Budget,
) -> Result<(), ValuesError> {
    budget
        .next_cluster()
        .map_err(|exceeded| ValuesError::new(VALUES, Fault::NotMade(exceeded)))?;
    make(options, cluster, budget)?;
    let values = options.helm.as_ref().and_then(|helm| helm.values.as_ref());
    let bytes = values.map_or(0, |values| values.as_str().len());
    budget
        .keep_values(bytes)
        .map_err(|exceeded| ValuesError::new(VALUES, Fault::Exceeded(exceeded)))
}

/// The field that most errors are about.
const VALUES: &str = "helm.values";

fn make(
    options: &mut BundleDeploymentOptions,
    cluster: &Cluster,
    budget: &Budget,
) -> Result<(), ValuesError> {
    let fleets = ["fleet.cattle.io/", "management.cattle.io/"];
    let cluster_labels = labels::with_fleets(cluster.metadata.labels.as_ref(), &fleets);
    if let Some(helm) = &mut options.helm
        && let Some(values) = &helm.values
    {
        // In one form, so that equal values are equal texts.
        let tree = values
            .to_value()
            .map_err(|error| ValuesError::new(VALUES, error))?;
        helm.values = Some(canonical(&tree));
    }
    if cluster_labels.is_empty() {
        return Ok(());
    }
    let Some(helm) = &mut options.helm else {
        options.helm = Some(HelmOptions::default());
        return Ok(());
    };
    let mut values = match helm.values.as_ref().map(FreeForm::to_value) {
        Some(Ok(Value::Object(values))) => values,
        _ => Map::new(),
    };
    if !labels::replace(&mut values, &cluster_labels, 0) {
        return Err(ValuesError::new(VALUES, Fault::TooDeep));
    }
    if !helm.disable_pre_process {
        values = render(values, helm, budget, || context(cluster, &cluster_labels))?;
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
    budget: &Budget,
    context: impl Fn() -> Result<Value, ValuesError>,
) -> Result<Map<String, Value>, ValuesError> {
    let has_actions = has_actions(&values);
    if !has_actions {
        // Writing and reading would give the same, but for this.
        values.values_mut().for_each(without_negative_zero);
        if helm.template_values.is_empty() {
            return Ok(values);
        }
    }
    let context = context()?;
    if has_actions {
        values = render_values(&values, &context, budget)?;
    }
    for (key, text) in &helm.template_values {
        let fail = |fault| ValuesError::new(format!("helm.templateValues.{key}"), fault);
        let rendered = rendered(text, &context, budget).map_err(|(_, fault)| fail(fault))?;
        let value = read(&rendered, budget).map_err(|error| fail(not_read(error, text, &rendered)))?;
        // It is one level deeper in the values.
        let depth = depth(&value) + 1;
        if depth > free_form::MAX_DEPTH {
            return Err(fail(TooDeep { depth }.into()));
        }
        values.insert(key.clone(), value);
    }
    Ok(values)
}

fn render_values(
    values: &Map<String, Value>,
    context: &Value,
    budget: &Budget,
) -> Result<Map<String, Value>, ValuesError> {
    let emitted = yaml::emit(values).map_err(|error| ValuesError::new(VALUES, error))?;
    let path = |offset: Option<usize>| {
        let path = offset.and_then(|offset| yaml::path_at(values, offset));
        path.map_or_else(|| VALUES.to_owned(), |path| format!("{VALUES}.{path}"))
    };
    // Written once and read once more where an error is to name its field.
    charge(budget, emitted.len().saturating_mul(2))
        .map_err(|exceeded| ValuesError::new(VALUES, Fault::Exceeded(exceeded)))?;
    let rendered = rendered(&emitted, context, budget)
        .map_err(|(offset, fault)| ValuesError::new(path(Some(offset)), fault))?;
    match read(&rendered, budget) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(ValuesError::new(VALUES, Fault::NotAMapping)),
        Err(error) => {
            let offset = source(&error, &rendered);
            Err(ValuesError::new(
                path(offset),
                not_read(error, &emitted, &rendered),
            ))
        }
    }
}

/// Renders a template; an error comes with its place.
fn rendered(text: &str, context: &Value, budget: &Budget) -> Result<Rendered, (usize, Fault)> {
    template::render(text, context, budget).map_err(|error| {
        let offset = error.offset;
        let fault = budget.exceeded().map_or_else(|| error.into(), Fault::Exceeded);
        (offset, fault)
    })
}

/// Why a rendered text gives no value.
enum NotRead {
    Exceeded(Exceeded),
    Unreadable(yaml::Unreadable),
}

fn read(rendered: &Rendered, budget: &Budget) -> Result<Value, NotRead> {
    charge(budget, rendered.text.len()).map_err(NotRead::Exceeded)?;
    yaml::read(&rendered.text).map_err(NotRead::Unreadable)
}

/// Counts a text that goes to or comes from YAML.
fn charge(budget: &Budget, bytes: usize) -> Result<(), Exceeded> {
    /// Units of work for each byte.
    const YAML: u64 = 60;

    budget.charge(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(YAML))
}

/// The byte of the template that wrote the line which cannot be read.
fn source(error: &NotRead, rendered: &Rendered) -> Option<usize> {
    match error {
        NotRead::Exceeded(_) => None,
        NotRead::Unreadable(error) => rendered.source_of(error.line()?),
    }
}

fn not_read(error: NotRead, template: &str, rendered: &Rendered) -> Fault {
    let offset = source(&error, rendered);
    match error {
        NotRead::Exceeded(exceeded) => Fault::Exceeded(exceeded),
        NotRead::Unreadable(error) => Fault::NotYaml {
            line: error.line(),
            template: offset.map_or_else(String::new, |offset| line_at(template, offset)),
            error,
        },
    }
}

/// How deep lists and mappings nest.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
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
fn context(cluster: &Cluster, cluster_labels: &BTreeMap<String, String>) -> Result<Value, ValuesError> {
    let values = cluster.spec.template_values.as_ref().map(FreeForm::to_value);
    let values = values
        .transpose()
        .map_err(|error| ValuesError::new("Cluster: spec.templateValues", error))?;
    Ok(json!({
        "ClusterNamespace": cluster.metadata.namespace.as_deref().unwrap_or_default(),
        "ClusterName": cluster.metadata.name.as_deref().unwrap_or_default(),
        "ClusterLabels": cluster_labels,
        "ClusterAnnotations": labels::clean(cluster.metadata.annotations.as_ref()),
        "ClusterValues": values.filter(Value::is_object).unwrap_or_else(|| json!({})),
    }))
}
