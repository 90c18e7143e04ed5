//! Counts the outcomes of the life cycle on all clusters.

use helmops_api::{BundleDeployment, BundleSpec, lifecycle::LifecycleSummary, status::number};

use super::deployments::{Deployment, ObservedDeployment};

/// Conditions of a BundleDeployment with a life cycle, as the agent sets them.
const RELEASED: &str = "Released";
const REMEDIATED: &str = "Remediated";
const TEST_SUCCESS: &str = "TestSuccess";

/// The numbers of clusters; `None` if the spec has no life cycle, neither for all clusters nor for a target.
pub fn summary(spec: &BundleSpec, deployments: &[Deployment<'_>]) -> Option<LifecycleSummary> {
    is_set(spec).then(|| count(deployments))
}

/// Whether a spec has a life cycle.
pub fn is_set(spec: &BundleSpec) -> bool {
    let targets = spec.targets.iter().map(|target| &*target.options);
    targets
        .chain([&spec.options])
        .any(|options| options.lifecycle.is_some())
}

fn count(deployments: &[Deployment<'_>]) -> LifecycleSummary {
    let objects = deployments
        .iter()
        .filter_map(|deployment| match deployment.observed {
            ObservedDeployment::Decoded(object) => Some(object),
            _ => None,
        });
    let objects: Vec<_> = objects.collect();
    let having = |condition: &str, status: &str| count_of(&objects, |object| has(object, condition, status));
    LifecycleSummary {
        released: count_of(&objects, |object| {
            has(object, RELEASED, "True") && !has_failed(object)
        }),
        failed: count_of(&objects, has_failed),
        remediated: having(REMEDIATED, "True"),
        test_failed: having(TEST_SUCCESS, "False"),
        suspended: count_of(&objects, is_suspended),
    }
}

fn count_of(objects: &[&BundleDeployment], is: impl Fn(&BundleDeployment) -> bool) -> i64 {
    number(objects.iter().filter(|object| is(object)).count())
}

fn has(object: &BundleDeployment, condition: &str, status: &str) -> bool {
    let conditions = &object.status.conditions;
    conditions
        .iter()
        .any(|found| found.r#type == condition && found.status == status)
}

/// Whether the last attempt failed. If a test did, the release itself has succeeded.
fn has_failed(object: &BundleDeployment) -> bool {
    let own = object.status.lifecycle.as_ref();
    has(object, RELEASED, "False") || own.is_some_and(|own| own.failures > 0)
}

fn is_suspended(object: &BundleDeployment) -> bool {
    object
        .status
        .lifecycle
        .as_ref()
        .is_some_and(|lifecycle| lifecycle.suspended)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::status::fixture::{deployment, invalid, sorted};
    use helmops_model::deployment_state::DeploymentState;

    fn spec(value: &Value) -> BundleSpec {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn clusters_are_counted_by_the_conditions_of_their_agents() {
        let of = |cluster: &str, conditions: &[(&str, &str)], suspended: bool| {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|(name, status)| json!({ "type": name, "status": status }))
                .collect();
            let status = json!({ "conditions": conditions, "lifecycle": { "suspended": suspended } });
            deployment(cluster, DeploymentState::Ready, &status)
        };
        let deployments = [
            of("a", &[("Released", "True"), ("TestSuccess", "True")], false),
            of("b", &[("Released", "False"), ("Remediated", "True")], false),
            of(
                "c",
                &[
                    ("Released", "False"),
                    ("TestSuccess", "False"),
                    ("Remediated", "False"),
                ],
                false,
            ),
            of("d", &[("Released", "True"), ("TestSuccess", "Unknown")], true),
            of("e", &[("Released", "Unknown")], false),
            invalid("f"),
            deployment(
                "g",
                DeploymentState::Ready,
                &json!({
                    "conditions": [
                        { "type": "Released", "status": "True" }, { "type": "TestSuccess", "status": "False" },
                    ],
                    "lifecycle": { "failures": 1 },
                }),
            ),
        ];
        let counted = summary(&spec(&json!({ "lifecycle": {} })), &sorted(&deployments)).unwrap();
        let expected =
            json!({ "released": 2, "failed": 3, "remediated": 1, "testFailed": 2, "suspended": 1 });
        assert_eq!(serde_json::to_value(counted).unwrap(), expected);
    }

    #[test]
    fn without_a_life_cycle_nothing_is_counted() {
        let deployments = [deployment(
            "a",
            DeploymentState::Ready,
            &json!({ "conditions": [{ "type": "Released", "status": "True" }] }),
        )];
        for (of, expected) in [
            (json!({}), false),
            (json!({ "targets": [{}] }), false),
            (json!({ "lifecycle": {} }), true),
            (json!({ "targets": [{}, { "lifecycle": {} }] }), true),
        ] {
            assert_eq!(
                summary(&spec(&of), &sorted(&deployments)).is_some(),
                expected,
                "{of}"
            );
        }
    }
}
