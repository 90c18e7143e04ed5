//! The metrics of the agent.

use std::time::SystemTime;

use helmops_api::{BundleDeployment, Decoded};
use helmops_model::{deployment_state::DeploymentState, reason::Reason};
use helmops_process::metrics::registered;
use helmops_runtime::metrics::{Controller, ERROR, ReconcileMetrics, SUCCESS};
use prometheus::{Gauge, IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::charts::chart_failures;

/// The loop of BundleDeployments, which keeps releases.
pub const BUNDLE_DEPLOYMENTS: Controller = Controller {
    label: "bundledeployment",
    failures: || {
        let mut failures = chart_failures();
        failures.extend(Reason::AGENT);
        failures
    },
};

/// Value of the label `correction` for releases whose drift is corrected.
const ENABLED: &str = "enabled";
/// Value of the label `correction` for releases whose drift is only reported.
const DISABLED: &str = "disabled";

/// The metrics of the agent, besides those of Helm and of charts.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// The metrics of reconciliations.
    pub reconciles: ReconcileMetrics,
    deployments: IntGaugeVec,
    last_heartbeat: Gauge,
}

impl Metrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the first
    /// event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            reconciles: ReconcileMetrics::register(registry, &[BUNDLE_DEPLOYMENTS])?,
            deployments: gauges(
                registry,
                "helmops_agent_bundledeployments",
                "BundleDeployments of the cluster by the state of their release; DecodeError if they do not decode.",
                "state",
            )?,
            last_heartbeat: registered(
                registry,
                Gauge::new(
                    "helmops_agent_last_heartbeat_timestamp_seconds",
                    "Unix time of the last report to the status of the Cluster; 0 if there was none.",
                )?,
            )?,
        };
        for state in DeploymentState::ALL {
            metrics.deployments.with_label_values(&[state.as_str()]);
        }
        metrics
            .deployments
            .with_label_values(&[Reason::DecodeError.as_str()]);
        Ok(metrics)
    }

    /// Counts a change of a BundleDeployment.
    pub fn changed(
        &self,
        before: Option<&Decoded<BundleDeployment>>,
        after: Option<&Decoded<BundleDeployment>>,
    ) {
        for (deployment, change) in [(before, -1), (after, 1)] {
            if let Some(deployment) = deployment {
                self.deployments
                    .with_label_values(&[state(deployment)])
                    .add(change);
            }
        }
    }

    /// Records a report to the status of the Cluster.
    pub fn heartbeat(&self) {
        if let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            self.last_heartbeat.set(now.as_secs_f64());
        }
    }
}

fn state(deployment: &Decoded<BundleDeployment>) -> &'static str {
    let decode_error = Reason::DecodeError.as_str();
    deployment.valid().map_or(decode_error, |deployment| {
        DeploymentState::of(deployment).as_str()
    })
}

#[derive(Clone, Debug)]
pub struct DriftMetrics {
    releases: IntGaugeVec,
    objects: IntGaugeVec,
    corrections: IntCounterVec,
}

/// How many objects of a release have drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriftCount {
    pub objects: usize,
    /// Whether drift of this release is corrected.
    pub is_corrected: bool,
}

impl DriftMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let corrections = Opts::new(
            "helmops_agent_drift_corrections_total",
            "Corrections of objects that differ from their chart, by result (success, error).",
        );
        let metrics = Self {
            releases: gauges(
                registry,
                "helmops_agent_drifted_releases",
                "Releases with objects that differ from their chart, by whether drift is corrected (enabled, disabled).",
                "correction",
            )?,
            objects: gauges(
                registry,
                "helmops_agent_drifted_objects",
                "Objects that differ from their chart, by whether drift is corrected (enabled, disabled).",
                "correction",
            )?,
            corrections: registered(registry, IntCounterVec::new(corrections, &["result"])?)?,
        };
        for correction in [ENABLED, DISABLED] {
            metrics.releases.with_label_values(&[correction]);
            metrics.objects.with_label_values(&[correction]);
        }
        for result in [SUCCESS, ERROR] {
            metrics.corrections.with_label_values(&[result]);
        }
        Ok(metrics)
    }

    /// Counts a change of the drift of a release.
    pub fn changed(&self, before: DriftCount, after: DriftCount) {
        for (count, sign) in [(before, -1), (after, 1)] {
            if count.objects == 0 {
                continue;
            }
            let correction = [if count.is_corrected { ENABLED } else { DISABLED }];
            let objects = i64::try_from(count.objects).unwrap_or(i64::MAX);
            self.releases.with_label_values(&correction).add(sign);
            self.objects.with_label_values(&correction).add(sign * objects);
        }
    }

    /// Counts corrections of objects.
    pub fn corrected(&self, successes: usize, errors: usize) {
        for (result, number) in [(SUCCESS, successes), (ERROR, errors)] {
            self.corrections
                .with_label_values(&[result])
                .inc_by(number as u64);
        }
    }
}

