use super::FailureReason::{
    AdmissionDenied, ChangedMeanwhile, ChartInvalid, Conflict, Crashed, Deadline, DeletionFailed,
    DuplicateEntry, FieldImmutable, Forbidden, HookFailed, HookTimeout, InProgress, KubeVersion,
    ManifestInvalid, NameInvalid, NamespaceMissing, NamespaceTerminating, NoRecord, NotOwned, ObjectInvalid,
    ObjectsRefused, OtherHelm, QuotaExceeded, RecordedKindMissing, ReleaseTooLarge, SchemaViolation, Stopped,
    Superseded, TemplateFailed, Unauthorized, Unknown, UnknownField, UnknownKind, Unreachable, ValuesInvalid,
};
use serde_json::json;

use super::*;

fn outcome(output: &Output) -> Result<Success, Failure> {
    of_engine(output, &SecretTexts::default())
}

#[test]
fn a_hook_that_blocks_an_uninstallation_has_a_way_out() {
    let long = "x".repeat(2000);
    for (text, reason) in [
        (
            &*format!("resource Job/shop/clean not ready. status: Failed, message: {long}"),
            HookFailed,
        ),
        (
            "resource Job/shop/clean not ready. status: InProgress",
            HookTimeout,
        ),
    ] {
        let failure = outcome(&refused(text, reason.as_str())).unwrap_err();
        assert_eq!(failure.reason, reason);
        let deleted = failure.clone().of_uninstallation(true).to_string();
        let fix = "deploy the HelmOp to this cluster again as it was, with lifecycle.uninstall.disableHooks: true, wait until it is Ready";
        assert!(deleted.len() < 1000 && deleted.contains(fix), "{deleted}");
        let remediation = failure.of_uninstallation(false).to_string();
        assert!(
            remediation.contains("set lifecycle.uninstall.disableHooks."),
            "{remediation}"
        );
    }
    let rejected = Failure::of_text(
        "warning: Hook pre-delete web/templates/a.yaml failed: Pod \"a\" is invalid: spec.containers: Required value",
        Some(&response(json!({ "code": 422 }))),
    );
    assert!(
        rejected
            .of_uninstallation(true)
            .to_string()
            .contains("disableHooks")
    );
    for other in [
        "failed to delete release: web",
        "warning: Hook post-delete web/templates/a.yaml failed: resource Job/shop/clean not ready. status: Failed",
    ] {
        let other = Failure::of_text(other, None);
        assert_eq!(other.clone().of_uninstallation(true), other);
    }
}

