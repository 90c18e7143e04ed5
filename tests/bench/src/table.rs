//! Reports as Markdown tables that are readable as plain text.

use std::time::Duration;

use super::figures::{Figures, median};
use super::load::Load;
use super::measure::{Memory, Report};

const LOAD: [&str; 2] = ["webhook", "streams"];
const FIGURES: [&str; 8] = [
    "requests/s",
    "p50 µs",
    "p90 µs",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "server CPU s per 1,000",
    "errors",
];

/// All medians of a server.
pub fn report(report: &Report) -> String {
    let start = milliseconds(&report.starts);
    let [idle, peak] = mebibytes(&report.memory);
    format!(
        "{}\ncold start, median of {}: {start:.1} ms\n{idle:.1} MiB resident idle, {peak:.1} MiB at the peak\n",
        loads(report),
        report.starts.len()
    )
}

fn loads(report: &Report) -> String {
    let rows = report.loads.iter().map(|(load, runs)| {
        let medians = Figures::medians(runs);
        let mut row = describe(*load).to_vec();
        row.push(format!("{:.0}", medians.rate));
        row.extend(medians.latency.iter().map(|micros| format!("{micros:.0}")));
        row.push(format!("{:.4}", medians.cpu));
        row.push(medians.wrong.to_string());
        row
    });
    let headings = LOAD.iter().chain(&FIGURES).map(ToString::to_string);
    table(std::iter::once(headings.collect()).chain(rows).collect())
}

/// The ratio of `ours` to `peer`: below 1 is better, except for the rate.
pub fn comparison(ours: &Report, peer: &Report) -> String {
    let headings = LOAD
        .iter()
        .chain(&["CPU", "p99", "requests/s"])
        .map(ToString::to_string)
        .collect();
    let rows = ours.loads.iter().filter_map(|(load, runs)| {
        let (a, b) = (Figures::medians(runs), Figures::medians(peer.loads.get(load)?));
        let mut row = describe(*load).to_vec();
        row.extend([
            ratio(a.cpu, b.cpu),
            ratio(a.p99(), b.p99()),
            ratio(a.rate, b.rate),
        ]);
        Some(row)
    });
    let ([idle, peak], [peer_idle, peer_peak]) = (mebibytes(&ours.memory), mebibytes(&peer.memory));
    format!(
        "{}\ncold start: {}\nresident idle {}, at the peak {}\n",
        table(std::iter::once(headings).chain(rows).collect()),
        ratio(milliseconds(&ours.starts), milliseconds(&peer.starts)),
        ratio(idle, peer_idle),
        ratio(peak, peer_peak)
    )
}

fn describe(load: Load) -> [String; LOAD.len()] {
    [load.webhook.as_str().to_owned(), load.streams.to_string()]
}

/// `-` if there were too few requests for a tick of the kernel's clock.
pub(super) fn ratio(ours: f64, peer: f64) -> String {
    let ratio = ours / peer;
    if ratio.is_finite() {
        format!("{ratio:.2}")
    } else {
        "-".to_owned()
    }
}

fn milliseconds(starts: &[Duration]) -> f64 {
    median(starts.iter().map(Duration::as_secs_f64)) * 1e3
}

fn mebibytes(memory: &[Memory]) -> [f64; 2] {
    let median =
        |kib: fn(&Memory) -> u32| median(memory.iter().map(|memory| f64::from(kib(memory)))) / 1024.0;
    [median(|memory| memory.idle), median(|memory| memory.peak)]
}

/// The first row contains the headings. Columns are as wide as their longest cell, and right-aligned like numbers.
pub(crate) fn table(mut rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let rule = widths
        .iter()
        .map(|width| format!("{}:", "-".repeat(width.saturating_sub(1))));
    rows.insert(rows.len().min(1), rule.collect());
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("| {cell:>width$} "));
        cells.collect::<String>() + "|\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::load::Webhook;

    fn figures(scale: f64) -> Figures {
        Figures {
            rate: 12_345.6 * scale,
            latency: [100.0, 200.0, 300.4, 400.0, 5000.0].map(|micros| micros * scale),
            cpu: 0.0625 * scale,
            wrong: 0,
        }
    }

    fn example(name: &str, scale: f64) -> Report {
        let load = |webhook, streams| Load { webhook, streams };
        let runs = vec![figures(scale), figures(scale * 9.0), figures(scale)];
        let memory = Memory {
            idle: 6 * 1024,
            peak: 10 * 1024,
        };
        Report {
            name: name.to_owned(),
            starts: [5, 4, 90]
                .map(Duration::from_millis)
                .map(|start| start.mul_f64(scale))
                .to_vec(),
            loads: BTreeMap::from([
                (load(Webhook::Mutate, 16), runs.clone()),
                (load(Webhook::Validate, 1), runs),
            ]),
            memory: vec![memory],
            first_error: None,
        }
    }

    #[test]
    fn a_report_shows_medians_in_order() {
        let expected = "\
|  webhook | streams | requests/s | p50 µs | p90 µs | p99 µs | p99.9 µs | max µs | server CPU s per 1,000 | errors |
| -------: | ------: | ---------: | -----: | -----: | -----: | -------: | -----: | ---------------------: | -----: |
| validate |       1 |      12346 |    100 |    200 |    300 |      400 |   5000 |                 0.0625 |      0 |
|   mutate |      16 |      12346 |    100 |    200 |    300 |      400 |   5000 |                 0.0625 |      0 |

cold start, median of 3: 5.0 ms
6.0 MiB resident idle, 10.0 MiB at the peak
";
        assert_eq!(report(&example("it", 1.0)), expected);
    }

    #[test]
    fn errors_of_all_repetitions_are_reported() {
        let mut with_errors = example("it", 1.0);
        for runs in with_errors.loads.values_mut() {
            runs[1].wrong = 7;
        }
        assert_eq!(report(&with_errors).matches("|      7 |\n").count(), 2);
    }

    #[test]
    fn a_comparison_is_ours_to_peer() {
        let expected = "\
|  webhook | streams |  CPU |  p99 | requests/s |
| -------: | ------: | ---: | ---: | ---------: |
| validate |       1 | 0.25 | 0.25 |       0.25 |
|   mutate |      16 | 0.25 | 0.25 |       0.25 |

cold start: 0.25
resident idle 1.00, at the peak 1.00
";
        assert_eq!(comparison(&example("it", 1.0), &example("other", 4.0)), expected);
    }

    #[test]
    fn a_ratio_to_zero_is_not_shown() {
        assert_eq!(ratio(0.0, 0.0), "-");
        assert_eq!(ratio(1.0, 0.0), "-");
        assert_eq!(ratio(0.0, 2.0), "0.00");
    }
}
