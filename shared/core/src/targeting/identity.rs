//! IDs of deployments and hashes of values, as in Fleet.
//!
//! An agent deploys again when the ID of a deployment changes. So IDs are computed exactly as in Fleet, or every cluster
//! would deploy again when the controller changes.

use std::io;

use go_formats::json;
use helmops_api::{
    BundleDeploymentOptions, Lifecycle,
    free_form::FreeForm,
    unknown_fields::{FieldPath, UnknownFields, VisitUnknown},
};
use helmops_model::chart::digest::sha256_hex;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

/// The ID of a deployment: what is deployed, and how.
///
/// `contents` identifies the content; it is empty for a chart. `diff`, `correctDrift` and most of `lifecycle` are not part of the ID: they
/// change how an agent deploys and what it reports, not what it deploys ([`Lifecycle::deployed_part`]). `values` are the Helm values from [`Source`](super::values::ValuesSource); they
/// replace those of the options.
///
/// Unknown fields come last in their struct, sorted by name, because Fleet adds most fields at the end of a struct: then the ID is
/// the same as Fleet's.
pub fn deployment_id(
    contents: &str,
    options: &BundleDeploymentOptions,
    lifecycle: Option<&Lifecycle>,
    values: Option<FreeForm>,
) -> String {
    let mut options = options.clone();
    if let Some(helm) = &mut options.helm {
        helm.values = values;
    }
    options.diff = None;
    options.correct_drift = None;
    let has_values_files = options
        .helm
        .as_ref()
        .is_some_and(|helm| !helm.values_files.is_empty());
    let deployed = lifecycle.and_then(|lifecycle| lifecycle.deployed_part(has_values_files));
    options.lifecycle = deployed.map(Box::new);
    options.visit_unknown(FieldPath::of("options"), &mut |_, fields| {
        fields.values_mut().for_each(canonicalize);
    });
    let selector = options.allowed_target_namespace_selector.take();
    let unknown = std::mem::take(&mut options.unknown);
    let ordered = Ordered {
        options: &options,
        allowed_target_namespace_selector: selector.as_ref().map(OrderedSelector::of),
        unknown: &unknown,
    };
    // Go's encoder ends its output with a line feed.
    format!(
        "{contents}:{}",
        sha256_hex(format!("{}\n", encode(&ordered)).as_bytes())
    )
}

/// Writes a value as Go does, so that its notation does not matter. One that nests too deep for a tree keeps its text.
fn canonicalize(value: &mut FreeForm) {
    let canonical = value.to_value().ok().map(|value| json::encode(&value));
    if let Some(canonical) = canonical.and_then(FreeForm::from_text) {
        *value = canonical;
    }
}

/// Identifies the values in the Secret of a deployment; empty if no Secret is needed.
pub fn values_hash(values: &[u8], staged: &[u8]) -> String {
    if is_empty_json(values) && is_empty_json(staged) {
        return String::new();
    }
    sha256_hex(&[values, staged].concat())
}

fn is_empty_json(values: &[u8]) -> bool {
    matches!(values, b"" | b"null" | b"{}")
}

/// The options with their fields in Fleet's order. Ours have the same order, except those of the selector.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ordered<'a> {
    #[serde(flatten)]
    options: &'a BundleDeploymentOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_target_namespace_selector: Option<OrderedSelector<'a>>,
    #[serde(flatten)]
    unknown: &'a UnknownFields,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OrderedSelector<'a> {
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    match_labels: std::collections::BTreeMap<&'a String, &'a String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<&'a LabelSelectorRequirement>,
}

impl<'a> OrderedSelector<'a> {
    fn of(selector: &'a LabelSelector) -> Self {
        Self {
            match_labels: selector.match_labels.iter().flatten().collect(),
            match_expressions: selector.match_expressions.iter().flatten().collect(),
        }
    }
}

fn encode<T: Serialize>(value: &T) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, GoStrings);
    // Neither writing into memory nor serializing a map with string keys can fail.
    if value.serialize(&mut serializer).is_err() {
        return String::new();
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Escapes strings as Go does.
struct GoStrings;

impl Formatter for GoStrings {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut escaped = String::new();
        json::string(&mut escaped, text, true);
        let inner = escaped.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        CompactFormatter.write_string_fragment(writer, inner.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
