use helmops_api::{Alert, AlertProvider};
use serde_json::{Value, json};

use super::*;
use crate::source::Privileged;

fn alert(over: &Value) -> Alert {
    let mut spec =
        json!({ "providerRef": { "name": "chat" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }] });
    merge(&mut spec, over);
    serde_json::from_str(
        &json!({ "metadata": { "name": "a", "namespace": "team" }, "spec": spec }).to_string(),
    )
    .unwrap()
}

fn provider(spec: &Value) -> AlertProvider {
    serde_json::from_str(&json!({ "metadata": { "name": "p" }, "spec": spec }).to_string()).unwrap()
}

fn merge(base: &mut Value, over: &Value) {
    for (key, value) in over.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
}

fn one(errors: &FieldErrors) -> String {
    assert_eq!(errors.reported().len(), 1, "{errors}");
    errors.to_string()
}

#[test]
fn valid_objects_have_no_errors() {
    let full = json!({
        "eventSeverity": "info",
        "eventSources": [
            { "kind": "HelmOp", "name": "*", "matchLabels": { "team": "web" } },
            { "kind": "Cluster", "name": "c-1", "namespace": "*" },
        ],
        "inclusionList": ["(?i)timeout"], "exclusionList": ["^\\Qwait\\E"],
        "eventMetadata": { "cluster": "production" }, "summary": "see the runbook",
        "grouping": { "wait": "1m", "maxMessages": 0 },
    });
    for over in [json!({}), full] {
        assert_eq!(alert(&over).errors(), FieldErrors::default());
    }
    for spec in [
        json!({ "type": "generic", "address": "http://receiver.monitoring:8080/hook?x=1" }),
        json!({ "type": "slack", "channel": "#ops", "username": "helmops", "secretRef": { "name": "slack" } }),
        json!({ "type": "generic-hmac", "address": "https://a", "secretRef": { "name": "key" }, "timeout": "30s",
            "certSecretRef": { "name": "ca" }, "proxySecretRef": { "name": "proxy" } }),
    ] {
        assert_eq!(provider(&spec).errors(), FieldErrors::default(), "{spec}");
    }
}

