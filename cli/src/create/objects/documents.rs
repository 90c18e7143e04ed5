//! The objects of files, and where their fields are.

use std::sync::Arc;

use go_formats::yaml::place::{Place, Span};
use serde_json::Value;

use crate::{
    create::note::Position,
    validate::{
        locate::{locate, locate_field},
        object,
        schema::Finding,
        source::Source,
    },
};

/// An object of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its fields.
    pub object: Value,
    /// Where they are.
    pub place: Place,
    /// The file.
    pub source: Arc<Source>,
    file: Arc<str>,
}

/// A part of a file that is no object.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Where.
    pub position: Position,
    /// Why.
    pub message: String,
    /// What to do.
    pub fix: String,
    /// What that means.
    pub problem: Problem,
}

/// What a part of a file is that is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// No YAML, such as a template of another tool.
    NotYaml,
    /// YAML that is no object, such as the list of a patch.
    NoObject,
    /// A part of a file with objects that are converted: it may be one, and kubectl rejects or ignores it.
    Lost,
    /// No objects, such as settings of an editor.
    Foreign,
}

/// How a part starts that a template has in place of YAML.
const TEMPLATES: [&str; 2] = ["{{", "{%"];

/// What the parts of a file are that cannot be read: those that are no YAML, and those that kubectl rejects for another reason. A file with
/// objects that are converted has all `marks`; other objects are not converted.
fn problems(file: &str, text: &str, marks: &[&str]) -> [Problem; 2] {
    let is_json = file.to_ascii_lowercase().ends_with(".json");
    let has_marks = marks.iter().all(|mark| text.contains(mark));
    match (is_json, has_marks) {
        (true, _) if !has_marks || !text.contains("\"kind\"") => [Problem::Foreign; 2],
        (_, true) if is_template(text) => [Problem::NotYaml, Problem::Lost],
        (_, true) => [Problem::Lost; 2],
        (_, false) => [Problem::NotYaml; 2],
    }
}

/// Whether a text is filled in before it is YAML. What is in quotes may be a template in a value, which a chart fills in.
fn is_template(text: &str) -> bool {
    let starts = |line: &str| {
        let starts = TEMPLATES.iter().filter_map(|start| line.find(start));
        let first = starts.min().and_then(|at| line.get(..at));
        first.is_some_and(|before| !before.contains(['"', '\'', '`']))
    };
    text.lines().any(starts)
}

