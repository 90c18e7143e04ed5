//! The gauges that Fleet's own controller has of each HelmOp, under its names and with its labels, so that dashboards and
//! alerts go on working.
//!
//! They are made of the store when Prometheus asks, so that there is one series for each HelmOp at any time: nothing is
//! left of those that are gone, or of what a chart was called before. Their number grows with that of HelmOps, so they can
//! be switched off.

use helmops_shared::{
    api::{Guarded, HelmOp, HelmOpStatus, status::ResourceCounts},
    chart::url::redacted,
};
use kube::runtime::reflector::Store;
use prometheus::{
    IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

const LABELS: [&str; 5] = ["name", "namespace", "repo", "chart", "version"];

/// What a gauge tells of a status.
type Value = fn(&HelmOpStatus) -> i64;

const GAUGES: [(&str, &str, Value); 10] = [
    (
        "fleet_helmop_desired_ready_clusters",
        "Clusters that the HelmOp is to be ready on.",
        |status| status.base.desired_ready_clusters.unwrap_or_default(),
    ),
    (
        "fleet_helmop_ready_clusters",
        "Clusters that the HelmOp is ready on.",
        |status| status.base.ready_clusters.unwrap_or_default(),
    ),
    (
        "fleet_helmop_resources_desired_ready",
        "Resources of the HelmOp that are to be ready.",
        |status| counts(status, |counts| counts.desired_ready),
    ),
    (
        "fleet_helmop_resources_missing",
        "Resources of the HelmOp that are missing.",
        |status| counts(status, |counts| counts.missing),
    ),
    (
        "fleet_helmop_resources_modified",
        "Resources of the HelmOp that somebody has modified.",
        |status| counts(status, |counts| counts.modified),
    ),
    (
        "fleet_helmop_resources_not_ready",
        "Resources of the HelmOp that are not ready.",
        |status| counts(status, |counts| counts.not_ready),
    ),
    (
        "fleet_helmop_resources_orphaned",
        "Resources that the HelmOp has left behind.",
        |status| counts(status, |counts| counts.orphaned),
    ),
    (
        "fleet_helmop_resources_ready",
        "Resources of the HelmOp that are ready.",
        |status| counts(status, |counts| counts.ready),
    ),
    (
        "fleet_helmop_resources_unknown",
        "Resources of the HelmOp whose state is not known.",
        |status| counts(status, |counts| counts.unknown),
    ),
    (
        "fleet_helmop_resources_wait_applied",
        "Resources of the HelmOp that wait for being applied.",
        |status| counts(status, |counts| counts.wait_applied),
    ),
];

/// Makes the gauges.
pub struct FleetMetrics {
    helmops: Store<Guarded<HelmOp>>,
    descriptions: Vec<Desc>,
}

impl FleetMetrics {
    /// Of these HelmOps.
    ///
    /// # Errors
    /// None that can happen: the names and labels are those above.
    pub fn new(helmops: Store<Guarded<HelmOp>>) -> Result<Self, prometheus::Error> {
        let descriptions = GAUGES.iter().map(|(name, help, _)| {
            let labels = LABELS.map(str::to_owned).to_vec();
            Desc::new(
                (*name).to_owned(),
                (*help).to_owned(),
                labels,
                std::collections::HashMap::new(),
            )
        });
        Ok(Self {
            helmops,
            descriptions: descriptions.collect::<Result<_, _>>()?,
        })
    }

    fn gauge(
        &self,
        (name, help, value): (&str, &str, Value),
    ) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let gauge = IntGaugeVec::new(Opts::new(name, help), &LABELS)?;
        let none = HelmOpStatus::default();
        for object in self.helmops.state() {
            let Guarded::Good(helmop) = &*object else {
                continue;
            };
            let status = helmop.status.as_ref().unwrap_or(&none);
            let asked = helmop.spec.bundle.options.helm.as_ref();
            let (repo, chart) = asked.map_or_else(Default::default, |asked| {
                (redacted(&asked.repo), redacted(&asked.chart))
            });
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            gauge
                .with_label_values(&[
                    &text(&helmop.metadata.name),
                    &text(&helmop.metadata.namespace),
                    &repo,
                    &chart,
                    &status.version,
                ])
                .set(value(status));
        }
        Ok(gauge.collect())
    }
}

impl Collector for FleetMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A gauge without series is left out: an empty family is no family.
        let families = GAUGES.into_iter().filter_map(|gauge| self.gauge(gauge).ok());
        families
            .flatten()
            .filter(|family| !family.get_metric().is_empty())
            .collect()
    }
}

fn counts(status: &HelmOpStatus, count: fn(&ResourceCounts) -> Option<i64>) -> i64 {
    let counts = status.base.resource_counts.as_ref();
    counts.and_then(count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use prometheus::{Registry, TextEncoder};
    use serde_json::{Value, json};

    use super::*;

    fn scrape(helmops: &[Value]) -> String {
        let (store, mut writer) = reflector::store();
        for helmop in helmops {
            let helmop: Guarded<HelmOp> = serde_json::from_str(&helmop.to_string()).unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(helmop));
        }
        let registry = Registry::new();
        registry
            .register(Box::new(FleetMetrics::new(store).unwrap()))
            .unwrap();
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn each_helmop_has_one_series_of_each_gauge() {
        let helmop = json!({
            "metadata": { "name": "web", "namespace": "fleet-default" },
            "spec": { "helm": { "repo": "https://u:geheim@charts.example.com", "chart": "web", "version": "1.x" } },
            "status": { "version": "1.2.3", "readyClusters": 2, "resourceCounts": { "missing": 1 } }
        });
        let text = scrape(&[helmop]);
        let labels = "{chart=\"web\",name=\"web\",namespace=\"fleet-default\",repo=\"https://charts.example.com\",version=\"1.2.3\"}";
        for line in [
            format!("fleet_helmop_ready_clusters{labels} 2"),
            format!("fleet_helmop_resources_missing{labels} 1"),
            format!("fleet_helmop_desired_ready_clusters{labels} 0"),
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(series, GAUGES.len());
    }

    #[test]
    fn no_helmop_is_no_series() {
        assert_eq!(scrape(&[]), "");
    }
}
