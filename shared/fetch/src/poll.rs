//! A poll: a resolution, and what the same list of versions says about the deployed one.

use helm_index::{Outlook, VersionRequest};
use helmops_model::chart::resolved::ChartVersion;

use crate::ResolveError;

/// What is polled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollQuery<'q> {
    /// The requested version or range.
    pub request: &'q VersionRequest<'q>,
    /// The deployed version; empty if there is none yet.
    pub deployed: &'q str,
}

/// What is deployed of a chart that is polled for.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeployedChart<'a> {
    /// Its version, as it is recorded; `None` if there is none yet.
    pub version: Option<&'a ChartVersion>,
    /// The digest that this version has now, if that is another one and the deployed one is held. Otherwise empty.
    pub changed_digest: &'a str,
}

/// What a poll has found.
#[derive(Debug)]
pub struct Polled {
    /// The version that is selected now, or why there is none.
    pub version: Result<ChartVersion, ResolveError>,
    /// What the list says about the deployed version; `None` if no list was read: because of an error, or because the selection needs
    /// none.
    pub outlook: Option<Outlook>,
}

impl From<Result<ChartVersion, ResolveError>> for Polled {
    fn from(version: Result<ChartVersion, ResolveError>) -> Self {
        Self {
            version,
            outlook: None,
        }
    }
}
