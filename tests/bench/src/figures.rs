//! The measured figures and their medians.

use std::time::Duration;

use super::load::LoadResult;

/// The reported percentiles, in thousandths; the last is the maximum.
pub const PERCENTILES: [usize; 5] = [500, 900, 990, 999, 1000];

/// The figures of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Responses per second.
    pub rate: f64,
    /// Latencies in microseconds, at [`PERCENTILES`].
    pub latency: [f64; PERCENTILES.len()],
    /// CPU seconds of the server for 1,000 requests.
    pub cpu: f64,
    /// Wrong responses, including those during the warm-up.
    pub wrong: u32,
}

impl Figures {
    /// The figures of one result, for which the server used `cpu`.
    pub fn of(mut result: LoadResult, cpu: Duration) -> Self {
        result.latencies.sort_unstable();
        let count = u32::try_from(result.latencies.len()).map_or(f64::INFINITY, f64::from);
        Self {
            rate: count / result.elapsed.as_secs_f64(),
            latency: PERCENTILES.map(|share| percentile(&result.latencies, share).as_secs_f64() * 1e6),
            cpu: cpu.as_secs_f64() / count * 1000.0,
            wrong: result.wrong,
        }
    }

    /// The median of each figure, but the sum of all wrong responses.
    pub fn medians(all: &[Self]) -> Self {
        let each = |figure: &dyn Fn(&Self) -> f64| median(all.iter().map(figure));
        let mut latency = [0.0; PERCENTILES.len()];
        for (at, value) in latency.iter_mut().enumerate() {
            *value = each(&|figures| figures.latency.get(at).copied().unwrap_or(f64::NAN));
        }
        Self {
            rate: each(&|figures| figures.rate),
            latency,
            cpu: each(&|figures| figures.cpu),
            wrong: all.iter().map(|figures| figures.wrong).sum(),
        }
    }

    /// The latency, in microseconds, that 99 of 100 requests do not exceed.
    pub fn p99(&self) -> f64 {
        let [_, _, p99, _, _] = self.latency;
        p99
    }
}

/// The median: the middle value, or the mean of the two in the middle; NaN without values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let lower = values.len().checked_sub(1).and_then(|last| values.get(last / 2));
    lower.map_or(f64::NAN, |lower| f64::midpoint(*lower, upper))
}

/// The smallest of `sorted` that this number of thousandths of them do not exceed.
fn percentile(sorted: &[Duration], thousandths: usize) -> Duration {
    let rank = (sorted.len() * thousandths).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let sorted: Vec<_> = (1..=2000).map(Duration::from_micros).collect();
        let micros = PERCENTILES.map(|share| percentile(&sorted, share).as_micros());
        assert_eq!(micros, [1000, 1800, 1980, 1998, 2000]);
        let one = [Duration::from_micros(7)];
        assert!(PERCENTILES.iter().all(|share| percentile(&one, *share) == one[0]));
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert!((median([9.0, 1.0, 5.0].into_iter()) - 5.0).abs() < 1e-9);
        assert!((median([9.0, 1.0, 5.0, 2.0].into_iter()) - 3.5).abs() < 1e-9);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn rates_are_per_second_and_cpu_time_per_thousand_requests() {
        let result = LoadResult {
            elapsed: Duration::from_secs(2),
            latencies: (1..=500).rev().map(Duration::from_micros).collect(),
            wrong: 3,
            first_error: None,
        };
        let figures = Figures::of(result, Duration::from_millis(100));
        assert!(
            (figures.rate - 250.0).abs() < 1e-9 && (figures.cpu - 0.2).abs() < 1e-9,
            "{figures:?}"
        );
        assert!((figures.p99() - 495.0).abs() < 1e-6, "{figures:?}");
        assert_eq!(figures.wrong, 3);
    }

    #[test]
    fn one_bad_run_changes_no_median_but_its_wrong_responses_count() {
        let run = |rate: f64, wrong| Figures {
            rate,
            latency: [rate; 5],
            cpu: rate,
            wrong,
        };
        let medians = Figures::medians(&[run(10.0, 0), run(900.0, 2), run(11.0, 0)]);
        assert_eq!(medians, run(11.0, 2));
    }
}
