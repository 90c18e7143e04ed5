//! Numbers of clusters by state, and how good a state is.

use helmops_api::status::BundleSummary;
use helmops_model::deployment_state::{DeploymentState, count};
use serde::Serialize;

use crate::{state::style, terminal::style::Style};

/// How good a state is: its color on a page, never alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Tone {
    /// As it should be.
    Good,
    /// Not yet.
    Pending,
    /// Wrong.
    Bad,
    /// Switched off by the user.
    Off,
}

impl Tone {
    /// The tone of the state of a HelmOp or a cluster.
    pub fn of(state: &str) -> Self {
        if state == "Suspended" {
            return Self::Off;
        }
        match style::state(state).style {
            Some(Style::Good) => Self::Good,
            Some(Style::Bad) => Self::Bad,
            Some(Style::Pending | Style::Faint | Style::Strong) | None => Self::Pending,
        }
    }

    /// The tone of a condition.
    pub fn of_condition(r#type: &str, status: &str) -> Self {
        match style::condition(r#type, status).style {
            Some(Style::Good) => Self::Good,
            Some(Style::Bad) => Self::Bad,
            Some(Style::Pending | Style::Faint | Style::Strong) | None => Self::Pending,
        }
    }
}

/// The clusters in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// The state.
    pub state: &'static str,
    /// How good it is.
    pub tone: Tone,
    /// The number of clusters.
    pub count: i64,
}

/// The clusters by state, from best to worst. States without clusters are left out.
pub fn parts(summary: Option<&BundleSummary>) -> Vec<Part> {
    let part = |state: DeploymentState| Part {
        state: state.as_str(),
        tone: Tone::of(state.as_str()),
        count: summary.map_or(0, |summary| count(summary, state)),
    };
    let all = DeploymentState::ALL.into_iter().map(part);
    all.filter(|part| part.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_the_states_that_have_clusters_from_best_to_worst() {
        let summary = serde_json::from_value(json!({ "ready": 3, "errApplied": 1, "pending": 2 })).unwrap();
        let parts = serde_json::to_value(parts(Some(&summary))).unwrap();
        assert_eq!(
            parts,
            json!([
                { "state": "Ready", "tone": "good", "count": 3 },
                { "state": "Pending", "tone": "pending", "count": 2 },
                { "state": "ErrApplied", "tone": "bad", "count": 1 }
            ])
        );
        assert!(super::parts(None).is_empty());
    }

    #[test]
    fn tones_are_the_colors_of_the_terminal_and_suspension_is_no_fault() {
        for (state, expected) in [
            ("Ready", Tone::Good),
            ("deployed", Tone::Good),
            ("NotReady", Tone::Pending),
            ("Pending", Tone::Pending),
            ("New", Tone::Pending),
            ("Modified", Tone::Bad),
            ("Stalled", Tone::Bad),
            ("ErrApplied", Tone::Bad),
            ("Suspended", Tone::Off),
        ] {
            assert_eq!(Tone::of(state), expected, "{state}");
        }
        assert_eq!(Tone::of_condition("Stalled", "True"), Tone::Bad);
    }
}
