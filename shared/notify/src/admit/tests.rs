use helmops_api::{Alert, AlertProvider, Receiver};
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
fn errors_name_field_value_and_fix_and_no_credential() {
    let mistakes = helmops_mistakes::notifications();
    assert!(mistakes.len() > 65, "{}", mistakes.len());
    for mistake in mistakes {
        let object = mistake.manifest().to_string();
        let errors = match mistake.kind {
            "Alert" => serde_json::from_str::<Alert>(&object).unwrap().errors(),
            "Receiver" => serde_json::from_str::<Receiver>(&object).unwrap().errors(),
            _ => serde_json::from_str::<AlertProvider>(&object).unwrap().errors(),
        };
        let error = one(&errors);
        assert!(error.starts_with(&mistake.error), "{error}");
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

/// The API server evaluates the rule of the CRD before it calls the webhook.
#[test]
fn the_crds_accept_every_duration_that_admission_accepts() {
    let (_, rule) = helmops_api::schema::DURATION.split_once("matches(r'").unwrap();
    let expression = go_formats::regexp::rewrite(rule.strip_suffix("')").unwrap()).unwrap();
    let expression = regex::Regex::new(&expression).unwrap();
    for text in [
        "1h",
        "1h30m",
        "0s",
        "0",
        ".5s",
        "5.s",
        "1.5h.5m",
        "+5m",
        "5ns",
        "5us",
        "5\u{b5}s",
        "5\u{3bc}s",
        "5ms",
        "",
        "5",
        "-5s",
        "+-5s",
        ".s",
        "1..5s",
        "1 minute",
        "1d",
        "1w",
        "5s ",
        " 5s",
        "s",
        "1h5",
        "١s",
    ] {
        let is_accepted = text == "0" || expression.is_match(text);
        assert_eq!(is_accepted, go_formats::duration::parse(text).is_ok(), "{text:?}");
    }
}
