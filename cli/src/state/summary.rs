//! The state of a HelmOp in a line.

use helmops_api::{
    BucketSource, Bundle, Condition, Decoded, GitSource, HelmOp, HelmOpStatus, Metadata, PackedChartSource,
    WithoutObjects,
};
use helmops_model::chart::{source::ChartSource, url};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    polling::Polling,
    style,
    times::{relative, since},
};
use crate::terminal::table::{Cell, Table};

/// What `status` shows of each HelmOp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmOpSummary {
    pub namespace: String,
    pub name: String,
    pub chart: String,
    /// The URL of its repository or registry, without credentials.
    pub repo: String,
    /// The version that is deployed.
    pub version: String,
    /// The version or range that is requested.
    pub range: String,
    /// How many clusters are ready.
    pub ready_clusters: i64,
    /// How many clusters are targeted.
    pub desired_ready_clusters: i64,
    /// What it is doing, in a word.
    pub state: String,
    /// Why, as one of the reasons of conditions; empty if it is as it should be.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    pub polling: Polling,
    pub created: String,
}

impl HelmOpSummary {
    pub fn of_listed(listed: &Decoded<WithoutObjects>, bundle: Option<&Bundle>, now: Timestamp) -> Self {
        match listed {
            Decoded::Valid(helmop) => Self::of(helmop, bundle, now),
            Decoded::Invalid { metadata, error } => Self {
                state: "Invalid".to_owned(),
                reason: "DecodeError".to_owned(),
                message: error.to_string(),
                ..Self::of_metadata(metadata)
            },
        }
    }

    /// The summary of a HelmOp. The Bundle, if it is known, records which poll was handled.
    pub fn of(helmop: &HelmOp, bundle: Option<&Bundle>, now: Timestamp) -> Self {
        let none = HelmOpStatus::default();
        let status = helmop.status.as_ref().unwrap_or(&none);
        let Verdict {
            state,
            reason,
            message,
        } = Verdict::of(helmop, status);
        let helm = helmop.spec.bundle.options.helm.as_ref();
        let (repo, chart) = match helmop.spec.packed() {
            Some(PackedChartSource::Git(git)) => of_git(git),
            Some(PackedChartSource::Bucket(bucket)) => of_bucket(bucket, status),
            Some(PackedChartSource::Artifact(artifact)) => {
                let (repo, name) = names(&artifact.url, "");
                (
                    repo,
                    Some(&artifact.path)
                        .filter(|path| !path.is_empty())
                        .cloned()
                        .unwrap_or(name),
                )
            }
            Some(PackedChartSource::ConfigMaps(all)) => {
                let names: Vec<_> = all.iter().map(|one| &*one.name).collect();
                (String::new(), names.join(", "))
            }
            None => helm.map_or(Default::default(), |helm| names(&helm.repo, &helm.chart)),
        };
        Self {
            chart,
            repo,
            version: status.version.clone(),
            range: match (helmop.spec.packed(), status.resolved.first()) {
                (Some(_), resolved) => {
                    resolved.map_or_else(String::new, |resolved| resolved.constraint.clone())
                }
                (None, _) => helm.map(|helm| helm.version.clone()).unwrap_or_default(),
            },
            ready_clusters: status.base.ready_clusters.unwrap_or_default(),
            desired_ready_clusters: status.base.desired_ready_clusters.unwrap_or_default(),
            state: state.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            polling: Polling::of(helmop, bundle, now),
            ..Self::of_metadata(&helmop.metadata)
        }
    }

