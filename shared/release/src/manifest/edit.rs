//! Changes of what Helm reads in the manifest of a record. Helm deletes what it has, and fails if the API server does not have the kind of
//! one of its objects.
//!
//! What the revision was to have stays in the record, in a comment that Helm ignores: everything but Helm reads that ([`recorded`]). The next
//! change decides again. Otherwise a rollback to this revision would delete an object that the revision had, and that belongs to
//! the release again, and nothing would notice that it is missing.

use std::collections::BTreeMap;

use go_formats::yaml::{self, Quota};
use serde_json::{Map, Value};

use super::{ManifestError, flatten, quota, read};
use crate::object::ObjectId;

/// The start of the comment with an object that is left out, as JSON.
const LEFT_OUT: &str = "# helmops.fleet.cattle.io/left-out: ";
/// The same, if it was not read, so that it is not known whether Helm may delete it.
const UNREAD: &str = "# helmops.fleet.cattle.io/unread: ";
/// The start of the comment with the version in which the object that follows was recorded.
const RECORDED_IN: &str = "# helmops.fleet.cattle.io/recorded-in: ";

/// What Helm is to read of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The object in another version of its API.
    ApiVersion(String),
    /// The object is left out.
    LeaveOut,
    /// Nothing yet: it could not be read.
    Postpone,
}

