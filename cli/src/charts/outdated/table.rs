//! Outdated charts for a person.

use std::collections::BTreeMap;

use super::ChartState;
use crate::{
    charts::report::ChartId,
    failure::Failure,
    output::{Format, write_json, write_yaml},
    terminal::{
        Console,
        style::Style,
        table::{Cell, Table, one_line},
    },
};

/// How many names a warning has.
const MAX_NAMES: usize = 5;

/// Writes the charts in a format.
///
/// # Errors
/// If the output cannot be written.
pub fn write(
    states: &[ChartState],
    format: Format,
    has_namespaces: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match format {
        Format::Json => write_json(&mut console.out, &states)?,
        Format::Yaml => write_yaml(&mut console.out, &states)?,
        Format::Name => {
            let mut names: Vec<_> = states.iter().filter(|state| state.outdated).collect();
            names.dedup_by_key(|state| (&state.namespace, &state.name));
            for state in names {
                writeln!(console.out, "helmop.fleet.cattle.io/{}", state.name)?;
            }
        }
        Format::Table | Format::Wide => {
            if states.is_empty() {
                writeln!(console.err, "All charts have their newest versions.")?;
                return Ok(());
            }
            table(states, format == Format::Wide, has_namespaces).write(&mut console.out, console.styles)?;
            write_problems(states, console)?;
        }
    }
    Ok(())
}

fn table(states: &[ChartState], is_wide: bool, has_namespaces: bool) -> Table {
    let mut headings = vec!["NAME", "CHART", "CURRENT", "IN-RANGE", "NEWEST", "RANGE"];
    if has_namespaces {
        headings.insert(0, "NAMESPACE");
    }
    if is_wide {
        headings.extend(["REPOSITORY", "WHY"]);
    }
    let mut table = Table::new(&headings);
    for state in states {
        let mut cells = Vec::new();
        if has_namespaces {
            cells.push(Cell::from(&*state.namespace));
        }
        let chart = state.chart.as_ref();
        let text = |text: Option<&str>| Cell::from(text.unwrap_or_default());
        cells.extend([
            state.name.as_str().into(),
            text(chart.map(ChartId::name)),
            text(state.current.as_deref()),
            version(state, state.in_range.as_deref(), state.current.as_deref()),
            version(state, state.newest.as_deref(), state.in_range.as_deref()),
            text(chart.map(|chart| match &*chart.requested {
                "" => "*",
                range => range,
            })),
        ]);
        if is_wide {
            let why = match &state.problem {
                Some(problem) => problem.reason,
                None => &state.why,
            };
            cells.extend([text(chart.map(|chart| &*chart.repo)), why.into()]);
        }
        table.row(cells);
    }
    table
}

/// A version, emphasised if it is another one than that before.
fn version(state: &ChartState, version: Option<&str>, before: Option<&str>) -> Cell {
    match version {
        None if state.problem.is_some() => Cell::styled(Style::Bad, "<unknown>"),
        Some(version) if Some(version) != before => Cell::styled(Style::Pending, version),
        version => version.unwrap_or_default().into(),
    }
}

/// Each problem once, with the names of the HelmOps that have it.
fn write_problems(states: &[ChartState], console: &mut Console<'_>) -> Result<(), Failure> {
    let mut problems = BTreeMap::<&str, Vec<String>>::new();
    for state in states {
        if let Some(problem) = &state.problem {
            let name = format!("{}/{}", state.namespace, state.name);
            problems.entry(&problem.message).or_default().push(name);
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    // The table comes first.
    console.out.flush()?;
    for (message, mut names) in problems {
        names.dedup();
        let others = names.len().saturating_sub(MAX_NAMES);
        names.truncate(MAX_NAMES);
        if others > 0 {
            names.push(format!("{others} more"));
        }
        let line = one_line(&format!("{}: {message}", names.join(", ")));
        writeln!(console.err, "warning: {line}")?;
    }
    writeln!(
        console.err,
        "hint: versions were requested from this machine; the controller may have other network access, and its results are in: \
         kubectl helmop status -A"
    )?;
    Ok(())
}
