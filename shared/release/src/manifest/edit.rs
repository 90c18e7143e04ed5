//! Changes of what Helm reads in the manifest of a record. Helm deletes what it has, and fails if the API server does not have the kind of
//! one of its objects.
//!
//! An object that is left out stays in the record, as a comment that Helm ignores: the next change decides about it again. Otherwise a
//! rollback to this revision would delete an object that the revision had, and that belongs to the release again.

use std::collections::BTreeMap;

use gotmpl::yaml::Quota;
use serde_json::{Map, Value};

use super::{ManifestError, flatten, quota, read, split};
use crate::object::ObjectId;

/// The start of the comment with an object that is left out, as JSON.
const LEFT_OUT: &str = "# helmops.fleet.cattle.io/left-out: ";

/// What Helm is to read of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The object in another version of its API.
    ApiVersion(String),
    /// Nothing.
    LeaveOut,
}

/// The objects of the manifest of a record, with those that are left out.
///
/// # Errors
/// If a document is invalid, or if there are too many.
pub fn recorded(manifest: &str) -> Result<Vec<Value>, ManifestError> {
    let (mut objects, mut quota) = (Vec::new(), quota());
    for (index, document) in split(manifest).enumerate() {
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
    for (index, document) in split(manifest).enumerate() {
        let (is_left_out, mut items) = (left_out(document).is_some(), Vec::new());
        add(index + 1, document, &mut quota, &mut items)?;
        let items = items.into_iter().map(|item| {
            let item = Value::Object(item);
            let edit = ObjectId::in_release(&item, namespace).and_then(|id| edits.get(&id));
            (item, edit)
        });
        let items: Vec<_> = items.collect();
        if !is_left_out && items.iter().all(|(_, edit)| edit.is_none()) {
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
                Some(Edit::ApiVersion(version)) => set_version(&mut item, version),
                None => {}
            }
            push_line(&mut edited, &item.to_string());
        }
    }
    Ok(edited)
}

fn set_version(object: &mut Value, version: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), version.into());
    }
}

fn push_line(text: &mut String, more: &str) {
    text.push_str(more);
    if !more.is_empty() && !more.ends_with('\n') {
        text.push('\n');
    }
}

/// Adds the objects of a document, or the one that it leaves out.
fn add(
    number: usize,
    document: &str,
    quota: &mut Quota,
    objects: &mut Vec<Map<String, Value>>,
) -> Result<(), ManifestError> {
    match read(number, left_out(document).unwrap_or(document), quota)? {
        Some(object) => flatten(object, None, objects),
        None => Ok(()),
    }
}

/// What a document leaves out, if it is nothing else.
fn left_out(document: &str) -> Option<&str> {
    let text = document.trim().strip_prefix(LEFT_OUT)?;
    (!text.contains('\n')).then_some(text)
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
            object("ConfigMap", "taken", "data: {text: \"a\\n---\\nb\"}\n"),
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
