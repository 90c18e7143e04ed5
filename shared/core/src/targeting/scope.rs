//! The namespaces in which a Bundle targets clusters.

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::{Bundle, BundleNamespaceMapping};
use helmops_model::selector::Selector;

/// Name and labels of a namespace.
pub type Namespace<'a> = (&'a str, Option<&'a BTreeMap<String, String>>);

/// The namespace of the Bundle, and those that a mapping in the same namespace adds. A mapping that lacks a selector or has an
/// invalid one adds none.
pub fn namespaces<'a>(
    bundle: &'a Bundle,
    mappings: impl IntoIterator<Item = &'a BundleNamespaceMapping>,
    known: &[Namespace<'a>],
) -> BTreeSet<&'a str> {
    let own = bundle.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = BTreeSet::from([own]);
    let own_mappings = mappings
        .into_iter()
        .filter(|mapping| mapping.metadata.namespace == bundle.metadata.namespace);
    for mapping in own_mappings {
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
            json!({ "metadata": { "name": "web", "namespace": "fleet", "labels": { "app": "web" } } });
        let bundle: Bundle = serde_json::from_str(&bundle.to_string()).unwrap();
        let team = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let known = [("one", Some(&team)), ("other", None)];
        let (app, wrong) = (
            json!({ "matchLabels": { "app": "web" } }),
            json!({ "matchLabels": { "app": "db" } }),
        );
        let a = json!({ "matchLabels": { "team": "a" } });
        let invalid = json!({ "matchExpressions": [{ "key": "team", "operator": "Is" }] });
        for (mapping, expected) in [
            (mapping("fleet", &app, &a), &["fleet", "one"][..]),
            (
                mapping("fleet", &json!({}), &json!({})),
                &["fleet", "one", "other"],
            ),
            (mapping("fleet", &wrong, &a), &["fleet"]),
            (mapping("foreign", &app, &a), &["fleet"]),
            (mapping("fleet", &app, &Value::Null), &["fleet"]),
            (mapping("fleet", &Value::Null, &a), &["fleet"]),
            (mapping("fleet", &app, &invalid), &["fleet"]),
        ] {
            let found: Vec<_> = namespaces(&bundle, [&mapping], &known).into_iter().collect();
            assert_eq!(found, expected, "{mapping:?}");
        }
    }
}
