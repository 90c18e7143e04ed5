//! AlertProviders, Alerts and Receivers that admission rejects.

use helmops_api::{
    limits::{Limit, Measure},
    notifications::limits,
};
use serde_json::{Map, Value, json};

/// An object of notifications that admission rejects.
#[derive(Clone, Debug)]
pub struct NotificationMistake {
    pub kind: &'static str,
    pub spec: Value,
    /// The start of the only error, with path, value and fix.
    pub error: String,
}

impl NotificationMistake {
    /// The object as users write it.
    pub fn manifest(&self) -> Value {
        json!({
            "apiVersion": "helmops.fleet.cattle.io/v1alpha1", "kind": self.kind, "metadata": { "name": "wrong" }, "spec": self.spec,
        })
    }

    /// The path of the field that the error is about.
    pub fn path(&self) -> &str {
        self.error.split_once(": ").map_or("", |(path, _)| path)
    }

    /// Whether it is about a limit that the schema of the CRD has too: the API server checks that first.
    pub fn is_in_schema(&self) -> bool {
        self.error.contains(": Too ") && !self.error.starts_with("spec.eventMetadata[")
    }
}

pub fn notifications() -> Vec<NotificationMistake> {
    let alert =
        json!({ "providerRef": { "name": "chat" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }] });
    let provider = json!({ "type": "generic", "address": "https://a" });
    let receiver = json!({ "type": "github", "secretRef": { "name": "token" } });
    let mut all = Vec::new();
    for (kind, valid, rows, limits) in [
        ("Alert", alert, alerts(), limits::OF_ALERT),
        ("AlertProvider", provider, providers(), limits::OF_ALERT_PROVIDER),
        ("Receiver", receiver, receivers(), limits::OF_RECEIVER),
    ] {
        let rows = rows
            .into_iter()
            .map(|(over, error)| (over, error.to_owned()))
            .chain(limits.iter().map(|limit| exceeding(limit, limits)));
        all.extend(rows.map(|(over, error)| {
            let mut spec = valid.clone();
            for (key, value) in over.as_object().into_iter().flatten() {
                spec[key] = value.clone();
            }
            NotificationMistake { kind, spec, error }
        }));
    }
    all
}

/// A field that exceeds its limit by one, and the error.
fn exceeding((path, measure, max): &Limit, limits: &[Limit]) -> (Value, String) {
    let size = max + 1;
    let (value, excess) = match measure {
        Measure::Length => (json!("a".repeat(size)), format!("Too long: {size} bytes")),
        Measure::Entries => {
            let entries = (0..size).map(|index| (format!("k{index}"), json!("")));
            let entries: Map<_, _> = entries.collect();
            (entries.into(), format!("Too many: {size} entries"))
        }
        Measure::Items => {
            let is_of_texts = limits.iter().any(|(other, ..)| *other == format!("{path}[]"));
            let item = if is_of_texts { json!("a") } else { json!({}) };
            (vec![item; size].into(), format!("Too many: {size} items"))
        }
    };
    let over = path
        .rsplit('.')
        .fold(value, |value, step| match step.strip_suffix("[]") {
            Some(list) => json!({ list: [value] }),
            None => json!({ step: value }),
        });
    let path = path.replace("[]", "[0]");
    (over, format!("spec.{path}: {excess}; at most {max} are allowed"))
}

fn alerts() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({ "providerRef": {} }),
            "spec.providerRef.name: Required value: name the AlertProvider",
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
            json!({ "eventSources": [{ "kind": "HelmOp", "name": "*", "matchLabels": { "a": "b c" } }] }),
            "spec.eventSources[0].matchLabels[a]: Invalid value: \"b c\": not a label value",
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
            json!({ "type": "" }),
            "spec.type: Required value: supported types: generic, generic-hmac, slack",
        ),
        (
            json!({ "type": "pagerduty" }),
            "spec.type: Unsupported value: \"pagerduty\": supported types: generic",
        ),
        (
            json!({ "address": "" }),
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
            json!({ "address": "https://u:geheim@a" }),
            "spec.address: Invalid value: \"https://a\": it has a user or a password",
        ),
        (
            json!({ "type": "discord", "channel": "#ops" }),
            "spec.channel: Forbidden: \"#ops\": type discord has no channel; remove it",
        ),
        (
            json!({ "username": "me" }),
            "spec.username: Forbidden: \"me\": type generic has no name of a sender; remove it",
        ),
        (
            json!({ "type": "generic-hmac" }),
            "spec.secretRef: Required value: type generic-hmac signs",
        ),
        (
            json!({ "certSecretRef": { "name": "" } }),
            "spec.certSecretRef.name: Required value: name the Secret",
        ),
        (
            json!({ "timeout": "1h" }),
            "spec.timeout: Invalid value: \"1h\": too short or too long; use 1s to 5m",
        ),
    ]
}

fn receivers() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({ "type": "" }),
            "spec.type: Required value: supported types: harbor, dockerhub, quay",
        ),
        (
            json!({ "type": "Harbor" }),
            "spec.type: Unsupported value: \"Harbor\": supported types: harbor, dockerhub, quay",
        ),
        (
            json!({ "secretRef": {} }),
            "spec.secretRef.name: Required value: name the Secret",
        ),
        (
            json!({ "secretRef": { "name": "To Ken" } }),
            "spec.secretRef.name: Invalid value: \"To Ken\": not a DNS name",
        ),
        (
            json!({ "type": "harbor", "events": ["PUSH_ARTIFACT"] }),
            "spec.events: Forbidden: \"PUSH_ARTIFACT\": requests of type harbor do not name their event",
        ),
        (
            json!({ "events": ["package", ""] }),
            "spec.events[1]: Required value: name an event, such as package",
        ),
        (
            json!({ "type": "gitlab", "events": [" "] }),
            "spec.events[0]: Required value: name an event, such as Pipeline Hook",
        ),
        (
            json!({ "type": "cdevents", "events": [""] }),
            "spec.events[0]: Required value: name an event, such as dev.cdevents.artifact.published",
        ),
        (
            json!({ "events": ["push", "package", "push"] }),
            "spec.events[2]: Invalid value: \"push\": the event is in the list already; remove it",
        ),
        (
            json!({ "resources": [{ "name": "*" }, {}] }),
            "spec.resources[1].name: Required value: the name of a HelmOp, or \"*\" for all",
        ),
        (
            json!({ "resources": [{ "name": "web*" }] }),
            "spec.resources[0].name: Invalid value: \"web*\": not a DNS name",
        ),
        (
            json!({ "resources": [{ "name": "*", "namespace": "a.b" }] }),
            "spec.resources[0].namespace: Invalid value: \"a.b\": not a DNS label",
        ),
        (
            json!({ "resources": [{ "name": "*", "matchLabels": { "a b": "c" } }] }),
            "spec.resources[0].matchLabels: Invalid value: \"a b\": not a key",
        ),
        (
            json!({ "resources": [{ "name": "*", "matchLabels": { "a": "b c" } }] }),
            "spec.resources[0].matchLabels[a]: Invalid value: \"b c\": not a label value",
        ),
    ]
}
