//! Microsoft Teams: an Adaptive Card for a workflow, or a MessageCard for an Office 365 connector.

use serde::Serialize;
use url::Url;

use super::{About, Envelope, cut_escaped, facts, markdown, raw, slack};
use crate::alert::{Event, Message};

/// The most of the text and of each fact, in bytes after they are escaped. Teams rejects messages of more than 28 KB, which HTML and Markdown
/// together could make of a text of a tenth.
const MAX_TEXT: usize = 8 << 10;
const MAX_FACT: usize = 1 << 10;

/// The hosts of connectors, which do not accept Adaptive Cards.
const CONNECTORS: [&str; 2] = [".webhook.office.com", "outlook.office.com"];

#[derive(Serialize)]
struct Card {
    r#type: &'static str,
    attachments: [Attachment; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    content_type: &'static str,
    content: Content,
}

#[derive(Serialize)]
struct Content {
    #[serde(rename = "$schema")]
    schema: &'static str,
    r#type: &'static str,
    version: &'static str,
    body: [Container; 1],
    msteams: Width,
}

#[derive(Serialize)]
struct Width {
    width: &'static str,
}

#[derive(Serialize)]
struct Container {
    r#type: &'static str,
    items: Vec<Box<serde_json::value::RawValue>>,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    color: Option<&'static str>,
    wrap: bool,
}

#[derive(Serialize)]
struct FactSet {
    r#type: &'static str,
    facts: Vec<Fact>,
}

#[derive(Serialize)]
struct Fact {
    title: String,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageCard {
    #[serde(rename = "@type")]
    r#type: &'static str,
    #[serde(rename = "@context")]
    context: &'static str,
    theme_color: &'static str,
    summary: String,
    sections: [Section; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Section {
    activity_title: String,
    activity_subtitle: String,
    facts: Vec<NamedFact>,
}

#[derive(Serialize)]
struct NamedFact {
    name: String,
    value: String,
}

pub fn body(address: &Url, message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let host = address.host_str().unwrap_or_default();
    if CONNECTORS.iter().any(|connector| host.ends_with(connector)) {
        message_card(message, envelope)
    } else {
        adaptive_card(message, envelope)
    }
}

fn adaptive_card(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let (title, text) = (
        About::of(message, envelope).title(),
        cut_escaped(markdown::escape(&message.text()), MAX_TEXT),
    );
    let is_failure = message.event == Event::Failure;
    let title = TextBlock {
        r#type: "TextBlock",
        text: &title,
        size: Some("large"),
        weight: Some("bolder"),
        color: None,
        wrap: true,
    };
    let text = TextBlock {
        r#type: "TextBlock",
        text: &text,
        size: None,
        weight: None,
        color: is_failure.then_some("attention"),
        wrap: true,
    };
    let mut items = vec![raw(&title)?, raw(&text)?];
    let facts = facts(message, envelope);
    if !facts.is_empty() {
        let facts = facts.into_iter().map(|(title, value)| Fact {
            title: cut_escaped(markdown::escape(&title), MAX_FACT),
            value: cut_escaped(markdown::escape(&value), MAX_FACT),
        });
        items.push(raw(&FactSet {
            r#type: "FactSet",
            facts: facts.collect(),
        })?);
    }
    serde_json::to_vec(&Card {
        r#type: "message",
        attachments: [Attachment {
            content_type: "application/vnd.microsoft.card.adaptive",
            content: Content {
                schema: "http://adaptivecards.io/schemas/adaptive-card.json",
                r#type: "AdaptiveCard",
                version: "1.4",
                body: [Container {
                    r#type: "Container",
                    items,
                }],
                msteams: Width { width: "Full" },
            },
        }],
    })
}

/// Connectors accept HTML beside Markdown.
fn escape_html(text: &str) -> String {
    markdown::escape(&slack::escape(text))
}

fn message_card(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let title = About::of(message, envelope).title();
    let facts = facts(message, envelope).into_iter();
    serde_json::to_vec(&MessageCard {
        r#type: "MessageCard",
        context: "http://schema.org/extensions",
        theme_color: match message.event {
            Event::Failure => "FF0000",
            Event::Resolution | Event::Ready | Event::Notice => "0076D7",
        },
        summary: title.clone(),
        sections: [Section {
            activity_title: cut_escaped(escape_html(&message.text()), MAX_TEXT),
            activity_subtitle: title,
            facts: facts
                .map(|(name, value)| NamedFact {
                    name: cut_escaped(escape_html(&name), MAX_FACT),
                    value: cut_escaped(escape_html(&value), MAX_FACT),
                })
                .collect(),
        }],
    })
}
