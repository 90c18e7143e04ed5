//! Conditions, with what to do about them.

use helmops_api::Condition;
use helmops_model::reason::Reason;
use jiff::Timestamp;
use serde::Serialize;

use super::{style, times::since};
use crate::terminal::table::{Cell, Table};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionReport {
    /// The aspect.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// When the status last changed.
    pub since: String,
    /// What to do about it; empty if nothing is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl ConditionReport {
    /// A condition of the API. An agent of Fleet writes no time of the last change; that of the last write is used then.
    pub fn of(condition: &Condition) -> Self {
        let since = [&condition.last_transition_time, &condition.last_update_time];
        let since = since.into_iter().find(|time| !time.is_empty());
        Self {
            r#type: condition.r#type.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: since.cloned().unwrap_or_default(),
            remedy: remedy(&condition.reason),
        }
    }
}

/// What to do about a reason; empty if nothing is wrong, or the reason is unknown.
fn remedy(reason: &str) -> String {
    let known = Reason::ALL.iter().find(|known| known.as_str() == reason);
    match known {
        // These send the reader to other commands, and the page has what they show.
        Some(Reason::NotReady | Reason::Progressing) | None => String::new(),
        Some(reason) => without_links(reason.remedy()),
    }
}

/// A text with the names of links in place of links: `[charts.md](charts.md)` is `charts.md`.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, (name, (_, after)))) = rest.split_once('[').and_then(|(before, link)| {
        let (name, target) = link.split_once("](")?;
        Some((before, (name, target.split_once(')')?)))
    }) {
        text.push_str(before);
        text.push_str(name);
        rest = after;
    }
    text + rest
}

pub fn table(conditions: &[ConditionReport], now: Timestamp) -> Table {
    let mut table = Table::new(&["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions {
        table.row([
            Cell::from(&*condition.r#type),
            style::condition(&condition.r#type, &condition.status),
            (&*condition.reason).into(),
            since(&condition.since, now).into(),
            Cell::or_blank(&*condition.message),
        ]);
    }
    table
}

/// The remedies, once for each reason.
pub fn remedies(conditions: &[ConditionReport]) -> Vec<(&str, &str)> {
    let mut remedies: Vec<(&str, &str)> = Vec::new();
    for condition in conditions.iter().filter(|condition| !condition.remedy.is_empty()) {
        let remedy = (&*condition.reason, &*condition.remedy);
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    remedies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_are_plain_text() {
        for (markdown, expected) in [
            ("see [charts.md](charts.md#a) and [b](c).", "see charts.md and b."),
            ("a list [1] stays", "a list [1] stays"),
            ("", ""),
        ] {
            assert_eq!(without_links(markdown), expected);
        }
        for reason in Reason::ALL {
            let remedy = remedy(reason.as_str());
            assert!(!remedy.contains("]("), "{reason}: {remedy}");
        }
    }
}
