//! The table of the scenarios.

use super::run::Measured;
use crate::bench::table::table;

const HEADINGS: [&str; 10] = [
    "HelmOps",
    "index",
    "time s",
    "bare writes s",
    "ratio",
    "CPU s",
    "peak MiB",
    "downloads",
    "304s",
    "writes",
];

/// All scenarios as Markdown.
pub fn report(measured: &[Measured]) -> String {
    let rows = measured.iter().map(|measured| {
        let writes = measured
            .writes
            .iter()
            .map(|(what, count)| format!("{count} {what}"));
        vec![
            measured.scenario.helmops.to_string(),
            if measured.scenario.large { "4 MB" } else { "tiny" }.to_owned(),
            format!("{:.2}", measured.time.as_secs_f64()),
            format!("{:.2}", measured.bare.as_secs_f64()),
            format!("{:.2}", measured.time.as_secs_f64() / measured.bare.as_secs_f64()),
            format!("{:.2}", measured.cpu.as_secs_f64()),
            format!("{:.1}", f64::from(measured.peak) / 1024.0),
            measured.downloads.to_string(),
            measured.revalidations.to_string(),
            writes.collect::<Vec<_>>().join(", "),
        ]
    });
    let headings = HEADINGS.map(str::to_owned).to_vec();
    table(std::iter::once(headings).chain(rows).collect())
}
