//! Discord: the format of Slack, which its webhooks accept below `/slack`.

use url::Url;

use super::{
    Envelope, markdown,
    slack::{Style, of},
};
use crate::alert::Message;

/// The path that accepts the format of Slack.
const SLACK: &str = "/slack";
/// The maximum number of fields that Discord accepts.
const MAX_FIELDS: usize = 25;

pub fn body(message: &Message, envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let style = Style {
        is_slack: false,
        fields: MAX_FIELDS,
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
