//! The take-over of a release of a user's Helm without a deployment: what is deployed is what is wanted, so only the record changes.
//!
//! ```text
//! record ──────────────────────────► objects, hooks ─┐
//! chart, values ─► Helm ─► text ─► post_render ──────┴─► equal? ─► the same record, with the annotations of a BundleDeployment
//! ```
//!
//! Objects of such a revision do not have the marks ([`crate::marks`]) of releases; the next revision adds them.

use std::{collections::BTreeMap, fmt};

use bounded_text::listed;
use serde_json::{Map, Value};

use crate::{
    chart_metadata::Origin,
    manifest::{self, ManifestError},
    mapping::entries,
    marks,
    object::ObjectId,
    post_render::{PostRender, PostRenderError},
    record::Record,
    scopes::CRD,
};

/// How many objects a text names.
const NAMED: usize = 5;

/// Why a release cannot be taken over as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Another chart, or another version of it, is deployed. Names and versions are those in `Chart.yaml`.
    Chart {
        /// What is deployed, such as `web 1.0.0`.
        deployed: String,
        /// The desired chart, in the same form.
        wanted: String,
    },
    /// The record has no readable manifest.
    Manifest(ManifestError),
    /// The objects of the chart are refused.
    Refused(PostRenderError),
    /// Objects would be changed.
    Objects(Vec<Difference>),
}

/// An object that differs between what is deployed and what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The object.
    pub id: ObjectId,
    /// How it differs.
    pub change: Change,
}

/// How an object differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The object is not deployed.
    Added,
    /// The object has another content.
    Changed,
    /// It is deployed and not wanted.
    Removed,
}

/// Whether the chart of a record is the wanted one, whose `Chart.yaml` has this name and version. Those of its tag or of its entry in
/// the index may differ, and Helm does not record them.
///
/// # Errors
/// With both, if it is not.
pub fn check_chart(record: &Record, name: &str, version: &str) -> Result<(), Obstacle> {
    let text = |key| record.chart_metadata().get(key).and_then(Value::as_str);
    let deployed = (
        text("name").unwrap_or_default(),
        text("version").unwrap_or_default(),
    );
    if deployed == (name, version) {
        return Ok(());
    }
    Err(Obstacle::Chart {
        deployed: format!("{} {}", deployed.0, deployed.1),
        wanted: format!("{name} {version}"),
    })
}

/// Whether a deployment of `rendered`, which is the output of Helm before the post-renderer, would leave all objects and hooks of a
/// record as they are, except for the marks.
///
/// # Errors
/// With what would change.
pub fn check(record: &Record, rendered: &str, post_render: &PostRender) -> Result<(), Obstacle> {
    let marked = post_render.render(rendered).map_err(Obstacle::Refused)?;
    let wanted = manifest::objects(&marked).map_err(Obstacle::Manifest)?;
    let mut deployed = manifest::recorded(&record.manifest).map_err(Obstacle::Manifest)?;
    for hook in &record.hooks {
        deployed.extend(manifest::objects(&hook.manifest).map_err(Obstacle::Manifest)?);
    }
    let [deployed, wanted] = [deployed, wanted].map(|objects| by_id(objects, &record.namespace));
    let differences = differences(&deployed, &wanted);
    if differences.is_empty() {
        Ok(())
    } else {
        Err(Obstacle::Objects(differences))
    }
}

/// The record as one of a BundleDeployment: only the annotations of its chart change. Helm's description stays, since nothing else
/// happened.
#[must_use]
pub fn adopted(mut record: Record, origin: &Origin) -> Record {
    let metadata = entries(&mut record.chart, "metadata");
    let version = metadata.get("version").and_then(Value::as_str);
    let version = version.unwrap_or_default().to_owned();
    let mut annotations = match metadata.remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    origin.write(&mut annotations, &version);
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    record
}

type Objects = BTreeMap<ObjectId, Vec<Value>>;

fn by_id(objects: Vec<Value>, namespace: &str) -> Objects {
    let mut all = Objects::new();
    for mut object in objects {
        normalize(&mut object, namespace);
        // Only an object without a kind or a name has no identity; Helm refuses it.
        if let Some(id) = ObjectId::of(&object) {
            all.entry(id).or_default().push(object);
        }
    }
    all
}

fn differences(deployed: &Objects, wanted: &Objects) -> Vec<Difference> {
    let of = |id: &ObjectId, change| Difference {
        id: id.clone(),
        change,
    };
    let mut found: Vec<_> = wanted
        .iter()
        .filter_map(|(id, objects)| match deployed.get(id) {
            None => Some(of(id, Change::Added)),
            Some(deployed) => (deployed != objects).then(|| of(id, Change::Changed)),
        })
        .collect();
    let removed = deployed.keys().filter(|id| !wanted.contains_key(id));
    found.extend(removed.map(|id| of(id, Change::Removed)));
    found.sort_unstable();
    found
}

/// Removes the marks, and what means the same with and without it: the namespace of the release, and empty metadata.
pub fn normalize(object: &mut Value, namespace: &str) {
    let is_crd = object.get("kind").and_then(Value::as_str) == Some(CRD);
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    if metadata.get("namespace").and_then(Value::as_str) == Some(namespace) {
        metadata.remove("namespace");
    }
    remove(metadata, "labels", &[marks::SET_HASH]);
    remove(metadata, "annotations", &[marks::SET_ID]);
    if is_crd {
        // It says what happens with the CRD at the end, and nothing about it now.
        remove(metadata, "annotations", &[marks::RESOURCE_POLICY]);
    }
}

