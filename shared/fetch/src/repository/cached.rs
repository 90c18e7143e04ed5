//! An index that is cached, and its key.

use std::sync::Arc;

use helm_index::{ChartFilter, Index, Layout};
use reqwest::header::{HeaderMap, HeaderValue};

/// The key of a cached index: it is shared only by requests with the same credentials and the same trust.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IndexKey {
    pub url: String,
    pub identity: [u8; 32],
    pub scope: ChartScope,
}

/// Which charts are read together. If they are too many, fewer are read, so that no HelmOp fails because of the charts of
/// others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ChartScope {
    /// The charts of all HelmOps.
    All,
    /// Those of the HelmOps of this namespace.
    Namespace(Arc<str>),
    /// A single chart.
    Chart(String),
}

impl IndexKey {
    pub fn bytes(&self) -> usize {
        let scope = match &self.scope {
            ChartScope::All => 0,
            ChartScope::Namespace(namespace) => namespace.len(),
            ChartScope::Chart(chart) => chart.len(),
        };
        self.url.len() + scope
    }
}

/// The content of an index that is cached.
#[derive(Debug)]
pub(super) struct CachedIndex {
    pub index: Index,
    pub charts: ChartFilter,
    pub layout: Layout,
    pub validators: HeaderMap,
}

impl CachedIndex {
    pub fn bytes(&self) -> usize {
        let validators = self.validators.values().map(HeaderValue::len).sum::<usize>();
        self.index.bytes() + self.charts.iter().map(String::len).sum::<usize>() + validators
    }
}
