//! Alertmanager: alerts that fire until the object is ready.

use std::collections::BTreeMap;

use helmops_api::timestamp::timestamp;
use k8s_openapi::jiff::SignedDuration;
use serde::Serialize;

use super::{Envelope, Message, Subject};
use crate::alert::Event;

/// How long an alert fires without being sent again, so that none stays forever. It is sent again each
/// [`REFRESH`](crate::alert::REFRESH).
const FIRING: SignedDuration = SignedDuration::from_hours(2);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Alert {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<&'static str, String>,
    starts_at: String,
    ends_at: String,
}

pub fn body(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let alerts = message.subjects.iter();
    let alerts = alerts.flat_map(|subject| alerts_of(message, subject, envelope));
    serde_json::to_vec(&alerts.collect::<Vec<_>>())
}

/// The alert of a failure, and those that end.
fn alerts_of(message: &Message, subject: &Subject, envelope: &Envelope<'_>) -> Vec<Alert> {
    let ended = subject.ended.iter().map(|reason| {
        let end = timestamp(envelope.now);
        alert(reason, subject, envelope, end)
    });
    let until = envelope.now.saturating_add(FIRING).unwrap_or(envelope.now);
    let fires = message.event == Event::Failure;
    let firing = fires.then(|| alert(&message.reason, subject, envelope, timestamp(until)));
    ended.chain(firing).collect()
}

/// Labels identify an alert, so nothing that changes is among them.
fn alert(reason: &str, subject: &Subject, envelope: &Envelope<'_>, ends_at: String) -> Alert {
    let id = &subject.id;
    let added = envelope.metadata.iter();
    let mut labels: BTreeMap<_, _> = added.map(|(key, value)| (label(key), value.clone())).collect();
    for (key, value) in [
        ("alertname", format!("HelmOps{}{reason}", id.kind)),
        ("severity", Event::Failure.severity().to_owned()),
        ("reason", reason.to_owned()),
        ("kind", id.kind.to_string()),
        ("name", id.name.name.clone()),
        ("namespace", id.name.namespace.clone()),
    ] {
        labels.insert(key.to_owned(), value);
    }
    let annotations = [
        ("message", subject.text.clone()),
        ("summary", envelope.summary.to_owned()),
        ("revision", subject.version.clone()),
    ];
    let is_set = |(_, value): &(&str, String)| !value.is_empty();
    Alert {
        labels,
        annotations: annotations.into_iter().filter(is_set).collect(),
        starts_at: subject.since.clone(),
        ends_at,
    }
}

/// A key as the name of a label: other characters than letters, digits and `_` become `_`.
fn label(key: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = key.chars().map(allowed).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{name}")
    } else {
        name
    }
}
