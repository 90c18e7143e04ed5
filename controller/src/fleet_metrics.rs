//! The gauges that Fleet's own controller exposes for each HelmOp, with the same names and labels, so that existing dashboards
//! and alerts keep working.
//!
//! They are computed from the cache at each scrape, so there is always exactly one series for each HelmOp: no stale series
//! remains of a deleted HelmOp or of an earlier chart name. Their number grows with the number of HelmOps, so they can be disabled.

use std::{borrow::Cow, fmt::Write, sync::Arc};

use bounded_text::hex;
use helmops_api::{Decoded, HelmOp, HelmOpStatus, limits, status::ResourceCounts};
use helmops_kube::ObjectCache;
use helmops_model::chart::url::redacted;
use ring::digest::{SHA256, digest};

/// Digits of a hash that distinguishes texts, also if an attacker chooses them: 128 bits.
const HASH_DIGITS: usize = 32;

/// Computes the value of a gauge from a status.
type GaugeValue = fn(&HelmOpStatus) -> i64;

const GAUGES: [(&str, &str, GaugeValue); 10] = [
    (
        "fleet_helmop_desired_ready_clusters",
        "Clusters that the HelmOp should be ready on.",
        |status| status.base.desired_ready_clusters.unwrap_or_default(),
    ),
    (
        "fleet_helmop_ready_clusters",
        "Clusters that the HelmOp is ready on.",
        |status| status.base.ready_clusters.unwrap_or_default(),
    ),
    (
        "fleet_helmop_resources_desired_ready",
        "Resources of the HelmOp that should be ready.",
        |status| counts(status, |counts| counts.desired_ready),
    ),
    (
        "fleet_helmop_resources_missing",
        "Resources of the HelmOp that are missing.",
        |status| counts(status, |counts| counts.missing),
    ),
    (
        "fleet_helmop_resources_modified",
        "Resources of the HelmOp that were modified on the cluster.",
        |status| counts(status, |counts| counts.modified),
    ),
    (
        "fleet_helmop_resources_not_ready",
        "Resources of the HelmOp that are not ready.",
        |status| counts(status, |counts| counts.not_ready),
    ),
    (
        "fleet_helmop_resources_orphaned",
        "Resources that no longer belong to the HelmOp.",
        |status| counts(status, |counts| counts.orphaned),
    ),
    (
        "fleet_helmop_resources_ready",
        "Resources of the HelmOp that are ready.",
        |status| counts(status, |counts| counts.ready),
    ),
    (
        "fleet_helmop_resources_unknown",
        "Resources of the HelmOp whose state is unknown.",
        |status| counts(status, |counts| counts.unknown),
    ),
    (
        "fleet_helmop_resources_wait_applied",
        "Resources of the HelmOp that wait to be applied.",
        |status| counts(status, |counts| counts.wait_applied),
    ),
];

/// Maximum size of all gauges in bytes. 10,000 HelmOps with ordinary labels take about 25 MB; the container has 256 MiB.
const MAX_SIZE: usize = 40 << 20;

/// The gauge that counts omitted HelmOps.
const OMITTED: &str = "helmops_fleet_metrics_omitted_helmops";

/// A HelmOp, and the labels of its gauges.
struct Series {
    labels: String,
    helmop: Arc<Decoded<HelmOp>>,
}

impl Series {
    /// An upper estimate of the size of all its gauges in bytes.
    fn size(&self) -> usize {
        // The name and the value are shorter than this.
        const WITHOUT_LABELS: usize = 64;
        GAUGES.len() * (self.labels.len() + WITHOUT_LABELS)
    }
}

/// Writes the gauges of these HelmOps.
///
/// If they exceed [`MAX_SIZE`] bytes, the HelmOps with the longest labels are omitted, and a gauge counts them.
pub fn expose(helmops: &ObjectCache<Decoded<HelmOp>>, text: &mut String) {
    expose_within(MAX_SIZE, helmops, text);
}

