//! The CRDs: whether they are there, served, and have the fields of this version.

use std::collections::BTreeSet;

use helmops_api::crds;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::finding::{Finding, Group};
use crate::{cluster::api_error, failure::Failure, terminal::age};

const VERSION: &str = "v1alpha1";
/// How many fields are named.
const NAMED: usize = 3;

/// The field of a Schedule that says whether its windows deny. Without it, the API server stores one that denies as one that allows, and
/// the object does not show that.
const DENYING: &str = "spec.kind";
const DENY_ALLOWS: &str =
    "a Schedule with spec.kind: Deny is stored without it, so that its windows allow what they were to deny";

/// How a CRD compares with that of this version.
#[derive(Debug, PartialEq, Eq)]
enum Comparison {
    /// The same fields.
    Same,
    /// It lacks fields: the API server drops them.
    Lacks(Vec<String>),
    /// It has more fields, which are passed on.
    HasMore(usize),
}

/// Checks the CRDs. Those for clusters are needed if this cluster `delivers` to others, those of notifications if it `notifies`.
pub async fn check(
    client: &Client,
    delivers: bool,
    notifies: bool,
    now: Timestamp,
) -> Result<Vec<Finding>, Failure> {
    let decode =
        |error: serde_json::Error| Failure::because("the CRDs of this program do not decode", &error);
    let mut findings = Vec::new();
    for (_, expected) in crds::all().map_err(decode)? {
        findings.push(one(client, &expected, true, now).await);
    }
    let optional = [
        (crds::of_clusters().map_err(decode)?, delivers),
        (crds::of_notifications().map_err(decode)?, notifies),
    ];
    for (definitions, is_needed) in optional {
        for (_, expected) in definitions {
            let finding = one(client, &expected, is_needed, now).await;
            // Without what needs them they are of no use, but Fleet may have those for clusters.
            if is_needed || finding.level == super::finding::Level::Ok {
                findings.push(finding);
            }
        }
    }
    Ok(findings)
}

async fn one(
    client: &Client,
    expected: &CustomResourceDefinition,
    is_needed: bool,
    now: Timestamp,
) -> Finding {
    let name = expected.name_any();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    match definitions.get_opt(&name).await {
        Ok(found) => judge(&name, expected, found.as_ref(), is_needed, now),
        Err(error) if api_error::is_forbidden(&error) => {
            Finding::skipped(Group::Crds, format!("{name}: you may not read CRDs"))
        }
        Err(error) => Finding::error(Group::Crds, format!("{name}: {}", api_error::text(&error)), ""),
    }
}

fn judge(
    name: &str,
    expected: &CustomResourceDefinition,
    found: Option<&CustomResourceDefinition>,
    is_needed: bool,
    now: Timestamp,
) -> Finding {
    let apply = format!("kubectl apply --server-side {}", source(name));
    let Some(found) = found else {
        // Without the CRD of Policies, HelmOps are not restricted.
        return if is_needed && !name.starts_with("policies.") {
            Finding::error(Group::Crds, format!("{name} does not exist"), apply)
        } else {
            Finding::warning(Group::Crds, format!("{name} does not exist"), apply)
        };
    };
    let created = found
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| age::age(time.0, now));
    let aged = created
        .map(|age| format!(", created {age} ago"))
        .unwrap_or_default();
    let Some(schema) = schema(found) else {
        let message = format!("{name} does not serve {VERSION}{aged}");
        return Finding::error(Group::Crds, message, apply);
    };
    if !is_established(found) {
        let message = format!("{name} is not established: the API server does not serve it{aged}");
        return Finding::error(
            Group::Crds,
            message,
            format!("see its conditions: kubectl describe crd {name}"),
        );
    }
    match compare(&self::schema(expected).unwrap_or_default(), &schema) {
        Comparison::Same => Finding::ok(Group::Crds, format!("{name} is that of this version{aged}")),
        Comparison::HasMore(count) => {
            let message = format!("{name} is newer; its other fields ({count}) are passed on{aged}");
            Finding::ok(Group::Crds, message)
        }
        Comparison::Lacks(fields) => {
            let named = fields.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = if fields.len() > NAMED { ", …" } else { "" };
            let count = fields.len();
            let message = format!(
                "{name} is older than this program, or that of Fleet; the API server drops the fields that it lacks ({count}): \
                 {named}{more}{aged}"
            );
            if name.starts_with("schedules.") && fields.iter().any(|field| field == DENYING) {
                let message = format!("{message}; {DENY_ALLOWS}");
                return Finding::warning(Group::Crds, message, apply);
            }
            let fix = format!("{apply}; beside Fleet, Fleet's CRDs are sufficient (docs/install.md)");
            Finding::warning(Group::Crds, message, fix)
        }
    }
}

/// The manifests that have a CRD, as kubectl takes them.
fn source(name: &str) -> &'static str {
    match name.split('.').next().unwrap_or_default() {
        "helmops" | "bundles" | "policies" => "--filename manifests/crd/bases",
        "alertproviders" | "alerts" | "receivers" => "--kustomize manifests/crd/notifications",
        _ => "--filename manifests/standalone/crds",
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// The schema of the served version.
fn schema(definition: &CustomResourceDefinition) -> Option<Value> {
    let served = definition
        .spec
        .versions
        .iter()
        .find(|version| version.name == VERSION && version.served);
    let schema = served?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema).ok()
}