/// A document of the manifest of a record.
enum Document<'d> {
    /// The document as Helm recorded it.
    Original(&'d str),
    /// The object that is left out.
    LeftOut(&'d str),
    /// The object in another version than this one.
    Moved(&'d str, &'d str),
}

impl<'d> Document<'d> {
    fn of(text: &'d str) -> Self {
        let trimmed = text.trim();
        let left_out = [LEFT_OUT, UNREAD]
            .iter()
            .find_map(|start| trimmed.strip_prefix(start));
        // A template may have such a line too, before an object.
        if let Some(object) = left_out.filter(|object| !object.contains('\n')) {
            return Self::LeftOut(object);
        }
        let moved = trimmed
            .strip_prefix(RECORDED_IN)
            .and_then(|rest| rest.split_once('\n'));
        match moved {
            Some((version, object)) if object.starts_with('{') => Self::Moved(version, object),
            _ => Self::Original(text),
        }
    }

    /// The object that was recorded; `None` if it has no content.
    fn recorded(
        &self,
        number: usize,
        quota: &mut Quota,
    ) -> Result<Option<Map<String, Value>>, ManifestError> {
        match self {
            Self::Original(text) | Self::LeftOut(text) => read(number, text, quota),
            Self::Moved(version, text) => {
                let mut object = read(number, text, quota)?;
                if let Some(object) = &mut object {
                    set_version(object, version);
                }
                Ok(object)
            }
        }
    }
}

/// Whether objects were not deleted because they could not be read.
pub fn is_incomplete(manifest: &str) -> bool {
    let is_unread = |document: &str| {
        document.trim().starts_with(UNREAD) && matches!(Document::of(document), Document::LeftOut(_))
    };
    manifest.contains(UNREAD) && yaml::documents(manifest).any(is_unread)
}

/// The objects of the manifest of a record as it was made: with those that are left out, and in the version that they had.
///
/// # Errors
/// If a document is invalid, or if there are too many.
pub fn recorded(manifest: &str) -> Result<Vec<Value>, ManifestError> {
    let (mut objects, mut quota) = (Vec::new(), quota());
    for (index, document) in yaml::documents(manifest).enumerate() {
        add(index + 1, document, &mut quota, &mut objects)?;
    }
    Ok(objects.into_iter().map(Value::Object).collect())
}

/// The manifest with these changes of objects of a release, whose namespace this is ([`ObjectId::in_release`]). All other objects are in
/// it, also if they were left out before. A document without a change stays as it is.
///
/// # Errors
/// If a document is invalid, or if there are too many.
pub fn edit(
    manifest: &str,
    namespace: &str,
    edits: &BTreeMap<ObjectId, Edit>,
) -> Result<String, ManifestError> {
    let (mut edited, mut quota) = (String::with_capacity(manifest.len()), quota());
    for (index, document) in yaml::documents(manifest).enumerate() {
        let (is_original, mut items) = (
            matches!(Document::of(document), Document::Original(_)),
            Vec::new(),
        );
        add(index + 1, document, &mut quota, &mut items)?;
        let items = items.into_iter().map(|item| {
            let item = Value::Object(item);
            let edit = ObjectId::in_release(&item, namespace).and_then(|id| edits.get(&id));
            (item, edit)
        });
        let items: Vec<_> = items.collect();
        if is_original && items.iter().all(|(_, edit)| edit.is_none()) {
            // There is a separator before each document but the first one.
            if index > 0 {
                edited.push_str("---\n");
            }
            push_line(&mut edited, document);
            continue;
        }
        for (mut item, edit) in items {
            edited.push_str("---\n");
            match edit {
                Some(Edit::LeaveOut) => edited.push_str(LEFT_OUT),
                Some(Edit::Postpone) => edited.push_str(UNREAD),
                Some(Edit::ApiVersion(version)) => {
                    if let Some(fields) = item.as_object_mut() {
                        let recorded = set_version(fields, version);
                        push_line(&mut edited, &format!("{RECORDED_IN}{recorded}"));
                    }
                }
                None => {}
            }
            push_line(&mut edited, &in_one_line(&item));
        }
    }
    Ok(edited)
}

/// Sets the version of an object, and returns the one that it had.
fn set_version(object: &mut Map<String, Value>, version: &str) -> String {
    let before = object.insert("apiVersion".to_owned(), version.into());
    before
        .and_then(|before| before.as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

/// An object as JSON, without what ends a line in YAML 1.1 alone: a comment would end there, and a text would be folded.
fn in_one_line(object: &Value) -> String {
    const BREAKS: [(char, &str); 3] = [
        ('\u{85}', "\\u0085"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    BREAKS
        .iter()
        .fold(object.to_string(), |text, (c, escaped)| text.replace(*c, escaped))
}

fn push_line(text: &mut String, more: &str) {
    text.push_str(more);
    if !more.is_empty() && !more.ends_with('\n') {
        text.push('\n');
    }
}

/// Adds the objects of a document as it was made.
fn add(
    number: usize,
    document: &str,
    quota: &mut Quota,
    objects: &mut Vec<Map<String, Value>>,
) -> Result<(), ManifestError> {
    match Document::of(document).recorded(number, quota)? {
        Some(object) => flatten(object, None, objects),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects;
    use super::*;

    fn object(kind: &str, name: &str, more: &str) -> String {
        format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n{more}")
    }

    fn names(objects: &[Value]) -> Vec<&str> {
        let names = objects.iter().map(|object| object["metadata"]["name"].as_str());
        names.map(Option::unwrap_or_default).collect()
    }

    /// All objects with this name in namespace `shop` or without one, as of kind `ConfigMap`.
    fn edits(name: &str, edit: Edit) -> BTreeMap<ObjectId, Edit> {
        let id = ObjectId {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        };
        BTreeMap::from([(id, edit)])
    }

    fn manifest() -> String {
        format!(
            "---\n# Source: web/templates/one.yaml\n{}---\n{}---\n{}---\n# nothing\n",
            object("ConfigMap", "own", "data:\n  port: \"080\"\n"),
            object(
                "ConfigMap",
                "taken",
                "data: {text: \"a\\n---\\nb\\u2028c: d\\u0085e\"}\n"
            ),
            object("ConfigMap", "taken", "  namespace: other\n"),
        )
    }

    #[test]
    fn an_object_that_is_left_out_is_a_comment_until_it_is_not_any_more() {
        let manifest = manifest();
        let out = edit(&manifest, "shop", &edits("taken", Edit::LeaveOut)).unwrap();
        let left = objects(&out).unwrap();
        assert_eq!(names(&left), ["own", "taken"]);
        assert_eq!(left[1]["metadata"]["namespace"], "other");
        assert!(out.contains("# Source: web/templates/one.yaml\n"), "{out}");
        assert_eq!(recorded(&out).unwrap(), objects(&manifest).unwrap());
        // The same decision again changes nothing.
        let again = edit(&out, "shop", &edits("taken", Edit::LeaveOut)).unwrap();
        assert_eq!(again, out);
        let back = edit(&out, "shop", &BTreeMap::new()).unwrap();
        assert_eq!(objects(&back).unwrap(), objects(&manifest).unwrap());
    }

    #[test]
    fn a_manifest_without_changes_stays_as_it_is() {
        let manifest = manifest();
        assert_eq!(edit(&manifest, "shop", &BTreeMap::new()).unwrap(), manifest);
        assert!(edit("---\n- a\n", "shop", &BTreeMap::new()).is_err());
    }

    #[test]
    fn an_object_gets_another_version_of_its_api() {
        let moved = edits("own", Edit::ApiVersion("example.com/v2".to_owned()));
        let edited = objects(&edit(&manifest(), "shop", &moved).unwrap()).unwrap();
        let versions = edited.iter().map(|object| object["apiVersion"].as_str());
        let expected = [Some("example.com/v2"), Some("v1"), Some("v1")];
        assert_eq!(versions.collect::<Vec<_>>(), expected);
        assert_eq!(edited[0]["data"]["port"], "080");
    }

    /// What is in the object is that of this version.
    #[test]
    fn an_object_is_recorded_in_the_version_that_it_had() {
        let manifest = manifest();
        let moved = edits("own", Edit::ApiVersion("example.com/v2".to_owned()));
        let once = edit(&manifest, "shop", &moved).unwrap();
        assert_eq!(recorded(&once).unwrap(), objects(&manifest).unwrap());
        assert_eq!(edit(&once, "shop", &moved).unwrap(), once);
        let back = edit(&once, "shop", &BTreeMap::new()).unwrap();
        assert_eq!(objects(&back).unwrap(), objects(&manifest).unwrap());
    }

    #[test]
    fn a_manifest_is_incomplete_while_an_object_is_postponed() {
        let manifest = manifest();
        let postponed = edit(&manifest, "shop", &edits("taken", Edit::Postpone)).unwrap();
        assert!(is_incomplete(&postponed));
        assert_eq!(names(&objects(&postponed).unwrap()), ["own", "taken"]);
        assert_eq!(recorded(&postponed).unwrap(), objects(&manifest).unwrap());
        for other in [
            edit(&postponed, "shop", &edits("taken", Edit::LeaveOut)).unwrap(),
            edit(&postponed, "shop", &BTreeMap::new()).unwrap(),
            format!("---\n{UNREAD}{{}}\nkind: A\n"),
        ] {
            assert!(!is_incomplete(&other), "{other}");
        }
    }

    #[test]
    fn of_a_list_one_object_is_left_out() {
        let list = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: own}\n- metadata: {name: taken}\n";
        let out = edit(list, "shop", &edits("taken", Edit::LeaveOut)).unwrap();
        let left = objects(&out).unwrap();
        assert_eq!(
            (names(&left), &left[0]["kind"]),
            (vec!["own"], &"ConfigMap".into())
        );
        assert_eq!(recorded(&out).unwrap(), objects(list).unwrap());
    }

    /// A template can have such a line, and is still applied.
    #[test]
    fn only_a_document_that_is_nothing_else_leaves_an_object_out() {
        let text = format!(
            "---\n{LEFT_OUT}{{\"kind\":\"A\",\"metadata\":{{\"name\":\"b\"}}}}\nkind: A\nmetadata: {{name: a}}\n"
        );
        assert_eq!(names(&recorded(&text).unwrap()), ["a"]);
    }
}
