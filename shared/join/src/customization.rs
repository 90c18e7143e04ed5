//! What a Cluster says about its agent: fields of its spec with the meaning that they have in Fleet.

use bounded_text::excerpt;
use helmops_api::{cluster::ClusterSpec, free_form::FreeForm};
use helmops_model::validation::names;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// The variables that the agent needs as they are.
const RESERVED: [&str; 3] = ["AGENT_SCOPE", "NAMESPACE", "POD_NAME"];
/// The largest value of a `PriorityClass` that is not of Kubernetes itself.
const MAX_PRIORITY: i64 = 1_000_000_000;
/// Longest text that an error quotes, in bytes.
const MAX_QUOTE: usize = 64;

/// What a Cluster says about its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCustomization {
    /// Additional variables, in place of others of the same name.
    pub environment: Vec<Map<String, Value>>,
    /// Tolerations of the pod.
    pub tolerations: Vec<Value>,
    /// Affinity of the pod.
    pub affinity: Option<Value>,
    /// Resources of the container, in place of those of the manifests.
    pub resources: Option<Value>,
    /// Run in the network of the node.
    pub host_network: bool,
    /// Secrets to pull the image with.
    pub pull_secrets: Vec<Value>,
    /// The registry in front of the image; empty for none.
    pub registry: String,
    /// The `PriorityClass` of the pod.
    pub priority: Option<Priority>,
    /// The disruption budget in place of that of the manifests: a field and its value.
    pub budget: Option<(&'static str, Value)>,
}

/// A `PriorityClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Its value.
    pub value: i64,
    /// Whether its pods preempt others; `None` for the default.
    pub preemption_policy: Option<String>,
}

/// A field of a Cluster about its agent is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("spec.{field}: {why}")]
pub struct InvalidAgentOption {
    /// The field, below `spec`.
    pub field: String,
    /// What is wrong, and how to correct it.
    pub why: String,
}

fn invalid(field: impl Into<String>, why: impl Into<String>) -> InvalidAgentOption {
    InvalidAgentOption {
        field: field.into(),
        why: why.into(),
    }
}

impl AgentCustomization {
    /// Reads the fields of a Cluster. What the API server of the workload cluster validates is not validated here.
    ///
    /// # Errors
    /// If a field cannot be used.
    pub fn of(spec: &ClusterSpec) -> Result<Self, InvalidAgentOption> {
        let (priority, budget) = scheduling(spec.agent_scheduling_customization.as_ref())?;
        Ok(Self {
            environment: environment(&spec.agent_env_vars)?,
            tolerations: values("agentTolerations", &spec.agent_tolerations)?,
            affinity: optional("agentAffinity", spec.agent_affinity.as_ref())?,
            resources: optional("agentResources", spec.agent_resources.as_ref())?,
            host_network: spec.host_network == Some(true),
            pull_secrets: values("agentPullSecrets", &spec.agent_pull_secrets)?,
            registry: registry(&spec.private_repo_url)?,
            priority,
            budget,
        })
    }
}

/// The namespace of the agent that a Cluster names; empty for the default.
///
/// # Errors
/// If it is no name of a namespace: it becomes a part of the URLs of requests.
pub fn agent_namespace(spec: &ClusterSpec) -> Result<&str, InvalidAgentOption> {
    let namespace = &*spec.agent_namespace;
    if !namespace.is_empty()
        && let Err(why) = names::namespace(namespace)
    {
        let quoted = excerpt(namespace, MAX_QUOTE);
        return Err(invalid("agentNamespace", format!("{quoted:?} is {why}")));
    }
    Ok(namespace)
}

fn value(field: &str, value: &FreeForm) -> Result<Value, InvalidAgentOption> {
    value
        .to_value()
        .map_err(|error| invalid(field, error.to_string()))
}

fn values(field: &str, all: &[FreeForm]) -> Result<Vec<Value>, InvalidAgentOption> {
    all.iter().map(|one| value(field, one)).collect()
}

/// An object that is empty says nothing.
fn optional(field: &str, found: Option<&FreeForm>) -> Result<Option<Value>, InvalidAgentOption> {
    let found = found.map(|found| value(field, found)).transpose()?;
    Ok(found.filter(|found| !found.is_null()))
}

