//! The list of HelmOps.

use helmops_api::{Decoded, WithoutObjects};
use jiff::Timestamp;
use serde::Serialize;

use super::parts::{Part, Tone, parts};
use crate::{state::summary::HelmOpSummary, ui::tables::Contents};

/// What the page shows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmOpsView {
    /// Whether all HelmOps are known.
    pub is_known: bool,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// The HelmOps, by namespace and name.
    pub helmops: Vec<HelmOpRow>,
}

/// A HelmOp.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmOpRow {
    /// As in `kubectl helmop status`.
    #[serde(flatten)]
    pub summary: HelmOpSummary,
    /// How good its state is.
    pub tone: Tone,
    /// Its clusters by state.
    pub parts: Vec<Part>,
}

impl HelmOpsView {
    /// The view at a time.
    pub fn of(helmops: &Contents<WithoutObjects>, now: Timestamp) -> Self {
        Self {
            is_known: helmops.is_known,
            notes: helmops.note.iter().cloned().collect(),
            // In the order of their keys: namespace and name.
            helmops: helmops
                .objects()
                .map(|helmop| HelmOpRow::of(helmop, now))
                .collect(),
        }
    }
}

impl HelmOpRow {
    fn of(helmop: &Decoded<WithoutObjects>, now: Timestamp) -> Self {
        let summary = HelmOpSummary::of_listed(helmop, None, now);
        let status = helmop.valid().and_then(|helmop| helmop.status.as_ref());
        Self {
            tone: Tone::of(&summary.state),
            parts: parts(status.and_then(|status| status.base.summary.as_ref())),
            summary,
        }
    }
}