/// A gauge with one label.
///
/// # Errors
/// If its name is already registered.
pub fn gauges(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> Result<IntGaugeVec, prometheus::Error> {
    registered(registry, IntGaugeVec::new(Opts::new(name, help), &[label])?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use helmops_release::{
        names::ReleaseKey,
        record::{RecordError, Status},
        state::{ForeignOwner, Pending},
    };
    use helmops_runtime::{
        client::{ApiError, CallError},
        error_class::ClassifiedError,
    };
    use prometheus::TextEncoder;

    use super::*;
    use crate::{
        error::{AgentError, Lacking},
        monitor::{InstalledError, MonitorError},
        records::RecordStoreError,
        upstream::GuardError,
    };

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    fn assert_has(registry: &Registry, series: &[&str]) {
        let text = text(registry);
        for one in series {
            assert!(text.contains(&format!("{one}\n")), "{one} in {text}");
        }
    }

    #[test]
    fn bundledeployments_are_counted_by_the_state_that_they_have_now() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        assert_has(
            &registry,
            &[
                r#"helmops_agent_bundledeployments{state="DecodeError"} 0"#,
                r#"helmops_agent_bundledeployments{state="Ready"} 0"#,
            ],
        );
        let mut deployment = BundleDeployment::default();
        deployment.spec.deployment_id = "s-1:o".to_owned();
        let waiting = Decoded::Valid(deployment.clone().into());
        metrics.changed(None, Some(&waiting));
        assert_has(
            &registry,
            &[r#"helmops_agent_bundledeployments{state="WaitApplied"} 1"#],
        );
        deployment.status.applied_deployment_id = "s-1:o".to_owned();
        deployment.status.ready = true;
        deployment.status.non_modified = true;
        let ready = Decoded::Valid(deployment.into());
        metrics.changed(Some(&waiting), Some(&ready));
        metrics.changed(None, Some(&ready));
        metrics.changed(Some(&ready), None);
        let counted = text(&registry);
        let sum: i64 = counted
            .lines()
            .filter(|line| line.starts_with("helmops_agent_bundledeployments{"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<i64>().ok())
            .sum();
        assert_eq!(sum, 1, "{counted}");
        assert!(
            counted.contains("helmops_agent_bundledeployments{state=\"WaitApplied\"} 0\n"),
            "{counted}"
        );
    }

    #[test]
    fn drift_is_counted_once_for_each_release_and_ends_with_it() {
        let registry = Registry::new();
        let metrics = DriftMetrics::register(&registry).unwrap();
        let count = |objects, is_corrected| DriftCount {
            objects,
            is_corrected,
        };
        metrics.changed(count(0, false), count(3, false));
        metrics.changed(count(3, false), count(2, true));
        assert_has(
            &registry,
            &[
                r#"helmops_agent_drifted_releases{correction="disabled"} 0"#,
                r#"helmops_agent_drifted_releases{correction="enabled"} 1"#,
                r#"helmops_agent_drifted_objects{correction="disabled"} 0"#,
                r#"helmops_agent_drifted_objects{correction="enabled"} 2"#,
            ],
        );
        metrics.changed(count(2, true), count(0, true));
        metrics.corrected(2, 1);
        assert_has(
            &registry,
            &[
                r#"helmops_agent_drifted_releases{correction="enabled"} 0"#,
                r#"helmops_agent_drift_corrections_total{result="error"} 1"#,
                r#"helmops_agent_drift_corrections_total{result="success"} 2"#,
            ],
        );
    }

    #[test]
    fn the_reasons_of_failures_are_exactly_those_of_the_errors_without_duplicates() {
        let release = || ReleaseKey::new("shop", "web");
        let damaged = RecordStoreError::Damaged {
            release: release().records(),
            revision: 1,
            secret: String::new(),
            source: std::sync::Arc::new(RecordError::TooLarge),
        };
        let refused = GuardError::NoNamespace {
            namespace: String::new(),
        };
        let no_record = MonitorError::from(InstalledError::NoRecord {
            release: release(),
            revision: 1,
        });
        let pending = Pending {
            revision: 1,
            status: Status::PendingInstall,
        };
        let errors: [AgentError; 8] = [
            CallError::of("read", "it")(ApiError::Timeout).into(),
            damaged.into(),
            Lacking::FleetsAgent.into(),
            refused.into(),
            no_record.into(),
            AgentError::AttemptFailed(String::new()),
            AgentError::Busy {
                release: release(),
                pending,
            },
            AgentError::Foreign {
                release: release(),
                owner: ForeignOwner::Unmanaged,
            },
        ];
        let of_errors = errors.iter().map(ClassifiedError::reason);
        let of_errors: HashSet<_> = of_errors.chain(chart_failures()).collect();
        let failures = (BUNDLE_DEPLOYMENTS.failures)();
        let distinct: HashSet<_> = failures.iter().copied().collect();
        assert_eq!(distinct.len(), failures.len(), "{failures:?}");
        assert_eq!(distinct, of_errors);
    }
}