/// The last variable of a name counts, as in a pod.
fn environment(all: &[FreeForm]) -> Result<Vec<Map<String, Value>>, InvalidAgentOption> {
    let mut variables = Vec::<Map<String, Value>>::new();
    for (index, variable) in values("agentEnvVars", all)?.into_iter().enumerate() {
        let field = format!("agentEnvVars[{index}].name");
        let Value::Object(variable) = variable else {
            return Err(invalid(
                field,
                "is missing; each entry has a name and a value or valueFrom",
            ));
        };
        let name = variable
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if name.is_empty() {
            return Err(invalid(
                field,
                "is missing; each entry has a name and a value or valueFrom",
            ));
        }
        if RESERVED.contains(&&*name) {
            return Err(invalid(
                field,
                format!("{name} is set by helmops; remove the entry"),
            ));
        }
        variables.retain(|other| other.get("name").and_then(Value::as_str) != Some(&*name));
        variables.push(variable);
    }
    Ok(variables)
}

fn registry(url: &str) -> Result<String, InvalidAgentOption> {
    let registry = url.trim_end_matches('/');
    let is_valid =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/' | '[' | ']');
    if registry.contains("://") || !registry.chars().all(is_valid) {
        let quoted = excerpt(url, MAX_QUOTE);
        let why =
            format!("{quoted:?} must be a registry without a scheme, such as registry.example.com:5000");
        return Err(invalid("privateRepoURL", why));
    }
    Ok(registry.to_owned())
}

