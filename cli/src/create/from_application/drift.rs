//! `ignoreDifferences`: fields that are no drift.

use helmops_api::lifecycle::{DriftIgnore, ObjectSelector};

use crate::create::{
    draft::Draft,
    note::{Gap, Loss},
    objects::fields::Fields,
};

const EXPRESSION: &str = "only a plain path such as .spec.replicas becomes a pointer; list the fields as jsonPointers. A CA that something injects is no drift, unless the \
                          chart sets it";
const MANAGERS: &str = "the fields of a manager cannot be ignored: list them as jsonPointers. Fields that the chart does not set are no drift";
const PATTERN: &str = "a HelmOp has patterns in name and namespace only; list the kinds";

/// Converts them. The mode is set already: if drift is corrected, what cannot be ignored is a refusal.
pub fn convert(spec: &mut Fields<'_>, draft: &mut Draft) {
    let mut ignored = Vec::new();
    let entries = spec.list("ignoreDifferences");
    let lifecycle = draft.helmop.spec.bundle.options.lifecycle.get_or_insert_default();
    let is_corrected = lifecycle
        .drift
        .as_ref()
        .is_some_and(|drift| drift.mode == "enabled");
    let gap = if is_corrected {
        Gap::Field(Loss::IgnoreDifferences)
    } else {
        Gap::None
    };
    let notes = &mut draft.notes;
    for mut entry in entries {
        let mut paths = entry.texts("jsonPointers");
        for expression in entry.texts("jqPathExpressions") {
            match pointer(&expression) {
                Some(pointer) => paths.push(pointer),
                None => notes.push(entry.refusal(
                    "jqPathExpressions",
                    gap,
                    format!("{expression:?}: {EXPRESSION}"),
                )),
            }
        }
        if !entry.texts("managedFieldsManagers").is_empty() {
            notes.push(entry.refusal("managedFieldsManagers", gap, MANAGERS));
        }
        let mut of_type = |name: &str| {
            let text = entry.text(name).unwrap_or_default();
            if text == "*" { String::new() } else { text }
        };
        let (group, kind) = (of_type("group"), of_type("kind"));
        for (field, text) in [("group", &group), ("kind", &kind)] {
            if text.contains(['*', '?', '[', '{']) {
                notes.push(entry.refusal(field, Gap::Valid, format!("{text:?}: {PATTERN}")));
            }
        }
        let mut of_name = |name: &str| entry.text(name).unwrap_or_default().replace('.', "\\.");
        let target = ObjectSelector {
            name: of_name("name"),
            namespace: of_name("namespace"),
            group,
            kind,
            ..ObjectSelector::default()
        };
        entry.finish(notes);
        if !paths.is_empty() {
            ignored.push(DriftIgnore {
                paths,
                target: (target != ObjectSelector::default()).then_some(target),
                ..DriftIgnore::default()
            });
        }
    }
    if !ignored.is_empty() {
        lifecycle.drift.get_or_insert_default().ignore = ignored;
    }
}

/// A path of jq such as `.spec.containers[0]."a/b"`, as a JSON pointer.
fn pointer(expression: &str) -> Option<String> {
    let (mut rest, mut pointer) = (expression.trim(), String::new());
    while !rest.is_empty() {
        let step;
        if let Some(after) = rest.strip_prefix("[\"").or_else(|| rest.strip_prefix(".[\"")) {
            let (name, after) = after.split_once("\"]")?;
            (step, rest) = (name, after);
        } else if let Some(after) = rest.strip_prefix('[') {
            let (index, after) = after.split_once(']')?;
            let is_index = !index.is_empty() && index.bytes().all(|c| c.is_ascii_digit());
            (step, rest) = (is_index.then_some(index)?, after);
        } else if let Some(after) = rest.strip_prefix(".\"") {
            let (name, after) = after.split_once('"')?;
            (step, rest) = (name, after);
        } else {
            let after = rest.strip_prefix('.')?;
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = after.find(|c| !is_of_name(c)).unwrap_or(after.len());
            let (name, after) = after.split_at_checked(end)?;
            if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                return None;
            }
            (step, rest) = (name, after);
        }
        if step.contains('\\') {
            return None;
        }
        // It only matters where nothing is.
        rest = rest.strip_prefix('?').unwrap_or(rest);
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    }
    (!pointer.is_empty()).then_some(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_path_is_a_pointer() {
        for (expression, expected) in [
            (".spec.replicas", Some("/spec/replicas")),
            (".spec.containers[0].image", Some("/spec/containers/0/image")),
            (
                ".metadata.annotations.\"a/b~c\"",
                Some("/metadata/annotations/a~1b~0c"),
            ),
            (".metadata[\"labels\"].x?", Some("/metadata/labels/x")),
            (".[\"data\"]", Some("/data")),
            (".webhooks[]?.clientConfig.caBundle", None),
            (".spec.containers[] | select(.name == \"a\")", None),
            (".spec | .a", None),
            (".a-b", None),
            ("spec", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(pointer(expression).as_deref(), expected, "{expression}");
        }
    }
}