    fn of_metadata(metadata: &Metadata) -> Self {
        let created = metadata.creation_timestamp.as_ref();
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            created: created.map(|time| time.0.to_string()).unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// The repository without credentials, and the folder of the chart; without one, the chart is called as the repository.
fn of_git(git: &GitSource) -> (String, String) {
    let repo = url::redacted(&git.url);
    let name = repo
        .trim_end_matches('/')
        .rsplit(['/', ':'])
        .next()
        .unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(name);
    let chart = if git.path.is_empty() { name } else { &git.path };
    (repo.clone(), chart.to_owned())
}

/// The bucket as it is recorded, and the path of the chart; without one, the chart is called as the bucket.
fn of_bucket(bucket: &BucketSource, status: &HelmOpStatus) -> (String, String) {
    let recorded = status.resolved.first().map(|resolved| resolved.repo.clone());
    let path = if bucket.path.is_empty() {
        &bucket.bucket_name
    } else {
        &bucket.path
    };
    (
        recorded.unwrap_or_else(|| bucket.bucket_name.clone()),
        path.clone(),
    )
}

/// The repository without credentials, and the name of the chart. A registry names the chart at the end of its reference, and an archive
/// has neither.
fn names(repo: &str, chart: &str) -> (String, String) {
    match ChartSource::of(repo, chart) {
        ChartSource::Archive { .. } => (String::new(), url::redacted(chart)),
        ChartSource::Oci { repo } => {
            let name = repo.trim_end_matches('/').rsplit('/').next();
            (url::redacted(repo), name.unwrap_or_default().to_owned())
        }
        ChartSource::Repository { repo, chart } | ChartSource::Packed { repo, path: chart } => {
            (url::redacted(repo), chart.to_owned())
        }
    }
}

/// State, reason and message.
struct Verdict<'h> {
    state: &'h str,
    reason: &'h str,
    message: &'h str,
}

impl<'h> Verdict<'h> {
    /// The first thing that a person should know.
    fn of(helmop: &'h HelmOp, status: &'h HelmOpStatus) -> Self {
        let conditions = &status.base.conditions;
        let is = |name: &str, status: &str| {
            Condition::find(conditions, name).filter(|found| found.status == status)
        };
        let because = |state, condition: &'h Condition| Self {
            state,
            reason: &condition.reason,
            message: &condition.message,
        };
        if helmop.metadata.deletion_timestamp.is_some() {
            return Self::word("Deleting");
        }
        if let Some(refused) = is("Accepted", "False") {
            let state = if is("Stalled", "True").is_some() {
                "Stalled"
            } else {
                "Retrying"
            };
            return because(state, refused);
        }
        if !was_seen(status) {
            return Self {
                state: "New",
                reason: "",
                message: "the controller has not reconciled it yet",
            };
        }
        let failed_poll = is("Polled", "False");
        let Some(ready) = Condition::find(conditions, "Ready") else {
            return Self::word("Unknown");
        };
        if ready.status == "True" {
            let state = if is_suspended(helmop) {
                "Suspended"
            } else {
                "Ready"
            };
            return failed_poll.map_or(Self::word(state), |polled| because(state, polled));
        }
        let worst = status.base.display.as_ref().map(|display| &*display.state);
        let worst = worst.filter(|state| !state.is_empty() && *state != "Ready");
        let state = if is_suspended(helmop) {
            "Suspended"
        } else {
            worst.unwrap_or("NotReady")
        };
        because(state, ready)
    }

    const fn word(state: &'h str) -> Self {
        Self {
            state,
            reason: "",
            message: "",
        }
    }
}

/// Whether the controller has written a status.
fn was_seen(status: &HelmOpStatus) -> bool {
    !status.base.conditions.is_empty()
}

/// Whether the agents do nothing with the releases.
pub fn is_suspended(helmop: &HelmOp) -> bool {
    let options = &helmop.spec.bundle.options;
    let is_suspended = options.lifecycle.as_ref().and_then(|lifecycle| lifecycle.suspend);
    is_suspended == Some(true)
}

/// Sorts by namespace and name.
pub fn sort(summaries: &mut [HelmOpSummary]) {
    summaries.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
}

/// Which columns a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub namespace: bool,
    /// Those of `-o wide`.
    pub wide: bool,
}

