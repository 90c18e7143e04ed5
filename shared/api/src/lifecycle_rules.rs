//! CEL rules of `spec.lifecycle` in the CRD of HelmOps, for clusters whose webhook is bypassed: what would make an agent do the wrong thing.
//!
//! Admission (`admit`) has these rules and many more, with better messages. Bundles have none: their targets have no limits, so that the API
//! server rejects rules for them as too expensive.

use serde_json::{Value, json};

use super::{limits::field_of, schema};

const NO_ROLLBACK: (&str, &str) = (
    "!has(self.remediation) || self.remediation != 'rollback'",
    "install.remediation must be none or uninstall: a failed installation has no earlier revision to roll back to",
);
const NO_CLEANUP: (&str, &str) = (
    "!has(self.cleanupOnFail) || !self.cleanupOnFail",
    "install.cleanupOnFail has no effect; use install.remediation: uninstall",
);
const NO_FORCE: (&str, &str) = (
    "!has(self.force) || !self.force || !has(self.serverSideApply) || self.serverSideApply != 'enabled'",
    "force replaces objects, which is not possible with serverSideApply: enabled; remove one of them",
);
const RETRIES: (&str, &str) = (
    "!has(self.retries) || (self.retries >= 0 && self.retries <= 1000)",
    "retries must be from 0 to 1000",
);
const WAIT: (&str, &str) = (
    "!has(self.disable) || !self.disable || (!has(self.timeout) && !has(self.expressions))",
    "wait.timeout and wait.expressions have no effect with wait.disable; remove one of them",
);
const ATOMIC: (&str, &str) = (
    "!has(self.helm) || !has(self.helm.atomic) || !self.helm.atomic || !has(self.lifecycle) || \
     (!has(self.lifecycle.install) && !has(self.lifecycle.upgrade) && !has(self.lifecycle.wait))",
    "helm.atomic cannot be combined with lifecycle.install, lifecycle.upgrade and lifecycle.wait; remove helm.atomic, and set \
     lifecycle.upgrade.remediation: rollback",
);
const DURATION: (&str, &str) = (
    schema::DURATION,
    "must be a valid Go duration such as 30s, 5m or 1h30m",
);

/// The rules of a block, by its path.
const OF_LIFECYCLE: &[(&str, (&str, &str))] = &[
    ("install", NO_ROLLBACK),
    ("install", RETRIES),
    ("upgrade", RETRIES),
    ("wait", WAIT),
    ("install", NO_CLEANUP),
    ("install", NO_FORCE),
    ("upgrade", NO_FORCE),
    ("rollback", NO_FORCE),
    ("install.timeout", DURATION),
    ("upgrade.timeout", DURATION),
    ("rollback.timeout", DURATION),
    ("install.retryInterval", DURATION),
    ("upgrade.retryInterval", DURATION),
    ("test.timeout", DURATION),
    ("uninstall.timeout", DURATION),
    ("wait.timeout", DURATION),
];

/// Adds the rules to the schema of HelmOps.
pub fn add_to(schema: &mut Value) {
    for scope in ["spec.lifecycle", "spec.targets[].lifecycle"] {
        for (path, rule) in OF_LIFECYCLE {
            add(schema, &format!("{scope}.{path}"), *rule);
        }
    }
    add(schema, "spec", ATOMIC);
}

fn add(schema: &mut Value, path: &str, (rule, message): (&str, &str)) {
    let Some(Value::Object(field)) = field_of(schema, path) else {
        return;
    };
    let rules = field
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({ "rule": rule, "message": message }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds;

    fn schema(file: &str) -> Value {
        let all = crds::all()
            .unwrap()
            .into_iter()
            .chain(crds::of_clusters().unwrap());
        let (_, crd) = all.into_iter().find(|(name, _)| *name == file).unwrap();
        let crd = serde_json::to_value(crd).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }

    #[test]
    fn every_rule_is_in_the_crd_of_helmops() {
        let mut schema = schema("helmops.yaml");
        let mut rules = |path: &str| {
            let field = field_of(&mut schema, path).unwrap();
            field["x-kubernetes-validations"].to_string()
        };
        for scope in ["spec.lifecycle", "spec.targets[].lifecycle"] {
            for (path, (rule, message)) in OF_LIFECYCLE {
                let found = rules(&format!("{scope}.{path}"));
                assert!(
                    found.contains(&json!(rule).to_string()),
                    "{scope}.{path}: {found}"
                );
                assert!(
                    found.contains(&json!(message).to_string()),
                    "{scope}.{path}: {found}"
                );
            }
        }
        assert!(rules("spec").contains("helm.atomic cannot be combined"));
    }

    /// The API server would reject the CRD: it estimates the cost of a rule for as many targets as fit into a request.
    #[test]
    fn crds_without_limits_have_no_rules() {
        for file in ["bundles.yaml", "bundledeployments.yaml"] {
            assert!(
                !schema(file).to_string().contains("x-kubernetes-validations"),
                "{file}"
            );
        }
    }

    #[test]
    fn a_field_with_a_list_of_values_may_be_null() {
        let mut schema = schema("helmops.yaml");
        let field = field_of(&mut schema, "spec.lifecycle.upgrade.remediation").unwrap();
        assert_eq!(
            (&field["nullable"], &field["enum"][4]),
            (&json!(true), &Value::Null)
        );
        assert_eq!(field["enum"].as_array().unwrap().len(), 5);
    }
}
