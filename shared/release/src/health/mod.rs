//! The health of a live object: whether it is ready, and if not, why.
//!
//! Two rule sets decide. `kstatus` is the convention of the Kubernetes community, with rules for the built-in kinds. `summary` is
//! Fleet's: tables of condition types, around `kstatus`. The words of states and the numbers of objects are Fleet's, because its
//! controllers and dashboards count them.
//!
//! ```text
//! object ─► conditions (without ignored ones) ─► kstatus ─┬─► summary ─► Health      what the status reports
//!                                                         └─► wait    ─► Readiness   whether a wait is over
//! ```
//!
//! Differences from Fleet, each because its result misleads:
//!
//! - A message that means "all is well" (`Resource is current`) is not added to the reason why an object is not ready. Instead of
//!   no reason at all, the condition itself is shown.
//! - A suspended Job is ready, and so is a `HorizontalPodAutoscaler` whose scaling is switched off because there are no replicas.

mod conditions;
mod error_table;
mod fields;
mod kstatus;
mod pod_cause;
mod summary;
mod tables;
mod wait;

use std::collections::BTreeMap;

use bounded_text::printable;
use helmops_api::status::ObjectSummary;
use jiff::Timestamp;
use serde_json::Value;

pub use self::{
    error_table::{ErrorTable, ErrorTableError},
    pod_cause::{Detail, Evidence, PodCause, Severity, pod_cause},
    wait::{Readiness, readiness},
};

/// The health of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// One word in lower case, such as `active`, `in-progress` or `updating`.
    pub state: String,
    /// The object is changing and expected to become ready.
    pub transitioning: bool,
    /// The object has failed.
    pub error: bool,
    /// The reasons, without duplicates.
    pub messages: Vec<String>,
    /// When the health can change although the object does not. Such rules are about the age of an object.
    pub recheck: Option<Timestamp>,
}

impl Health {
    /// Whether the object is ready: neither changing nor failed, whatever its state is called.
    pub fn is_ready(&self) -> bool {
        !self.transitioning && !self.error
    }

    /// The health as the status has it.
    pub fn to_summary(&self) -> ObjectSummary {
        ObjectSummary {
            state: self.state.clone(),
            error: self.error,
            transitioning: self.transitioning,
            message: self
                .messages
                .iter()
                .map(|text| printable(text).into_owned())
                .collect(),
        }
    }
}

/// What can be configured of the rules.
#[derive(Clone, Copy, Debug)]
pub struct HealthRules<'a> {
    /// Which conditions are errors.
    pub errors: &'a ErrorTable,
    /// `options.ignore.conditions`: a condition that has every field of one of these is not considered.
    pub ignored: &'a [BTreeMap<String, String>],
}

/// The health of a live object at the time `now`.
pub fn of(object: &Value, rules: HealthRules<'_>, now: Timestamp) -> Health {
    summary::summarize(object, rules, now)
}

#[cfg(test)]
mod tests;
