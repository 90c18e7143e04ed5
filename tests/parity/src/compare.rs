//! What differs between the two sides after a step.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clean;
use crate::object::{ObjectId, documents};
use crate::random::{Random, in_namespace};
use crate::record::Record;
use crate::side::Objects;

/// How much of a text is shown before its first difference.
const BEFORE: usize = 20;
/// How much of a value a message has.
const SHOWN: usize = 160;
/// How many differences of one kind are kept for a chart.
const KEPT: usize = 20;
/// The bytes that two messages have in common if they are about the same.
const COMMON: usize = 24;

/// A difference, or something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What differs.
    pub kind: Kind,
    /// Where, and how.
    pub text: String,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// One side failed.
    Outcome,
    /// Both failed, for different reasons.
    Error,
    /// The manifests of the records.
    Manifest,
    /// The hooks of the records.
    Hooks,
    /// The objects of the cluster.
    Objects,
    /// The status of a HelmOp says that objects are modified, although nothing changed them.
    Drift,
    /// One side is ready.
    Readiness,
}

/// Compares the ends of a step. Both messages are kept if they are about something else.
pub fn errors(helm: Option<&str>, helmops: Option<&str>) -> Option<Difference> {
    let (kind, text) = match (helm, helmops) {
        (None, None) => return None,
        (Some(error), None) => (Kind::Outcome, format!("only Helm failed: {error}")),
        (None, Some(error)) => (Kind::Outcome, format!("only helmops failed: {error}")),
        (Some(helm), Some(helmops)) if have_in_common(helm, helmops) => return None,
        (Some(helm), Some(helmops)) => (Kind::Error, format!("Helm: {helm}\nhelmops: {helmops}")),
    };
    Some(Difference { kind, text })
}

fn have_in_common(one: &str, other: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (one, other) = (words(one), words(other));
    if one.len() < COMMON {
        return other.contains(&one);
    }
    one.as_bytes()
        .windows(COMMON)
        .any(|part| other.as_bytes().windows(COMMON).any(|other| part == other))
}

/// Compares two records: their manifests and hooks.
pub fn records(helm: &Record, helmops: &Record, namespace: &str, random: &Random) -> Vec<Difference> {
    let cleaned = |manifest: &str| -> Objects {
        documents(manifest)
            .into_iter()
            .map(|object| (in_namespace(&object, namespace), clean::manifest(object)))
            .collect()
    };
    let mut all = objects(
        Kind::Manifest,
        &cleaned(&helm.manifest),
        &cleaned(&helmops.manifest),
        random,
    );
    let hooks = |record: &Record| -> Objects {
        let hooks = record.hooks.iter().flat_map(|hook| {
            documents(&hook.manifest).into_iter().map(|object| {
                let mut object = clean::manifest(object);
                let id = in_namespace(&object, namespace);
                if let Some(fields) = object.as_object_mut() {
                    fields.insert("hook".to_owned(), hook.settings.clone());
                }
                (id, object)
            })
        });
        hooks.collect()
    };
    all.extend(objects(Kind::Hooks, &hooks(helm), &hooks(helmops), random));
    all
}

/// Compares objects of two clusters.
pub fn live(helm: Objects, helmops: Objects, random: &Random) -> Vec<Difference> {
    let cleaned = |objects: Objects| -> Objects {
        let cleaned = objects.into_iter().map(|(id, object)| (id, clean::live(object)));
        cleaned
            .filter(|(_, object)| !clean::is_empty_cluster_role(object))
            .collect()
    };
    objects(Kind::Objects, &cleaned(helm), &cleaned(helmops), random)
}

fn objects(kind: Kind, helm: &Objects, helmops: &Objects, random: &Random) -> Vec<Difference> {
    let mut all = Vec::new();
    let ids: BTreeSet<&ObjectId> = helm.keys().chain(helmops.keys()).collect();
    for id in ids {
        let text = match (helm.get(id), helmops.get(id)) {
            (Some(_), None) | (None, Some(_)) if random.has_names() => continue,
            (Some(_), None) => format!("{id}: only with Helm"),
            (None, Some(_)) => format!("{id}: only with helmops"),
            (Some(helm), Some(helmops)) => {
                let without_random = |object: &Value| {
                    let mut object = object.clone();
                    random.remove(id, &mut object);
                    object
                };
                match first(&without_random(helm), &without_random(helmops), "") {
                    Some(difference) => format!("{id}{difference}"),
                    None => continue,
                }
            }
            (None, None) => continue,
        };
        all.push(Difference { kind, text });
    }
    all.truncate(KEPT);
    all
}

/// The first difference of two values.
fn first(helm: &Value, helmops: &Value, path: &str) -> Option<String> {
    match (helm, helmops) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            keys.into_iter().find_map(|key| {
                let path = format!("{path}.{key}");
                match (one.get(key), other.get(key)) {
                    (Some(one), Some(other)) => first(one, other, &path),
                    (one, other) => Some(shown(&path, one, other)),
                }
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(index, (one, other))| first(one, other, &format!("{path}[{index}]")))
        }
        (one, other) if one != other => Some(shown(path, Some(one), Some(other))),
        _ => None,
    }
}

/// Two values at a path; of texts, what begins shortly before the first difference.
fn shown(path: &str, helm: Option<&Value>, helmops: Option<&Value>) -> String {
    let start = match (helm, helmops) {
        (Some(Value::String(one)), Some(Value::String(other))) => {
            let same = one
                .chars()
                .zip(other.chars())
                .take_while(|(one, other)| one == other)
                .count();
            same.saturating_sub(BEFORE)
        }
        _ => 0,
    };
    let cut = |value: Option<&Value>| match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => {
            let part: String = text.chars().skip(start).take(SHOWN).collect();
            format!("{}{part:?}", if start > 0 { "…" } else { "" })
        }
        Some(value) => value.to_string().chars().take(SHOWN).collect(),
    };
    format!(" {path}: Helm {}, helmops {}", cut(helm), cut(helmops))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects_of(object: Value) -> Objects {
        [(ObjectId::of(&object), object)].into()
    }

    #[test]
    fn the_first_difference_of_an_object_is_shown_with_its_path() {
        let object = |replicas: u64| {
            objects_of(json!({ "kind": "A", "metadata": { "name": "a" }, "spec": { "list": [replicas] } }))
        };
        let differences = live(object(1), object(2), &Random::default());
        assert_eq!(differences[0].text, "A a .spec.list[0]: Helm 1, helmops 2");
        assert_eq!(live(object(1), object(1), &Random::default()), []);
        assert_eq!(
            live(object(1), Objects::new(), &Random::default())[0].text,
            "A a: only with Helm"
        );
    }

    #[test]
    fn errors_are_the_same_if_they_share_a_sentence() {
        assert_eq!(errors(None, None), None);
        let same = errors(
            Some("a: the value of x is required"),
            Some("not installed: the value of x is required (try)"),
        );
        assert_eq!(same, None);
        assert_eq!(
            errors(
                Some("the value of x is required"),
                Some("the value of y is not needed")
            )
            .unwrap()
            .kind,
            Kind::Error
        );
        assert_eq!(errors(None, Some("x")).unwrap().kind, Kind::Outcome);
    }
}
