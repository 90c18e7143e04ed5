//! The resolution of a HelmOp for a person.

use std::io;

use super::{Candidates, ChartResolution, Resolution};
use crate::{
    charts::{
        candidates::{Candidate, Outcome, Row},
        report::Version,
    },
    terminal::{
        Console,
        style::Style,
        table::{Cell, Table, one_line},
    },
};

/// How many invalid entries of an index are shown, unless all versions are.
const MAX_SKIPPED: usize = 5;

/// Writes a block for each chart.
///
/// # Errors
/// If the output cannot be written.
pub fn write(resolution: &Resolution, is_wide: bool, console: &mut Console<'_>) -> io::Result<()> {
    if !resolution.helm_op.is_empty() {
        let name = one_line(&resolution.helm_op);
        writeln!(
            console.out,
            "HelmOp {}",
            console.styles.paint(Style::Strong, &name)
        )?;
    }
    for archive in &resolution.archives {
        let archive = one_line(archive);
        writeln!(
            console.out,
            "{archive} is an archive: it has no versions to select from"
        )?;
    }
    for (at, chart) in resolution.charts.iter().enumerate() {
        if at > 0 || !resolution.archives.is_empty() {
            writeln!(console.out)?;
        }
        write_chart(chart, is_wide, console)?;
    }
    Ok(())
}

fn write_chart(chart: &ChartResolution, is_wide: bool, console: &mut Console<'_>) -> io::Result<()> {
    let id = &chart.chart;
    field("Chart", id.place(), None, console)?;
    field("Requested", id.requested(), None, console)?;
    if let Some(recorded) = &chart.recorded {
        field("Recorded", recorded.version.clone(), None, console)?;
    }
    match (&chart.selected, &chart.problem) {
        (Some(selected), _) => {
            field("Selected", selected.version.clone(), Some(Style::Good), console)?;
            if let Some(commit) = selected.commit() {
                field("Commit", commit.to_owned(), None, console)?;
            }
            field("Digest", selected.digest.clone(), None, console)?;
            if selected.commit().is_none() {
                field("URL", selected.url.clone(), None, console)?;
            }
        }
        (None, Some(problem)) => field(
            "Selected",
            format!(
                "{}: {}",
                if chart.candidates.is_some() {
                    "none"
                } else {
                    "unknown"
                },
                problem.reason
            ),
            Some(Style::Bad),
            console,
        )?,
        (None, None) => field("Selected", String::new(), None, console)?,
    }
    if let Some(uptake) = &chart.uptake {
        let style = uptake.differs.then_some(Style::Pending);
        field("Taken", uptake.message.clone(), style, console)?;
    }
    match &chart.candidates {
        Some(candidates) => write_candidates(candidates, is_wide, console),
        // A Git repository and a bucket have none to choose from.
        None if chart.selected.as_ref().is_some_and(Version::is_packed) => Ok(()),
        None if chart.selected.is_some() => {
            writeln!(
                console.out,
                "\nThe registry is requested for this tag alone; all versions: kubectl helmop versions"
            )
        }
        None => Ok(()),
    }
}

fn field(name: &str, value: String, style: Option<Style>, console: &mut Console<'_>) -> io::Result<()> {
    let value = Cell::from(value);
    let text = match style.or(value.style) {
        Some(style) => console.styles.paint(style, &value.text),
        None => value.text,
    };
    writeln!(console.out, "  {:<12}{text}", format!("{name}:"))
}

fn write_candidates(candidates: &Candidates, is_wide: bool, console: &mut Console<'_>) -> io::Result<()> {
    writeln!(console.out)?;
    let mut headings = vec!["VERSION", "RESULT", "REASON"];
    if is_wide {
        headings = vec!["VERSION", "RESULT", "APP VERSION", "CREATED", "REASON"];
    }
    let mut table = Table::new(&headings);
    let last = candidates.versions.len().saturating_sub(1);
    for (at, row) in candidates.versions.iter().enumerate() {
        match row {
            // The line below the table has the number.
            Row::Gap(_) if at == last => {}
            Row::Item(candidate) => table.row(cells(candidate, is_wide)),
            Row::Gap(number) => table.row([
                Cell::styled(Style::Faint, "…"),
                Cell::styled(Style::Faint, format!("{number} more")),
            ]),
        }
    }
    let shown = if candidates.omitted > 0 {
        MAX_SKIPPED
    } else {
        usize::MAX
    };
    for skipped in candidates.skipped.iter().take(shown) {
        let mut cells = vec![
            Cell::from(skipped.version.clone()),
            Cell::styled(Style::Pending, "ignored"),
            Cell::from(format!("the entry of the index is invalid: {}", skipped.reason)),
        ];
        if is_wide {
            cells.splice(2..2, [Cell::from(""), Cell::from("")]);
        }
        table.row(cells);
    }
    table.write(&mut console.out, console.styles)?;
    if candidates.skipped.len() > shown {
        writeln!(
            console.out,
            "{} entries of the index are invalid; all: --all",
            candidates.skipped.len()
        )?;
    }
    if candidates.other_tags > 0 {
        writeln!(
            console.out,
            "{} other tags are not versions, such as 1.2.3.",
            candidates.other_tags
        )?;
    }
    if candidates.omitted > 0 {
        writeln!(
            console.out,
            "{} versions are not shown; all: --all",
            candidates.omitted
        )?;
    }
    Ok(())
}

fn cells(candidate: &Candidate, is_wide: bool) -> Vec<Cell> {
    let style = match candidate.outcome {
        Outcome::Selected => Some(Style::Good),
        Outcome::Kept => None,
        Outcome::Rejected => Some(Style::Faint),
    };
    let mut reason = candidate.reason.clone();
    for (is, text) in [
        (candidate.marks.contains(&"recorded"), "recorded"),
        (candidate.deprecated, "deprecated"),
    ] {
        if is {
            reason = format!("{reason}; {text}");
        }
    }
    let cell = |text: &str| match style {
        Some(style) => Cell::styled(style, text),
        None => Cell::from(text),
    };
    let mut cells = vec![cell(&candidate.version), cell(candidate.outcome.as_str())];
    if is_wide {
        cells.extend([
            Cell::from(&*candidate.app_version),
            Cell::from(&*candidate.created),
        ]);
    }
    cells.push(cell(&reason));
    cells
}
