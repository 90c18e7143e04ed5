//! CDEvents 0.4, as CloudEvents in structured mode: an incident that is detected or resolved, a service that is deployed or upgraded, an
//! environment that is modified.

use std::collections::BTreeMap;

use bounded_text::hex;
use helmops_api::timestamp::timestamp;
use ring::digest::{Context, SHA256};
use serde::Serialize;

use super::{Envelope, Message, Subject, metadata};
use crate::{alert::Event, source::Kind};

/// The type of the body.
pub const CONTENT_TYPE: &str = "application/cloudevents+json";
/// The version of the specification.
const SPECIFICATION: &str = "0.4.1";
/// The version of each type of event in it.
const EVENT: &str = "0.2.0";

#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    r#type: &'a str,
    subject: &'a str,
    time: &'a str,
    datacontenttype: &'static str,
    data: CdEvent<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CdEvent<'a> {
    context: EventContext<'a>,
    subject: EventSubject<'a>,
    custom_data: CustomData<'a>,
    custom_data_content_type: &'static str,
}

#[derive(Serialize)]
struct EventContext<'a> {
    version: &'static str,
    id: &'a str,
    source: &'a str,
    r#type: &'a str,
    timestamp: &'a str,
}

#[derive(Serialize)]
struct EventSubject<'a> {
    id: &'a str,
    source: &'a str,
    r#type: &'static str,
    content: Content,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_id: Option<String>,
}

#[derive(Serialize)]
struct Reference {
    id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CustomData<'a> {
    reason: &'a str,
    reasons_ended: &'a [String],
    metadata: BTreeMap<&'a str, String>,
}

pub fn body(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    // This format is never grouped.
    let Some(subject) = message.subjects.first() else {
        return Ok(Vec::new());
    };
    let what = What::of(message.event, subject);
    let id = event_id(message, subject);
    let object = subject.id.to_string();
    let source = format!("/helmops/{}", subject.id.name.namespace);
    let r#type = format!("dev.cdevents.{}.{}.{EVENT}", what.subject(), what.predicate());
    let time = timestamp(envelope.now);
    serde_json::to_vec(&CloudEvent {
        specversion: "1.0",
        id: &id,
        source: &source,
        r#type: &r#type,
        subject: &object,
        time: &time,
        datacontenttype: super::JSON,
        data: CdEvent {
            context: EventContext {
                version: SPECIFICATION,
                id: &id,
                source: &source,
                r#type: &r#type,
                timestamp: &time,
            },
            subject: EventSubject {
                id: &object,
                source: &source,
                r#type: what.subject(),
                content: content(what, message, subject),
            },
            custom_data: CustomData {
                reason: &message.reason,
                reasons_ended: &subject.ended,
                metadata: metadata(message, envelope),
            },
            custom_data_content_type: super::JSON,
        },
    })
}

/// The type of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Detected,
    Resolved,
    Deployed,
    Upgraded,
    Modified,
}

impl What {
    const fn of(event: Event, subject: &Subject) -> Self {
        match (event, subject.id.kind) {
            (Event::Failure, _) => Self::Detected,
            (Event::Resolution, _) => Self::Resolved,
            // There is no type for a notice, so that none is planned.
            (Event::Ready, Kind::Cluster) | (Event::Notice, _) => Self::Modified,
            (Event::Ready, Kind::HelmOp | Kind::Bundle) if subject.is_upgrade => Self::Upgraded,
            (Event::Ready, Kind::HelmOp | Kind::Bundle) => Self::Deployed,
        }
    }

    const fn subject(self) -> &'static str {
        match self {
            Self::Detected | Self::Resolved => "incident",
            Self::Deployed | Self::Upgraded => "service",
            Self::Modified => "environment",
        }
    }

    const fn predicate(self) -> &'static str {
        match self {
            Self::Detected => "detected",
            Self::Resolved => "resolved",
            Self::Deployed => "deployed",
            Self::Upgraded => "upgraded",
            Self::Modified => "modified",
        }
    }
}

fn content(what: What, message: &Message, subject: &Subject) -> Content {
    let name = &subject.id.name;
    let environment = match subject.id.kind {
        Kind::Cluster => name.to_string(),
        Kind::HelmOp | Kind::Bundle => name.namespace.clone(),
    };
    let environment = Some(Reference { id: environment });
    let is_release = subject.id.kind != Kind::Cluster;
    let service = is_release.then(|| Reference { id: name.to_string() });
    let artifact_id = is_release.then(|| package(&name.name, &subject.version));
    match what {
        What::Detected | What::Resolved => Content {
            description: Some(message.text()),
            environment,
            service,
            artifact_id: artifact_id.filter(|_| !subject.version.is_empty()),
            ..Content::default()
        },
        What::Deployed | What::Upgraded => Content {
            environment,
            artifact_id,
            ..Content::default()
        },
        What::Modified => Content {
            name: Some(name.to_string()),
            ..Content::default()
        },
    }
}

/// The package URL of a release: its name stands for the chart.
fn package(name: &str, version: &str) -> String {
    if version.is_empty() {
        return format!("pkg:helm/{name}");
    }
    let version = version
        .replace('%', "%25")
        .replace('+', "%2B")
        .replace('@', "%40");
    format!("pkg:helm/{name}@{version}")
}

/// An identity that the repetition of the event has too.
fn event_id(message: &Message, subject: &Subject) -> String {
    let mut digest = Context::new(&SHA256);
    let object = subject.id.to_string();
    let event = What::of(message.event, subject).predicate();
    // A version is reported once, so the time at which it is found to be ready does not count.
    let since = if message.event == Event::Ready {
        ""
    } else {
        &*subject.since
    };
    for part in [
        &*object,
        &*subject.uid,
        event,
        &*message.reason,
        &*subject.version,
        since,
    ] {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let digest = digest.finish();
    let (short, _) = digest.as_ref().split_at(16);
    hex(short)
}