/// Texts of Helm 4.2 with Kubernetes 1.36.
const TEXTS: &[(&str, FailureReason)] = &[
    ("the release named \"web\" is already deleted", NoRecord),
    ("unknown flag: --server-side", OtherHelm),
    (
        "execution error at (web/templates/b.yaml:1:3): unknown flag: x",
        TemplateFailed,
    ),
    (
        "web/templates/b.yaml:1:13\n  executing \"web/templates/b.yaml\" at <.Values.x.y>:\n    nil pointer evaluating interface {}.y",
        TemplateFailed,
    ),
    (
        "execution error at (web/templates/b.yaml:1:3): set the value x",
        TemplateFailed,
    ),
    (
        "parse error at (web/templates/cm.yaml:1): missing value for if",
        TemplateFailed,
    ),
    (
        "YAML parse error on web/templates/cm.yaml: error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context",
        ManifestInvalid,
    ),
    (
        "unable to build kubernetes objects from release manifest: resource mapping not found for name: \"a\" namespace: \"\" from \"\": no matches for kind \"Foo\" in version \"example.com/v1\"\nensure CRDs are installed first",
        UnknownKind,
    ),
    (
        "unable to build kubernetes objects from current release manifest: resource mapping not found for name: \"one\" namespace: \"\" from \"\": no matches for kind \"Widget\" in version \"lab.example.com/v1beta1\"\nensure CRDs are installed first",
        RecordedKindMissing,
    ),
    (
        "failed to delete release: gad3: [unable to build kubernetes objects for delete: resource mapping not found for name: \"one\" namespace: \"\" from \"\": no matches for kind \"Gadget\" in version \"gone.example.com/v1\"\nensure CRDs are installed first]",
        RecordedKindMissing,
    ),
    (
        "server-side apply failed for object shop/s /v1, Kind=Service: failed to create typed patch object (shop/s; /v1, Kind=Service): .spec.ports[port=80,protocol=\"TCP\"].foo: field not declared in schema",
        UnknownField,
    ),
    (
        "server-side apply failed for object shop/s /v1, Kind=Service: failed to create typed patch object (shop/s; /v1, Kind=Service): .spec.ports: expected list, got &{80}",
        SchemaViolation,
    ),
    (
        "failed to replace object: Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.foo\"",
        UnknownField,
    ),
    (
        "server-side apply failed for object shop/p /v1, Kind=PersistentVolumeClaim: PersistentVolumeClaim \"p\" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests",
        FieldImmutable,
    ),
    (
        "server-side apply failed for object shop/c /v1, Kind=ConfigMap: ConfigMap \"c\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
        FieldImmutable,
    ),
    (
        "unable to build kubernetes objects from release manifest: unable to decode \"\": json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ManifestInvalid,
    ),
    (
        "cannot patch \"s\" with kind StatefulSet: StatefulSet.apps \"s\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
        FieldImmutable,
    ),
    (
        "server-side apply failed for object shop/j batch/v1, Kind=Job: Job.batch \"j\" is invalid: spec.template: Invalid value: {}: field is immutable",
        FieldImmutable,
    ),
    (
        "server-side apply failed for object shop/d apps/v1, Kind=Deployment: failed to create typed patch object (shop/d; apps/v1, Kind=Deployment): .spec.template.spec.containers[name=\"main\"].env: duplicate entries for key [name=\"MODE\"]",
        DuplicateEntry,
    ),
    (
        "chart requires kubeVersion: >=99 which is incompatible with Kubernetes v1.36.3",
        KubeVersion,
    ),
    (
        "values don't meet the specifications of the schema(s) in the following chart(s):\nweb:\n- at '/msg': got string, want integer",
        ValuesInvalid,
    ),
    (
        "unable to continue with install: ConfigMap \"web\" in namespace \"shop\" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key \"app.kubernetes.io/managed-by\": must be set to \"Helm\"; annotation validation error: missing key \"meta.helm.sh/release-name\": must be set to \"web\"",
        NotOwned,
    ),
    (
        "server-side apply failed for object shop/p /v1, Kind=Pod: pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
        QuotaExceeded,
    ),
    (
        "server-side apply failed for object shop/p /v1, Kind=Pod: pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true",
        AdmissionDenied,
    ),
    (
        "server-side apply failed for object shop/w /v1, Kind=ConfigMap: admission webhook \"a.example.com\" denied the request: no",
        AdmissionDenied,
    ),
    (
        "server-side apply failed for object shop/w /v1, Kind=ConfigMap: Internal error occurred: failed calling webhook \"a.example.com\": connection refused",
        Unreachable,
    ),
    (
        "release name check failed: cannot reuse a name that is still in use",
        InProgress,
    ),
    (
        "another operation (install/upgrade/rollback) is in progress",
        InProgress,
    ),
    ("release has no 9 version", NoRecord),
    (
        "release name check failed: release name \"UPPER\": invalid release name, must match regex ^[a-z0-9]$ and the length must not be longer than 53",
        NameInvalid,
    ),
    ("something else", Unknown),
];