fn remove(metadata: &mut Map<String, Value>, field: &str, keys: &[&str]) {
    if let Some(Value::Object(entries)) = metadata.get_mut(field) {
        entries.retain(|key, value| !keys.contains(&key.as_str()) && !value.is_null());
    }
    let is_empty = match metadata.get(field) {
        Some(Value::Object(entries)) => entries.is_empty(),
        Some(value) => value.is_null(),
        None => false,
    };
    if is_empty {
        metadata.remove(field);
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chart { deployed, wanted } => write!(f, "chart {deployed} is deployed, not {wanted}"),
            Self::Manifest(error) => write!(f, "{error}"),
            Self::Refused(error) => write!(f, "{error}"),
            Self::Objects(differences) => f.write_str(&listed(differences, NAMED)),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Change::Added => "is not deployed",
            Change::Changed => "differs",
            Change::Removed => "is not in the chart",
        };
        write!(f, "{} {change}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        record::{Attempt, AttemptAction, Cause, Hook},
        scopes::Scopes,
    };

    const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  a: b\n";
    const HOOK: &str =
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: hook\n  annotations:\n    helm.sh/hook: test\n";

    fn record() -> Record {
        Record {
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            revision: 1,
            chart: json!({ "metadata": { "name": "web", "version": "1.0.0", "annotations": { "a": "b" } } }),
            manifest: format!("---\n# Source: web/templates/config.yaml\n{CONFIG}"),
            hooks: vec![Hook {
                manifest: HOOK.to_owned(),
                ..Hook::default()
            }],
            ..Record::default()
        }
    }

    fn post_render() -> PostRender {
        PostRender {
            common: crate::post_render::CommonMetadata::default(),
            set: "default-web".to_owned(),
            namespace: None,
            deletes_crds: false,
            scopes: Scopes::default(),
        }
    }

    fn checked(rendered: &str) -> String {
        let result = check(&record(), rendered, &post_render());
        result
            .err()
            .map(|obstacle| obstacle.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn the_same_objects_and_hooks_in_any_order_change_nothing() {
        for rendered in [
            format!("---\n{CONFIG}---\n{HOOK}"),
            format!("---\n{HOOK}\n---\n{CONFIG}"),
            format!(
                "---\n{HOOK}---\n{}",
                CONFIG.replace("  name: web\n", "  name: web\n  namespace: shop\n  labels: {}\n")
            ),
        ] {
            assert_eq!(checked(&rendered), "", "{rendered}");
        }
    }

    #[test]
    fn every_other_object_is_a_difference() {
        for (rendered, expected) in [
            (
                format!("{}---\n{HOOK}", CONFIG.replace("a: b", "a: c")),
                "v1 ConfigMap web differs",
            ),
            (CONFIG.to_owned(), "v1 Pod hook is not in the chart"),
            (
                format!(
                    "{CONFIG}---\n{HOOK}---\n{}",
                    CONFIG.replace("name: web", "name: new")
                ),
                "v1 ConfigMap new is not deployed",
            ),
            (
                format!(
                    "{}---\n{HOOK}",
                    CONFIG.replace("  name: web\n", "  name: web\n  namespace: other\n")
                ),
                "other",
            ),
        ] {
            let text = checked(&rendered);
            assert!(!text.is_empty(), "{rendered}");
            let last = expected.split(' ').next_back().unwrap_or_default();
            assert!(text.contains(last), "{text:?} {expected:?}");
        }
    }

    #[test]
    fn the_chart_and_its_version_have_to_be_the_deployed_ones() {
        for (chart, version, is_same) in [
            ("web", "1.0.0", true),
            ("web", "1.0.1", false),
            ("web", "v1.0.0", false),
            ("other", "1.0.0", false),
        ] {
            assert_eq!(
                check_chart(&record(), chart, version).is_ok(),
                is_same,
                "{chart} {version}"
            );
        }
        let error = check_chart(&record(), "web", "2.0.0").unwrap_err().to_string();
        assert_eq!(error, "chart web 1.0.0 is deployed, not web 2.0.0");
    }

    #[test]
    fn only_the_annotations_of_the_chart_change_in_the_record() {
        let origin = Origin {
            bundle_deployment: "shop-web".to_owned(),
            agent_namespace: "agent".to_owned(),
            service_account: String::new(),
            keep_resources: false,
            version: "1.0.0".to_owned(),
            commit: String::new(),
            attempt: Some(Attempt {
                action: AttemptAction::Install,
                deployment_id: ":1".to_owned(),
                cause: Cause::Change,
                number: 1,
            }),
            copies: None,
            forced_by: String::new(),
        };
        let adopted = adopted(record(), &origin);
        assert_eq!(adopted.bundle_deployment("agent"), Some("shop-web"));
        assert_eq!(adopted.attempt(), origin.attempt);
        assert_eq!(adopted.chart_annotation("a"), Some("b"));
        let mut expected = record();
        expected.chart = adopted.chart.clone();
        assert_eq!(adopted, expected);
        // A record without a chart, which Helm does not write, is no reason to fail.
        let empty = super::adopted(Record::default(), &origin);
        assert_eq!(empty.bundle_deployment("agent"), Some("shop-web"));
    }
}
