//! The report, as Markdown.

use std::time::Duration;

use super::by_hand::{ByHand, Cost};
use super::meter::Phase;
use super::run::Measured;
use crate::figures::median;
use crate::table::{ratio, table};

const PHASES: [&str; 11] = [
    "what",
    "time s",
    "agent CPU s",
    "Helm CPU s",
    "agent MiB",
    "peak MiB",
    "a Helm MiB",
    "all Helm MiB",
    "runs of Helm",
    "a run ms",
    "writes",
];
const BY_HAND: [&str; 7] = [
    "for each chart",
    "ms",
    "by hand ms",
    "ratio",
    "CPU ms",
    "by hand CPU ms",
    "CPU ratio",
];

/// A section for a scenario.
pub fn report(measured: &Measured) -> String {
    let Measured {
        scenario,
        empty,
        deploy,
        idle,
        restart,
        drift,
        remove,
        by_hand,
        ..
    } = measured;
    let phases = [empty, deploy, idle, restart, remove];
    let headings = PHASES.map(str::to_owned).to_vec();
    let phases = table(std::iter::once(headings).chain(phases.map(row)).collect());
    format!(
        "## {} charts, each {}\n\n{phases}\nrestart until ready: {:.2} s\ndrift until reported: {}\ndrift until corrected: {}\n\n{}",
        scenario.charts,
        scenario.objects.description(),
        measured.restart_ready.as_secs_f64(),
        samples(&drift.reported),
        samples(&drift.corrected),
        compared(scenario.charts, deploy, remove, by_hand),
    )
}

fn row(phase: &Phase) -> Vec<String> {
    let writes = phase.writes.iter().map(|(what, count)| format!("{count} {what}"));
    vec![
        phase.what.to_owned(),
        seconds(phase.time),
        seconds(phase.cpu),
        seconds(phase.helm_cpu),
        mebibytes(phase.memory.resident),
        mebibytes(phase.memory.peak),
        mebibytes(phase.helm_memory.one),
        mebibytes(phase.helm_memory.all),
        format!("{:.0}", phase.runs),
        if phase.runs > 0.0 {
            format!("{:.0}", phase.run_seconds / phase.runs * 1000.0)
        } else {
            String::new()
        },
        writes.collect::<Vec<_>>().join(", "),
    ]
}

fn samples(all: &[Duration]) -> String {
    let seconds = || all.iter().map(Duration::as_secs_f64);
    format!(
        "median {:.2} s, max {:.2} s of {}",
        median(seconds()),
        seconds().fold(f64::NAN, f64::max),
        all.len()
    )
}

/// Helm by hand may have installed fewer charts, so the costs are those of one chart.
fn compared(charts: usize, deploy: &Phase, remove: &Phase, by_hand: &ByHand) -> String {
    let row = |what: &str, ours: &Phase, hand: &Cost| {
        let each = |time: Duration, charts: usize| {
            let charts = u32::try_from(charts).map_or(f64::NAN, f64::from);
            time.as_secs_f64() * 1000.0 / charts
        };
        let (time, hand_time) = (each(ours.time, charts), each(hand.time, by_hand.charts));
        let (cpu, hand_cpu) = (
            each(ours.cpu + ours.helm_cpu, charts),
            each(hand.cpu, by_hand.charts),
        );
        vec![
            what.to_owned(),
            format!("{time:.0}"),
            format!("{hand_time:.0}"),
            ratio(time, hand_time),
            format!("{cpu:.0}"),
            format!("{hand_cpu:.0}"),
            ratio(cpu, hand_cpu),
        ]
    };
    let rows = vec![
        BY_HAND.map(str::to_owned).to_vec(),
        row("install", deploy, &by_hand.install),
        row("uninstall", remove, &by_hand.uninstall),
    ];
    let memory = by_hand.install.memory;
    format!(
        "{}\n{} charts by hand, {:.1} s; a Helm takes {} MiB\n",
        table(rows),
        by_hand.charts,
        by_hand.install.time.as_secs_f64(),
        mebibytes(memory.one),
    )
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn mebibytes(kib: u32) -> String {
    format!("{:.1}", f64::from(kib) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::children::HelmMemory;

    #[test]
    fn different_numbers_of_charts_are_compared_for_each_chart() {
        let ours = Phase {
            time: Duration::from_secs(100),
            cpu: Duration::from_secs(10),
            helm_cpu: Duration::from_secs(90),
            ..Phase::default()
        };
        let cost = Cost {
            time: Duration::from_secs(20),
            cpu: Duration::from_secs(40),
            memory: HelmMemory::default(),
        };
        let by_hand = ByHand {
            charts: 100,
            install: cost,
            uninstall: cost,
        };
        let text = compared(1000, &ours, &ours, &by_hand);
        let row = text.lines().find(|line| line.contains(" install ")).unwrap();
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(
            cells,
            ["", "install", "100", "200", "0.50", "100", "400", "0.25", ""]
        );
    }
}
