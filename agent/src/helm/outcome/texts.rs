//! From Helm's texts to reasons. They are those of Helm 4.2 and of the API server; the tests have them verbatim.

use super::FailureReason::{
    self, AdmissionDenied, ChangedMeanwhile, ChartInvalid, Conflict, DeletionFailed, DuplicateEntry,
    FieldImmutable, Forbidden, HookFailed, HookTimeout, InProgress, KubeVersion, ManifestInvalid,
    NameInvalid, NamespaceMissing, NamespaceTerminating, NoRecord, NotOwned, ObjectInvalid, OtherHelm,
    QuotaExceeded, RecordedKindMissing, ReleaseTooLarge, SchemaViolation, Stopped, TemplateFailed,
    Unauthorized, Unknown, UnknownField, UnknownKind, Unreachable, ValuesInvalid,
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

/// Parts of texts, and their reason. The first one that occurs decides, so what is inside of others comes first: a hook may fail
/// because something is forbidden, and a quota is reported as forbidden.
const TEXTS: &[(&str, FailureReason)] = &[
    // The state of the release.
    (
        "another operation (install/upgrade/rollback) is in progress",
        InProgress,
    ),
    ("cannot reuse a name that is still in use", InProgress),
    ("release: already exists", InProgress),
    ("has no deployed releases", NoRecord),
    ("release: not found", NoRecord),
    // It is uninstalled, and its history was kept.
    ("is already deleted", NoRecord),
    // The chart.
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
    ("MalformedYAMLError", ManifestInvalid),
    ("Object 'Kind' is missing", ManifestInvalid),
    ("unable to decode \"\": json: cannot unmarshal", ManifestInvalid),
    ("resource name may not be empty", ManifestInvalid),
    ("while checking for chart dependencies", ChartInvalid),
    ("found in Chart.yaml, but missing in charts/", ChartInvalid),
    ("library charts are not installable", ChartInvalid),
    ("validation: chart.metadata", ChartInvalid),
    ("Chart.yaml file is missing", ChartInvalid),
    ("cannot load ", ChartInvalid),
    (
        "data: Too long: may not be more than 1048576 bytes",
        ReleaseTooLarge,
    ),
    ("Request entity too large", ReleaseTooLarge),
    // Hooks, with the text of what they wait for.
    ("not ready. status: Failed", HookFailed),
    ("not ready. status: InProgress", HookTimeout),
    ("not ready. status: Unknown", HookTimeout),
    ("timed out waiting for the condition", HookTimeout),
    // Responses of the API server.
    ("exists and cannot be imported into the current release", NotOwned),
    ("annotation validation error", NotOwned),
    ("conflict occurred while applying object", Conflict),
    ("because it is being terminated", NamespaceTerminating),
    ("field not declared in schema", UnknownField),
    ("unknown field", UnknownField),
    (": duplicate entries for key [", DuplicateEntry),
    ("error validating data", SchemaViolation),
    ("failed to create typed patch object", SchemaViolation),
    ("field is immutable", FieldImmutable),
    ("spec is immutable after creation", FieldImmutable),
    ("Forbidden: updates to ", FieldImmutable),
    ("may not change once set", FieldImmutable),
    ("exceeded quota", QuotaExceeded),
    ("denied the request", AdmissionDenied),
    ("denied request", AdmissionDenied),
    ("violates PodSecurity", AdmissionDenied),
    ("no matches for kind", UnknownKind),
    (
        "current release manifest contains removed kubernetes api(s)",
        UnknownKind,
    ),
    ("failed calling webhook", Unreachable),
    (" is forbidden: ", Forbidden),
    (" is invalid: ", ObjectInvalid),
    (
        "the server has asked for the client to provide credentials",
        Unauthorized,
    ),
    ("Unauthorized", Unauthorized),
    (
        "the object has been modified; please apply your changes to the latest version",
        ChangedMeanwhile,
    ),
    ("failed to delete release: ", DeletionFailed),
    ("failed to delete resource ", DeletionFailed),
    // The network.
    ("kubernetes cluster unreachable", Unreachable),
    ("connection refused", Unreachable),
    ("connection reset by peer", Unreachable),
    ("no such host", Unreachable),
    ("i/o timeout", Unreachable),
    ("TLS handshake timeout", Unreachable),
    ("tls: failed to verify certificate", Unreachable),
    ("http2: client connection lost", Unreachable),
    ("unexpected EOF", Unreachable),
    ("etcdserver: ", Unreachable),
    (
        "the server is currently unable to handle the request",
        Unreachable,
    ),
    (
        "the server was unable to return a response in the time allotted",
        Unreachable,
    ),
    ("Too Many Requests", Unreachable),
    ("too many requests", Unreachable),
    ("client rate limiter Wait returned an error", Unreachable),
    // The rest.
    ("context canceled", Stopped),
    ("context deadline exceeded", Unreachable),
];

/// Parts of texts about an unknown kind, if it is one that the record of the release has, and not the chart.
const RECORDED: [&str; 3] = [
    "unable to build kubernetes objects from current release manifest",
    "unable to build kubernetes objects for delete",
    "current release manifest contains removed kubernetes api(s)",
];

/// The reason of an error.
pub(super) fn reason(text: &str) -> FailureReason {
    if OF_OTHER_VERSIONS.iter().any(|start| text.starts_with(start)) {
        return OtherHelm;
    }
    if let Some((_, reason)) = TEXTS.iter().find(|(part, _)| text.contains(part)) {
        let is_recorded = RECORDED.iter().any(|part| text.contains(part));
        return match reason {
            UnknownKind if is_recorded => RecordedKindMissing,
            reason => *reason,
        };
    }
    if is_missing_namespace(text) {
        return NamespaceMissing;
    }
    if is_missing_revision(text) {
        return NoRecord;
    }
    Unknown
}

/// `namespaces "shop" not found`
fn is_missing_namespace(text: &str) -> bool {
    let after = text.split_once("namespaces \"").map(|(_, after)| after);
    after
        .and_then(|after| after.split_once('"'))
        .is_some_and(|(_, after)| after.starts_with(" not found"))
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
