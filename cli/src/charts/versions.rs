//! `versions`: the available versions around the current one.

use helmops_core::bundle::{RequestedChart, RequestedCharts};
use helmops_fetch::ChartExplanation;
use helmops_model::chart::request::ChartRequest;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    candidates::{self, Candidate, Landmarks, Outcome, Row, candidates},
    fetcher::HelmOpFetcher,
    listing::ListingArgs,
    report::{self, ChartId, Version},
    resolve::Candidates,
    subject::accept,
};
use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{Format, write_json, write_yaml},
    terminal::{
        Console, age,
        style::Style,
        table::{Cell, Table, one_line},
    },
};

/// The arguments of `versions`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The versions around the current one, and which of them are in the range
  kubectl helmop versions web

  # All versions, with their applications and dates
  kubectl helmop versions web --all -o wide

  # Without a HelmOp
  kubectl helmop versions --repo https://charts.example.com --chart web")]
pub struct VersionsArgs {
    /// Which HelmOp, and how.
    #[command(flatten)]
    pub listing: ListingArgs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartVersions {
    #[serde(flatten)]
    pub chart: ChartId,
    #[serde(flatten)]
    pub versions: Candidates,
}

/// Prints the available versions.
///
/// # Errors
/// If the versions of a chart cannot be listed.
pub async fn run(
    args: &VersionsArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let args = &args.listing;
    let subject = args.subject.read(cluster, console).await?;
    let completed = subject.policies.apply_defaults(&subject.helmop);
    let valid = accept(&subject, &completed)?;
    let charts = RequestedCharts::of(&valid, subject.bundle.as_ref());
    let list =
        async |fetcher: &mut HelmOpFetcher<'_>, request: &ChartRequest<'_>| fetcher.list(request).await;
    let lists = args
        .of_each_chart(&subject, &valid, &charts, console, list)
        .await?;
    let limit = args.limit();
    let (mut found, mut failure) = (Vec::new(), None);
    let mut of_git = Vec::new();
    for (chart, list) in charts.as_slice().iter().zip(&lists) {
        let id = ChartId::of(chart, &charts, &valid, subject.origin);
        if chart.request.packed.is_some() {
            of_git.push(without_list(
                &id,
                chart.version.as_ref().map(Version::from).as_ref(),
            ));
            continue;
        }
        match list {
            Ok(list) => {
                let is_main = charts.main().is_some_and(|main| main.lookup == chart.lookup);
                let current = report::current(subject.bundle.as_ref()).filter(|_| is_main);
                found.push(chart_versions(id, chart, list, current, limit));
            }
            Err(error) => {
                failure.get_or_insert(report::failure(error, subject.origin, &subject.helmop));
            }
        }
    }
    write(&found, args.output.output, Timestamp::now(), console)?;
    for archive in report::archives(&valid) {
        let archive = one_line(&archive);
        writeln!(
            console.err,
            "{archive} is an archive: it has no versions to select from"
        )?;
    }
    for text in of_git {
        writeln!(console.err, "{}", one_line(&text))?;
    }
    failure.map_or(Ok(()), Err)
}

/// What is said of a chart in a Git repository, which has no list of versions.
pub fn without_list(id: &ChartId, recorded: Option<&Version>) -> String {
    let recorded = recorded.and_then(|version| Some((&version.version, version.commit()?)));
    let recorded = recorded
        .map(|(version, commit)| format!("; recorded is commit {commit}, version {version}"))
        .unwrap_or_default();
    format!(
        "{} has no list of versions: it follows {}{recorded}; what would be selected now: kubectl helmop resolve",
        id.place(),
        id.requested
    )
}

/// The versions of a chart, around the current one.
pub fn chart_versions(
    id: ChartId,
    chart: &RequestedChart<'_, '_>,
    list: &ChartExplanation,
    current: Option<&str>,
    limit: Option<usize>,
) -> ChartVersions {
    let recorded = chart.version.as_ref().map(|version| version.version.as_str());
    let all = candidates(list, &id.requested, Landmarks { current, recorded });
    let marked: Vec<_> = all
        .iter()
        .enumerate()
        .filter(|(_, row)| !row.marks.is_empty())
        .map(|(at, _)| at)
        .collect();
    let has = |mark: &str| all.iter().position(|row| row.marks.contains(&mark));
    let focus = has("current")
        .or(has("recorded"))
        .or(has("selected"))
        .unwrap_or(0);
    let shown = candidates::shown(limit, all.len(), marked, candidates::around(focus, all.len()));
    ChartVersions {
        chart: id,
        versions: Candidates::new(list, all, &shown),
    }
}

fn write(
    charts: &[ChartVersions],
    format: Format,
    now: Timestamp,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match format {
        Format::Json => write_json(&mut console.out, &charts)?,
        Format::Yaml => write_yaml(&mut console.out, &charts)?,
        Format::Name => {
            for chart in charts {
                for version in chart.versions.shown() {
                    writeln!(console.out, "{}", chart.chart.with_version(&version.version))?;
                }
            }
        }
        Format::Table | Format::Wide => {
            for (at, chart) in charts.iter().enumerate() {
                if at > 0 {
                    writeln!(console.out)?;
                }
                write_table(chart, format == Format::Wide, now, console)?;
            }
        }
    }
    Ok(())
}

/// Writes the table of a chart. Columns that a registry cannot fill are left out.
///
/// # Errors
/// If the output cannot be written.
pub fn write_table(
    versions: &ChartVersions,
    is_wide: bool,
    now: Timestamp,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let id = &versions.chart;
    let heading = format!("{} {}", id.name(), id.requested());
    writeln!(
        console.out,
        "{}",
        console.styles.paint(Style::Strong, &one_line(&heading))
    )?;
    let rows = &versions.versions;
    let has_dates = rows
        .shown()
        .any(|row| !row.created.is_empty() || !row.app_version.is_empty());
    let columns: Vec<Column> = Column::ALL
        .into_iter()
        .filter(|column| column.is_shown(is_wide, has_dates))
        .collect();
    let headings: Vec<_> = columns.iter().map(|column| column.heading()).collect();
    let mut table = Table::new(&headings);
    let last = rows.versions.len().saturating_sub(1);
    for (at, row) in rows.versions.iter().enumerate() {
        match row {
            // The line below the table has the number.
            Row::Gap(_) if at == last => {}
            Row::Item(version) => table.row(columns.iter().map(|column| column.cell(version, now))),
            Row::Gap(number) => table.row([Cell::styled(Style::Faint, format!("… {number} more"))]),
        }
    }
    table.write(&mut console.out, console.styles)?;
    if rows.omitted > 0 {
        writeln!(console.out, "{} versions are not shown; all: --all", rows.omitted)?;
    }
    Ok(())
}

/// A column of the table.
#[derive(Clone, Copy)]
enum Column {
    Version,
    AppVersion,
    Age,
    Created,
    InRange,
    Notes,
    Reason,
}

impl Column {
    const ALL: [Self; 7] = [
        Self::Version,
        Self::AppVersion,
        Self::Age,
        Self::Created,
        Self::InRange,
        Self::Notes,
        Self::Reason,
    ];