/// Responses of Kubernetes 1.36 without their messages.
#[test]
fn responses_have_reasons() {
    let caused = |code: u16, kind: &str, name: &str, cause: &str| {
        json!({
            "code": code, "reason": "Conflict",
            "details": { "kind": kind, "name": name, "causes": [{ "reason": cause, "message": "x", "field": "data" }] },
        })
    };
    for (response, reason) in [
        (json!({ "code": 401, "reason": "Unauthorized" }), Unauthorized),
        (caused(403, "pods", "a", ""), Forbidden),
        (
            caused(403, "pods", "a", "NamespaceTerminating"),
            NamespaceTerminating,
        ),
        (caused(404, "namespaces", "shop", ""), NamespaceMissing),
        (caused(404, "configmaps", "a", ""), Unknown),
        (caused(409, "", "", "FieldManagerConflict"), Conflict),
        (caused(409, "pods", "a", ""), ChangedMeanwhile),
        (json!({ "code": 409, "reason": "AlreadyExists" }), Unknown),
        (
            json!({ "code": 413, "reason": "RequestEntityTooLarge" }),
            ReleaseTooLarge,
        ),
        (
            caused(422, "Secret", "sh.helm.release.v1.web.v1", "FieldValueTooLong"),
            ReleaseTooLarge,
        ),
        (caused(422, "ConfigMap", "a", "FieldValueTooLong"), ObjectInvalid),
        (caused(422, "Pod", "a", "FieldValueRequired"), ObjectInvalid),
        (json!({ "code": 502 }), Unreachable),
        (json!({ "code": 503 }), Unreachable),
        // It may be about the object.
        (json!({ "code": 500 }), Unknown),
    ] {
        let failure = outcome(&responded("update: failed to update: x", &response)).unwrap_err();
        assert_eq!(failure.reason, reason, "{response}");
    }
    // What it is about is in the text.
    for (text, code, reason) in [
        (
            "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1",
            403,
            QuotaExceeded,
        ),
        (
            "Internal error occurred: failed calling webhook \"a.example.com\": EOF",
            500,
            Unreachable,
        ),
        (
            "conversion webhook for example.com/v1, Kind=A failed: Post \"https://a\": connection refused",
            500,
            Unreachable,
        ),
    ] {
        let failure = outcome(&responded(text, &json!({ "code": code }))).unwrap_err();
        assert_eq!(failure.reason, reason, "{text}");
    }
}

fn response(value: serde_json::Value) -> Status {
    serde_json::from_value(value).unwrap()
}

/// The output of `helmops-helm` after an error with this response of the API server.
fn responded(text: &str, response: &serde_json::Value) -> Output {
    Output {
        stdout: json!({ "error": { "text": text, "response": response } }).to_string(),
        ..failed(text)
    }
}

/// The output of `helmops-helm` after this error.
fn failed(text: &str) -> Output {
    refused(text, "")
}

/// The same with the reason that it knows.
fn refused(text: &str, reason: &str) -> Output {
    Output {
        end: End::Exited(1),
        stdout: json!({ "error": { "text": text, "reason": reason } }).to_string(),
        stderr: String::new(),
    }
}

/// The output of a program that has crashed, or of another one.
fn crashed(end: End, stderr: &str) -> Output {
    Output {
        end,
        stdout: String::new(),
        stderr: stderr.to_owned(),
    }
}

#[test]
fn texts_have_reasons() {
    for (text, reason) in TEXTS {
        let failure = outcome(&failed(text)).unwrap_err();
        assert_eq!((failure.reason, &*failure.message), (*reason, *text));
    }
}

#[test]
fn fleet_captures_some_of_them() {
    let captured: Vec<_> = FailureReason::ALL
        .iter()
        .filter(|reason| reason.is_captured())
        .collect();
    let expected = [
        &KubeVersion,
        &ManifestInvalid,
        &UnknownField,
        &SchemaViolation,
        &DuplicateEntry,
        &FieldImmutable,
        &NotOwned,
    ];
    assert_eq!(captured, expected);
    // Texts that Fleet searches for.
    for text in [
        "error validating data",
        "chart requires kubeVersion",
        "YAML parse error on a",
        "unknown field \"a\"",
        "Forbidden: updates to deployment spec",
        "Forbidden: spec is immutable after creation",
    ] {
        assert!(Failure::of_text(text, None).is_captured(), "{text}");
    }
}

