//! In which namespaces a Bundle looks for clusters.

use std::collections::{BTreeMap, BTreeSet};

use super::selector::Selector;
use crate::api::{Bundle, BundleNamespaceMapping};

/// A namespace: its name and its labels.
pub type Namespace<'a> = (&'a str, Option<&'a BTreeMap<String, String>>);

/// The Bundle's own namespace, and those that a mapping next to it adds. A mapping that lacks a selector, or has one that
/// Kubernetes does not allow, adds none.
pub fn namespaces<'a>(
    bundle: &'a Bundle,
    mappings: impl IntoIterator<Item = &'a BundleNamespaceMapping>,
    known: &[Namespace<'a>],
) -> BTreeSet<&'a str> {
    let own = bundle.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = BTreeSet::from([own]);
    let here = mappings
        .into_iter()
        .filter(|mapping| mapping.metadata.namespace == bundle.metadata.namespace);
    for mapping in here {
        let bundles = mapping.bundle_selector.as_ref();
        let namespaces = mapping.namespace_selector.as_ref();
        let (Some(Ok(bundles)), Some(Ok(namespaces))) = (
            bundles.map(|selector| Selector::new("bundleSelector", selector)),
            namespaces.map(|selector| Selector::new("namespaceSelector", selector)),
        ) else {
            continue;
        };
        if bundles.matches(bundle.metadata.labels.as_ref()) {
            let selected = known.iter().filter(|(_, labels)| namespaces.matches(*labels));
            found.extend(selected.map(|(name, _)| *name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mapping(namespace: &str, bundles: &Value, namespaces: &Value) -> BundleNamespaceMapping {
        let object = json!({
            "metadata": { "namespace": namespace }, "bundleSelector": bundles, "namespaceSelector": namespaces
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn mappings_add_namespaces() {
        let bundle =
            json!({ "metadata": { "name": "web", "namespace": "here", "labels": { "app": "web" } } });
        let bundle: Bundle = serde_json::from_str(&bundle.to_string()).unwrap();
        let team = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let known = [("one", Some(&team)), ("other", None)];
        let (app, wrong) = (
            json!({ "matchLabels": { "app": "web" } }),
            json!({ "matchLabels": { "app": "db" } }),
        );
        let a = json!({ "matchLabels": { "team": "a" } });
        let odd = json!({ "matchExpressions": [{ "key": "team", "operator": "Is" }] });
        for (mapping, expected) in [
            (mapping("here", &app, &a), &["here", "one"][..]),
            (mapping("here", &json!({}), &json!({})), &["here", "one", "other"]),
            (mapping("here", &wrong, &a), &["here"]),
            (mapping("elsewhere", &app, &a), &["here"]),
            (mapping("here", &app, &Value::Null), &["here"]),
            (mapping("here", &Value::Null, &a), &["here"]),
            (mapping("here", &app, &odd), &["here"]),
        ] {
            let found: Vec<_> = namespaces(&bundle, [&mapping], &known).into_iter().collect();
            assert_eq!(found, expected, "{mapping:?}");
        }
    }
}
