//! What is kept of a live object.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use helmops_model::expression::{self, ReadyExpressions};
use helmops_release::{
    health::{self, ErrorTable, Health, HealthRules, Readiness},
    marks,
    object::ObjectId,
};
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};

/// What is kept of a live object of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub id: ObjectId,
    pub uid: String,
    /// When it was created, as the API server shows it.
    pub created_at: String,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// The value of the label of releases: which release it belongs to.
    pub set: String,
    /// The annotation of releases, which an operator that copies labels does not copy.
    pub set_id: Option<String>,
    /// Whether it may be reported as extra when its release does not have it any more: its label or annotation may forbid that, and hooks
    /// are no objects of a release, also if one was before.
    pub is_prunable: bool,
    /// A hash of everything but its status and what the API server adds: it changes if the object is modified.
    pub content: u64,
    /// Its health, by the rules of its release.
    pub health: Health,
    /// Whether a wait for it is over.
    pub readiness: Readiness,
}

/// The rules of a release, by the value of the label of its objects.
pub type RulesOf = Arc<dyn Fn(&str) -> Option<Arc<Rules>> + Send + Sync>;

/// How the state of the objects of a release is determined.
#[derive(Debug, Default, PartialEq)]
pub struct Rules {
    /// Conditions that are ignored: those that have every field of an entry.
    pub ignored: Vec<BTreeMap<String, String>>,
    /// Whether a Job is awaited until it is complete.
    pub waits_for_jobs: bool,
    /// When objects of some kinds are ready.
    pub expressions: ReadyExpressions,
}

/// The label of objects that are not deleted with their set, with the value `false`.
const PRUNE: &str = "objectset.rio.cattle.io/prune";

impl Observed {
    /// What is kept of an object at a time.
    pub fn of(object: DynamicObject, rules: &RulesOf, errors: &ErrorTable, now: Timestamp) -> Option<Self> {
        let labels = object.metadata.labels.as_ref();
        let set = labels.and_then(|labels| labels.get(marks::SET_HASH)).cloned();
        Self::in_set(&set.unwrap_or_default(), object, rules, errors, now)
    }

    /// The same for an object of the release with this value of the label, whether it has the label or not.
    pub fn in_set(
        set: &str,
        object: DynamicObject,
        rules: &RulesOf,
        errors: &ErrorTable,
        now: Timestamp,
    ) -> Option<Self> {
        let metadata = &object.metadata;
        let label = |key| metadata.labels.as_ref()?.get(key).map(String::as_str);
        let annotation = |key| metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let is_kept = annotation(marks::RESOURCE_POLICY).is_some_and(marks::says_keep);
        let created_at = metadata.creation_timestamp.as_ref();
        let observed = Self {
            id: ObjectId {
                api_version: String::new(),
                kind: String::new(),
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone()?,
            },
            uid: metadata.uid.clone().unwrap_or_default(),
            created_at: created_at.map(|time| time.0.to_string()).unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            set_id: annotation(marks::SET_ID).map(str::to_owned),
            is_prunable: !is_kept && label(PRUNE) != Some("false") && annotation(marks::HOOK).is_none(),
            set: set.to_owned(),
            content: 0,
            health: Health::default(),
            readiness: Readiness::Ready,
        };
        let object = whole(object)?;
        let of_release = rules(&observed.set).unwrap_or_default();
        let rules = HealthRules {
            errors,
            ignored: &of_release.ignored,
        };
        Some(Self {
            id: ObjectId::of(&object)?,
            content: content(&object),
            health: health::of(&object, rules, now),
            readiness: readiness(&object, &of_release, now),
            ..observed
        })
    }
}

/// Whether a wait for an object is over: by the expression for its kind, if there is one.
fn readiness(object: &Value, rules: &Rules, now: Timestamp) -> Readiness {
    match rules.expressions.readiness(object) {
        Some(expression::Readiness::Current) => Readiness::Ready,
        Some(expression::Readiness::InProgress(cause)) => Readiness::Waiting(cause),
        Some(expression::Readiness::Failed(cause)) => Readiness::Failed(cause),
        None => health::readiness(object, rules.waits_for_jobs, now),
    }
}

/// The object as JSON, without its managed fields.
pub fn whole(object: DynamicObject) -> Option<Value> {
    let DynamicObject {
        types,
        mut metadata,
        mut data,
    } = object;
    metadata.managed_fields = None;
    let types = types?;
    let fields = data.as_object_mut()?;
    fields.insert("apiVersion".to_owned(), json!(types.api_version));
    fields.insert("kind".to_owned(), json!(types.kind));
    fields.insert("metadata".to_owned(), serde_json::to_value(metadata).ok()?);
    Some(data)
}

/// A hash of everything but the status and what the API server adds.
pub fn content(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let fields = object.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| *name != "status") {
        name.hash(&mut hasher);
        if name == "metadata" {
            metadata(value).hash(&mut hasher);
        } else {
            value.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The metadata that a user or a controller writes.
fn metadata(metadata: &Value) -> BTreeMap<&str, String> {
    const WRITTEN: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];
    let field = |name| Some((name, metadata.get(name)?.to_string()));
    WRITTEN.into_iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_and_what_is_a_hook_is_never_extra() {
        let rules: RulesOf = Arc::new(|_| None);
        for (labels, annotations, expected) in [
            (json!({}), json!({}), true),
            (json!({}), json!({ marks::RESOURCE_POLICY: "keep" }), false),
            (json!({ PRUNE: "false" }), json!({}), false),
            (json!({}), json!({ marks::HOOK: "post-upgrade" }), false),
        ] {
            let metadata = json!({ "name": "web", "labels": labels, "annotations": annotations });
            let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
            let object = serde_json::from_value(object).unwrap();
            let observed = Observed::in_set("web", object, &rules, &ErrorTable::default(), Timestamp::now());
            assert_eq!(observed.unwrap().is_prunable, expected, "{labels} {annotations}");
        }
    }

    #[test]
    fn the_content_changes_with_the_spec_and_the_labels_only() {
        let object = |status: &str, label: &str, version: &str, replicas: u64| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": "web", "labels": { "a": label }, "resourceVersion": version, "generation": replicas },
                "spec": { "replicas": replicas },
                "status": { "state": status },
            })
        };
        let base = content(&object("a", "a", "1", 1));
        assert_eq!(base, content(&object("b", "a", "2", 1)));
        assert_ne!(base, content(&object("a", "b", "1", 1)));
        assert_ne!(base, content(&object("a", "a", "1", 2)));
    }
}
