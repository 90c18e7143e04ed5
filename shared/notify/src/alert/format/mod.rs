//! From a message to the request of a service: its body and headers.
//!
//! Fields are in a fixed order, so that the same message has the same body.

mod alertmanager;
mod cdevents;
mod discord;
mod generic;
mod markdown;
mod msteams;
mod slack;

use std::collections::BTreeMap;

use helmops_api::{NamespacedName, kind::GROUP, kind::OWN_GROUP, kind::VERSION};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use thiserror::Error;
use url::Url;

pub use self::generic::{SIGNATURE, TIMED_SIGNATURE, TIMESTAMP, sign, sign_with_time};
use super::message::{Message, Subject};
use crate::message_format::Format;

/// The name of the sender in payloads.
pub const CONTROLLER: &str = "helmops-notifier";
/// The header with the name of the sender, as Flux has it.
pub const COMPONENT: &str = "gotk-component";
/// The type of most bodies.
pub const JSON: &str = "application/json";

/// What a message says besides its content.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// The Alert.
    pub alert: &'a NamespacedName,
    /// Its UID.
    pub alert_uid: &'a str,
    /// `spec.eventMetadata`.
    pub metadata: &'a BTreeMap<String, String>,
    /// `spec.summary`.
    pub summary: &'a str,
    /// `spec.channel` of the AlertProvider.
    pub channel: &'a str,
    /// `spec.username` of the AlertProvider.
    pub username: &'a str,
    /// The name of the process.
    pub instance: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// The body of a request, and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The body.
    pub body: Vec<u8>,
    /// Its type.
    pub content_type: &'static str,
}

/// The service has responded that it did not accept the message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the response says that the message was not accepted: {0}")]
pub struct NotAccepted(pub String);

impl Format {
    /// The payload of a message, for an address.
    ///
    /// # Errors
    /// Never in practice: texts always serialize.
    pub fn payload(
        self,
        address: &Url,
        message: &Message,
        envelope: &Envelope<'_>,
    ) -> Result<Payload, serde_json::Error> {
        let (body, content_type) = match self {
            Self::Generic | Self::GenericHmac => (generic::body(message, envelope)?, JSON),
            Self::Slack => (slack::body(message, envelope)?, JSON),
            Self::Discord => (discord::body(message, envelope)?, JSON),
            Self::MsTeams => (msteams::body(address, message, envelope)?, JSON),
            Self::Alertmanager => (alertmanager::body(message, envelope)?, JSON),
            Self::CdEvents => (cdevents::body(message, envelope)?, cdevents::CONTENT_TYPE),
        };
        Ok(Payload { body, content_type })
    }

    /// The address that requests are sent to.
    #[must_use]
    pub fn address(self, address: Url) -> Url {
        match self {
            Self::Discord => discord::address(address),
            _ => address,
        }
    }

    /// Checks the body of a successful response.
    ///
    /// # Errors
    /// If the service says there that it did not accept the message.
    pub fn check_response(self, address: &Url, body: &[u8]) -> Result<(), NotAccepted> {
        match self {
            Self::Slack => slack::check_response(address, body),
            _ => Ok(()),
        }
    }
}

/// The object that a message is about: its only object, or the Alert for several.
#[derive(Clone, Copy)]
enum About<'a> {
    Object(&'a Subject),
    Alert(&'a Envelope<'a>),
}

impl<'a> About<'a> {
    fn of(message: &'a Message, envelope: &'a Envelope<'a>) -> Self {
        match &message.subjects[..] {
            [subject] => Self::Object(subject),
            _ => Self::Alert(envelope),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Object(subject) => subject.id.kind.as_str(),
            Self::Alert(_) => "Alert",
        }
    }

    fn api_version(self) -> String {
        let group = match self {
            Self::Object(_) => GROUP,
            Self::Alert(_) => OWN_GROUP,
        };
        format!("{group}/{VERSION}")
    }

    const fn name(self) -> &'a NamespacedName {
        match self {
            Self::Object(subject) => &subject.id.name,
            Self::Alert(envelope) => envelope.alert,
        }
    }

    const fn uid(self) -> &'a str {
        match self {
            Self::Object(subject) => &subject.uid,
            Self::Alert(envelope) => envelope.alert_uid,
        }
    }

    const fn resource_version(self) -> &'a str {
        match self {
            Self::Object(subject) => &subject.resource_version,
            Self::Alert(_) => "",
        }
    }

    /// `helmop/podinfo.default`, as Flux shows objects.
    fn title(self) -> String {
        let NamespacedName { namespace, name } = self.name();
        format!("{}/{name}.{namespace}", self.kind().to_lowercase())
    }
}

/// The metadata of a message: what the Alert adds, and what is known of the object, which takes precedence.
fn metadata<'a>(message: &'a Message, envelope: &'a Envelope<'_>) -> BTreeMap<&'a str, String> {
    let added = envelope.metadata.iter();
    let mut metadata: BTreeMap<_, _> = added.map(|(key, value)| (&**key, value.clone())).collect();
    if !envelope.summary.is_empty() {
        metadata.insert("summary", envelope.summary.to_owned());
    }
    match &message.subjects[..] {
        [subject] if !subject.version.is_empty() => {
            metadata.insert("revision", subject.version.clone());
        }
        [_] => {}
        subjects => {
            metadata.insert("objects", subjects.len().to_string());
        }
    }
    metadata
}

/// The metadata as a list for people: the summary first, the others in the order of their names.
fn facts(message: &Message, envelope: &Envelope<'_>) -> Vec<(String, String)> {
    let mut metadata = metadata(message, envelope);
    let summary = metadata.remove_entry("summary");
    let all = summary.into_iter().chain(metadata);
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Truncates an escaped text to at most `longest` bytes, with no part of an escape at its end. Escapes make a text longer, so it is cut
/// after them.
fn cut_escaped(escaped: String, longest: usize) -> String {
    if escaped.len() <= longest {
        return escaped;
    }
    let end = escaped.floor_char_boundary(longest.saturating_sub('…'.len_utf8()));
    let mut kept = escaped.get(..end).unwrap_or_default();
    let without = kept.trim_end_matches('\\');
    if !(kept.len() - without.len()).is_multiple_of(2) {
        kept = kept.get(..kept.len() - 1).unwrap_or_default();
    }
    // `&am` of `&amp;`.
    if let Some((before, entity)) = kept.rsplit_once('&')
        && ["amp", "lt", "gt"].iter().any(|name| name.starts_with(entity))
    {
        kept = before;
    }
    format!("{kept}…")
}

/// A value that is written as it is, in the order of its fields.
fn raw(value: &impl Serialize) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::value::to_raw_value(value)
}

#[cfg(test)]
mod tests;