#[test]
fn a_conflict_names_the_object_the_fields_and_their_managers() {
    let text = "conflict occurred while applying object shop/web apps/v1, Kind=Deployment: Apply failed with 3 conflicts: \
                conflicts with \"kubectl\" with subresource \"scale\" using apps/v1 at 2026-01-02T03:04:05Z:\n- .spec.replicas\n- .spec.paused\n\
                conflict with \"hand\" using v1: .metadata.labels.app";
    let scaled = "conflict with \"kubectl\" with subresource \"scale\" using apps/v1 at 2026-01-02T03:04:05Z";
    let cause = |message: &str, field: &str| json!({ "reason": "FieldManagerConflict", "message": message, "field": field });
    let causes = json!([
        cause(scaled, ".spec.replicas"),
        cause("conflict with \"hand\" using v1", ".metadata.labels.app"),
        cause(scaled, ".spec.paused"),
    ]);
    let response = json!({ "code": 409, "reason": "Conflict", "details": { "causes": causes } });
    let failure = outcome(&responded(text, &response)).unwrap_err();
    assert_eq!(failure.reason, Conflict);
    assert_eq!(
        failure.object.as_ref().unwrap().to_string(),
        "deployment.apps shop/web"
    );
    let conflicts: Vec<_> = failure
        .conflicts
        .iter()
        .map(|field| (&*field.manager, &*field.path))
        .collect();
    assert_eq!(
        conflicts,
        [
            ("hand", ".metadata.labels.app"),
            ("kubectl", ".spec.replicas"),
            ("kubectl", ".spec.paused"),
        ]
    );
    assert!(
        failure
            .to_string()
            .ends_with("set lifecycle.drift.mode to enabled to overwrite it."),
        "{failure}"
    );
}

#[test]
fn an_object_of_others_is_named() {
    let (text, _) = TEXTS.iter().find(|(_, reason)| *reason == NotOwned).unwrap();
    let object = Failure::of_text(text, None).object.unwrap();
    assert_eq!(object.to_string(), "configmap shop/web");
    let (text, _) = TEXTS.iter().find(|(_, reason)| *reason == UnknownField).unwrap();
    assert_eq!(
        Failure::of_text(text, None).object.unwrap().to_string(),
        "service.v1 shop/s"
    );
}

#[test]
fn what_is_known_of_a_failure_needs_no_text() {
    for (reason, expected) in [
        ("ObjectsRefused", ObjectsRefused),
        ("ChartInvalid", ChartInvalid),
        ("OutOfMemory", FailureReason::OutOfMemory),
        ("DeletionFailed", DeletionFailed),
        ("", NoRecord),
    ] {
        let failure = outcome(&refused("release has no 9 version", reason)).unwrap_err();
        assert_eq!(failure.reason, expected);
    }
}

#[test]
fn another_program_is_recognized() {
    for (code, stderr, message) in [
        (
            1,
            "level=WARN msg=x\nError: unknown flag: --x\n",
            "unknown flag: --x",
        ),
        (
            2,
            "cannot read the request: json: unknown field \"marks\"\n",
            "json: unknown field \"marks\"",
        ),
    ] {
        let failure = outcome(&crashed(End::Exited(code), stderr)).unwrap_err();
        assert_eq!((failure.reason, &*failure.message), (OtherHelm, message));
    }
}

#[test]
fn a_rendering_by_helm_itself_has_its_error() {
    let of =
        |stderr: &str| of_command(&crashed(End::Exited(1), stderr), &SecretTexts::default()).unwrap_err();
    let failure = of("level=WARN msg=\"x\"\nError: execution error at (a): one\ntwo\n");
    assert_eq!(
        (failure.reason, &*failure.message),
        (TemplateFailed, "execution error at (a): one\ntwo")
    );
    assert_eq!(of("Error: unknown flag: --dry-run\n").reason, OtherHelm);
    assert_eq!(
        of("Error: configmaps \"a\" is forbidden: User \"u\" cannot get resource\n").reason,
        Forbidden
    );
    assert_eq!(of("panic: x\n").reason, Crashed);
}

