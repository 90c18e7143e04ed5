//! Metrics of the runs of Helm.

use std::time::Duration;

use helmops_helm::{FailureReason, request::Action};
use helmops_process::metrics::{counters, registered};
use helmops_runtime::metrics::{ERROR, GaugeGuard, SUCCESS};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Registry};

/// Buckets in seconds: a run without hooks takes a fraction of a second, one with hooks as long as these.
const BUCKETS: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
];

/// Metrics of the runs of Helm.
#[derive(Clone, Debug)]
pub struct HelmMetrics {
    runs: IntCounterVec,
    duration: HistogramVec,
    failures: IntCounterVec,
    running: IntGauge,
}

impl HelmMetrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the first
    /// event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let duration = HistogramOpts::new(
            "helmops_agent_helm_duration_seconds",
            "Duration of a run of Helm by action, with its hooks and without the wait for a permit.",
        );
        let metrics = Self {
            runs: counters(
                registry,
                "helmops_agent_helm_runs_total",
                "Runs of Helm by action (install, upgrade, rollback, uninstall, test, crds, render, patch) and result (success, error).",
                &["action", "result"],
            )?,
            duration: registered(
                registry,
                HistogramVec::new(duration.buckets(BUCKETS.to_vec()), &["action"])?,
            )?,
            failures: counters(
                registry,
                "helmops_agent_helm_failures_total",
                "Failures of Helm by reason.",
                &["reason"],
            )?,
            running: registered(
                registry,
                IntGauge::new("helmops_agent_helm_processes", "Helm processes that are running.")?,
            )?,
        };
        for action in Action::NAMES {
            for result in [SUCCESS, ERROR] {
                metrics.runs.with_label_values(&[action, result]);
            }
            metrics.duration.with_label_values(&[action]);
        }
        for reason in FailureReason::ALL {
            metrics.failures.with_label_values(&[reason.as_str()]);
        }
        Ok(metrics)
    }

    /// Counts a running process until the guard is dropped.
    pub(super) fn running(&self) -> GaugeGuard {
        GaugeGuard::new(&self.running)
    }

    /// Counts a run that has ended.
    pub(super) fn ended(&self, action: &str, failure: Option<FailureReason>, took: Duration) {
        let result = failure.map_or(SUCCESS, |_| ERROR);
        self.runs.with_label_values(&[action, result]).inc();
        self.duration
            .with_label_values(&[action])
            .observe(took.as_secs_f64());
        if let Some(reason) = failure {
            self.failures.with_label_values(&[reason.as_str()]).inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn every_label_value_exists_from_the_start() {
        let registry = Registry::new();
        HelmMetrics::register(&registry).unwrap();
        let text = text(&registry);
        for action in ["install", "upgrade", "rollback", "uninstall"] {
            for result in ["success", "error"] {
                let series =
                    format!(r#"helmops_agent_helm_runs_total{{action="{action}",result="{result}"}} 0"#);
                assert!(text.contains(&series), "{series}");
            }
        }
        let reasons = text.matches("\nhelmops_agent_helm_failures_total{").count();
        assert_eq!(reasons, FailureReason::ALL.len());
    }

    #[test]
    fn a_failure_is_counted_with_its_reason_and_as_a_run() {
        let registry = Registry::new();
        let metrics = HelmMetrics::register(&registry).unwrap();
        metrics.ended("upgrade", None, Duration::from_secs(2));
        metrics.ended("upgrade", Some(FailureReason::Conflict), Duration::from_secs(2));
        let running = metrics.running();
        let during = text(&registry);
        drop(running);
        for series in [
            r#"helmops_agent_helm_runs_total{action="upgrade",result="success"} 1"#,
            r#"helmops_agent_helm_runs_total{action="upgrade",result="error"} 1"#,
            r#"helmops_agent_helm_failures_total{reason="Conflict"} 1"#,
            r#"helmops_agent_helm_duration_seconds_count{action="upgrade"} 2"#,
            "helmops_agent_helm_processes 1",
        ] {
            assert!(during.contains(&format!("{series}\n")), "{series}");
        }
        assert!(text(&registry).contains("helmops_agent_helm_processes 0\n"));
    }
}