    const fn is_shown(self, is_wide: bool, has_dates: bool) -> bool {
        match self {
            Self::Version | Self::InRange | Self::Notes => true,
            Self::AppVersion | Self::Age => has_dates,
            Self::Created => has_dates && is_wide,
            Self::Reason => is_wide,
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Version => "VERSION",
            Self::AppVersion => "APP VERSION",
            Self::Age => "AGE",
            Self::Created => "CREATED",
            Self::InRange => "IN RANGE",
            Self::Notes => "NOTES",
            Self::Reason => "REASON",
        }
    }

    fn cell(self, version: &Candidate, now: Timestamp) -> Cell {
        let is_in_range = version.outcome != Outcome::Rejected;
        match self {
            Self::Version if version.outcome == Outcome::Selected => {
                Cell::styled(Style::Good, &*version.version)
            }
            Self::Version if !is_in_range => Cell::styled(Style::Faint, &*version.version),
            Self::Version => version.version.as_str().into(),
            Self::AppVersion => version.app_version.as_str().into(),
            Self::Age => {
                let created: Option<Timestamp> = version.created.parse().ok();
                created.map_or(Cell::from(""), |created| age::age(created, now).into())
            }
            Self::Created => version.created.as_str().into(),
            Self::InRange => if is_in_range { "yes" } else { "no" }.into(),
            Self::Notes => {
                let mut notes = version.marks.clone();
                notes.extend(version.prerelease.then_some("pre-release"));
                notes.extend(version.deprecated.then_some("deprecated"));
                notes.join(", ").into()
            }
            Self::Reason => version.reason.as_str().into(),
        }
    }
}
