//! The gauges that Fleet's own controller has of each HelmOp, under its names and with its labels, so that dashboards and
//! alerts go on working.
//!
//! They are made of the store when Prometheus asks, so that there is one series for each HelmOp at any time: nothing is
//! left of those that are gone, or of what a chart was called before. Their number grows with that of HelmOps, so they can
//! be switched off.

use std::fmt::Write;

use helmops_shared::{
    api::{Guarded, HelmOp, HelmOpStatus, status::ResourceCounts},
    chart::url::redacted,
};
use kube::runtime::reflector::Store;

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

/// Writes the gauges of these HelmOps.
pub fn expose(helmops: &Store<Guarded<HelmOp>>, text: &mut String) {
    let helmops = helmops.state();
    let series: Vec<_> = helmops
        .iter()
        .filter_map(|object| match &**object {
            Guarded::Good(helmop) => Some((labels(helmop), helmop.status.as_ref())),
            Guarded::Odd { .. } => None,
        })
        .collect();
    if series.is_empty() {
        return;
    }
    let none = HelmOpStatus::default();
    for (name, help, value) in GAUGES {
        // Writing into a String does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, status) in &series {
            let value = value(status.unwrap_or(&none));
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
}

fn labels(helmop: &HelmOp) -> String {
    let asked = helmop.spec.bundle.options.helm.as_ref();
    let (repo, chart) = asked.map_or_else(Default::default, |asked| {
        (redacted(&asked.repo), redacted(&asked.chart))
    });
    let text = |text: &Option<String>| escaped(text.as_deref().unwrap_or_default());
    let version = helmop.status.as_ref().map(|status| escaped(&status.version));
    format!(
        "name=\"{}\",namespace=\"{}\",repo=\"{}\",chart=\"{}\",version=\"{}\"",
        text(&helmop.metadata.name),
        text(&helmop.metadata.namespace),
        escaped(&repo),
        escaped(&chart),
        version.unwrap_or_default(),
    )
}

/// A text as the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn counts(status: &HelmOpStatus, count: fn(&ResourceCounts) -> Option<i64>) -> i64 {
    let counts = status.base.resource_counts.as_ref();
    counts.and_then(count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use serde_json::{Value, json};

    use super::*;

    fn scrape(helmops: &[Value]) -> String {
        let (store, mut writer) = reflector::store();
        for helmop in helmops {
            let helmop: Guarded<HelmOp> = serde_json::from_str(&helmop.to_string()).unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(helmop));
        }
        let mut text = String::new();
        expose(&store, &mut text);
        text
    }

    #[test]
    fn each_helmop_has_one_series_of_each_gauge() {
        let helmop = json!({
            "metadata": { "name": "web", "namespace": "fleet-default" },
            "spec": { "helm": { "repo": "https://u:geheim@charts.example.com", "chart": "web", "version": "1.x" } },
            "status": { "version": "1.2.3", "readyClusters": 2, "resourceCounts": { "missing": 1 } }
        });
        let text = scrape(&[helmop]);
        let labels = "{name=\"web\",namespace=\"fleet-default\",repo=\"https://charts.example.com\",chart=\"web\",version=\"1.2.3\"}";
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
    fn labels_hold_anything() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn no_helmop_is_no_series() {
        assert_eq!(scrape(&[]), "");
    }
}
