//! What of a repository is deployed.

use crate::{
    Location, Reference,
    chart::{ChartPath, Strategy},
};

/// A chart in a folder of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitChart {
    /// Where the repository is.
    pub location: Location,
    /// Which commit is meant.
    pub reference: Reference,
    /// The folder of the chart.
    pub path: ChartPath,
    /// What is packed, and which version it has.
    pub strategy: Strategy,
}

impl GitChart {
    /// What is requested of the repository, besides the folder: the reference, and what is released unless that is each change of a chart.
    #[must_use]
    pub fn requested(&self) -> String {
        match self.strategy {
            Strategy::Revision => self.reference.to_string(),
            Strategy::ChartVersion | Strategy::Manifests => {
                format!("{}, {}", self.reference, self.strategy.as_str())
            }
        }
    }

    /// Whether another commit can be meant later.
    #[must_use]
    pub const fn is_moving(&self) -> bool {
        !matches!(self.reference, Reference::Commit(_))
    }
}