impl Document {
    /// A text at a path of names.
    pub fn text(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Whether there is a field at a path of names, and not null.
    pub fn has(&self, pointer: &str) -> bool {
        self.object.pointer(pointer).is_some_and(|value| !value.is_null())
    }

    /// Kind, namespace and name, such as `HelmRelease shop/web`.
    pub fn title(&self) -> String {
        let (kind, name) = (self.text("/kind"), self.text("/metadata/name"));
        match self.text("/metadata/namespace") {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }

    /// The group of its API.
    pub fn group(&self) -> &str {
        self.text("/apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// The name of its file.
    pub const fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Where a field is, or the nearest one around it.
    pub fn position(&self, path: &str) -> Option<Position> {
        let span = locate_field(&self.source, &self.place, path)?;
        Some(self.position_at(span.start))
    }

    /// A scalar as it is written.
    pub fn written(&self, path: &str) -> &str {
        self.source
            .slice(locate(&self.source, &self.place, path, "").span)
    }

    /// The position of an offset in the file.
    pub fn position_at(&self, at: usize) -> Position {
        position(&self.source, &self.file, at)
    }
}

fn position(source: &Source, file: &Arc<str>, at: usize) -> Position {
    let region = source.region(Span { start: at, end: at });
    Position {
        file: Arc::clone(file),
        line: region.line,
        column: region.column,
    }
}

/// The objects of a file with YAML documents, and what is none. A file with objects that are converted has all `marks`.
pub fn documents(file: &str, text: String, marks: &[&str]) -> (Vec<Document>, Vec<Unreadable>) {
    let source = Arc::new(Source::new(file.to_owned(), text));
    let file: Arc<str> = file.into();
    let [invalid, rejected] = problems(&file, source.text(), marks);
    let unreadable = |finding: Finding, problem| Unreadable {
        position: position(&source, &file, finding.span.start),
        message: finding.message,
        fix: finding.fix,
        problem,
    };
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let findings = object::each(&source, &mut |item| match item {
        Err(finding) => others.push(unreadable(finding, invalid)),
        Ok((Value::Null, _)) => {}
        Ok((object @ Value::Object(_), place)) => {
            let repeated = object::repeated_keys(&place);
            if repeated.is_empty() {
                found.push(Document {
                    object,
                    place,
                    source: Arc::clone(&source),
                    file: Arc::clone(&file),
                });
            }
            others.extend(repeated.into_iter().map(|finding| unreadable(finding, rejected)));
        }
        Ok((_, place)) => others.push(Unreadable {
            position: position(&source, &file, place.span.start),
            message: "this is no object".to_owned(),
            fix: String::new(),
            problem: Problem::NoObject,
        }),
    });
    others.extend(findings.into_iter().map(|finding| unreadable(finding, rejected)));
    (found, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: &[&str] = &["HelmRelease"];

    fn objects(text: &str) -> Vec<Document> {
        let (found, unreadable) = documents("a.yaml", text.to_owned(), MARKS);
        assert_eq!(unreadable, []);
        found
    }

    fn position_of(document: &Document, path: &str) -> Option<(usize, usize)> {
        let position = document.position(path)?;
        assert_eq!(&*position.file, "a.yaml");
        Some((position.line, position.column))
    }

    #[test]
    fn fields_are_found_in_their_document() {
        let text = "# first\nkind: A\n---\nkind: B\nmetadata:\n  name: b\nspec:\n  list:\n    - x: 1\n    # comment\n    - b: &a {z: 2}\n";
        let found = objects(text);
        assert_eq!(found.len(), 2);
        let second = &found[1];
        assert_eq!(second.title(), "B b");
        for (path, expected) in [
            ("kind", (4, 1)),
            ("metadata.name", (6, 3)),
            ("spec.list", (8, 3)),
            ("spec.list[0].x", (9, 7)),
            ("spec.list[1].b.z", (11, 14)),
            ("spec.list[1].b.unknown", (11, 7)),
        ] {
            assert_eq!(position_of(second, path), Some(expected), "{path}");
        }
        assert_eq!(position_of(&found[0], "kind"), Some((2, 1)));
        assert_eq!(position_of(&found[0], "unknown"), None);
    }

    #[test]
    fn the_items_of_a_list_are_objects() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  metadata: {name: a}\n- kind: List\n  items:\n  - kind: B\n    spec:\n      x: 1\n";
        let found = objects(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].title(), "A a");
        assert_eq!(position_of(&found[1], "spec.x"), Some((10, 7)));
    }

    /// An object that kubectl would reject must not be left out as if it were none.
    #[test]
    fn what_cannot_be_read_may_be_an_object() {
        let broken = "kind: HelmRelease\nspec:\n  a: *undefined\n";
        let with = |line: &str| format!("{broken}{line}\n");
        for (file, text, expected) in [
            ("a.yaml", broken.to_owned(), Problem::Lost),
            ("a.yaml", with("  b: \"{{ .Release.Name }}\""), Problem::Lost),
            ("a.yaml", with("  b: {{ .Values.b }}"), Problem::NotYaml),
            ("a.yaml", with("{{- if .Values.c }}"), Problem::NotYaml),
            ("a.yaml", with("  b: {% c %}"), Problem::NotYaml),
            ("a.yaml", broken.replace("HelmRelease", "Other"), Problem::NotYaml),
            (
                "a.json",
                "{\"kind\": \"HelmRelease\", // comment\n\"a\": [}".to_owned(),
                Problem::Lost,
            ),
            (
                "a.json",
                "{\"HelmRelease\": 1, // comment\n\"a\": [}".to_owned(),
                Problem::Foreign,
            ),
            (
                ".vscode/settings.json",
                "{ // comment\n\"a\": [}".to_owned(),
                Problem::Foreign,
            ),
        ] {
            let (_, unreadable) = documents(file, text.clone(), MARKS);
            let found: Vec<_> = unreadable.iter().map(|part| part.problem).collect();
            assert_eq!(found.first(), Some(&expected), "{text} {unreadable:?}");
        }
    }

    #[test]
    fn the_lines_of_errors_are_those_of_the_file() {
        let text = "a: 1\n---\n- b\n---\nc: 2\n---\n# comment\nspec:\n  chart: [\n";
        let (found, unreadable) = documents("a.yaml", text.to_owned(), MARKS);
        assert_eq!(found.len(), 2);
        let [list, invalid] = &unreadable[..] else {
            panic!("{unreadable:?}")
        };
        assert_eq!((list.position.line, list.problem), (3, Problem::NoObject));
        assert!((9..=10).contains(&invalid.position.line), "{invalid:?}");
        assert!(
            invalid.problem == Problem::NotYaml && invalid.message.starts_with("not valid YAML: "),
            "{invalid:?}"
        );
    }
}