#[test]
fn errors_of_alerts_name_field_value_and_fix() {
    let long = "x".repeat(513);
    for (over, expected) in [
        (
            json!({ "providerRef": {} }),
            "spec.providerRef.name: Required value: name the object",
        ),
        (
            json!({ "providerRef": { "name": "A" } }),
            "spec.providerRef.name: Invalid value: \"A\": not a DNS name",
        ),
        (
            json!({ "eventSeverity": "warn" }),
            "spec.eventSeverity: Unsupported value: \"warn\": supported severities: error",
        ),
        (
            json!({ "eventSources": [] }),
            "spec.eventSources: Required value: name at least one object",
        ),
        (
            json!({ "eventSources": [{ "kind": "HelmRelease", "name": "*" }] }),
            "spec.eventSources[0].kind: Unsupported value: \"HelmRelease\": supported kinds: HelmOp, Bundle, Cluster",
        ),
        (
            json!({ "eventSources": [{ "kind": "HelmOp" }] }),
            "spec.eventSources[0].name: Required value: the name of an object",
        ),
        (
            json!({ "eventSources": [{ "kind": "HelmOp", "name": "web-*" }] }),
            "spec.eventSources[0].name: Invalid value: \"web-*\": not a DNS name",
        ),
        (
            json!({ "eventSources": [{ "kind": "HelmOp", "name": "*", "namespace": "a.b" }] }),
            "spec.eventSources[0].namespace: Invalid value: \"a.b\": not a DNS label",
        ),
        (
            json!({ "eventSources": [{ "kind": "HelmOp", "name": "*", "matchLabels": { "a b": "" } }] }),
            "spec.eventSources[0].matchLabels: Invalid value: \"a b\": not a key",
        ),
        (
            json!({ "inclusionList": ["ok", "(web"] }),
            "spec.inclusionList[1]: Invalid value: \"(web\": error parsing regexp: missing closing )",
        ),
        (
            json!({ "exclusionList": ["(\\pL{100}){10}"] }),
            "spec.exclusionList[0]: Invalid value",
        ),
        (
            json!({ "exclusionList": [long] }),
            "spec.exclusionList[0]: Too long: 513 bytes; at most 512 are allowed",
        ),
        (
            json!({ "eventMetadata": { "a": "x".repeat(1025) } }),
            "spec.eventMetadata[a]: Too long: 1025 bytes",
        ),
        (
            json!({ "eventMetadata": { "a b": "" } }),
            "spec.eventMetadata: Invalid value: \"a b\": not a key",
        ),
        (
            json!({ "grouping": { "wait": "1 minute" } }),
            "spec.grouping.wait: Invalid value: \"1 minute\"",
        ),
        (
            json!({ "grouping": { "wait": "1h" } }),
            "spec.grouping.wait: Invalid value: \"1h\": too long; use at most 10m",
        ),
        (
            json!({ "grouping": { "maxMessages": -1 } }),
            "spec.grouping.maxMessages: Invalid value: \"-1\": use 0 (no maximum) to 1000",
        ),
    ] {
        let error = one(&alert(&over).errors());
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn errors_of_providers_name_field_value_and_fix_and_no_credential() {
    for (spec, expected) in [
        (
            json!({ "address": "https://a" }),
            "spec.type: Required value: supported types: generic, generic-hmac, slack",
        ),
        (
            json!({ "type": "pagerduty", "address": "https://a" }),
            "spec.type: Unsupported value: \"pagerduty\": supported types: generic",
        ),
        (
            json!({ "type": "generic" }),
            "spec.address: Required value: set it, or name a Secret",
        ),
        (
            json!({ "type": "slack", "address": "hooks.slack.com/services/T0/B0/geheim" }),
            "spec.address: Invalid value: \"hooks.slack.com…\": not an absolute URL: it must begin with https:// or http://",
        ),
        (
            json!({ "type": "slack", "address": "ftp://hooks.slack.com/geheim" }),
            "spec.address: Invalid value: \"ftp://hooks.slack.com/…\": only https:// and http:// are supported",
        ),
        (
            json!({ "type": "generic", "address": "https://u:geheim@a" }),
            "spec.address: Invalid value: \"https://a\": it has a user or a password",
        ),
        (
            json!({ "type": "discord", "address": "https://a", "channel": "#ops" }),
            "spec.channel: Forbidden: \"#ops\": type discord has no channel; remove it",
        ),
        (
            json!({ "type": "generic", "address": "https://a", "username": "me" }),
            "spec.username: Forbidden: \"me\": type generic has no name of a sender; remove it",
        ),
        (
            json!({ "type": "generic-hmac", "address": "https://a" }),
            "spec.secretRef: Required value: type generic-hmac signs",
        ),
        (
            json!({ "type": "generic", "address": "https://a", "certSecretRef": { "name": "" } }),
            "spec.certSecretRef.name: Required value: name the object",
        ),
        (
            json!({ "type": "generic", "address": "https://a", "timeout": "1h" }),
            "spec.timeout: Invalid value: \"1h\": too short or too long; use 1s to 5m",
        ),
    ] {
        let error = one(&provider(&spec).errors());
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("geheim"), "{error}");
    }
}

#[test]
fn an_address_is_shown_without_path_and_query() {
    for (address, shown) in [
        ("https://a.example/services/geheim", "https://a.example/…"),
        ("https://a.example?token=geheim", "https://a.example/…"),
        ("https://a.example/", "https://a.example"),
        ("https:/a/geheim", "https:…"),
        ("https://u:p@", "https://u:p…"),
    ] {
        assert_eq!(shown_address(address), shown);
    }
}

#[test]
fn other_namespaces_are_forbidden_without_privilege() {
    let sources = json!({ "eventSources": [
        { "kind": "HelmOp", "name": "*" }, { "kind": "HelmOp", "name": "*", "namespace": "team" },
        { "kind": "HelmOp", "name": "*", "namespace": "other" }, { "kind": "HelmOp", "name": "*", "namespace": "*" },
    ] });
    let spec = alert(&sources).spec;
    let errors = forbidden_namespaces(&spec, "team", &Privileged::new(["system".to_owned()]));
    let paths: Vec<_> = errors.reported().iter().map(|error| &*error.path).collect();
    assert_eq!(
        paths,
        ["spec.eventSources[2].namespace", "spec.eventSources[3].namespace"]
    );
    assert!(forbidden_namespaces(&spec, "team", &Privileged::new(["team".to_owned()])).is_empty());
}

#[test]
fn a_stored_object_stays_editable() {
    let broken = alert(&json!({ "eventSeverity": "warn" }));
    assert!(!review(&broken, || None).errors.is_empty());
    assert_eq!(review(&broken, || Some(broken.clone())), Decision::default());
    let changed = alert(&json!({ "eventSeverity": "warn", "summary": "s" }));
    let decision = review(&changed, || Some(broken.clone()));
    assert!(decision.errors.is_empty());
    assert!(
        decision.warnings[0].starts_with("not new, but still wrong: spec.eventSeverity"),
        "{decision:?}"
    );
    let worse = alert(&json!({ "eventSeverity": "warn", "eventSources": [] }));
    assert_eq!(
        one(&review(&worse, || Some(broken)).errors)[..18],
        *"spec.eventSources:"
    );
    let mut deleted = alert(&json!({ "eventSeverity": "warn" }));
    deleted.metadata.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
    assert_eq!(review(&deleted, || None), Decision::default());
}
