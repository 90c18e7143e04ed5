//! From texts to reasons, where there is nothing else. They are those of Helm 4.2 and of the API server; the tests have them verbatim.

use super::FailureReason::{
    self, AdmissionDenied, DuplicateEntry, FieldImmutable, Forbidden, InProgress, KubeVersion,
    ManifestInvalid, NameInvalid, NoRecord, NotOwned, OtherHelm, QuotaExceeded, RecordedKindMissing,
    SchemaViolation, TemplateFailed, Unknown, UnknownField, UnknownKind, Unreachable, ValuesInvalid,
};

/// What Helm's command line writes before its error.
const ERROR: &str = "Error: ";
/// What `helmops-helm` writes if it does not know a request.
const UNREAD: &str = "cannot read the request: ";

/// How Helm begins its error about a flag or command that this version does not have.
const OF_OTHER_VERSIONS: [&str; 2] = ["unknown flag: ", "unknown command "];

/// What Go's runtime writes first when it gets no memory.
const OUT_OF_MEMORY: [&str; 3] = [
    "fatal error: runtime: out of memory",
    "fatal error: runtime: cannot allocate memory",
    "fatal error: out of memory",
];

/// Whether a program ended because it got no memory.
pub(super) fn is_out_of_memory(stderr: &str) -> bool {
    OUT_OF_MEMORY.iter().any(|text| stderr.contains(text))
}

/// Parts of texts, and their reason. The first one that occurs decides, so what is inside of others comes first: a hook may fail because an
/// object is invalid.
///
/// Only what has no data is here: Helm's own errors are texts, unless they are exported. A person's Helm has nothing else, so that what
/// rendering leads to is here in any case. Of a response of the API server, code and causes say too little where it is here.
const TEXTS: &[(&str, FailureReason)] = &[
    // The state of the release: errors that Helm does not export.
    (
        "another operation (install/upgrade/rollback) is in progress",
        InProgress,
    ),
    ("cannot reuse a name that is still in use", InProgress),
    // It is uninstalled, and its history was kept.
    ("is already deleted", NoRecord),
    // The chart, as it is rendered and read.
    ("chart requires kubeVersion", KubeVersion),
    ("invalid release name, must match regex", NameInvalid),
    (
        "values don't meet the specifications of the schema(s)",
        ValuesInvalid,
    ),
    ("execution error at (", TemplateFailed),
    ("parse error at (", TemplateFailed),
    ("\n  executing \"", TemplateFailed),
    ("error calling ", TemplateFailed),
    ("YAML parse error on ", ManifestInvalid),
    ("Object 'Kind' is missing", ManifestInvalid),
    ("unable to decode \"\": json: cannot unmarshal", ManifestInvalid),
    ("resource name may not be empty", ManifestInvalid),
    // Helm compares the owner of an object.
    ("exists and cannot be imported into the current release", NotOwned),
    // The API server responds 500 without a reason, or 400, to what does not fit to the schema of a kind.
    ("field not declared in schema", UnknownField),
    ("unknown field", UnknownField),
    (": duplicate entries for key [", DuplicateEntry),
    ("error validating data", SchemaViolation),
    ("failed to create typed patch object", SchemaViolation),
    // The cause is that of any value that is invalid or forbidden.
    ("field is immutable", FieldImmutable),
    ("spec is immutable after creation", FieldImmutable),
    ("Forbidden: updates to ", FieldImmutable),
    ("may not change once set", FieldImmutable),
    // A plugin of admission gives no cause, and a webhook any code.
    ("exceeded quota", QuotaExceeded),
    ("denied the request", AdmissionDenied),
    ("denied request", AdmissionDenied),
    ("violates PodSecurity", AdmissionDenied),
    // Also a person's Helm finds out.
    ("no matches for kind", UnknownKind),
    // Other errors have the reason InternalError too, or none.
    ("failed calling webhook", Unreachable),
    ("conversion webhook for ", Unreachable),
    ("etcdserver: ", Unreachable),
    // They have no type.
    ("http2: client connection lost", Unreachable),
    ("client rate limiter Wait returned an error", Unreachable),
];

/// Parts of texts about an unknown kind, if it is one that the record of the release has, and not the chart.
const RECORDED: [&str; 3] = [
    "unable to build kubernetes objects from current release manifest",
    "unable to build kubernetes objects for delete",
    "current release manifest contains removed kubernetes api(s)",
];

/// The reason of an error, if its text says it.
pub(super) fn reason(text: &str) -> Option<FailureReason> {
    if OF_OTHER_VERSIONS.iter().any(|start| text.starts_with(start)) {
        return Some(OtherHelm);
    }
    if let Some((_, reason)) = TEXTS.iter().find(|(part, _)| text.contains(part)) {
        let is_recorded = RECORDED.iter().any(|part| text.contains(part));
        return Some(match reason {
            UnknownKind if is_recorded => RecordedKindMissing,
            reason => *reason,
        });
    }
    is_missing_revision(text).then_some(NoRecord)
}

/// The same if there is no response in the error: a person's Helm prints that of the API server.
pub(super) fn reason_without_response(text: &str) -> FailureReason {
    if text.contains(" is forbidden: ") {
        Forbidden
    } else {
        Unknown
    }
}

/// `release has no 3 version`
fn is_missing_revision(text: &str) -> bool {
    text.starts_with("release has no ") && text.ends_with(" version")
}

/// The error in what Helm's command line has written to standard error, without its prefix. Before it are log lines.
pub(super) fn error(stderr: &str) -> Option<&str> {
    after_line_start(stderr, ERROR)
}

/// Why `helmops-helm` does not know a request: that of another version of the agent.
pub(super) fn unread_request(stderr: &str) -> Option<&str> {
    after_line_start(stderr, UNREAD)
}

/// What follows the last line that starts with a text.
fn after_line_start<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let found = text.rmatch_indices(start).find(|(at, _)| {
        text.get(..*at)
            .is_some_and(|before| before.is_empty() || before.ends_with('\n'))
    });
    let (at, _) = found?;
    text.get(at + start.len()..).map(str::trim)
}
