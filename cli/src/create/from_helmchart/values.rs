//! The values of a HelmChart and of its HelmChartConfig.
//!
//! Helm gets them in this order, and later ones override earlier ones: `valuesContent`, `values` and `valuesSecrets` of the HelmChart, then
//! those of the HelmChartConfig, then `set` of the HelmChart.

use go_formats::strvals::{self, Kind};
use helmops_api::{
    helm::{KeySelector, ValuesFrom},
    lifecycle::ValuesReference,
};
use serde_json::{Map, Value};

use crate::create::{
    draft::Draft,
    note::{Gap, Loss},
    objects::{fields::Fields, values},
};

const UNORDERED: &str = "k3s overrides the values of this Secret by those of set or of the HelmChartConfig, and a HelmOp overrides these by the values of the \
                         Secret: write them into it";
const OPTIONAL: &str = "with ignoreUpdates the Secret may be missing, and its changes wait for another one; here it has to exist, and its changes are deployed";

/// What Helm gets together. The order is that of a HelmOp with `lifecycle.valuesFrom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Secrets,
    Values,
}

/// A key of a Secret with values.
struct Secret {
    name: String,
    key: String,
    is_ignored: bool,
}

/// All values, and in which order they are there.
#[derive(Default)]
struct Layers {
    values: Map<String, Value>,
    secrets: Vec<Secret>,
    order: Vec<Layer>,
}

/// Converts them. The release has its namespace already.
pub fn convert(spec: &mut Fields<'_>, config: Option<&mut Fields<'_>>, draft: &mut Draft) {
    let mut layers = Layers::default();
    layers.add(spec, draft);
    if let Some(config) = config {
        layers.add(config, draft);
    }
    if spec.has("set") {
        layers.order.push(Layer::Values);
    }
    set(spec, &mut layers.values, draft);
    values::set(spec, "valuesContent", layers.values, draft);
    if layers.secrets.is_empty() {
        return;
    }
    draft.notes.push(spec.note("valuesSecrets", values::ON_CLUSTERS));
    let is_below = layers.order.is_sorted();
    if !is_below && !layers.order.iter().rev().is_sorted() {
        let gap = Gap::Field(Loss::ValuesSecrets);
        draft.notes.push(spec.refusal("valuesSecrets", gap, UNORDERED));
    }
    reference(spec, layers.secrets, !is_below, draft);
}

impl Layers {
    /// Adds what an object has: `values` override `valuesContent`, and Secrets override both.
    fn add(&mut self, spec: &mut Fields<'_>, draft: &mut Draft) {
        for own in [
            values::text(spec, "valuesContent", draft),
            values::mapping(spec, "values", draft),
        ] {
            let own = own.unwrap_or_default();
            if !own.is_empty() {
                self.order.push(Layer::Values);
            }
            strvals::merge(&mut self.values, own);
        }
        for mut entry in spec.list("valuesSecrets") {
            let name = entry.text("name").unwrap_or_default();
            let is_ignored = entry.flag("ignoreUpdates") == Some(true);
            for key in entry.texts("keys") {
                self.order.push(Layer::Secrets);
                self.secrets.push(Secret {
                    name: name.clone(),
                    key,
                    is_ignored,
                });
            }
            entry.finish(&mut draft.notes);
        }
    }
}

/// Names the Secrets: over the values of the HelmOp, or below them, where they may be missing.
fn reference(spec: &Fields<'_>, secrets: Vec<Secret>, is_over: bool, draft: &mut Draft) {
    let options = &mut draft.helmop.spec.bundle.options;
    let own = spec.document().text("/metadata/namespace");
    let is_elsewhere = !own.is_empty() && own != options.default_namespace;
    let namespace = if is_elsewhere { own } else { "" };
    let all_ignored = secrets.iter().all(|secret| secret.is_ignored);
    let any_ignored = secrets.iter().any(|secret| secret.is_ignored);
    if is_over {
        let helm = options.helm.get_or_insert_default();
        helm.values_from
            .extend(secrets.into_iter().map(|secret| ValuesFrom {
                secret_key_ref: Some(KeySelector {
                    name: secret.name,
                    namespace: namespace.to_owned(),
                    key: secret.key,
                    ..KeySelector::default()
                }),
                ..ValuesFrom::default()
            }));
        if any_ignored {
            draft.notes.push(spec.note("valuesSecrets", OPTIONAL));
        }
        return;
    }
    let lifecycle = options.lifecycle.get_or_insert_default();
    lifecycle
        .values_from
        .extend(secrets.into_iter().map(|secret| ValuesReference {
            kind: "Secret".to_owned(),
            name: secret.name,
            namespace: namespace.to_owned(),
            values_key: secret.key,
            optional: secret.is_ignored,
            ..ValuesReference::default()
        }));
    if all_ignored {
        "NextRelease".clone_into(&mut lifecycle.values_from_policy);
    } else if any_ignored {
        let text = "ignoreUpdates of one Secret only: a change of any of them is deployed";
        draft.notes.push(spec.note("valuesSecrets", text));
    }
}

/// `set`: k3s passes numbers, booleans and null to `--set`, and everything else to `--set-string`, in the order of the keys.
fn set(spec: &mut Fields<'_>, into: &mut Map<String, Value>, draft: &mut Draft) {
    let mut fields = spec.mapping("set");
    let (mut typed, mut texts) = (Vec::new(), Vec::new());
    for name in fields.names() {
        if let Some(number) = fields.whole_number(&name) {
            typed.push((name, number.to_string(), Kind::Typed));
        } else if let Some(text) = fields.text_or_empty(&name) {
            let is = |word: &str| text.eq_ignore_ascii_case(word);
            if is("true") || is("false") || is("null") {
                typed.push((name, text, Kind::Typed));
            } else {
                texts.push((name, with_escaped_commas(&text), Kind::Text));
            }
        }
    }
    for (name, text, kind) in typed.into_iter().chain(texts) {
        draft.locate_null((&name, &text, kind), fields.position(&name));
        if let Err(error) = strvals::set(into, &name, &text, kind) {
            let text = format!("Helm cannot set it: {error}");
            draft.notes.push(fields.refusal(&name, Gap::Valid, text));
        }
    }
    fields.finish(&mut draft.notes);
}

/// A comma without a backslash, or with one that is escaped itself, gets one.
fn with_escaped_commas(text: &str) -> String {
    let (mut found, mut is_escaped) = (String::new(), false);
    for c in text.chars() {
        if c == ',' && !is_escaped {
            found.push('\\');
        }
        is_escaped = c == '\\' && !is_escaped;
        found.push(c);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_is_escaped_once() {
        for (text, expected) in [
            ("a,b", "a\\,b"),
            ("a\\,b", "a\\,b"),
            ("a\\\\,b", "a\\\\\\,b"),
            (",", "\\,"),
            ("a\\b", "a\\b"),
        ] {
            assert_eq!(with_escaped_commas(text), expected, "{text}");
        }
    }
}
