//! `generic` and `generic-hmac`: JSON with the fields that Flux sends.

use std::collections::BTreeMap;

use bounded_text::hex;
use helmops_api::timestamp::timestamp;
use ring::hmac;
use serde::Serialize;

use super::{About, CONTROLLER, Envelope, metadata};
use crate::alert::Message;

/// The header with the signature of the body, as Flux has it.
pub const SIGNATURE: &str = "X-Signature";
/// The header with the time of the request, in Unix seconds.
pub const TIMESTAMP: &str = "X-Helmops-Timestamp";
/// The header with the signature of that time and the body.
pub const TIMED_SIGNATURE: &str = "X-Helmops-Signature";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    involved_object: Object<'a>,
    severity: &'a str,
    timestamp: String,
    message: String,
    reason: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'a str, String>,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    api_version: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

pub fn body(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let about = About::of(message, envelope);
    serde_json::to_vec(&Body {
        involved_object: Object {
            kind: about.kind(),
            namespace: &about.name().namespace,
            name: &about.name().name,
            uid: about.uid(),
            api_version: about.api_version(),
            resource_version: about.resource_version(),
        },
        severity: message.event.severity(),
        timestamp: timestamp(envelope.now),
        message: message.text(),
        reason: &message.reason,
        metadata: metadata(message, envelope),
        reporting_controller: CONTROLLER,
        reporting_instance: envelope.instance,
    })
}

/// The value of [`SIGNATURE`].
pub fn sign(key: &[u8], body: &[u8]) -> String {
    signature(key, &[body])
}

/// The value of [`TIMED_SIGNATURE`], for a value of [`TIMESTAMP`]: a receiver that checks it and its clock accepts no request later.
pub fn sign_with_time(key: &[u8], time: &str, body: &[u8]) -> String {
    signature(key, &[time.as_bytes(), b".", body])
}

fn signature(key: &[u8], parts: &[&[u8]]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    for part in parts {
        context.update(part);
    }
    format!("sha256={}", hex(context.sign().as_ref()))
}
