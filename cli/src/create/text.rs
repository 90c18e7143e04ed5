//! HelmOps as YAML, as they should be in Git.

use go_formats::yaml;
use serde::Serialize;
use serde_json::Value;

use super::draft::Draft;
use crate::failure::Failure;

/// Bytes of a line of a comment.
const WIDTH: usize = 100;

/// An object as YAML: fields in the order of their names and texts in quotes where YAML 1.1 needs them, as `kubectl` prints objects.
///
/// # Errors
/// If it is no mapping, or too long.
pub fn yaml(object: &impl Serialize) -> Result<String, Failure> {
    let value =
        serde_json::to_value(object).map_err(|error| Failure::because("cannot encode an object", &error))?;
    let Value::Object(mut fields) = value else {
        return Err(Failure::unable("an object has no fields"));
    };
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|_, value| !value.is_null());
    }
    yaml::emit_exact(&Value::Object(fields))
        .map_err(|error| Failure::because("cannot print an object as YAML", &error))
}

/// The documents of drafts, each with its notes as comments.
///
/// # Errors
/// As of [`yaml()`].
pub fn documents(drafts: &[Draft]) -> Result<String, Failure> {
    let mut all = Vec::new();
    for draft in drafts {
        for object in &draft.objects {
            all.push(yaml(object)?);
        }
        all.push(format!("{}{}", comments(draft), yaml(&draft.helmop)?));
    }
    Ok(all.join("---\n"))
}

fn comments(draft: &Draft) -> String {
    let mut text = String::new();
    if !draft.notes.is_empty() {
        text.push_str("# Not converted as it was:\n");
    }
    for note in &draft.notes {
        let mut start = "# - ";
        for line in wrapped(&note.to_string()) {
            text.push_str(start);
            text.push_str(&line);
            text.push('\n');
            start = "#   ";
        }
    }
    text
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::create::note::{Gap, Note, Position};

    #[test]
    fn texts_that_yaml_would_read_as_something_else_are_quoted() {
        let object = json!({ "b": { "c": "yes", "d": "1e3", "e": "plain", "f": true }, "a": "line\nline\n" });
        assert_eq!(
            yaml(&object).unwrap(),
            "a: |\n  line\n  line\nb:\n  c: \"yes\"\n  d: \"1e3\"\n  e: plain\n  f: true\n"
        );
    }

    #[test]
    fn notes_are_comments_that_fit_into_their_lines() {
        let mut draft = Draft::named("web");
        draft.notes = vec![Note {
            object: "HelmRelease shop/web".to_owned(),
            path: "spec.postRenderers".to_owned(),
            position: Some(Position {
                file: "a.yaml".into(),
                line: 12,
                column: 3,
            }),
            text: "word ".repeat(20),
            gap: Gap::None,
        }];
        let text = documents(&[draft]).unwrap();
        assert!(
            text.starts_with(
                "# Not converted as it was:\n# - a.yaml:12:3: HelmRelease shop/web: spec.postRenderers: word"
            ),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= WIDTH + 4), "{text}");
        assert!(text.contains("\n#   word"), "{text}");
        assert!(
            text.contains("\nkind: HelmOp\nmetadata:\n  name: web\n"),
            "{text}"
        );
    }
}
