//! The comparison as Markdown, and whether it meets the limits.

use super::compare::{Comparison, Cost};
use crate::table::{ratio, table};

/// Resolving must be cheap: at the smaller size, Helm's loader takes at least this many times our CPU time.
const CPU_RATIO: f64 = 30.0;
/// Memory must not depend on the size of an index. This much is allowed for the parsed entries and the allocator.
const MEMORY_GROWTH: f64 = MIB * 4.0;
const MIB: f64 = 1_048_576.0;

const HEADINGS: [&str; 6] = ["entries", "MB", "reader", "CPU ms", "wall ms", "peak MiB"];

/// All medians, and the ratios.
pub fn report(comparisons: &[Comparison]) -> String {
    let rows = comparisons.iter().flat_map(rows);
    let headings = HEADINGS.map(str::to_owned).to_vec();
    table(std::iter::once(headings).chain(rows).collect())
}

fn rows(comparison: &Comparison) -> [Vec<String>; 3] {
    let Comparison {
        entries, ours, helm, ..
    } = comparison;
    #[expect(clippy::cast_precision_loss, reason = "files are smaller than 2^53 bytes")]
    let megabytes = format!("{:.1}", comparison.bytes as f64 / 1e6);
    let row = |reader: &str, figures: [String; 3]| {
        let first = [entries.to_string(), megabytes.clone(), reader.to_owned()];
        first.into_iter().chain(figures).collect()
    };
    let figures =
        |cost: &Cost| [cost.cpu * 1e3, cost.wall * 1e3, cost.peak / MIB].map(|figure| format!("{figure:.1}"));
    let ratios = [
        (ours.cpu, helm.cpu),
        (ours.wall, helm.wall),
        (ours.peak, helm.peak),
    ];
    [
        row("ours", figures(ours)),
        row("Helm's", figures(helm)),
        row("Helm's / ours", ratios.map(|(ours, helm)| ratio(helm, ours))),
    ]
}

/// The limits that are not met.
pub fn shortfalls(comparisons: &[Comparison]) -> Vec<String> {
    let [small, large] = comparisons else {
        return vec![format!("{} sizes were compared, not 2", comparisons.len())];
    };
    let cpu = small.helm.cpu / small.ours.cpu;
    let growth = large.ours.peak - small.ours.peak;
    let mut shortfalls = Vec::new();
    if cpu < CPU_RATIO {
        shortfalls.push(format!(
            "Helm's loader takes only {cpu:.1} times our CPU time; at least {CPU_RATIO} is required"
        ));
    }
    if growth > MEMORY_GROWTH {
        shortfalls.push(format!(
            "our peak memory grows by {:.1} MiB with the index; {:.1} are allowed",
            growth / MIB,
            MEMORY_GROWTH / MIB
        ));
    }
    shortfalls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<Comparison> {
        let cost = |cpu, peak: f64| Cost {
            cpu,
            wall: cpu * 1.25,
            peak: peak * MIB,
        };
        let small = Comparison {
            entries: 3600,
            bytes: 4_012_345,
            ours: cost(0.004, 6.0),
            helm: cost(0.4, 150.0),
        };
        let large = Comparison {
            entries: 45_000,
            bytes: 50_123_456,
            ours: cost(0.05, 6.5),
            helm: cost(5.0, 1300.0),
        };
        vec![small, large]
    }

    #[test]
    fn a_report_shows_both_and_their_ratio() {
        let expected = "\
| entries |   MB |        reader | CPU ms | wall ms | peak MiB |
| ------: | ---: | ------------: | -----: | ------: | -------: |
|    3600 |  4.0 |          ours |    4.0 |     5.0 |      6.0 |
|    3600 |  4.0 |        Helm's |  400.0 |   500.0 |    150.0 |
|    3600 |  4.0 | Helm's / ours | 100.00 |  100.00 |    25.00 |
|   45000 | 50.1 |          ours |   50.0 |    62.5 |      6.5 |
|   45000 | 50.1 |        Helm's | 5000.0 |  6250.0 |   1300.0 |
|   45000 | 50.1 | Helm's / ours | 100.00 |  100.00 |   200.00 |
";
        assert_eq!(report(&example()), expected);
    }

    #[test]
    fn missed_limits_are_reported() {
        let mut comparisons = example();
        assert_eq!(shortfalls(&comparisons), Vec::<String>::new());
        comparisons[0].ours.cpu *= 4.0;
        comparisons[1].ours.peak += 4.0 * MIB;
        assert_eq!(
            shortfalls(&comparisons),
            [
                "Helm's loader takes only 25.0 times our CPU time; at least 30 is required",
                "our peak memory grows by 4.5 MiB with the index; 4.0 are allowed",
            ]
        );
        assert_eq!(shortfalls(&[]).len(), 1);
    }
}
