//! Slack: a message with one attachment.

use bounded_text::cut;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{About, Envelope, NotAccepted, cut_escaped, facts};
use crate::alert::{Event, Message};

/// The name of the sender by default.
const SENDER: &str = "helmops";
/// Maximum length of a part of the response that an error quotes, in bytes.
const MAX_QUOTE: usize = 64;

#[derive(Serialize)]
pub(super) struct Body {
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    channel: String,
    attachments: [Attachment; 1],
}

#[derive(Serialize)]
struct Attachment {
    #[serde(skip_serializing_if = "String::is_empty")]
    fallback: String,
    color: &'static str,
    author_name: String,
    text: String,
    mrkdwn_in: [&'static str; 1],
    fields: Vec<Field>,
}

#[derive(Serialize)]
struct Field {
    title: String,
    value: String,
    short: bool,
}

/// How texts are written for a service.
pub(super) struct Style {
    /// Whether there are a fallback and a channel.
    pub is_slack: bool,
    /// The most that the service accepts.
    pub limits: Limits,
    /// How a text is escaped.
    pub escape: fn(&str) -> String,
}

/// The most that a service accepts; of texts in bytes, after they are escaped.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The size of all texts together.
    pub all: usize,
    /// The size of the main text.
    pub text: usize,
    /// The number of fields.
    pub fields: usize,
    /// Of the title of a field, and of the message.
    pub title: usize,
    /// Of the value of a field.
    pub value: usize,
}

/// A message to Slack is never as long as it accepts.
const UNLIMITED: Limits = Limits {
    all: usize::MAX,
    text: usize::MAX,
    fields: usize::MAX,
    title: usize::MAX,
    value: usize::MAX,
};

pub fn body(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let style = Style {
        is_slack: true,
        limits: UNLIMITED,
        escape,
    };
    serde_json::to_vec(&of(message, envelope, &style))
}

pub(super) fn of(message: &Message, envelope: &Envelope<'_>, style: &Style) -> Body {
    let Limits { title, text, .. } = style.limits;
    let title = cut(About::of(message, envelope).title(), title);
    let text = cut_escaped((style.escape)(&message.text()), text);
    let fields = fields_within(
        style,
        facts(message, envelope),
        title.len().saturating_add(text.len()),
    );
    let fallback = format!("{title}: {}", text.lines().next().unwrap_or_default());
    Body {
        username: if envelope.username.is_empty() {
            SENDER.to_owned()
        } else {
            envelope.username.to_owned()
        },
        channel: if style.is_slack {
            envelope.channel.to_owned()
        } else {
            String::new()
        },
        attachments: [Attachment {
            fallback: if style.is_slack { fallback } else { String::new() },
            color: match message.event {
                Event::Failure => "danger",
                Event::Resolution | Event::Ready | Event::Notice => "good",
            },
            author_name: title,
            text,
            mrkdwn_in: ["text"],
            fields,
        }],
    }
}

/// The fields for which there is room beside `used` bytes of other texts.
fn fields_within(style: &Style, facts: Vec<(String, String)>, used: usize) -> Vec<Field> {
    let limits = style.limits;
    let mut left = limits.all.saturating_sub(used);
    let mut fields = Vec::new();
    for (title, value) in facts.into_iter().take(limits.fields) {
        let title = cut_escaped((style.escape)(&title), limits.title);
        let value = cut_escaped((style.escape)(&value), limits.value);
        let Some(rest) = left.checked_sub(title.len() + value.len()) else {
            continue;
        };
        left = rest;
        fields.push(Field {
            title,
            value,
            short: false,
        });
    }
    fields
}

/// The three characters that have a meaning in the texts of Slack.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The hosts of the Web API of Slack.
const HOSTS: [&str; 2] = ["slack.com", "slack-gov.com"];

/// Whether responses are those of the Web API. Those of other servers must not be quoted.
fn is_web_api(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let is_of = |domain: &&str| {
        let rest = host.strip_suffix(*domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    // Without TLS, the response may be that of a proxy.
    address.scheme() == "https"
        && HOSTS.iter().any(is_of)
        && address.path().ends_with("/api/chat.postMessage")
}

/// The Web API responds with status 200 to what it rejects.
pub fn check_response(address: &Url, body: &[u8]) -> Result<(), NotAccepted> {
    #[derive(Deserialize)]
    struct Response {
        ok: bool,
        #[serde(default)]
        error: String,
    }
    if !is_web_api(address) {
        return Ok(());
    }
    match serde_json::from_slice(body) {
        Ok(Response { ok: true, .. }) => Ok(()),
        Ok(Response { error, .. }) => Err(NotAccepted(cut(error, MAX_QUOTE))),
        Err(_) => Err(NotAccepted("it is not that of chat.postMessage".to_owned())),
    }
}
