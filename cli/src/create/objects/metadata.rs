//! Labels and annotations of an object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::{documents::Document, fields::Fields};
use crate::create::draft::{Draft, Origin};

/// What kubectl keeps in an object.
const KUBECTL: &str = "kubectl.kubernetes.io";

/// A HelmOp with the name of an object.
pub fn draft(document: &Document) -> Draft {
    let mut draft = Draft::named(document.text("/metadata/name"));
    draft.origin = Some(Origin {
        title: document.title(),
        position: document.position("metadata.name"),
    });
    draft
}

/// The fields of an object that say nothing about its HelmOp are taken.
pub fn fields(document: &Document) -> Fields<'_> {
    let mut fields = Fields::of(document);
    for name in ["apiVersion", "kind", "status"] {
        fields.drop(name);
    }
    fields
}

/// Takes labels and annotations, without those of a tool, whose prefixes are its domains or subdomains of them, and of kubectl. Returns the annotations of the tool.
pub fn convert(metadata: &mut Fields<'_>, domains: &[&str], draft: &mut Draft) -> Map<String, Value> {
    let own: &mut ObjectMeta = &mut draft.helmop.metadata;
    let mut of_tool = Map::new();
    for (name, into) in [("labels", &mut own.labels), ("annotations", &mut own.annotations)] {
        let Some(Value::Object(entries)) = metadata.take(name) else {
            continue;
        };
        let prefix = |key: &str| key.split_once('/').map_or("", |(prefix, _)| prefix).to_owned();
        let (others, entries): (Map<_, _>, Map<_, _>) = entries
            .into_iter()
            .filter(|(key, _)| prefix(key) != KUBECTL)
            .partition(|(key, _)| domains.iter().any(|domain| is_in(&prefix(key), domain)));
        if name == "annotations" {
            of_tool = others;
        }
        let kept: BTreeMap<_, _> = entries
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        if !kept.is_empty() {
            *into = Some(kept);
        }
    }
    of_tool
}

/// Whether a prefix is a domain or in it.
fn is_in(prefix: &str, domain: &str) -> bool {
    let rest = prefix.strip_suffix(domain);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
