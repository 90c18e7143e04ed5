//! Processes the values of a Bundle for a cluster.

use std::{collections::BTreeMap, sync::Arc};

use go_formats::{json, yaml};
use gotmpl::{
    Budget, Context, Exceeded, MAX_TEXT, Rendered, Template, TemplateError, TemplateErrorKind,
    UnsupportedFunction, line_at,
};
use helmops_api::{
    BundleDeploymentOptions, Cluster, HelmOptions,
    free_form::{self, FreeForm, TooDeep},
};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{
    labels::{self, MAX_DEPTH},
    limits::ValuesLimitExceeded,
    syntax::{DELIMITERS, unsupported},
};

/// The values of a cluster cannot be rendered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{path}: {kind}")]
pub struct ValuesError {
    /// Path of the field, such as `helm.values.image.tag`.
    pub path: String,
    /// What is wrong with it.
    pub kind: ValuesErrorKind,
}

/// What is wrong with values.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ValuesErrorKind {
    /// The template cannot be parsed or rendered.
    #[error(
        "the template cannot be rendered: {0}; fix it, add what it needs to the Cluster, or set helm.disablePreProcess"
    )]
    Template(TemplateError),
    /// The template calls a function that is not supported.
    #[error(
        "the template cannot be rendered: at <{}>: {}; fix it, add what it needs to the Cluster, or set helm.disablePreProcess",
        .0.name,
        unsupported(.0)
    )]
    Unsupported(UnsupportedFunction),
    /// The output is not YAML. The message does not contain the output, which may contain secrets.
    #[error(
        "the template does not render to valid YAML: {error}{}; quote values that may contain special characters",
        at(*.line, .template)
    )]
    NotYaml {
        /// What is wrong with it.
        error: String,
        /// The line of the output, counted from 1, if it is known.
        line: Option<usize>,
        /// The line of the template that wrote it; empty if that is unknown.
        template: String,
    },
    /// The budget of the Bundle was exceeded here.
    #[error("{0}")]
    Exceeded(#[from] ValuesLimitExceeded),
    /// The budget of the Bundle was exceeded by earlier clusters.
    #[error(
        "values were not rendered for this cluster, because earlier clusters exceeded a limit of the Bundle: {0}"
    )]
    NotRendered(ValuesLimitExceeded),
    /// Values nest too deeply for JSON.
    #[error("{0}")]
    Deep(#[from] TooDeep),
    /// Values are too long for a template.
    #[error("{0}")]
    TooLong(#[from] yaml::TooLong),
    /// The output of all templates of the cluster is too long.
    #[error(
        "helm.values and helm.templateValues render to more than {MAX_TEXT} bytes together for this cluster; make them shorter"
    )]
    RenderedTooLong,
    /// The values in the output of all templates of the cluster have too many nodes.
    #[error(
        "the values of the cluster have more than {limit} nodes together; make helm.values and helm.templateValues smaller"
    )]
    TooManyNodes {
        /// The allowed nodes.
        limit: usize,
    },
    /// The values in the output of all templates of the cluster have too long scalars.
    #[error(
        "the scalars of the cluster's values, with aliases expanded, have more than {limit} bytes together; make helm.values \
         and helm.templateValues smaller"
    )]
    ScalarsTooLong {
        /// The allowed bytes.
        limit: usize,
    },
    /// The values do not render to a mapping.
    #[error("the values do not render to a mapping")]
    NotAMapping,
    /// Values nest too deeply.
    #[error(
        "the values nest more than {MAX_DEPTH} deep, which is the limit for the substitution of Cluster labels"
    )]
    TooDeep,
}

impl ValuesError {
    /// An error about a field.
    pub fn new(path: impl Into<String>, kind: impl Into<ValuesErrorKind>) -> Self {
        Self {
            path: path.into(),
            kind: kind.into(),
        }
    }
}

fn at(line: Option<usize>, template: &str) -> String {
    match (line, template) {
        (None, _) => String::new(),
        (Some(line), "") => format!(", in line {line} of the result"),
        (Some(line), template) => format!(", in line {line} of the result, written by <{template}>"),
    }
}

/// The field of most errors.
pub const VALUES: &str = "helm.values";

/// The Helm values of a group of clusters that the same targets match.
#[derive(Clone, Debug)]
pub struct ValuesSource {
    options: Arc<BundleDeploymentOptions>,
    /// In canonical form, so that equal values are equal texts.
    values: Option<FreeForm>,
    is_same: bool,
}

