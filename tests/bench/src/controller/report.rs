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

/// All scenarios as Markdown.
pub fn report(measured: &[Measured]) -> String {
    let headings = HEADINGS.map(str::to_owned).to_vec();
    let rows = measured.iter().flat_map(rows);
    table(std::iter::once(headings).chain(rows).collect())
}

fn rows(measured: &Measured) -> Vec<Vec<String>> {
    let (time, bare) = (measured.time.as_secs_f64(), measured.bare.as_secs_f64());
    let ratio = format!("{:.2} ({bare:.2} s)", time / bare);
    let mut rows = vec![row(
        measured,
        "all done",
        [format!("{time:.2}"), ratio],
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
