//! What a poll reports about charts besides their versions: newer ones outside of the range, deprecated and withdrawn ones.
//!
//! Conditions are the memory, so that an event follows once for each version, whatever restarts: also with the CRDs of Fleet, which store
//! conditions of any type. So a message has nothing that changes while the version stays.

use bounded_text::excerpt;
use helmops_api::Condition;
use helmops_model::{
    condition::{self, ConditionState, ConditionType},
    reason::Reason,
};

use super::polling::{PollAttempt, Polling};
use crate::bundle::RequestedChart;

/// Maximum length of a version in a message, in bytes: a repository lists any text.
const MAX_VERSION: usize = 64;

/// The messages of the conditions; `None` for one that does not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// A newer release is outside of the range.
    pub newer: Option<String>,
    /// The deployed version is deprecated.
    pub deprecated: Option<String>,
    /// The version that was deployed is withdrawn.
    pub withdrawn: Option<String>,
}

/// What the polls of charts have found; `None` if one of them failed, so that it is not known.
pub fn notices(charts: &[RequestedChart<'_, '_>]) -> Option<Notices> {
    let mut found = Vec::new();
    for chart in charts {
        if let Some(polled) = &chart.polled {
            found.push((chart, &*polled.before, polled.outlook.as_ref()?));
        }
    }
    let newer = found.iter().filter_map(|(chart, _, outlook)| {
        let newer = version(outlook.newer.as_ref()?);
        let (name, range) = (name(chart), &chart.lookup.constraint);
        Some(format!("{name} {newer} is newer than the requested version {range:?} allows; allow it in spec.helm.version to deploy it"))
    });
    let deprecated = found.iter().filter_map(|(chart, before, outlook)| {
        let (name, deployed) = (name(chart), version(current(chart, before)));
        let is = outlook.is_deprecated;
        is.then(|| format!("{name} {deployed} is marked as deprecated in its repository"))
    });
    let withdrawn = found.iter().filter_map(|(chart, before, outlook)| {
        let current = current(chart, before);
        let what = if current == *before {
            "it stays deployed, since no other version matches".to_owned()
        } else {
            format!("{} is deployed in place of it", version(current))
        };
        let (name, before) = (name(chart), version(before));
        let is = outlook.is_withdrawn;
        is.then(|| format!("{name} {before} is not in its repository any more; {what}"))
    });
    Some(Notices {
        newer: joined(newer),
        deprecated: joined(deprecated),
        withdrawn: joined(withdrawn),
    })
}

/// The first text, and how many others there are.
fn joined(mut texts: impl Iterator<Item = String>) -> Option<String> {
    let first = texts.next()?;
    Some(match texts.count() {
        0 => first,
        more => format!("{first} (and {more} more)"),
    })
}

/// The name of the chart, or the reference in a registry.
fn name<'c>(chart: &'c RequestedChart<'_, '_>) -> &'c str {
    let lookup = &chart.lookup;
    if lookup.chart.is_empty() {
        &lookup.repo
    } else {
        &lookup.chart
    }
}

/// The version that is deployed after the poll.
fn current<'c>(chart: &'c RequestedChart<'_, '_>, before: &'c str) -> &'c str {
    chart.version.as_ref().map_or(before, |version| &version.version)
}

fn version(text: &str) -> String {
    excerpt(text, MAX_VERSION)
}

/// Sets or removes the conditions of an accepted HelmOp. Without polling nothing is known.
pub(super) fn fill(conditions: &mut Vec<Condition>, polling: &Polling, generation: Option<i64>, now: &str) {
    let none = Notices::default();
    let notices = match polling {
        Polling::Off
        | Polling::Attempted(PollAttempt {
            is_scheduled: false, ..
        }) => &none,
        Polling::Attempted(PollAttempt {
            notices: Some(notices),
            ..
        }) => notices,
        Polling::Unchanged | Polling::Scheduled { .. } | Polling::Attempted(_) => return,
    };
    for (r#type, reason, message) in [
        (
            ConditionType::NewVersionOutsideRange,
            Reason::NewVersionOutsideRange,
            &notices.newer,
        ),
        (
            ConditionType::ChartDeprecated,
            Reason::ChartDeprecated,
            &notices.deprecated,
        ),
        (
            ConditionType::ChartWithdrawn,
            Reason::ChartWithdrawn,
            &notices.withdrawn,
        ),
    ] {
        match message {
            Some(message) => {
                let state = ConditionState::TrueWithMessage(reason, message.clone());
                condition::set(conditions, r#type, &state, generation, now);
            }
            None => condition::clear(conditions, r#type),
        }
    }
}

#[cfg(test)]
mod tests;
