//! The table of the scenarios.

use super::run::{Cost, Measured};
use crate::table::table;

const HEADINGS: [&str; 11] = [
    "HelmOps",
    "index",
    "polled",
    "what",
    "time s",
    "ratio to bare writes",
    "CPU s",
    "peak MiB",
    "downloads",
    "304s",
    "writes",
];

/// All scenarios as Markdown, each with its median run.
pub fn report(scenarios: &[Vec<Measured>]) -> String {
    let headings = HEADINGS.map(str::to_owned).to_vec();
    let rows = scenarios.iter().flat_map(|runs| rows(runs));
    table(std::iter::once(headings).chain(rows).collect())
}

fn rows(runs: &[Measured]) -> Vec<Vec<String>> {
    let Some(measured) = runs.get(runs.len() / 2) else {
        return Vec::new();
    };
    let time = format!("{:.2}", measured.time.as_secs_f64());
    let mut rows = vec![row(
        measured,
        "all done",
        [time, ratio(measured, runs)],
        &measured.cost,
    )];
    if let Some(cost) = &measured.restart {
        rows.push(row(measured, "restart", Default::default(), cost));
    }
    if let (Some(cost), Some(window)) = (&measured.afterwards, measured.scenario.afterwards) {
        let time = [window.as_secs().to_string(), String::new()];
        rows.push(row(measured, "then", time, cost));
    }
    rows
}

/// The ratio of the median, with the least and the greatest if there are several, and the time of the bare writes.
fn ratio(median: &Measured, runs: &[Measured]) -> String {
    let (ratio, bare) = (median.ratio(), median.bare.as_secs_f64());
    match runs {
        [least, .., greatest] => format!(
            "{ratio:.2} (of {}: {:.2} to {:.2}; {bare:.2} s)",
            runs.len(),
            least.ratio(),
            greatest.ratio()
        ),
        _ => format!("{ratio:.2} ({bare:.2} s)"),
    }
}

fn row(measured: &Measured, what: &str, [time, ratio]: [String; 2], cost: &Cost) -> Vec<String> {
    let scenario = measured.scenario;
    let writes = cost.writes.iter().map(|(what, count)| format!("{count} {what}"));
    vec![
        scenario.helmops.to_string(),
        if scenario.large { "4 MB" } else { "tiny" }.to_owned(),
        scenario.polling.unwrap_or("no").to_owned(),
        what.to_owned(),
        time,
        ratio,
        format!("{:.2}", cost.cpu.as_secs_f64()),
        format!("{:.1}", f64::from(cost.peak) / 1024.0),
        cost.downloads.to_string(),
        cost.revalidations.to_string(),
        writes.collect::<Vec<_>>().join(", "),
    ]
}
