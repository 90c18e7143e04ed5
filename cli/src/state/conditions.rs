//! Conditions, with what to do about them.

use helmops_api::Condition;
use helmops_core::reason::Reason;
use jiff::Timestamp;
use serde::Serialize;

use super::{style, times::since};
use crate::terminal::table::{Cell, Table};

/// A condition.
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
    #[serde(skip_serializing_if = "str::is_empty")]
    pub remedy: &'static str,
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
pub fn remedy(reason: &str) -> &'static str {
    let known = Reason::ALL.iter().find(|known| known.as_str() == reason);
    known.map_or("", |reason| reason.remedy())
}

/// The table of conditions.
pub fn table(conditions: &[ConditionReport], now: Timestamp) -> Table {
    let mut table = Table::new(&["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions {
        table.row([
            Cell::from(&*condition.r#type),
            style::condition(&condition.r#type, &condition.status),
            (&*condition.reason).into(),
            since(&condition.since, now).into(),
            (&*condition.message).into(),
        ]);
    }
    table
}

/// The remedies, once for each reason.
pub fn remedies(conditions: &[ConditionReport]) -> Vec<(&str, &'static str)> {
    let mut remedies: Vec<(&str, &'static str)> = Vec::new();
    for condition in conditions.iter().filter(|condition| !condition.remedy.is_empty()) {
        let remedy = (&*condition.reason, condition.remedy);
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    remedies
}
