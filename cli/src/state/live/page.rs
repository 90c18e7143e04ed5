//! The page of a HelmOp, and its changes.

use std::pin::Pin;

use futures::{Stream, StreamExt, stream::select_all};
use helmops_api::{Bundle, BundleDeployment, Decoded, HelmOp};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::runtime::watcher;

use super::{
    screen::{Screen, next},
    watched::Watched,
};
use crate::{
    cluster::{
        Cluster,
        objects::Object,
        selection::{Scope, deployments_of},
        watch::Change,
    },
    failure::Failure,
    state::{
        clusters::ClusterReport,
        page::HelmOpReport,
        read::{Observed, Parts, events_of, observed},
        style,
    },
    terminal::{
        Console,
        table::{Cell, MoreRows, Table},
    },
};

/// A change of something that the page shows.
enum PageChange {
    HelmOp(Change<HelmOp>),
    Bundle(Change<Bundle>),
    Deployment(Change<BundleDeployment>),
    Event(Change<Event>),
}

/// The page of a HelmOp, and its changes.
///
/// # Errors
/// If the HelmOp does not exist, is deleted, or cannot be watched.
pub async fn page(
    cluster: &Cluster,
    name: &str,
    screen: Screen,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    // Finds out what is wrong before a watch waits for something that does not exist.
    let first = observed(cluster, name, Parts::All).await?;
    let namespace = Scope::Namespace(&cluster.namespace);
    let config = watcher::Config::default;
    let own = config().fields(&format!("metadata.name={name}"));
    let deployments = config().labels(&deployments_of(&cluster.namespace, name));
    let events = config().fields(&events_of(name));
    let mut changes = select_all([
        changes_of(cluster, namespace, own.clone(), PageChange::HelmOp),
        or_none(changes_of(cluster, namespace, own, PageChange::Bundle), || {
            PageChange::Bundle(Change::Listed)
        }),
        or_none(
            changes_of(cluster, Scope::All, deployments, PageChange::Deployment),
            || PageChange::Deployment(Change::Listed),
        ),
        or_none(changes_of(cluster, Scope::All, events, PageChange::Event), || {
            PageChange::Event(Change::Listed)
        }),
    ]);
    let mut watched = WatchedPage::default();
    let mut view = PageView {
        screen,
        before: None,
        rows: None,
    };
    view.show(&first, console)?;
    while let Some(()) = next(&mut changes, screen, |change| watched.apply(change)).await? {
        if !watched.is_current() {
            continue;
        }
        match watched.observed(&first) {
            Some(observed) => view.show(&observed, console)?,
            None => {
                return Err(Failure::negative(format!(
                    "HelmOp {name:?} in {namespace} was deleted"
                )));
            }
        }
    }
    Ok(())
}

/// What the page shows.
#[derive(Default)]
struct WatchedPage {
    helmops: Watched<HelmOp>,
    bundles: Watched<Bundle>,
    deployments: Watched<BundleDeployment>,
    events: Watched<Event>,
}

impl WatchedPage {
    fn apply(&mut self, change: PageChange) {
        match change {
            PageChange::HelmOp(change) => self.helmops.apply(change),
            PageChange::Bundle(change) => self.bundles.apply(change),
            PageChange::Deployment(change) => self.deployments.apply(change),
            PageChange::Event(change) => self.events.apply(change),
        }
    }

    const fn is_current(&self) -> bool {
        self.helmops.is_current()
            && self.bundles.is_current()
            && self.deployments.is_current()
            && self.events.is_current()
    }

    /// The objects; `None` without a HelmOp. `first` has what could not be read.
    fn observed(&self, first: &Observed) -> Option<Observed> {
        Some(Observed {
            helmop: first_valid(&self.helmops)?,
            bundle: first_valid(&self.bundles),
            deployments: self.deployments.objects.values().cloned().collect(),
            events: self
                .events
                .objects
                .values()
                .filter_map(Decoded::valid)
                .cloned()
                .collect(),
            notes: first.notes.clone(),
        })
    }
}

type PageChanges<'a> = Pin<Box<dyn Stream<Item = Result<PageChange, Failure>> + 'a>>;

fn changes_of<'a, K: Object + Sync + 'static>(
    cluster: &'a Cluster,
    scope: Scope<'a>,
    config: watcher::Config,
    wrap: fn(Change<K>) -> PageChange,
) -> PageChanges<'a> {
    Box::pin(
        cluster
            .watch::<K>(scope, config)
            .map(move |change| change.map(wrap)),
    )
}

/// What cannot be watched is shown as an empty list: the page notes that it cannot be read.
fn or_none<'a>(changes: PageChanges<'a>, none: impl Fn() -> PageChange + 'a) -> PageChanges<'a> {
    Box::pin(changes.map(move |change| Ok(change.unwrap_or_else(|_| none()))))
}

