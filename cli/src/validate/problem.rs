//! One problem in a file.

use serde::Serialize;

use super::source::{Line, Region};

/// The names of problems that no reason of admission stands for: what kubectl and the API server check before admission.
pub mod rule {
    /// A file cannot be read.
    pub const UNREADABLE: &str = "Unreadable";
    /// The text is neither YAML nor JSON.
    pub const SYNTAX: &str = "InvalidSyntax";
    /// A mapping has a key twice.
    pub const DUPLICATE_KEY: &str = "DuplicateKey";
    /// Two objects have the same kind, namespace and name.
    pub const DUPLICATE_OBJECT: &str = "DuplicateObject";
    /// A part of a file is ignored by kubectl.
    pub const IGNORED: &str = "IgnoredDocument";
    /// The API server has no such kind or version.
    pub const KIND: &str = "InvalidKind";
    /// A value has another type than the CRD demands.
    pub const TYPE: &str = "InvalidType";
    /// A value is not allowed by the CRD.
    pub const VALUE: &str = "InvalidValue";
    /// A field that the CRD requires is missing.
    pub const REQUIRED: &str = "RequiredField";
    /// The CRD has no such field.
    pub const UNKNOWN_FIELD: &str = "UnknownField";
    /// The namespace of an object is not the one of the flag.
    pub const NAMESPACE: &str = "NamespaceMismatch";
    /// A pattern of a Policy is not a regular expression.
    pub const PATTERN: &str = "InvalidPattern";
    /// A warning of admission.
    pub const QUESTIONABLE: &str = "Questionable";

    /// All of them, with their meaning.
    pub const ALL: &[(&str, &str)] = &[
        (UNREADABLE, "The file cannot be read."),
        (SYNTAX, "The text is neither YAML nor JSON."),
        (DUPLICATE_KEY, "A mapping has the same key twice."),
        (
            DUPLICATE_OBJECT,
            "Two objects have the same kind, namespace and name.",
        ),
        (IGNORED, "kubectl ignores this part of the file."),
        (KIND, "The API server has no such kind or version."),
        (TYPE, "The value has another type than the CRD demands."),
        (VALUE, "The CRD does not allow the value."),
        (REQUIRED, "A field that the CRD requires is missing."),
        (
            UNKNOWN_FIELD,
            "The CRD has no such field, so the API server drops it.",
        ),
        (NAMESPACE, "The namespace of the object is not that of the flag."),
        (PATTERN, "A pattern of a Policy is not a regular expression."),
        (
            QUESTIONABLE,
            "The HelmOp is valid, but a setting is questionable.",
        ),
    ];
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object would be denied.
    Error,
    /// The object would be accepted with a warning.
    Warning,
}

impl Severity {
    /// Its name, also in SARIF and in annotations of GitHub.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Another place that explains a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// The file.
    pub file: String,
    /// Where in it.
    #[serde(flatten)]
    pub region: Region,
    /// What is there.
    pub message: String,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file, as it was named; `<stdin>` for standard input.
    pub file: String,
    /// Where in it; `None` for a file that cannot be read.
    #[serde(flatten)]
    pub region: Option<Region>,
    /// How bad it is.
    pub severity: Severity,
    /// The reason, as in conditions and denials, or one of `rule`.
    pub reason: &'static str,
    /// The object, such as `HelmOp fleet-default/web`; empty if it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The path of the field, such as `spec.helm.version`; empty for syntax errors.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it, where the message does not say so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
    /// Another place that explains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<Related>,
    /// The line with the offending text.
    #[serde(skip)]
    pub line: Option<Line>,
}

impl Problem {
    /// Field and message in a line.
    pub fn text(&self) -> String {
        if self.field.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.field, self.message)
        }
    }
}
