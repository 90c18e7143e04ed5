//! What a cluster makes of values.

use std::{collections::BTreeMap, sync::Arc};

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
        template::{self, Budget, Exceeded, MAX_TEXT, Rendered, TemplateError, line_at},
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
    /// Texts of the cluster render to too much.
    #[error(
        "helm.values and helm.templateValues render to more than {MAX_TEXT} bytes together for this cluster; make them shorter"
    )]
    RenderedTooLong,
    /// Texts of the cluster mean too much.
    #[error("{0}; make helm.values and helm.templateValues smaller")]
    TooLarge(yaml::Unreadable),
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
    /// An error about a field.
    pub fn new(path: impl Into<String>, fault: impl Into<Fault>) -> Self {
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

/// The field that most errors are about.
pub const VALUES: &str = "helm.values";

/// Helm values as they are for all clusters that the same targets match.
#[derive(Clone, Debug)]
pub struct Source {
    options: Arc<BundleDeploymentOptions>,
    /// In one form, so that equal values are equal texts.
    values: Option<FreeForm>,
    is_same: bool,
}

impl Source {
    /// `options` come without the values.
    ///
    /// # Errors
    /// Where values nest too deeply.
    pub fn new(options: Arc<BundleDeploymentOptions>, values: Option<FreeForm>) -> Result<Self, ValuesError> {
        let tree = values.map(|values| values.to_value()).transpose();
        let tree = tree.map_err(|error| ValuesError::new(VALUES, error))?;
        let has_actions = tree.as_ref().and_then(Value::as_object).is_some_and(has_actions);
        let values = tree.as_ref().map(canonical);
        let is_rendered = options.helm.as_ref().is_some_and(|helm| {
            let mut texts = helm.template_values.values();
            !helm.disable_pre_process && (has_actions || texts.any(|text| template::has_actions(text)))
        });
        let has_labels = values
            .as_ref()
            .is_some_and(|values| labels::are_in(values.as_str()));
        Ok(Self {
            is_same: !is_rendered && !has_labels,
            options,
            values,
        })
    }

    /// The options without values.
    pub const fn options(&self) -> &Arc<BundleDeploymentOptions> {
        &self.options
    }

    /// Whether all clusters with such labels get the same values: none at all, or some.
    pub fn is_same(&self, labels: &BTreeMap<String, String>) -> bool {
        self.is_same || labels.is_empty()
    }

    /// Makes the values of a cluster, whose labels come from [`labels_of`]. `budget` is that of the Bundle.
    ///
    /// # Errors
    /// Where a template is wrong, or wants something that the Cluster does not have, and where the budget is exceeded.
    pub fn values(
        &self,
        cluster: &Cluster,
        labels: &BTreeMap<String, String>,
        budget: &Budget,
    ) -> Result<Option<FreeForm>, ValuesError> {
        if labels.is_empty() {
            return Ok(self.values.clone());
        }
        let Some(helm) = &self.options.helm else {
            return Ok(None);
        };
        let mut values = match self.values.as_ref().map(FreeForm::to_value) {
            Some(Ok(Value::Object(values))) => values,
            _ => Map::new(),
        };
        if !labels::replace(&mut values, labels, 0) {
            return Err(ValuesError::new(VALUES, Fault::TooDeep));
        }
        if !helm.disable_pre_process {
            values = render(values, helm, budget, || context(cluster, labels, budget))?;
        }
        Ok(Some(canonical(&Value::Object(values))))
    }
}

/// The labels of a Cluster that values can name.
pub fn labels_of(cluster: &Cluster) -> BTreeMap<String, String> {
    let fleets = ["fleet.cattle.io/", "management.cattle.io/"];
    labels::with_fleets(cluster.metadata.labels.as_ref(), &fleets)
}

fn canonical(values: &Value) -> FreeForm {
    FreeForm::from_text(go_json::encode(values)).unwrap_or_else(|| FreeForm::from(values))
}

fn render(
    mut values: Map<String, Value>,
    helm: &HelmOptions,
    budget: &Budget,
    context: impl Fn() -> Result<template::Context, ValuesError>,
) -> Result<Map<String, Value>, ValuesError> {
    let has_actions = has_actions(&values);
    let mut texts = helm.template_values.values();
    // To take the context in takes a while: not where nothing can look at it.
    let is_used = has_actions || texts.any(|text| template::has_actions(text));
    let context = is_used.then(context).transpose()?;
    let mut room = Room::default();
    match &context {
        Some(context) if has_actions => values = render_values(&values, context, budget, &mut room)?,
        // Writing and reading would give the same, but for this.
        _ => values.values_mut().for_each(without_negative_zero),
    }
    for (key, text) in &helm.template_values {
        let fail = |fault| ValuesError::new(format!("helm.templateValues.{key}"), fault);
        let rendered = rendered(text, context.as_ref(), budget).map_err(|(_, fault)| fail(fault))?;
        let value = room
            .read(&rendered, budget)
            .map_err(|error| fail(not_read(error, text, &rendered)))?;
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
    context: &template::Context,
    budget: &Budget,
    room: &mut Room,
) -> Result<Map<String, Value>, ValuesError> {
    let emitted = yaml::emit(values).map_err(|error| ValuesError::new(VALUES, error))?;
    let path = |offset: Option<usize>| {
        let path = offset.and_then(|offset| yaml::path_at(values, offset));
        path.map_or_else(|| VALUES.to_owned(), |path| format!("{VALUES}.{path}"))
    };
    // Written once and read once more where an error is to name its field.
    charge(budget, emitted.len().saturating_mul(2))
        .map_err(|exceeded| ValuesError::new(VALUES, Fault::Exceeded(exceeded)))?;
    let rendered = rendered(&emitted, Some(context), budget)
        .map_err(|(offset, fault)| ValuesError::new(path(Some(offset)), fault))?;
    match room.read(&rendered, budget) {
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

/// Renders a template; an error comes with its place. Without actions it is the text itself.
fn rendered(
    text: &str,
    context: Option<&template::Context>,
    budget: &Budget,
) -> Result<Rendered, (usize, Fault)> {
    let rendered = match context {
        Some(context) if template::has_actions(text) => template::render(text, context, budget),
        _ => template::plain(text, budget),
    };
    rendered.map_err(|error| (error.offset, failed(error, budget)))
}

/// Why a template gave nothing.
fn failed(error: TemplateError, budget: &Budget) -> Fault {
    budget.exceeded().map_or_else(|| error.into(), Fault::Exceeded)
}

/// Why a rendered text gives no value.
enum NotRead {
    Exceeded(Exceeded),
    TooLong,
    Unreadable(yaml::Unreadable),
}

/// What is left for the rendered texts of a cluster: what they mean is in memory at the same time.
struct Room {
    bytes: usize,
    yaml: yaml::Room,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            bytes: MAX_TEXT,
            yaml: yaml::Room::default(),
        }
    }
}

impl Room {
    fn read(&mut self, rendered: &Rendered, budget: &Budget) -> Result<Value, NotRead> {
        let text = &rendered.text;
        self.bytes = self.bytes.checked_sub(text.len()).ok_or(NotRead::TooLong)?;
        charge(budget, text.len()).map_err(NotRead::Exceeded)?;
        yaml::read(text, &mut self.yaml).map_err(NotRead::Unreadable)
    }
}

/// Counts a text that goes to or comes from YAML.
pub fn charge(budget: &Budget, bytes: usize) -> Result<(), Exceeded> {
    /// Units of work for each byte.
    const YAML: u64 = 60;

    budget.charge(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(YAML))
}

/// The byte of the template that wrote the line which cannot be read.
fn source(error: &NotRead, rendered: &Rendered) -> Option<usize> {
    match error {
        NotRead::Exceeded(_) | NotRead::TooLong => None,
        NotRead::Unreadable(error) => rendered.source_of(error.line()?),
    }
}

fn not_read(error: NotRead, template: &str, rendered: &Rendered) -> Fault {
    let offset = source(&error, rendered);
    match error {
        NotRead::Exceeded(exceeded) => Fault::Exceeded(exceeded),
        NotRead::TooLong => Fault::RenderedTooLong,
        NotRead::Unreadable(error) if error.is_too_large() => Fault::TooLarge(error),
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
pub fn has_actions(values: &Map<String, Value>) -> bool {
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
fn context(
    cluster: &Cluster,
    cluster_labels: &BTreeMap<String, String>,
    budget: &Budget,
) -> Result<template::Context, ValuesError> {
    let fail = |fault| ValuesError::new("Cluster: spec.templateValues", fault);
    let values = cluster.spec.template_values.as_ref().map(FreeForm::to_value);
    let values = values.transpose().map_err(|error| fail(error.into()))?;
    let context = json!({
        "ClusterNamespace": cluster.metadata.namespace.as_deref().unwrap_or_default(),
        "ClusterName": cluster.metadata.name.as_deref().unwrap_or_default(),
        "ClusterLabels": cluster_labels,
        "ClusterAnnotations": labels::clean(cluster.metadata.annotations.as_ref()),
        "ClusterValues": values.filter(Value::is_object).unwrap_or_else(|| json!({})),
    });
    template::context(&context, budget).map_err(|error| fail(failed(error, budget)))
}