impl Columns {
    pub fn headings(self) -> Vec<&'static str> {
        let mut headings = Vec::new();
        if self.namespace {
            headings.push("NAMESPACE");
        }
        headings.extend([
            "NAME",
            "VERSION",
            "RANGE",
            "READY",
            "STATE",
            "REASON",
            "POLLED",
            "NEXT POLL",
            "AGE",
        ]);
        if self.wide {
            headings.extend(["CHART", "REPO", "MESSAGE"]);
        }
        headings
    }

    /// The cells of a row.
    pub fn cells(self, summary: &HelmOpSummary, now: Timestamp) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        if self.namespace {
            cells.push((&*summary.namespace).into());
        }
        cells.extend([
            (&*summary.name).into(),
            (&*summary.version).into(),
            (&*summary.range).into(),
            style::ready(summary.ready_clusters, summary.desired_ready_clusters),
            style::state(&summary.state),
            (&*summary.reason).into(),
            relative(&summary.polling.last, now).into(),
            summary.polling.next_in_words(now).into(),
            since(&summary.created, now).into(),
        ]);
        if self.wide {
            cells.extend([
                (&*summary.chart).into(),
                (&*summary.repo).into(),
                Cell::or_blank(&*summary.message),
            ]);
        }
        cells
    }

    pub fn table(self, summaries: &[HelmOpSummary], now: Timestamp) -> Table {
        let mut table = Table::new(&self.headings());
        for summary in summaries {
            table.row(self.cells(summary, now));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        state::fixture::{golden, helmop, now},
        terminal::style::Styles,
    };

    #[test]
    fn the_state_is_the_first_thing_to_know() {
        let conditions = |list: &[[&str; 3]]| {
            let list: Vec<_> = list
                .iter()
                .map(|[name, status, reason]| json!({ "type": name, "status": status, "reason": reason }))
                .collect();
            json!({ "status": { "conditions": list } })
        };
        let accepted = ["Accepted", "True", "Accepted"];
        let with = |mut object: serde_json::Value, change: serde_json::Value| {
            json_merge(&mut object, &change);
            object
        };
        for (change, expected) in [
            (conditions(&[accepted, ["Ready", "True", "Ready"]]), ["Ready", ""]),
            (
                conditions(&[
                    accepted,
                    ["Polled", "False", "Timeout"],
                    ["Ready", "True", "Ready"],
                ]),
                ["Ready", "Timeout"],
            ),
            (
                with(
                    conditions(&[accepted, ["Ready", "False", "NotReady"]]),
                    json!({ "status": { "display": { "state": "ErrApplied" } } }),
                ),
                ["ErrApplied", "NotReady"],
            ),
            (
                with(
                    conditions(&[accepted, ["Ready", "False", "NoClusters"]]),
                    json!({ "status": { "display": { "state": "" } } }),
                ),
                ["NotReady", "NoClusters"],
            ),
            (
                conditions(&[
                    ["Accepted", "False", "NoMatchingVersion"],
                    ["Stalled", "True", "NoMatchingVersion"],
                ]),
                ["Stalled", "NoMatchingVersion"],
            ),
            (
                conditions(&[
                    ["Accepted", "False", "Timeout"],
                    ["Reconciling", "True", "Timeout"],
                ]),
                ["Retrying", "Timeout"],
            ),
            (conditions(&[]), ["New", ""]),
            (
                with(
                    conditions(&[accepted, ["Ready", "True", "Ready"]]),
                    json!({ "spec": { "lifecycle": { "suspend": true } } }),
                ),
                ["Suspended", ""],
            ),
            (
                with(
                    conditions(&[accepted]),
                    json!({ "metadata": { "deletionTimestamp": "2026-03-01T11:00:00Z" } }),
                ),
                ["Deleting", ""],
            ),
        ] {
            let summary = HelmOpSummary::of(&helmop(&change), None, now());
            assert_eq!([&*summary.state, &*summary.reason], expected, "{change}");
        }
    }

    fn json_merge(object: &mut serde_json::Value, change: &serde_json::Value) {
        *object = crate::state::fixture::merged(object, change);
    }

    #[test]
    fn the_chart_is_named_wherever_it_comes_from() {
        for (repo, chart, expected) in [
            (
                "https://u:secret@charts.example.com",
                "web",
                ["https://charts.example.com", "web"],
            ),
            (
                "oci://registry.example.com/shop/web",
                "",
                ["oci://registry.example.com/shop/web", "web"],
            ),
            (
                "",
                "https://charts.example.com/web-1.0.0.tgz",
                ["", "https://charts.example.com/web-1.0.0.tgz"],
            ),
        ] {
            let (repo, chart) = names(repo, chart);
            assert!(!repo.contains("secret"), "{repo}");
            if !expected[0].is_empty() {
                assert!(repo.ends_with(expected[0].rsplit("//").next().unwrap()), "{repo}");
            }
            assert_eq!(chart, expected[1]);
        }
    }

    #[test]
    fn a_chart_in_git_is_named_by_its_folder_or_its_repository() {
        for (url, path, expected) in [
            ("https://git.example.com/team/web.git", "", "web"),
            ("git@git.example.com:web", "", "web"),
            (
                "https://u:secret@git.example.com/team/charts",
                "charts/web",
                "charts/web",
            ),
        ] {
            let (repo, chart) = of_git(&GitSource {
                url: url.into(),
                path: path.into(),
                ..GitSource::default()
            });
            assert!(!repo.contains("secret"), "{repo}");
            assert_eq!(chart, expected, "{url}");
        }
    }

    #[test]
    fn the_table_is_as_in_kubectl() {
        let ready = helmop(&json!({ "metadata": { "namespace": "shop" } }));
        let refused = helmop(&json!({
            "metadata": { "name": "api" },
            "spec": { "pollingInterval": null, "helm": { "version": "9.x" } },
            "status": { "version": "", "readyClusters": 0, "lastPollingTriggered": "", "conditions": [
                { "type": "Accepted", "status": "False", "reason": "NoMatchingVersion", "message": "no version of chart \"web\" satisfies \"9.x\"" },
                { "type": "Stalled", "status": "True", "reason": "NoMatchingVersion" }
            ] }
        }));
        let mut all = [&ready, &refused].map(|one| HelmOpSummary::of(one, None, now()));
        sort(&mut all);
        let text = |columns: Columns| columns.table(&all, now()).text(Styles::new(false));
        let columns = Columns::default();
        golden("list.txt", &text(columns));
        let wide = Columns {
            namespace: true,
            wide: true,
        };
        golden("list-wide.txt", &text(wide));
    }
}
