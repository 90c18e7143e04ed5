//! What the HelmOps of a file have in common: all of them are created in one namespace.

use serde_json::Value;

use super::Document;
use crate::create::{Draft, Gap, Note};

/// Leaves each object in the first draft that needs it, and notes what cannot be in one namespace. There is a draft for each release.
pub fn check(releases: &[&Document], drafts: &mut [Draft]) {
    let mut kept: Vec<Value> = Vec::new();
    let mut names: Vec<(String, String)> = Vec::new();
    for (release, draft) in releases.iter().zip(drafts) {
        let mut conflicts = Vec::new();
        draft.objects.retain(|object| {
            let same = kept.iter().find(|other| identity(other) == identity(object));
            match same {
                Some(other) if other == object => return false,
                Some(_) => conflicts.push(object.clone()),
                None => kept.push(object.clone()),
            }
            true
        });
        let note = |path: &str, text: String| Note {
            object: release.title(),
            path: path.to_owned(),
            position: release.position(path),
            text,
            gap: Gap::Source,
        };
        for object in &conflicts {
            let (kind, name) = identity(object);
            draft.notes.push(note(
                "",
                format!(
                    "it needs {kind} {name:?}, but another {kind} {name:?} with other content would be in the same namespace; rename one of them \
                     in the file"
                ),
            ));
        }
        let name = draft.name().to_owned();
        if let Some((_, other)) = names.iter().find(|(other, _)| *other == name) {
            draft.notes.push(note(
                "metadata.name",
                format!("{other} becomes HelmOp {name:?} too; convert each of them from a file of its own, with a name"),
            ));
        }
        names.push((name, release.title()));
    }
}

fn identity(object: &Value) -> (&str, &str) {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    (text("/kind"), text("/metadata/name"))
}
