//! Emits and reads YAML as `sigs.k8s.io/yaml` does.
//!
//! The emitter is equivalent to that of `go-yaml` 2, including the style of each string and line breaks after 80 columns. The
//! style matters to programs that emit values as YAML, execute that as a template and read the result: it decides whether the
//! output of an action becomes a number or a string, and how quotes in it are read. The reader has the grammar of libyaml, and follows
//! YAML 1.1, in which `yes` is a boolean and `0o17` a number.
//!
//! What is read has the types of JSON: numbers are `float64` ([`read_exact`] and [`emit_exact`] keep integers), keys are strings, and only the first document counts. Aliases and
//! `<<` are expanded, within the limits of a [`Quota`].
//!
//! ```
//! use go_formats::yaml::{Quota, ReadError, emit, read, text_at};
//! use serde_json::json;
//!
//! let value = read("base: &base {port: 80}\nweb: {<<: *base, mode: \"yes\"}", &mut Quota::default()).unwrap();
//! assert_eq!(value["web"], json!({ "port": 80.0, "mode": "yes" }));
//!
//! let text = emit(value.as_object().unwrap()).unwrap();
//! assert_eq!(text, "base:\n  port: 80\nweb:\n  mode: \"yes\"\n  port: 80\n");
//! let found = text_at(value.as_object().unwrap(), text.find("yes").unwrap()).unwrap();
//! assert_eq!((&*found.path, &*found.text), ("web.mode", "yes"));
//!
//! let error = read("a: [1,\n  b: {", &mut Quota::default()).unwrap_err();
//! assert!(matches!(error, ReadError::Invalid { line: Some(_), .. }));
//! ```
//!
//! [`read_located`] also returns where each key and value is ([`place`]).

mod documents;
mod emit;
mod order;
mod parse;
pub mod place;
mod read;
mod resolve;
mod scalar;

pub use self::{
    documents::documents,
    emit::{LocatedText, MAX_OBJECT, MAX_TEXT, TooLong, emit, emit_exact, text_at},
    read::{
        Located, LocatedError, MAX_DEPTH, MAX_NODES, MAX_OBJECT_DEPTH, Quota, ReadError, read, read_exact,
        read_located,
    },
};

#[cfg(test)]
mod tests;