fn expose_within(max_size: usize, helmops: &ObjectCache<Decoded<HelmOp>>, text: &mut String) {
    let mut series: Vec<_> = helmops.state().into_iter().filter_map(series_of).collect();
    if series.is_empty() {
        return;
    }
    let omitted = omit(&mut series, max_size);
    // In one step, because growing a String temporarily takes twice the memory.
    text.reserve(series.iter().map(Series::size).sum());
    let empty = HelmOpStatus::default();
    for (name, help, value) in GAUGES {
        // Writing into a String does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for Series { labels, helmop } in &series {
            let status = helmop.valid().and_then(|helmop| helmop.status.as_ref());
            let value = value(status.unwrap_or(&empty));
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    let _ = writeln!(
        text,
        "# HELP {OMITTED} HelmOps without Fleet's metrics, because the metrics of all would be too large.\n# TYPE {OMITTED} gauge\n\
         {OMITTED} {omitted}"
    );
}

fn series_of(helmop: Arc<Decoded<HelmOp>>) -> Option<Series> {
    let labels = labels(helmop.valid()?);
    Some(Series { labels, helmop })
}

/// Omits HelmOps until the rest takes at most `max_size` bytes, and returns the number of omitted ones.
fn omit(series: &mut Vec<Series>, max_size: usize) -> usize {
    if series.iter().map(Series::size).sum::<usize>() <= max_size {
        return 0;
    }
    series.sort_by_key(|series| series.labels.len());
    let mut sum = 0;
    let kept = series
        .iter()
        .take_while(|series| {
            sum += series.size();
            sum <= max_size
        })
        .count();
    let omitted = series.len() - kept;
    series.truncate(kept);
    omitted
}

fn labels(helmop: &HelmOp) -> String {
    let helm = helmop.spec.bundle.options.helm.as_ref();
    let (repo, chart) = helm.map_or_else(Default::default, |helm| {
        (redacted(&helm.repo), redacted(&helm.chart))
    });
    let text = |text: &Option<String>| label(text.as_deref().unwrap_or_default());
    let version = helmop.status.as_ref().map(|status| label(&status.version));
    format!(
        "name=\"{}\",namespace=\"{}\",repo=\"{}\",chart=\"{}\",version=\"{}\"",
        text(&helmop.metadata.name),
        text(&helmop.metadata.namespace),
        label(&repo),
        label(&chart),
        version.unwrap_or_default(),
    )
}

/// Escapes and cuts a label value.
fn label(text: &str) -> String {
    // Prometheus keeps each value in memory.
    cut_distinct(text, limits::NAME)
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Replaces a text of more than `longest` bytes by its beginning, the mark `…` and a hash of the whole text, so that
/// different texts stay different.
fn cut_distinct(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    let mut hash = hex(digest(&SHA256, text.as_bytes()).as_ref());
    hash.truncate(HASH_DIGITS);
    let kept = longest.saturating_sub(HASH_DIGITS + '…'.len_utf8());
    let beginning = text.get(..text.floor_char_boundary(kept)).unwrap_or_default();
    Cow::Owned(format!("{beginning}…{hash}"))
}

fn counts(status: &HelmOpStatus, count: fn(&ResourceCounts) -> Option<i64>) -> i64 {
    let counts = status.base.resource_counts.as_ref();
    counts.and_then(count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn scrape(helmops: &[Value]) -> String {
        scrape_within(MAX_SIZE, helmops)
    }

    fn scrape_within(max_size: usize, helmops: &[Value]) -> String {
        let helmop =
            |helmop: &Value| -> Decoded<HelmOp> { serde_json::from_str(&helmop.to_string()).unwrap() };
        let store: ObjectCache<_> = helmops.iter().map(helmop).collect();
        let mut text = String::new();
        expose_within(max_size, &store, &mut text);
        text
    }

    #[test]
    fn each_helmop_has_one_series_of_each_gauge() {
        let helmop = json!({
            "metadata": { "name": "web", "namespace": "fleet-default" },
            "spec": { "helm": { "repo": "https://u:s3cr3t@charts.example.com", "chart": "web", "version": "1.x" } },
            "status": { "version": "1.2.3", "readyClusters": 2, "resourceCounts": { "missing": 1 } }
        });
        let text = scrape(&[helmop]);
        let labels = "{name=\"web\",namespace=\"fleet-default\",repo=\"https://charts.example.com\",chart=\"web\",version=\"1.2.3\"}";
        for line in [
            format!("fleet_helmop_ready_clusters{labels} 2"),
            format!("fleet_helmop_resources_missing{labels} 1"),
            format!("fleet_helmop_desired_ready_clusters{labels} 0"),
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "{line} is not in\n{text}"
            );
        }
        let series = text.lines().filter(|line| line.starts_with("fleet_")).count();
        assert_eq!(series, GAUGES.len());
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn no_helmops_give_no_series() {
        assert_eq!(scrape(&[]), "");
    }

    fn with_repo(name: &str, repo: &str) -> Value {
        json!({
            "metadata": { "name": name, "namespace": "fleet-default" },
            "spec": { "helm": { "repo": repo, "chart": "web" } },
            "status": { "version": repo }
        })
    }

    #[test]
    fn long_labels_are_cut_and_stay_distinct() {
        let long = |end: &str| format!("https://charts.example.com/{}{end}", "a\"".repeat(500_000));
        let text = scrape(&[with_repo("one", &long("1")), with_repo("one", &long("2"))]);
        assert!(text.len() < 50_000, "{} bytes", text.len());
        let other = with_repo("other", &long("2"));
        let text = scrape(&[with_repo("one", &long("1")), other]);
        let repos: std::collections::BTreeSet<_> = text
            .lines()
            .filter_map(|line| line.split("repo=").nth(1)?.split(",chart").next())
            .collect();
        assert_eq!(repos.len(), 2);
    }

    #[test]
    fn helmops_with_the_longest_labels_are_omitted_beyond_the_size_limit() {
        let ordinary: Vec<_> = (0..100)
            .map(|index| with_repo(&format!("web-{index}"), "https://charts.example.com"))
            .collect();
        let all = scrape(&ordinary);
        assert!(all.ends_with("helmops_fleet_metrics_omitted_helmops 0\n"));
        let long = |index| {
            with_repo(
                &format!("long-{index}"),
                &format!("{index}{}", "\n".repeat(5_000)),
            )
        };
        let more = [ordinary.clone(), (0..100).map(long).collect()].concat();
        let max_size = all.len() * 2;
        let text = scrape_within(max_size, &more);
        assert!(text.len() <= max_size + 4_096, "{} of {max_size}", text.len());
        for index in 0..100 {
            assert!(text.contains(&format!("name=\"web-{index}\"")), "{index}");
        }
        let omitted = text.lines().last().unwrap().rsplit(' ').next().unwrap();
        assert!(
            (50..100).contains(&omitted.parse::<usize>().unwrap()),
            "{omitted}"
        );
    }

    #[test]
    fn cut_texts_stay_different() {
        assert_eq!(cut_distinct("short", 5), "short");
        let (one, other) = ("ä".repeat(200) + "1", "ä".repeat(200) + "2");
        let (one, other) = (cut_distinct(&one, 253), cut_distinct(&other, 253));
        assert!(
            one.len() <= 253 && one.starts_with("ää") && one.contains('…'),
            "{one}"
        );
        assert_ne!(one, other);
    }
}