impl ValuesSource {
    /// `options` do not contain the values.
    ///
    /// # Errors
    /// If the values nest too deep.
    pub fn new(options: Arc<BundleDeploymentOptions>, values: Option<FreeForm>) -> Result<Self, ValuesError> {
        let tree = values.map(|values| values.to_value()).transpose();
        let tree = tree.map_err(|error| ValuesError::new(VALUES, error))?;
        let has_actions = tree.as_ref().and_then(Value::as_object).is_some_and(has_actions);
        let values = tree.as_ref().map(canonical);
        let is_rendered = options.helm.as_ref().is_some_and(|helm| {
            let mut texts = helm.template_values.values();
            !helm.disable_pre_process && (has_actions || texts.any(|text| DELIMITERS.has_actions(text)))
        });
        let has_labels = values
            .as_ref()
            .is_some_and(|values| labels::are_referenced(values.as_str()));
        Ok(Self {
            is_same: !is_rendered && !has_labels,
            options,
            values,
        })
    }

    /// The options without the values.
    pub const fn options(&self) -> &Arc<BundleDeploymentOptions> {
        &self.options
    }

    /// Whether all clusters that have labels get the same values, or, if `labels` is empty, all clusters without labels.
    pub fn is_shared(&self, labels: &BTreeMap<String, String>) -> bool {
        self.is_same || labels.is_empty()
    }

    /// The values of a cluster, whose `labels` come from [`template_labels`]. `budget` is that of the Bundle.
    ///
    /// # Errors
    /// If a template is invalid or refers to something that the Cluster does not have, or the budget is exceeded.
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
        if !labels::substitute(&mut values, labels, 0) {
            return Err(ValuesError::new(VALUES, ValuesErrorKind::TooDeep));
        }
        if !helm.disable_pre_process {
            values = render(values, helm, budget, || context(cluster, labels, budget))?;
        }
        Ok(Some(canonical(&Value::Object(values))))
    }
}

/// The labels of a Cluster that values can refer to.
pub fn template_labels(cluster: &Cluster) -> BTreeMap<String, String> {
    let fleets = ["fleet.cattle.io/", "management.cattle.io/"];
    labels::clean_except(cluster.metadata.labels.as_ref(), &fleets)
}

fn canonical(values: &Value) -> FreeForm {
    FreeForm::from_text(json::encode(values)).unwrap_or_else(|| FreeForm::from(values))
}

fn render(
    mut values: Map<String, Value>,
    helm: &HelmOptions,
    budget: &Budget,
    context: impl Fn() -> Result<Context, ValuesError>,
) -> Result<Map<String, Value>, ValuesError> {
    let has_actions = has_actions(&values);
    let mut texts = helm.template_values.values();
    // Converting the context takes time, so it is only done if a template can use it.
    let is_used = has_actions || texts.any(|text| DELIMITERS.has_actions(text));
    let context = is_used.then(context).transpose()?;
    let mut quota = OutputQuota::default();
    match &context {
        Some(context) if has_actions => values = render_values(&values, context, budget, &mut quota)?,
        // A round trip through YAML would change nothing else.
        _ => values.values_mut().for_each(without_negative_zero),
    }
    for (key, text) in &helm.template_values {
        let fail = |kind| ValuesError::new(format!("helm.templateValues.{key}"), kind);
        let rendered = render_text(text, context.as_ref(), budget).map_err(|(_, kind)| fail(kind))?;
        let value = quota
            .read(&rendered, budget)
            .map_err(|error| fail(output_error(error, text, &rendered)))?;
        // In the values it is one level deeper.
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
    context: &Context,
    budget: &Budget,
    quota: &mut OutputQuota,
) -> Result<Map<String, Value>, ValuesError> {
    let emitted = yaml::emit(values).map_err(|error| ValuesError::new(VALUES, error))?;
    let path =
        |offset: Option<usize>| offset.map_or_else(|| VALUES.to_owned(), |offset| path_at(values, offset));
    // Emitted once, and once more to find the field of an error.
    charge(budget, emitted.len().saturating_mul(2))
        .map_err(|exceeded| ValuesError::new(VALUES, ValuesLimitExceeded(exceeded)))?;
    let rendered = render_text(&emitted, Some(context), budget)
        .map_err(|(offset, kind)| ValuesError::new(path(Some(offset)), kind))?;
    match quota.read(&rendered, budget) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(ValuesError::new(VALUES, ValuesErrorKind::NotAMapping)),
        Err(error) => {
            let offset = source_offset(&error, &rendered);
            Err(ValuesError::new(
                path(offset),
                output_error(error, &emitted, &rendered),
            ))
        }
    }
}

/// The path of the template at an offset in values that are emitted as YAML.
pub fn path_at(values: &Map<String, Value>, offset: usize) -> String {
    match yaml::text_at(values, offset) {
        Some(found) if DELIMITERS.has_actions(&found.text) => format!("{VALUES}.{}", found.path),
        _ => VALUES.to_owned(),
    }
}

/// Renders a template; an error has its offset. Without actions, the result is the text itself.
fn render_text(
    text: &str,
    context: Option<&Context>,
    budget: &Budget,
) -> Result<Rendered, (usize, ValuesErrorKind)> {
    let empty = Context::default();
    let context = context.filter(|_| DELIMITERS.has_actions(text)).unwrap_or(&empty);
    Template::parse(text, DELIMITERS, budget)
        .and_then(|template| template.render(context, budget))
        .map_err(|error| (error.offset, error.into()))
}

