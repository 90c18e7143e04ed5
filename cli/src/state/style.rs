//! The colors of states.

use helmops_model::deployment_state::DeploymentState;

use crate::terminal::{style::Style, table::Cell};

/// The state of a HelmOp, a cluster or an object.
pub fn state(name: &str) -> Cell {
    let known = DeploymentState::ALL
        .into_iter()
        .find(|state| state.as_str() == name);
    let style = match known {
        Some(DeploymentState::Ready) => Style::Good,
        Some(DeploymentState::Modified | DeploymentState::ErrApplied) => Style::Bad,
        None if matches!(name, "Stalled" | "Missing" | "Orphaned" | "failed" | "Invalid") => Style::Bad,
        None if matches!(name, "deployed" | "True") => Style::Good,
        // Not ready yet, waiting for others, or not known to this version.
        _ => Style::Pending,
    };
    colored(name, style)
}

/// The status of a condition. Those that are present only while something is wrong are read the other way round.
pub fn condition(r#type: &str, status: &str) -> Cell {
    let style = match (r#type, status) {
        ("Stalled", "True") => Style::Bad,
        ("Reconciling" | "NewVersionOutsideRange" | "ChartDeprecated" | "ChartWithdrawn", "True")
        | (_, "Unknown") => Style::Pending,
        (_, "True") => Style::Good,
        (_, _) => Style::Bad,
    };
    colored(status, style)
}

/// Ready ones of all, such as `2/3`.
pub fn ready(ready: i64, desired: i64) -> Cell {
    let style = if ready == desired {
        Style::Good
    } else {
        Style::Pending
    };
    colored(&format!("{ready}/{desired}"), style)
}

fn colored(text: &str, style: Style) -> Cell {
    if text.is_empty() {
        Cell::from(text)
    } else {
        Cell {
            style: Some(style),
            ..Cell::from(text)
        }
    }
}
