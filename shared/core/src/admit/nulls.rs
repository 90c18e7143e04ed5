//! Values that are null. They remove defaults of the chart; `kubectl apply` drops them, unless it runs with `--server-side`.

use helmops_api::{
    HelmOp, HelmOptions,
    labels::{self, LAST_APPLIED},
};
use serde_json::{Map, Value};

/// How many of them are reported.
const MAX_NULLS: usize = 20;

/// The paths of nulls in the values of a HelmOp, such as `spec.helm.values.limits.cpu`; not all of very many.
pub fn nulls(helmop: &HelmOp) -> Vec<String> {
    let bundle = &helmop.spec.bundle;
    let mut found = of_options("spec", bundle.options.helm.as_ref());
    for (index, target) in bundle.targets.iter().enumerate() {
        found.extend(of_options(
            &format!("spec.targets[{index}]"),
            target.options.helm.as_ref(),
        ));
    }
    found.truncate(MAX_NULLS);
    found
}

/// The paths of nulls in values, such as `.limits.cpu`; not all of very many.
pub fn of_values(values: &Map<String, Value>) -> Vec<String> {
    let mut found = Dropped::default();
    found.compare_entries("", values, &Value::Null);
    found.0
}

/// The paths of nulls that were applied, and that the HelmOp does not have.
pub fn dropped(helmop: &HelmOp) -> Vec<String> {
    let applied = labels::annotation(&helmop.metadata, LAST_APPLIED)
        .filter(|text| text.contains("null"))
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(spec) = applied.as_ref().and_then(|applied| applied.get("spec")) else {
        return Vec::new();
    };
    let bundle = &helmop.spec.bundle;
    let mut found = Dropped::default();
    found.of_options("spec", spec, bundle.options.helm.as_ref());
    let targets = spec.get("targets").and_then(Value::as_array);
    for (index, target) in targets.into_iter().flatten().enumerate() {
        let own = bundle.targets.get(index);
        let helm = own.and_then(|own| own.options.helm.as_ref());
        found.of_options(&format!("spec.targets[{index}]"), target, helm);
    }
    found.0
}

fn of_options(path: &str, helm: Option<&HelmOptions>) -> Vec<String> {
    let values = helm.and_then(|helm| helm.values.as_ref());
    // Most values have none.
    let values = values.filter(|values| values.as_str().contains("null"));
    let mut found = Dropped::default();
    if let Some(Ok(values)) = values.map(helmops_api::free_form::FreeForm::to_value) {
        found.compare(&format!("{path}.helm.values"), &values, &Value::Null);
    }
    found.0
}

#[derive(Default)]
struct Dropped(Vec<String>);

impl Dropped {
    fn of_options(&mut self, path: &str, applied: &Value, helm: Option<&HelmOptions>) {
        let Some(applied) = applied.pointer("/helm/values") else {
            return;
        };
        let values = helm.and_then(|helm| helm.values.as_ref());
        let values = values
            .and_then(|values| values.to_value().ok())
            .unwrap_or_default();
        self.compare(&format!("{path}.helm.values"), applied, &values);
    }

    /// Adds the entries of mappings that are null, and are not in the other value.
    fn compare(&mut self, path: &str, value: &Value, other: &Value) {
        if self.0.len() >= MAX_NULLS {
            return;
        }
        match value {
            Value::Object(entries) => self.compare_entries(path, entries, other),
            // An item that is null stays.
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let other = other.get(index).unwrap_or(&Value::Null);
                    self.compare(&format!("{path}[{index}]"), item, other);
                }
            }
            _ => {}
        }
    }

    fn compare_entries(&mut self, path: &str, entries: &Map<String, Value>, other: &Value) {
        for (name, value) in entries {
            let path = format!("{path}.{name}");
            match (value, other.get(name)) {
                (Value::Null, Some(_)) => {}
                (Value::Null, None) => self.0.push(path),
                (_, other) => self.compare(&path, value, other.unwrap_or(&Value::Null)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn helmop(values: &Value, target: &Value, applied: Option<&Value>) -> HelmOp {
        let spec = |values: &Value| json!({ "helm": { "values": values }, "targets": [{ "helm": { "values": target } }] });
        let mut object = json!({ "metadata": { "name": "web" }, "spec": spec(values) });
        if let Some(applied) = applied {
            let applied = json!({ "spec": spec(applied) }).to_string();
            object["metadata"]["annotations"] = json!({ (LAST_APPLIED): applied });
        }
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn nulls_are_found_in_mappings() {
        let values = json!({ "limits": { "cpu": null, "memory": "1Gi" }, "list": [null, { "a": null }], "text": "null" });
        let paths = nulls(&helmop(&values, &json!({ "b": null }), None));
        assert_eq!(
            paths,
            [
                "spec.helm.values.limits.cpu",
                "spec.helm.values.list[1].a",
                "spec.targets[0].helm.values.b"
            ]
        );
        let many: Map<_, _> = (0..100).map(|index| (index.to_string(), Value::Null)).collect();
        assert_eq!(nulls(&helmop(&many.into(), &json!({}), None)).len(), MAX_NULLS);
    }

    #[test]
    fn nulls_that_were_applied_and_are_gone_are_dropped() {
        let applied = json!({ "limits": { "cpu": null, "memory": "1Gi" }, "list": [null, { "a": null, "b": 1 }], "top": null });
        let stored = json!({ "limits": { "memory": "1Gi" }, "list": [null, { "b": 1 }] });
        let paths = dropped(&helmop(&stored, &json!({}), Some(&applied)));
        assert_eq!(
            paths,
            [
                "spec.helm.values.limits.cpu",
                "spec.helm.values.list[1].a",
                "spec.helm.values.top"
            ]
        );
        assert_eq!(dropped(&helmop(&applied, &json!({}), Some(&applied))), [""; 0]);
        assert_eq!(dropped(&helmop(&stored, &json!({}), None)), [""; 0]);
        assert_eq!(
            dropped(&helmop(
                &json!(null),
                &json!({}),
                Some(&json!({ "a": { "b": null } }))
            )),
            ["spec.helm.values.a.b"]
        );
    }
}