fn compare(expected: &Value, found: &Value) -> Comparison {
    let (expected, found) = (fields(expected), fields(found));
    let lacks: Vec<_> = expected.difference(&found).cloned().collect();
    let more = found.difference(&expected).count();
    match (lacks.is_empty(), more) {
        (false, _) => Comparison::Lacks(outermost(lacks)),
        (true, 0) => Comparison::Same,
        (true, more) => Comparison::HasMore(more),
    }
}

/// A field that is missing stands for all within it. `paths` are sorted.
fn outermost(paths: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for path in paths {
        let is_within = |outer: &String| {
            path.strip_prefix(outer.as_str())
                .is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        if !kept.iter().any(is_within) {
            kept.push(path);
        }
    }
    kept
}

/// The paths of all fields, such as `spec.targets[].name`.
fn fields(schema: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    collect(schema, "", &mut paths);
    paths
}

fn collect(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        collect(field, &path, paths);
        paths.insert(path);
    }
    if let Some(items) = schema.get("items") {
        collect(items, &format!("{path}[]"), paths);
    }
    if let Some(values) = schema.get("additionalProperties") {
        collect(values, &format!("{path}.*"), paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Level;
    use serde_json::json;

    fn clusters() -> CustomResourceDefinition {
        let all = crds::of_clusters().unwrap();
        let found = all.into_iter().find(|(file, _)| *file == "clusters.yaml");
        found.unwrap().1
    }

    fn changed(change: impl FnOnce(&mut Value)) -> CustomResourceDefinition {
        let mut json = serde_json::to_value(clusters()).unwrap();
        json["status"] = json!({ "conditions": [{ "type": "Established", "status": "True" }] });
        json["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        change(&mut json);
        serde_json::from_value(json).unwrap()
    }

    const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    const AGENT: &str =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/agent/properties";

    fn remove(json: &mut Value, pointer: &str, field: &str) {
        json.pointer_mut(pointer)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(field)
            .unwrap();
    }

    fn judged(found: Option<&CustomResourceDefinition>) -> Finding {
        judge(
            "clusters.fleet.cattle.io",
            &clusters(),
            found,
            true,
            "2026-01-03T00:00:00Z".parse().unwrap(),
        )
    }

    #[test]
    fn a_crd_is_compared_with_that_of_this_version() {
        for (found, level, text) in [
            (None, Level::Error, "does not exist"),
            (
                Some(changed(|_| {})),
                Level::Ok,
                "is that of this version, created 2d ago",
            ),
            (
                Some(changed(|json| json["status"] = json!({}))),
                Level::Error,
                "not established",
            ),
            (
                Some(changed(|json| json["spec"]["versions"][0]["name"] = json!("v1"))),
                Level::Error,
                "does not serve v1alpha1",
            ),
            (
                Some(changed(|json| remove(json, AGENT, "version"))),
                Level::Warning,
                "lacks (1): status.agent.version",
            ),
            (
                Some(changed(|json| {
                    json.pointer_mut(SPEC).unwrap()["new"] = json!({ "type": "string" });
                })),
                Level::Ok,
                "is newer; its other fields (1)",
            ),
        ] {
            let finding = judged(found.as_ref());
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
    }

    /// Fleet's has no such field.
    #[test]
    fn a_crd_of_schedules_that_cannot_deny_is_named() {
        let all = crds::of_clusters().unwrap();
        let (_, expected) = all
            .into_iter()
            .find(|(file, _)| *file == "schedules.yaml")
            .unwrap();
        let mut found = serde_json::to_value(&expected).unwrap();
        found["status"] = json!({ "conditions": [{ "type": "Established", "status": "True" }] });
        let judged = |found: &Value| {
            let found = serde_json::from_value(found.clone()).unwrap();
            let now = "2026-01-03T00:00:00Z".parse().unwrap();
            judge("schedules.fleet.cattle.io", &expected, Some(&found), true, now)
        };
        remove(&mut found, SPEC, "location");
        assert!(!judged(&found).message.contains("Deny"));
        remove(&mut found, SPEC, "kind");
        let finding = judged(&found);
        assert_eq!(finding.level, Level::Warning, "{finding:?}");
        assert!(
            finding.message.ends_with(DENY_ALLOWS) && !finding.fix.contains("sufficient"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_crd_is_applied_from_the_folder_that_has_it() {
        let folder = |name: &str| {
            let source = source(name).rsplit_once(' ').unwrap().1;
            std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("..")
                .join(source)
        };
        let notifications = crds::of_notifications().unwrap();
        for (file, definition) in crds::all().unwrap().into_iter().chain(notifications) {
            let path = folder(&definition.name_any()).join(file);
            assert!(path.is_file(), "{}", path.display());
        }
    }

    #[test]
    fn a_missing_block_is_named_without_its_fields() {
        let finding = judged(Some(&changed(|json| {
            remove(
                json,
                "/spec/versions/0/schema/openAPIV3Schema/properties",
                "status",
            );
        })));
        assert!(
            finding.message.contains("lacks (1): status, created"),
            "{finding:?}"
        );
    }

    #[test]
    fn paths_lead_through_lists_and_maps() {
        let schema = json!({ "properties": {
            "a": { "items": { "properties": { "b": {} } } },
            "c": { "additionalProperties": { "properties": { "d": {} } } },
        } });
        let paths: Vec<_> = fields(&schema).into_iter().collect();
        assert_eq!(paths, ["a", "a[].b", "c", "c.*.d"]);
    }
}
