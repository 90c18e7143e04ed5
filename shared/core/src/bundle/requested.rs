//! The charts of a HelmOp whose version must be resolved, each with its version.
//!
//! They are determined once for each reconciliation, with the recorded versions. The resolution sets the missing and the newer
//! versions, and the Bundle is computed from the result.

use std::collections::HashMap;

use helmops_api::{Bundle, ResolvedChart};
use helmops_model::chart::request::ChartRequest;

use super::{Lookup, RequestedChart, pins};
use crate::admit::ValidHelmOp;

/// The distinct charts of a HelmOp whose version must be resolved: its own first, then those of its targets in order.
#[derive(Clone, Debug)]
pub struct RequestedCharts<'v, 'a> {
    charts: Vec<RequestedChart<'v, 'a>>,
    /// The index of the chart of `spec.helm`; `None` for an archive, which has no versions.
    main: Option<usize>,
    /// The index of the chart of each target; `None` for an archive or a target without a `helm` block.
    targets: Vec<Option<usize>>,
}

impl<'v, 'a> RequestedCharts<'v, 'a> {
    /// The charts of a HelmOp, with the recorded versions: from its Bundle, or from its status if the Bundle was deleted.
    ///
    /// Recorded versions are kept until the HelmOp requests another chart or constraint, so that a restart, a lost status, a label
    /// or an outage of a registry never changes what is deployed. A Bundle without a record was created by Fleet's controller: its
    /// version is kept too if it satisfies the HelmOp.
    ///
    /// The time is linear in the number of targets.
    pub fn of(valid: &'v ValidHelmOp<'a>, bundle: Option<&Bundle>) -> Self {
        let mut charts = Self::without_versions(valid);
        pins::set(&mut charts.charts, valid, bundle);
        charts
    }

    fn without_versions(valid: &'v ValidHelmOp<'a>) -> Self {
        let mut collected = Collected::default();
        let main = collected.index_of(&valid.chart);
        let targets = valid.targets.iter();
        let targets = targets
            .map(|request| collected.index_of(request.as_ref()?))
            .collect();
        Self {
            charts: collected.charts,
            main,
            targets,
        }
    }

    /// The charts.
    pub fn as_slice(&self) -> &[RequestedChart<'v, 'a>] {
        &self.charts
    }

    /// The charts, to set their versions.
    pub fn as_mut_slice(&mut self) -> &mut [RequestedChart<'v, 'a>] {
        &mut self.charts
    }

    /// The repository of the first chart, without credentials; `None` if there are no charts.
    pub fn first_repo(&self) -> Option<&str> {
        self.charts.first().map(|chart| &*chart.lookup.repo)
    }

    /// Whether every chart has a version.
    pub fn have_versions(&self) -> bool {
        self.charts.iter().all(|chart| chart.version.is_some())
    }

    /// The records of all versions.
    pub fn records(&self) -> Vec<ResolvedChart> {
        self.charts.iter().filter_map(RequestedChart::record).collect()
    }

    /// The chart of `spec.helm`; `None` for an archive.
    pub fn main(&self) -> Option<&RequestedChart<'v, 'a>> {
        self.charts.get(self.main?)
    }

    /// The chart of a target; `None` for an archive or a target without a `helm` block.
    pub fn of_target(&self, index: usize) -> Option<&RequestedChart<'v, 'a>> {
        let index = self.targets.get(index).copied().flatten()?;
        self.charts.get(index)
    }
}

/// The distinct charts of the requests so far.
#[derive(Default)]
struct Collected<'v, 'a> {
    charts: Vec<RequestedChart<'v, 'a>>,
    /// The index of each requested text; most targets request the same chart as another one, and need no allocation.
    by_text: HashMap<(&'a str, &'a str, &'a str), Option<usize>>,
    by_lookup: HashMap<Lookup, usize>,
}

impl<'v, 'a> Collected<'v, 'a> {
    /// The index of the chart of a request; `None` for an archive.
    fn index_of(&mut self, request: &'v ChartRequest<'a>) -> Option<usize> {
        let text = (request.repo, request.chart, request.version.text());
        if let Some(known) = self.by_text.get(&text) {
            return *known;
        }
        // URLs that differ only in their credentials are one lookup.
        let index = Lookup::of(request).map(|lookup| self.index_of_lookup(lookup, request));
        self.by_text.insert(text, index);
        index
    }

    fn index_of_lookup(&mut self, lookup: Lookup, request: &'v ChartRequest<'a>) -> usize {
        if let Some(known) = self.by_lookup.get(&lookup) {
            return *known;
        }
        let index = self.charts.len();
        self.by_lookup.insert(lookup.clone(), index);
        self.charts.push(RequestedChart {
            lookup,
            request,
            version: None,
            changed_digest: String::new(),
            content: String::new(),
            polled: None,
        });
        index
    }
}
