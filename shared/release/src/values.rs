//! The values of a release: those of several sources, merged as Helm merges them.

use std::str;

use go_formats::{
    strvals::{self, Kind, SetError},
    yaml::{self, Quota, ReadError},
};
use serde_json::{Map, Value};
use thiserror::Error;

/// A source of values. Later ones override earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesLayer {
    /// The field of the options that names it, or the file, for messages.
    pub source: String,
    /// What it has.
    pub content: LayerContent,
}

/// What a source of values has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerContent {
    /// JSON or YAML, as in a values.yaml.
    Document(Vec<u8>),
    /// One value for a path.
    Value {
        /// The path, as in `--set`.
        path: String,
        /// The text of the value.
        text: Vec<u8>,
        /// Whether it is a text as it is.
        is_literal: bool,
    },
}

/// Why values cannot be merged. No message has a value: it may be that of a Secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ValuesError {
    /// It is no text.
    #[error("{source_field}: the values are not valid UTF-8")]
    NoText {
        /// The source.
        source_field: String,
    },
    /// It is no YAML.
    #[error("{source_field}: the values are not YAML: {error}")]
    Yaml {
        /// The source.
        source_field: String,
        /// What is wrong.
        error: ReadError,
    },
    /// It is a list or a single value.
    #[error(
        "{source_field}: the values are {found}, and not a mapping such as `replicas: 2`; set targetPath for a single value"
    )]
    NoMapping {
        /// The source.
        source_field: String,
        /// What it is instead.
        found: &'static str,
    },
    /// The path cannot be set.
    #[error("{source_field}.targetPath: {path:?} cannot be set: {error}")]
    Path {
        /// The source.
        source_field: String,
        /// The path.
        path: String,
        /// What is wrong.
        error: SetError,
    },
}

/// The merged values.
///
/// # Errors
/// If a source has no values.
pub fn merged(layers: &[ValuesLayer]) -> Result<Map<String, Value>, ValuesError> {
    let mut values = Map::new();
    for ValuesLayer { source, content } in layers {
        match content {
            LayerContent::Document(document) => strvals::merge(&mut values, read(source, document)?),
            LayerContent::Value {
                path,
                text,
                is_literal,
            } => {
                let text = text_of(source, text)?;
                let (text, kind) = kind_of(text, *is_literal);
                strvals::set(&mut values, path, text, kind).map_err(|error| ValuesError::Path {
                    source_field: source.clone(),
                    path: path.clone(),
                    error,
                })?;
            }
        }
    }
    Ok(values)
}

fn read(source: &str, document: &[u8]) -> Result<Map<String, Value>, ValuesError> {
    let read = yaml::read(text_of(source, document)?, &mut Quota::default());
    let found = match read {
        Ok(Value::Object(values)) => return Ok(values),
        Ok(Value::Null) => return Ok(Map::new()),
        Ok(Value::Array(_)) => "a list",
        Ok(_) => "a single value",
        Err(error) => {
            return Err(ValuesError::Yaml {
                source_field: source.to_owned(),
                error,
            });
        }
    };
    Err(ValuesError::NoMapping {
        source_field: source.to_owned(),
        found,
    })
}

fn text_of<'t>(source: &str, text: &'t [u8]) -> Result<&'t str, ValuesError> {
    str::from_utf8(text).map_err(|_| ValuesError::NoText {
        source_field: source.to_owned(),
    })
}

/// As in Flux: what is in quotes is a text, without them.
fn kind_of(text: &str, is_literal: bool) -> (&str, Kind) {
    let is_in = |quote| text.starts_with(quote) && text.ends_with(quote);
    if is_literal {
        (text, Kind::Verbatim)
    } else if is_in('"') || is_in('\'') {
        (text.trim_matches(['"', '\'']), Kind::Text)
    } else {
        (text, Kind::Typed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use go_formats::json;
    use serde::Deserialize;

    use super::*;

    /// References and inline values, and what Flux makes of them; `layered` is what the documentation of Flux says.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct FluxCase {
        name: String,
        objects: Vec<Object>,
        values_from: Vec<Reference>,
        #[serde(default)]
        values: Option<Value>,
        /// `None` for an error.
        #[serde(default)]
        result: Option<Value>,
    }

    #[derive(Deserialize)]
    struct Object {
        kind: String,
        name: String,
        data: BTreeMap<String, String>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Reference {
        kind: String,
        name: String,
        values_key: String,
        target_path: String,
        literal: bool,
    }

    impl FluxCase {
        fn layers(&self) -> Vec<ValuesLayer> {
            let layer = |content| ValuesLayer {
                source: "source".to_owned(),
                content,
            };
            let (mut documents, mut values) = (Vec::new(), Vec::new());
            for reference in &self.values_from {
                let is_its =
                    |object: &&Object| object.kind == reference.kind && object.name == reference.name;
                let object = self.objects.iter().find(is_its).unwrap();
                let key = if reference.values_key.is_empty() {
                    "values.yaml"
                } else {
                    &reference.values_key
                };
                let text = object.data[key].clone().into_bytes();
                if reference.target_path.is_empty() {
                    documents.push(layer(LayerContent::Document(text)));
                } else {
                    values.push(layer(LayerContent::Value {
                        path: reference.target_path.clone(),
                        text,
                        is_literal: reference.literal,
                    }));
                }
            }
            let inline = self.values.iter().filter(|values| values.is_object());
            documents
                .extend(inline.map(|values| layer(LayerContent::Document(values.to_string().into_bytes()))));
            documents.extend(values);
            documents
        }
    }

    /// The table is from a program over the code of Flux. Where Flux lets inline values win over an earlier `targetPath`, in contrast to its
    /// documentation, it has what the documentation says.
    #[test]
    fn values_are_merged_as_flux_documents() {
        let table = include_str!("values/flux.jsonl");
        let mut count = 0;
        for line in table.lines() {
            let case: FluxCase = serde_json::from_str(line).unwrap();
            let merged = merged(&case.layers()).ok().map(Value::Object);
            // Go has no negative zero in a constant.
            let encoded =
                |values: Option<Value>| values.map(|values| json::encode(&values).replace(":-0,", ":0,"));
            assert_eq!(encoded(merged), encoded(case.result.clone()), "{}", case.name);
            count += 1;
        }
        assert!(count >= 200, "{count}");
    }

    #[test]
    fn errors_name_the_source_and_no_value() {
        let document = |text: &str| LayerContent::Document(text.as_bytes().to_vec());
        let value = |path: &str| LayerContent::Value {
            path: path.to_owned(),
            text: b"secret".to_vec(),
            is_literal: false,
        };
        for (content, expected) in [
            (document("a: [secret"), "values: the values are not YAML: "),
            (
                document("- secret"),
                "values: the values are a list, and not a mapping",
            ),
            (
                document("secret"),
                "values: the values are a single value, and not a mapping",
            ),
            (
                LayerContent::Document(vec![0xff]),
                "values: the values are not valid UTF-8",
            ),
            (
                value("a[x]"),
                "values.targetPath: \"a[x]\" cannot be set: an index is not a number",
            ),
        ] {
            let layer = ValuesLayer {
                source: "values".to_owned(),
                content,
            };
            let error = merged(&[layer]).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
