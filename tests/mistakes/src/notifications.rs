//! Alerts and AlertProviders that admission rejects.

use serde_json::{Value, json};

/// An object of notifications that admission rejects.
#[derive(Clone, Debug)]
pub struct NotificationMistake {
    /// Its kind.
    pub kind: &'static str,
    /// Its spec.
    pub spec: Value,
    /// The start of the only error, with path, value and fix.
    pub error: &'static str,
}

impl NotificationMistake {
    /// The object as users write it.
    pub fn manifest(&self) -> Value {
        json!({
            "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": self.kind, "metadata": { "name": "wrong" }, "spec": self.spec,
        })
    }

    /// Whether it is about a limit that the schema of the CRD has too: the API server checks that first.
    pub fn is_in_schema(&self) -> bool {
        self.error.contains(": Too ") && !self.error.starts_with("spec.eventMetadata[")
    }
}

/// All mistakes.
pub fn notifications() -> Vec<NotificationMistake> {
    let alerts = alerts().into_iter().map(|(over, error)| {
        let mut spec =
            json!({ "providerRef": { "name": "chat" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }] });
        for (key, value) in over.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        ("Alert", spec, error)
    });
    let providers = providers().into_iter();
    let providers = providers.map(|(spec, error)| ("AlertProvider", spec, error));
    let all = alerts.chain(providers);
    all.map(|(kind, spec, error)| NotificationMistake { kind, spec, error })
        .collect()
}

fn alerts() -> Vec<(Value, &'static str)> {
    let long = "x".repeat(513);
    vec![
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
    ]
}

fn providers() -> Vec<(Value, &'static str)> {
    vec![
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
    ]
}
