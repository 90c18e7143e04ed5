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
    /// HelmOps wait for each other.
    pub const DEPENDENCY_CYCLE: &str = "DependencyCycle";
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

    /// What a name means, and what to do.
    #[derive(Clone, Copy, Debug)]
    pub struct Rule {
        pub name: &'static str,
        pub meaning: &'static str,
        /// What to do.
        pub remedy: &'static str,
    }

    const fn rule(name: &'static str, meaning: &'static str, remedy: &'static str) -> Rule {
        Rule {
            name,
            meaning,
            remedy,
        }
    }

    pub const ALL: &[Rule] = &[
        rule(
            UNREADABLE,
            "The file cannot be read.",
            "Correct the path, or its permissions.",
        ),
        rule(
            SYNTAX,
            "The text is neither YAML nor JSON.",
            "Correct the text at the position that the message names.",
        ),
        rule(
            DUPLICATE_KEY,
            "A mapping has the same key twice.",
            "Remove one of them: only one of both values would count.",
        ),
        rule(
            DUPLICATE_OBJECT,
            "Two objects have the same kind, namespace and name.",
            "Remove or rename one of them: the one that is applied last would count.",
        ),
        rule(
            DEPENDENCY_CYCLE,
            "HelmOps of the files depend on each other, so none of them is ever deployed.",
            "Remove one of the entries of dependsOn that the message names.",
        ),
        rule(
            IGNORED,
            "kubectl ignores this part of the file.",
            "Write --- in a line of its own before each object.",
        ),
        rule(
            KIND,
            "The API server has no such kind or version.",
            "Write apiVersion: fleet.cattle.io/v1alpha1 for a HelmOp, Policy or Schedule, helmops.fleet.cattle.io/v1alpha1 for an \
             AlertProvider, Alert or Receiver.",
        ),
        rule(
            TYPE,
            "The value has another type than the CRD demands.",
            "Write a value of the type that the message names; numbers and true are texts in quotes.",
        ),
        rule(
            VALUE,
            "The CRD does not allow the value.",
            "Use a value that the message lists; kubectl explain shows what is expected, as in kubectl explain helmop.spec.",
        ),
        rule(
            REQUIRED,
            "A field that the CRD requires is missing.",
            "Add the field.",
        ),
        rule(
            UNKNOWN_FIELD,
            "The CRD has no such field: kubectl rejects it, and other clients lose it.",
            "Correct the name or the indentation of the field, or remove it. A field of a newer CRD needs a newer kubectl-helmop.",
        ),
        rule(
            NAMESPACE,
            "The namespace of the object is not that of the flag.",
            "Correct metadata.namespace, or the flag --namespace.",
        ),
        rule(
            PATTERN,
            "A pattern of a Policy is not a regular expression.",
            "Correct the pattern: it allows nothing, and neither does any entry after it in its list.",
        ),
        rule(
            QUESTIONABLE,
            "The HelmOp is valid, but a setting is questionable.",
            "Do what the message says, or leave it: warnings deny nothing.",
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
    pub file: String,
    /// Where in it.
    #[serde(flatten)]
    pub region: Region,
    /// What is there.
    pub message: String,
}

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
