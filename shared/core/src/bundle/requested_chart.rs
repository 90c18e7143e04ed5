//! A chart of a HelmOp, and its version.

use helmops_api::ResolvedChart;
use helmops_model::chart::{request::ChartRequest, resolved::ChartVersion};

use super::Lookup;

/// A chart of a HelmOp whose version must be resolved.
#[derive(Clone, Debug)]
pub struct RequestedChart<'v, 'a> {
    /// What the version is recorded for.
    pub lookup: Lookup,
    /// The first request of the HelmOp for it.
    pub request: &'v ChartRequest<'a>,
    /// The recorded version, until another one is resolved; `None` if there is none yet.
    pub version: Option<ChartVersion>,
}

impl RequestedChart<'_, '_> {
    /// The record of its version, if it has one.
    pub(super) fn record(&self) -> Option<ResolvedChart> {
        Some(self.lookup.clone().into_record(self.version.clone()?))
    }
}