#[test]
fn a_success_has_the_revision_and_the_warnings() {
    let text = "unknown field \"spec.foo\"";
    let output = Output {
        end: End::Exited(0),
        stdout: json!({ "revision": 12, "warnings": [text, text], "unmatchedPatches": ["a"], "printed": "a: b\n" }).to_string(),
        stderr: "anything".to_owned(),
    };
    let expected = Success {
        revision: Some(12),
        warnings: vec![text.to_owned()],
        unmatched_patches: vec!["a".to_owned()],
        printed: "a: b\n".to_owned(),
    };
    assert_eq!(outcome(&output), Ok(expected));
}

#[test]
fn every_other_end_is_a_failure() {
    for (output, reason, message) in [
        (
            crashed(End::Killed(9), ""),
            Crashed,
            "Helm was killed by signal 9 (the kernel does this if the memory limit of the agent is too low): it wrote nothing",
        ),
        (
            crashed(End::Killed(11), "x\n"),
            Crashed,
            "Helm was killed by signal 11: x",
        ),
        (
            crashed(End::Exited(2), "panic: x\n"),
            Crashed,
            "Helm ended with code 2: panic: x",
        ),
        (
            crashed(
                End::Exited(1),
                "executing \"a\": error calling include: too deep\n",
            ),
            TemplateFailed,
            "Helm ended with code 1: executing \"a\": error calling include: too deep",
        ),
        (
            crashed(End::Exited(0), ""),
            Crashed,
            "Helm ended with code 0: it wrote nothing",
        ),
        (
            Output {
                end: End::Deadline,
                ..failed("failed pre-install: context canceled")
            },
            Deadline,
            "Helm did not end before its deadline: failed pre-install: context canceled",
        ),
        (
            crashed(End::Deadline, ""),
            Deadline,
            "Helm did not end before its deadline",
        ),
        (
            crashed(End::Stopped, ""),
            Stopped,
            "Helm was interrupted because the agent stops",
        ),
        (
            Output {
                end: End::Superseded,
                ..failed("pre-upgrade hooks failed: context canceled")
            },
            Superseded,
            "Helm was interrupted because the BundleDeployment was changed or deleted",
        ),
    ] {
        let failure = outcome(&output).unwrap_err();
        assert_eq!((failure.reason, &*failure.message), (reason, message));
    }
}

#[test]
fn messages_contain_no_objects_and_no_values_of_secrets() {
    let object = r#"{\"kind\":\"Secret\",\"data\":{\"a\":\"aHVudGVyMg==\"}}"#.repeat(10);
    let text = format!(
        "cannot patch \"d\" with kind Secret:  \"\" is invalid: patch: Invalid value: \"{object}\": unrecognized type: int32"
    );
    let message = Failure::of_text(&text, None).message;
    assert_eq!(
        message,
        "cannot patch \"d\" with kind Secret:  \"\" is invalid: patch: Invalid value: \"…\": unrecognized type: int32"
    );
    let text = "server-side apply failed for object shop/s /v1, Kind=Secret: failed to create typed patch object (shop/s; /v1, \
                Kind=Secret): errors:\n  .stringData.a: expected string, got &{12345}\n  .stringData.b: expected string, got &{6}";
    let message = Failure::of_text(text, None).message;
    assert!(
        !message.contains("12345") && message.ends_with(".stringData.b: expected string, got another type"),
        "{message}"
    );
    let short = "Service \"s\" is invalid: metadata.name: Invalid value: \"A\\\"B\": not lower case";
    assert_eq!(Failure::of_text(short, None).message, short);
}

#[test]
fn messages_contain_no_credentials_of_urls() {
    let url = "https://u:geheim@h.example/x?token=geheim";
    let long = format!("{url} {}", "x".repeat(MAX_MESSAGE / 2 - url.len() / 2));
    for output in [
        failed(&format!("Get \"{url}\": EOF")),
        refused(&format!("object {url}"), "ObjectsRefused"),
        crashed(End::Exited(2), &format!("panic: {url}\n")),
        crashed(End::Exited(2), &format!("panic: {long}\n")),
        crashed(End::Killed(9), &long),
        Output {
            end: End::Deadline,
            ..failed(&format!("Get \"{url}\": context canceled"))
        },
    ] {
        let message = outcome(&output).unwrap_err().to_string();
        assert!(!message.contains("geheim"), "{message}");
    }
    let output = Output {
        end: End::Exited(0),
        stdout: json!({ "warnings": [format!("see {url}")] }).to_string(),
        stderr: String::new(),
    };
    assert_eq!(outcome(&output).unwrap().warnings, ["see https://h.example/x?…"]);
}