impl From<TemplateError> for ValuesErrorKind {
    fn from(error: TemplateError) -> Self {
        match error.kind {
            TemplateErrorKind::Exceeded(exceeded) => Self::Exceeded(exceeded.into()),
            TemplateErrorKind::Unsupported(function) => Self::Unsupported(function),
            _ => Self::Template(error),
        }
    }
}

/// Why the output of a template cannot be used.
enum OutputError {
    Exceeded(Exceeded),
    TooLong,
    Yaml(yaml::ReadError),
}

/// What remains for the output of all templates of a cluster, whose values are in memory at the same time.
struct OutputQuota {
    bytes: usize,
    yaml: yaml::Quota,
}

impl Default for OutputQuota {
    fn default() -> Self {
        Self {
            bytes: MAX_TEXT,
            yaml: yaml::Quota::default(),
        }
    }
}

impl OutputQuota {
    fn read(&mut self, rendered: &Rendered, budget: &Budget) -> Result<Value, OutputError> {
        let text = &rendered.text;
        self.bytes = self.bytes.checked_sub(text.len()).ok_or(OutputError::TooLong)?;
        charge(budget, text.len()).map_err(OutputError::Exceeded)?;
        yaml::read(text, &mut self.yaml).map_err(OutputError::Yaml)
    }
}

/// Charges for a text that is emitted or read as YAML.
pub fn charge(budget: &Budget, bytes: usize) -> Result<(), Exceeded> {
    /// Units of work for each byte.
    const YAML: u64 = 60;

    budget.charge(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(YAML))
}

/// The offset in the template of what wrote the line that cannot be read.
fn source_offset(error: &OutputError, rendered: &Rendered) -> Option<usize> {
    match error {
        OutputError::Exceeded(_) | OutputError::TooLong => None,
        OutputError::Yaml(error) => match error {
            yaml::ReadError::Invalid { line, .. } => rendered.source_of((*line)?),
            yaml::ReadError::TooManyNodes { .. } | yaml::ReadError::TooManyBytes { .. } => None,
        },
    }
}

fn output_error(error: OutputError, template: &str, rendered: &Rendered) -> ValuesErrorKind {
    let offset = source_offset(&error, rendered);
    match error {
        OutputError::Exceeded(exceeded) => ValuesErrorKind::Exceeded(exceeded.into()),
        OutputError::TooLong => ValuesErrorKind::RenderedTooLong,
        OutputError::Yaml(yaml::ReadError::TooManyNodes { limit }) => ValuesErrorKind::TooManyNodes { limit },
        OutputError::Yaml(yaml::ReadError::TooManyBytes { limit }) => {
            ValuesErrorKind::ScalarsTooLong { limit }
        }
        OutputError::Yaml(yaml::ReadError::Invalid { message, line }) => ValuesErrorKind::NotYaml {
            error: message,
            line,
            template: offset.map_or_else(String::new, |offset| line_at(template, offset)),
        },
    }
}

/// The depth of nested lists and mappings.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Whether any string or key in the values contains an action, or has another meaning in YAML (the key `<<`).
pub fn has_actions(values: &Map<String, Value>) -> bool {
    fn has(value: &Value) -> bool {
        match value {
            Value::String(text) => DELIMITERS.has_actions(text),
            Value::Array(items) => items.iter().any(has),
            Value::Object(entries) => has_actions(entries),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    values
        .iter()
        .any(|(key, value)| DELIMITERS.has_actions(key) || key == "<<" || has(value))
}

/// Replaces negative zero by the integer 0, as a round trip through YAML does.
fn without_negative_zero(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = Value::from(0),
        Value::Array(items) => items.iter_mut().for_each(without_negative_zero),
        Value::Object(entries) => entries.values_mut().for_each(without_negative_zero),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The context of templates.
fn context(
    cluster: &Cluster,
    cluster_labels: &BTreeMap<String, String>,
    budget: &Budget,
) -> Result<Context, ValuesError> {
    let fail = |kind: ValuesErrorKind| ValuesError::new("Cluster: spec.templateValues", kind);
    let values = cluster.spec.template_values.as_ref().map(FreeForm::to_value);
    let values = values.transpose().map_err(|error| fail(error.into()))?;
    let context = json!({
        "ClusterNamespace": cluster.metadata.namespace.as_deref().unwrap_or_default(),
        "ClusterName": cluster.metadata.name.as_deref().unwrap_or_default(),
        "ClusterLabels": cluster_labels,
        "ClusterAnnotations": labels::clean(cluster.metadata.annotations.as_ref()),
        "ClusterValues": values.filter(Value::is_object).unwrap_or_else(|| json!({})),
    });
    Context::new(&context, budget).map_err(|error| fail(error.into()))
}
