//! Patches of Kustomize: strategic merge patches, and lists of operations (JSON Patch, RFC 6902).
//!
//! A strategic merge patch stays a text: Kustomize takes `yes` in it for a text, in contrast to Kubernetes. It reads a JSON Patch as
//! Kubernetes does, but YAML in brackets not at all.

use go_formats::yaml::{self, Quota, ReadError};
use serde_json::{Map, Value};
use thiserror::Error;

/// The operations of a JSON Patch, and whether each has a value or the path of another field.
const OPERATIONS: [(&str, bool, bool); 6] = [
    ("add", true, false),
    ("remove", false, false),
    ("replace", true, false),
    ("move", false, true),
    ("copy", false, true),
    ("test", true, false),
];

/// What the text of a patch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patch {
    /// Strategic merge patches: at least one.
    StrategicMerge(Vec<String>),
    /// A JSON Patch with at least one operation, as JSON.
    Json(String),
}

/// Why a text is no patch.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// There is no content.
    #[error(
        "it is empty; write a strategic merge patch (an object with kind and metadata.name), or a list of JSON Patch operations"
    )]
    Empty,
    /// It is not YAML.
    #[error("it is not YAML: {0}")]
    Yaml(ReadError),
    /// It is a text or a number.
    #[error("it is neither an object (strategic merge patch) nor a list of operations (JSON Patch)")]
    NoPatch,
    /// Objects and operations, or several lists.
    #[error("a JSON Patch is one list; write each patch as an entry of its own")]
    Mixed,
    /// Kustomize needs them in each patch, also in one with a target.
    #[error(
        "{0} is missing: a strategic merge patch has kind and metadata.name, also if target selects the objects"
    )]
    Missing(&'static str),
    /// An operation that JSON Patch does not have.
    #[error("operation {at}: {problem}")]
    Operation {
        /// Which operation, from 0.
        at: usize,
        /// What is wrong.
        problem: String,
    },
}

impl Patch {
    /// Reads a patch: YAML or JSON, with several documents separated by `---` for several strategic merge patches.
    ///
    /// # Errors
    /// If Kustomize would refuse it whatever the objects are.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        let mut quota = Quota::default();
        let mut documents = Vec::new();
        for document in yaml::documents(text) {
            match yaml::read_exact(document, &mut quota).map_err(PatchError::Yaml)? {
                Value::Null => {}
                value => documents.push((value, document)),
            }
        }
        let is_object = |(value, _): &(Value, _)| value.is_object();
        let is_patch = |(value, _): &(Value, _)| value.is_object() || value.is_array();
        match &documents[..] {
            [] => Err(PatchError::Empty),
            all if all.iter().all(is_object) => {
                let texts = all.iter().map(|(object, text)| {
                    check_object(object)?;
                    Ok((*text).to_owned())
                });
                Ok(Self::StrategicMerge(texts.collect::<Result<_, _>>()?))
            }
            [(Value::Array(operations), _)] if operations.is_empty() => Err(PatchError::Empty),
            [(Value::Array(operations), _)] => {
                operations.iter().enumerate().try_for_each(check_operation)?;
                Ok(Self::Json(Value::from(operations.clone()).to_string()))
            }
            all if all.iter().all(is_patch) => Err(PatchError::Mixed),
            _ => Err(PatchError::NoPatch),
        }
    }
}

fn check_object(object: &Value) -> Result<(), PatchError> {
    let is_text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    for (pointer, field) in [("/kind", "kind"), ("/metadata/name", "metadata.name")] {
        if !is_text(pointer) {
            return Err(PatchError::Missing(field));
        }
    }
    Ok(())
}

fn check_operation((at, operation): (usize, &Value)) -> Result<(), PatchError> {
    let problem = |problem: String| Err(PatchError::Operation { at, problem });
    let Some(operation) = operation.as_object() else {
        return problem("not an object with op and path".to_owned());
    };
    let name = text_of(operation, "op");
    let Some((_, has_value, has_from)) = OPERATIONS.iter().find(|(known, ..)| Some(*known) == name) else {
        let names = OPERATIONS.map(|(name, ..)| name).join(", ");
        return problem(format!("op must be one of {names}"));
    };
    let pointers = [("path", true), ("from", *has_from)];
    for (field, _) in pointers.into_iter().filter(|(_, is_needed)| *is_needed) {
        match text_of(operation, field) {
            None => return problem(format!("{field} is missing")),
            Some(pointer) if !pointer.is_empty() && !pointer.starts_with('/') => {
                return problem(format!(
                    "{field} {pointer:?} is not a JSON pointer (RFC 6901), such as /spec/replicas"
                ));
            }
            Some(_) => {}
        }
    }
    if *has_value && !operation.contains_key("value") {
        return problem("value is missing".to_owned());
    }
    Ok(())
}

fn text_of<'o>(operation: &'o Map<String, Value>, field: &str) -> Option<&'o str> {
    operation.get(field).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_a_strategic_merge_patch() {
        let web = "kind: Service\nmetadata: {name: web}\nspec: {type: LoadBalancer}\n";
        let pod = "kind: Pod\nmetadata: {name: a}";
        let patch = Patch::parse(&format!("{web}---\n# nothing\n---\n{pod}"));
        assert_eq!(
            patch,
            Ok(Patch::StrategicMerge(vec![web.to_owned(), pod.to_owned()]))
        );
    }

    #[test]
    fn a_list_is_a_json_patch() {
        let json = r#"[{"op":"add","path":"/spec/a","value":true}]"#.to_owned();
        for list in [
            "- {op: add, path: /spec/a, value: yes}\n",
            "---\n[{op: add, path: /spec/a, value: true}]",
        ] {
            assert_eq!(Patch::parse(list), Ok(Patch::Json(json.clone())), "{list}");
        }
        assert!(Patch::parse("[{op: test, path: /a, value: null}]").is_ok());
    }

    #[test]
    fn what_is_no_patch_is_an_error_that_names_it() {
        for (text, expected) in [
            ("", "it is empty"),
            ("# only a comment\n", "it is empty"),
            ("[]", "it is empty"),
            ("{", "it is not YAML"),
            ("replicas", "it is neither an object"),
            (
                "[{op: remove, path: /a}]\n---\n[{op: remove, path: /b}]",
                "a JSON Patch is one list",
            ),
            (
                "kind: A\nmetadata: {name: a}\n---\n[{op: remove, path: /b}]",
                "a JSON Patch is one list",
            ),
            ("metadata: {name: a}", "kind is missing"),
            ("kind: A\nmetadata: {labels: {a: b}}", "metadata.name is missing"),
            ("[remove]", "operation 0: not an object with op and path"),
            (
                "[{op: remove, path: /a}, {op: set, path: /b}]",
                "operation 1: op must be one of add, remove",
            ),
            ("[{op: remove}]", "operation 0: path is missing"),
            (
                "[{op: remove, path: spec}]",
                "operation 0: path \"spec\" is not a JSON pointer",
            ),
            ("[{op: move, path: /a}]", "operation 0: from is missing"),
            ("[{op: add, path: /a}]", "operation 0: value is missing"),
        ] {
            let error = Patch::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
