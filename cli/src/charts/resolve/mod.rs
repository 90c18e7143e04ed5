//! `resolve`: which version would be selected now, and why.

pub mod text;

use std::collections::BTreeSet;

use helmops_api::Bundle;
use helmops_core::{
    admit::ValidHelmOp,
    bundle::{RequestedChart, RequestedCharts},
};
use helmops_fetch::{ChartExplanation, ExplainedSelection};
use helmops_model::chart::request::ChartRequest;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    candidates::{self, Candidate, Landmarks, candidates},
    fetcher::{FetchFailure, HelmOpFetcher},
    listing::ListingArgs,
    report::{self, ChartId, Problem, Version},
    subject::{Subject, accept},
    uptake::{Uptake, UptakeInput},
};
use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{Format, write_json, write_yaml},
    terminal::Console,
};

/// The arguments of `resolve`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Which version the HelmOp would get now, and why
  kubectl helmop resolve web

  # The same before it is applied
  kubectl helmop resolve -f web.yaml

  # Without a HelmOp
  kubectl helmop resolve --repo https://charts.example.com --chart web --version '^1.2'
  kubectl helmop resolve --repo oci://registry.example.com/charts/web --secret registry -n shop

  # Only the version, for scripts
  kubectl helmop resolve web -o name")]
pub struct ResolveArgs {
    /// Which HelmOp, and how.
    #[command(flatten)]
    pub listing: ListingArgs,
}

/// The charts of a HelmOp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Namespace and name; empty if there is no HelmOp.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub helm_op: String,
    pub charts: Vec<ChartResolution>,
    /// Archives that it names by URL. They have no versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archives: Vec<String>,
}

/// A chart, and the version that would be selected now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartResolution {
    #[serde(flatten)]
    pub chart: ChartId,
    /// The selected version; `None` if there is none.
    pub selected: Option<Version>,
    /// Why none is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The version that is recorded for the request, and deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Version>,
    /// When the controller takes the selected version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptake: Option<Uptake>,
    /// The versions, newest first; `None` if the registry was requested for one tag alone.
    pub candidates: Option<Candidates>,
}

/// The versions of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidates {
    /// Those that are shown, newest first.
    #[serde(serialize_with = "shown_only")]
    pub versions: Vec<candidates::Row<Candidate>>,
    /// How many are not shown.
    pub omitted: usize,
    /// Entries of the index that are ignored because they are invalid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// How many tags of the registry are not versions.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_tags: usize,
}

impl Candidates {
    /// The versions of an explanation, shortened to those at these positions.
    pub fn new(explanation: &ChartExplanation, all: Vec<Candidate>, shown: &BTreeSet<usize>) -> Self {
        let skipped = explanation.skipped.iter().map(|skipped| Skipped {
            version: skipped.version.clone(),
            reason: skipped.fault,
        });
        Self {
            omitted: all.len() - shown.len(),
            versions: candidates::rows(all, shown),
            skipped: skipped.collect(),
            other_tags: explanation.other_tags,
        }
    }

    /// The versions that are shown.
    pub fn shown(&self) -> impl Iterator<Item = &Candidate> {
        shown(&self.versions)
    }
}

