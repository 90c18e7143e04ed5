//! Discord: the format of Slack, which its webhooks accept below `/slack`.

use url::Url;

use super::{
    Envelope, markdown,
    slack::{Limits, Style, of},
};
use crate::alert::Message;

/// The path that accepts the format of Slack.
const SLACK: &str = "/slack";
/// Discord rejects the whole message above any of these, which it counts in characters: there are never more of them than bytes.
const LIMITS: Limits = Limits {
    all: 6_000,
    text: 4_096,
    fields: 25,
    title: 256,
    value: 1_024,
};

pub fn body(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let style = Style {
        is_slack: false,
        limits: LIMITS,
        escape: markdown::escape,
    };
    serde_json::to_vec(&of(message, envelope, &style))
}

pub fn address(mut address: Url) -> Url {
    let path = address.path().trim_end_matches('/');
    if !path.ends_with(SLACK) {
        let path = format!("{path}{SLACK}");
        address.set_path(&path);
    }
    address
}