/// `{{ fail "…" }}` and the log of a hook have any text.
#[test]
fn messages_have_no_control_characters() {
    let text = "\u{1b}]0;title\u{7}\u{1b}[2Jhttps://u\u{1b}[0m:geheim@h.example\u{202e}";
    let outputs = [
        failed(&format!("execution error at (web/templates/a.yaml:1:3): {text}")),
        crashed(End::Exited(2), &format!("panic: {text}\n")),
    ];
    for output in outputs {
        let message = outcome(&output).unwrap_err().to_string();
        assert!(
            message.contains("title")
                && !message.contains(bounded_text::is_control)
                && !message.contains("geheim"),
            "{message:?}"
        );
    }
    let output = Output {
        end: End::Exited(0),
        stdout: json!({ "warnings": [text] }).to_string(),
        stderr: String::new(),
    };
    let warnings = outcome(&output).unwrap().warnings;
    assert_eq!(warnings, ["]0;titlehttps://h.example"]);
}

#[test]
fn messages_are_bounded() {
    let failure = Failure::of_text(&"ä".repeat(MAX_MESSAGE), None);
    assert!(failure.message.len() <= MAX_MESSAGE);
    let output = crashed(End::Exited(2), &"ä".repeat(MAX_MESSAGE));
    assert!(outcome(&output).unwrap_err().message.len() <= MAX_MESSAGE);
}

/// The template of a Job is thousands of bytes, and what is wrong comes after it.
#[test]
fn the_cause_of_an_invalid_object_is_not_behind_its_content() {
    let content = format!(
        "{{\"labels\":{{\"a\":\"}}\\\"\"}},\"Spec\":{{\"Volumes\":[{}]}}}}",
        "null,".repeat(2_000)
    );
    let text = format!(
        "server-side apply failed for object shop/migrate batch/v1, Kind=Job: Job.batch \"migrate\" is invalid: spec.template: Invalid \
         value: {content}: field is immutable"
    );
    let failure = Failure::of_text(&text, None);
    assert_eq!(
        failure.message,
        "server-side apply failed for object shop/migrate batch/v1, Kind=Job: Job.batch \"migrate\" is invalid: spec.template: Invalid \
         value: {…}: field is immutable"
    );
    let several = "Job.batch \"a\" is invalid: [spec.selector: Invalid value: null: field is immutable, spec.x: Invalid value: [1]: no]";
    assert_eq!(Failure::of_text(several, None).message, several);
}

/// Data is lost with the object, and a hint that is followed at night must not do that.
#[test]
fn no_hint_deletes_an_object_that_may_have_data() {
    for kind in [
        "PersistentVolumeClaim",
        "StatefulSet",
        "CustomResourceDefinition",
        "Namespace",
        "Secret",
        "Database",
    ] {
        for reason in FailureReason::ALL {
            let failure = Failure {
                object: Some(Box::new(ObjectId {
                    api_version: "v1".to_owned(),
                    kind: kind.to_owned(),
                    namespace: String::new(),
                    name: "a".to_owned(),
                })),
                ..Failure::new(*reason, "x")
            };
            let text = failure.to_string().to_lowercase();
            assert!(!text.contains("delete"), "{kind}: {text}");
        }
    }
    let job = "failed to replace object: Job.batch \"migrate\" is invalid: spec.template: Invalid value: {}: field is immutable";
    let invalid =
        response(json!({ "code": 422, "details": { "group": "batch", "kind": "Job", "name": "migrate" } }));
    let hint = Failure::of_text(job, Some(&invalid)).to_string();
    assert!(
        hint.contains("A Job cannot be changed, also not with force."),
        "{hint}"
    );
}