/// An invalid entry of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its version, as written.
    pub version: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn shown_only<S: serde::Serializer>(
    rows: &[candidates::Row<Candidate>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(shown(rows))
}

fn shown(rows: &[candidates::Row<Candidate>]) -> impl Iterator<Item = &Candidate> {
    rows.iter().filter_map(|row| match row {
        candidates::Row::Item(candidate) => Some(candidate),
        candidates::Row::Gap(_) => None,
    })
}

/// Prints the versions that would be selected now.
///
/// # Errors
/// If no version can be determined for a chart.
pub async fn run(
    args: &ResolveArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let args = &args.listing;
    let subject = args.subject.read(cluster, console).await?;
    let completed = subject.policies.apply_defaults(&subject.helmop);
    let valid = accept(&subject, &completed)?;
    let input = ResolutionInput {
        subject: &subject,
        valid: &valid,
        charts: RequestedCharts::of(&valid, subject.bundle.as_ref()),
        limit: args.limit(),
        now: Timestamp::now(),
    };
    let explain =
        async |fetcher: &mut HelmOpFetcher<'_>, request: &ChartRequest<'_>| fetcher.explain(request).await;
    let selections = args
        .of_each_chart(&subject, &valid, &input.charts, console, explain)
        .await?;
    let (resolution, failures) = input.resolution(&selections);
    match args.output.output {
        Format::Table => text::write(&resolution, false, console)?,
        Format::Wide => text::write(&resolution, true, console)?,
        Format::Json => write_json(&mut console.out, &resolution)?,
        Format::Yaml => write_yaml(&mut console.out, &resolution)?,
        Format::Name => {
            for chart in &resolution.charts {
                if let Some(version) = &chart.selected {
                    writeln!(console.out, "{}", chart.chart.with_version(&version.version))?;
                }
            }
        }
    }
    first(failures)
}

/// The first failure, with the number of the others. Those that kept the command from running take precedence.
fn first(mut failures: Vec<Failure>) -> Result<(), Failure> {
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.code));
    let others = failures.len().saturating_sub(1);
    match failures.into_iter().next() {
        None => Ok(()),
        Some(failure) if others == 0 => Err(failure),
        Some(mut failure) => {
            failure.message = format!("{} (and {others} other charts failed)", failure.message);
            Err(failure)
        }
    }
}

/// What the resolution of a HelmOp depends on.
pub struct ResolutionInput<'v, 'a> {
    /// The HelmOp, as it is read.
    pub subject: &'v Subject,
    /// It, with defaults.
    pub valid: &'v ValidHelmOp<'a>,
    /// Its charts, with the recorded versions.
    pub charts: RequestedCharts<'v, 'a>,
    /// How many versions are shown.
    pub limit: Option<usize>,
    pub now: Timestamp,
}

impl ResolutionInput<'_, '_> {
    /// The report, and the failures of its charts.
    pub fn resolution(
        &self,
        selections: &[Result<ExplainedSelection, FetchFailure>],
    ) -> (Resolution, Vec<Failure>) {
        let (subject, mut failures, mut charts) = (self.subject, Vec::new(), Vec::new());
        for (chart, selection) in self.charts.as_slice().iter().zip(selections) {
            let problem = match selection {
                Err(error) => {
                    failures.push(report::failure(error, subject.origin, &subject.helmop));
                    Some(Problem::from(error))
                }
                Ok(selection) => selection.selected.as_ref().err().map(|error| {
                    failures.push(report::not_selected(error));
                    Problem::from(error)
                }),
            };
            charts.push(self.chart(chart, selection.as_ref().ok(), problem));
        }
        let resolution = Resolution {
            helm_op: subject.name(),
            charts,
            archives: report::archives(self.valid),
        };
        (resolution, failures)
    }

    fn chart(
        &self,
        chart: &RequestedChart<'_, '_>,
        selection: Option<&ExplainedSelection>,
        problem: Option<Problem>,
    ) -> ChartResolution {
        let selected = selection.and_then(|selection| selection.selected.as_ref().ok());
        let id = ChartId::of(chart, &self.charts, self.valid, self.subject.origin);
        let bundle: Option<&Bundle> = self.subject.bundle.as_ref();
        let uptake = UptakeInput {
            origin: self.subject.origin,
            valid: self.valid,
            bundle,
            repo: self.charts.first_repo(),
            now: self.now,
        };
        let marks = Landmarks {
            current: None,
            recorded: chart.version.as_ref().map(|version| version.version.as_str()),
        };
        let explanation = selection.and_then(|selection| selection.explanation.as_ref());
        ChartResolution {
            selected: selected.map(Version::from),
            problem,
            recorded: chart.version.as_ref().map(Version::from),
            uptake: selected.and_then(|selected| uptake.of(chart, selected)),
            candidates: explanation.map(|explanation| {
                let all = candidates(explanation, &id.requested, marks);
                let required = all
                    .iter()
                    .enumerate()
                    .filter(|(_, row)| row.marks.iter().any(|mark| *mark != "newest"))
                    .map(|(at, _)| at);
                let shown = candidates::shown(self.limit, all.len(), required, 0..all.len());
                Candidates::new(explanation, all, &shown)
            }),
            chart: id,
        }
    }
}