fn first_valid<K: Clone>(watched: &Watched<K>) -> Option<K> {
    watched.objects.values().find_map(Decoded::valid).cloned()
}

/// What was shown of a page.
struct PageView {
    screen: Screen,
    before: Option<HelmOpReport>,
    rows: Option<MoreRows>,
}

impl PageView {
    fn show(&mut self, observed: &Observed, console: &mut Console<'_>) -> Result<(), Failure> {
        let now = Timestamp::now();
        let report = HelmOpReport::of(observed, now);
        match (self.screen, &self.before) {
            (Screen::Terminal, _) => {
                self.screen.clear(console)?;
                report.write(console, now)?;
            }
            (Screen::Lines, before) => {
                let lines = lines(before.as_ref(), &report);
                let rows = if let Some(mut rows) = self.rows.take() {
                    for line in &lines {
                        rows.row(line, &mut console.out, console.styles)?;
                    }
                    rows
                } else {
                    let mut table = Table::new(&["OBJECT", "STATE", "VERSION", "RUNS", "MESSAGE"]);
                    for line in lines {
                        table.row(line);
                    }
                    table.begin(&mut console.out, console.styles)?
                };
                self.rows = Some(rows);
            }
        }
        console.out.flush()?;
        self.before = Some(report);
        Ok(())
    }
}

/// A line for the HelmOp, and one for each cluster, if it has changed.
fn lines(before: Option<&HelmOpReport>, after: &HelmOpReport) -> Vec<[Cell; 5]> {
    let mut lines = Vec::new();
    let of_helmop = |report: &HelmOpReport| {
        let summary = &report.summary;
        [
            summary.state.clone(),
            summary.reason.clone(),
            summary.version.clone(),
            summary.message.clone(),
            format!(
                "{}/{} clusters",
                summary.ready_clusters, summary.desired_ready_clusters
            ),
        ]
    };
    let now = of_helmop(after);
    if before.map(of_helmop).as_ref() != Some(&now) {
        let [state, reason, version, message, ready] = now;
        let message = if message.is_empty() { reason } else { message };
        lines.push([
            format!("HelmOp {}/{}", after.summary.namespace, after.summary.name).into(),
            style::state(&state),
            version.into(),
            ready.into(),
            Cell::or_blank(message),
        ]);
    }
    let known = before.map(|before| &*before.clusters).unwrap_or_default();
    let find = |list: &[ClusterReport], name: &str| list.iter().find(|one| one.cluster == name).cloned();
    for cluster in &after.clusters {
        let old = find(known, &cluster.cluster);
        // At first, those that are ready are in the number of the HelmOp.
        let is_news = old.map_or(before.is_some() || !cluster.is_ready(), |old| old != *cluster);
        if is_news {
            lines.push(cluster_line(cluster, &cluster.state));
        }
    }
    for gone in known
        .iter()
        .filter(|old| find(&after.clusters, &old.cluster).is_none())
    {
        lines.push(cluster_line(gone, "Deleted"));
    }
    lines
}

fn cluster_line(cluster: &ClusterReport, state: &str) -> [Cell; 5] {
    [
        format!("Cluster {}", cluster.cluster).into(),
        style::state(state),
        (&*cluster.version).into(),
        (&*cluster.runs).into(),
        Cell::or_blank(&*cluster.message),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::fixture::{deployment, helmop, now, rollout};

    fn text(lines: &[[Cell; 5]]) -> Vec<String> {
        let cells = |line: &[Cell; 5]| {
            line.iter()
                .take(2)
                .map(|cell| cell.text.clone())
                .collect::<Vec<_>>()
        };
        lines.iter().map(|line| cells(line).join(" ")).collect()
    }

    #[test]
    fn a_line_is_printed_for_what_has_changed() {
        let first = HelmOpReport::of(&rollout(), now());
        assert_eq!(
            text(&lines(None, &first)),
            [
                "HelmOp shop/web ErrApplied",
                "Cluster shop/c2 ErrApplied",
                "Cluster shop/c3 NotReady",
                "Cluster shop/c4 Pending"
            ]
        );
        assert_eq!(text(&lines(Some(&first), &first)), Vec::<String>::new());
        let mut observed = rollout();
        observed.deployments[0] = deployment("c3", &json!({}));
        let second = HelmOpReport::of(&observed, now());
        assert_eq!(text(&lines(Some(&first), &second)), ["Cluster shop/c3 Ready"]);
        observed.deployments.remove(0);
        observed.helmop = helmop(&json!({}));
        let third = HelmOpReport::of(&observed, now());
        assert_eq!(
            text(&lines(Some(&second), &third)),
            [
                "HelmOp shop/web Ready",
                "Cluster shop/c3 Deleted",
                "Cluster shop/c4 Deleted"
            ]
        );
    }
}