type Scheduling = (Option<Priority>, Option<(&'static str, Value)>);

fn scheduling(found: Option<&FreeForm>) -> Result<Scheduling, InvalidAgentOption> {
    let Some(found) = optional("agentSchedulingCustomization", found)? else {
        return Ok((None, None));
    };
    let of = |key: &str| found.get(key).filter(|value| !value.is_null());
    let priority = of("priorityClass").map(priority).transpose()?;
    let budget = of("podDisruptionBudget").map(budget).transpose()?;
    Ok((priority, budget))
}

fn priority(class: &Value) -> Result<Priority, InvalidAgentOption> {
    const FIELD: &str = "agentSchedulingCustomization.priorityClass";
    let value = match class.get("value") {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_i64()
            .filter(|value| (i64::from(i32::MIN)..=MAX_PRIORITY).contains(value))
            .ok_or_else(|| {
                let why = format!("must be a whole number from {} to {MAX_PRIORITY}", i32::MIN);
                invalid(format!("{FIELD}.value"), why)
            })?,
    };
    let policy = class
        .get("preemptionPolicy")
        .and_then(Value::as_str)
        .filter(|policy| !policy.is_empty());
    if policy.is_some_and(|policy| !matches!(policy, "Never" | "PreemptLowerPriority")) {
        return Err(invalid(
            format!("{FIELD}.preemptionPolicy"),
            "must be Never or PreemptLowerPriority",
        ));
    }
    Ok(Priority {
        value,
        preemption_policy: policy.map(str::to_owned),
    })
}

/// As in Fleet: without both, no pod may be evicted, and one of two that is `0` does not count.
fn budget(found: &Value) -> Result<(&'static str, Value), InvalidAgentOption> {
    const FIELD: &str = "agentSchedulingCustomization.podDisruptionBudget";
    let text = |key: &str| match found.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let (available, unavailable) = (text("minAvailable"), text("maxUnavailable"));
    let is_none = |text: &str| text.is_empty() || text == "0";
    match (&*available, &*unavailable) {
        ("", "") => Ok(("maxUnavailable", json!(0))),
        (other, amount) if !amount.is_empty() && is_none(other) => Ok((
            "maxUnavailable",
            amount_of(&format!("{FIELD}.maxUnavailable"), amount)?,
        )),
        (amount, other) if is_none(other) => Ok((
            "minAvailable",
            amount_of(&format!("{FIELD}.minAvailable"), amount)?,
        )),
        _ => Err(invalid(
            FIELD,
            "has both minAvailable and maxUnavailable; remove one of them",
        )),
    }
}

fn amount_of(field: &str, text: &str) -> Result<Value, InvalidAgentOption> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse::<u16>() {
        Ok(number) if number_is_whole(text) => Ok(json!(number)),
        Ok(number) if number <= 100 => Ok(json!(text)),
        _ => {
            let quoted = excerpt(text, MAX_QUOTE);
            Err(invalid(
                field,
                format!("{quoted:?} must be a number such as 1, or a percentage such as 50%"),
            ))
        }
    }
}

fn number_is_whole(text: &str) -> bool {
    !text.ends_with('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(spec: &Value) -> ClusterSpec {
        serde_json::from_str(&spec.to_string()).unwrap()
    }

    fn of(fields: &Value) -> Result<AgentCustomization, InvalidAgentOption> {
        AgentCustomization::of(&spec(fields))
    }

    #[test]
    fn the_fields_have_the_meaning_that_they_have_in_fleet() {
        let found = of(&json!({
            "agentEnvVars": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }, { "name": "A", "value": "3" }],
            "agentTolerations": [{ "key": "a" }],
            "agentAffinity": { "nodeAffinity": {} },
            "agentResources": { "limits": { "memory": "1Gi" } },
            "hostNetwork": true,
            "agentPullSecrets": [{ "name": "login" }],
            "privateRepoURL": "registry.example.com:5000/",
            "agentSchedulingCustomization": {
                "priorityClass": { "value": 1000, "preemptionPolicy": "Never" },
                "podDisruptionBudget": { "minAvailable": "1", "maxUnavailable": "0" },
            },
        }));
        let found = found.unwrap();
        let names: Vec<_> = found
            .environment
            .iter()
            .map(|one| (&one["name"], &one["value"]))
            .collect();
        assert_eq!(names, [(&json!("B"), &json!("2")), (&json!("A"), &json!("3"))]);
        assert_eq!(
            (
                found.tolerations.len(),
                found.pull_secrets.len(),
                found.host_network
            ),
            (1, 1, true)
        );
        assert!(found.affinity.is_some() && found.resources.is_some());
        assert_eq!(found.registry, "registry.example.com:5000");
        assert_eq!(found.priority.unwrap().value, 1000);
        assert_eq!(found.budget, Some(("minAvailable", json!(1))));
        assert_eq!(of(&json!({})).unwrap(), AgentCustomization::default());
    }

    #[test]
    fn a_budget_is_read_as_by_fleet() {
        for (fields, expected) in [
            (json!({}), Some(("maxUnavailable", json!(0)))),
            (
                json!({ "maxUnavailable": "50%" }),
                Some(("maxUnavailable", json!("50%"))),
            ),
            (
                json!({ "maxUnavailable": "1", "minAvailable": "0" }),
                Some(("maxUnavailable", json!(1))),
            ),
            (json!({ "minAvailable": "2" }), Some(("minAvailable", json!(2)))),
            (json!({ "minAvailable": "1", "maxUnavailable": "1" }), None),
            (json!({ "maxUnavailable": "-1" }), None),
            (json!({ "maxUnavailable": "101%" }), None),
            (json!({ "minAvailable": "many" }), None),
        ] {
            assert_eq!(budget(&fields).ok(), expected, "{fields}");
        }
    }

    #[test]
    fn what_is_invalid_is_named() {
        let scheduling = |class: Value| json!({ "agentSchedulingCustomization": { "priorityClass": class } });
        for (fields, expected) in [
            (
                json!({ "agentEnvVars": [{ "value": "1" }] }),
                "spec.agentEnvVars[0].name: is missing",
            ),
            (
                json!({ "agentEnvVars": [{ "name": "AGENT_SCOPE", "value": "a" }] }),
                "AGENT_SCOPE is set by helmops",
            ),
            (
                json!({ "privateRepoURL": "https://registry.example.com" }),
                "without a scheme",
            ),
            (json!({ "privateRepoURL": "a b" }), "spec.privateRepoURL: \"a b\""),
            (
                scheduling(json!({ "value": 1_000_000_001 })),
                "priorityClass.value: must be a whole number",
            ),
            (
                scheduling(json!({ "preemptionPolicy": "Always" })),
                "must be Never or PreemptLowerPriority",
            ),
        ] {
            let text = of(&fields).unwrap_err().to_string();
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn the_namespace_of_the_agent_is_a_dns_label() {
        let check = |namespace: &str| agent_namespace(&spec(&json!({ "agentNamespace": namespace }))).is_ok();
        for valid in ["", "edge-system", "a", &"a".repeat(63)] {
            assert!(check(valid), "{valid}");
        }
        for invalid in ["a/b", "a?b", "A", "a.b", "-a", "a\nb: c", "..", &"a".repeat(64)] {
            assert!(!check(invalid), "{invalid}");
        }
    }
}
