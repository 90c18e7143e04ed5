//! `status --watch`: changes as they happen. A terminal shows the newest state; otherwise each change is a line.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    time::Duration,
};

use futures::{Stream, StreamExt, stream::select_all};
use helmops_api::{Bundle, BundleDeployment, Decoded, HelmOp, WithoutObjects};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{Resource, ResourceExt, runtime::watcher};
use tokio::time::timeout;

use super::{
    clusters::ClusterReport,
    page::HelmOpReport,
    read::{Observed, Parts, events_of, observed},
    style,
    summary::{Columns, HelmOpSummary, sort},
};
use crate::{
    cluster::{
        Cluster,
        objects::Object,
        selection::{Scope, deployments_of},
        watch::Change,
    },
    failure::Failure,
    terminal::{
        Console,
        table::{Cell, MoreRows, Table},
    },
};

/// Changes that follow each other more closely are shown together: a status of one object leads to that of the next.
const PAUSE: Duration = Duration::from_millis(100);
/// How old the ages on a terminal may be.
const REFRESH: Duration = Duration::from_secs(5);

/// Where changes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// The newest state replaces the one before.
    Terminal,
    /// Each change is a line.
    Lines,
}

impl Screen {
    /// The screen for standard output.
    pub const fn of(is_terminal: bool) -> Self {
        if is_terminal { Self::Terminal } else { Self::Lines }
    }

    fn clear(self, console: &mut Console<'_>) -> Result<(), Failure> {
        match self {
            Self::Terminal => Ok(write!(console.out, "\u{1b}[H\u{1b}[2J\u{1b}[3J")?),
            Self::Lines => Ok(()),
        }
    }
}

/// The objects of a watch.
#[derive(Clone, Debug)]
pub struct Watched<K> {
    /// The objects by namespace and name.
    pub objects: BTreeMap<(String, String), Decoded<K>>,
    /// Those that exist, while all are listed again.
    pub listed: Option<BTreeSet<(String, String)>>,
    /// All were listed at least once.
    is_complete: bool,
}

impl<K> Default for Watched<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listed: None,
            is_complete: false,
        }
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Watched<K> {
    /// Applies a change.
    pub fn apply(&mut self, change: Change<K>) {
        let key = |object: &Decoded<K>| (object.namespace().unwrap_or_default(), object.name_any());
        match change {
            Change::Restarted => self.listed = Some(BTreeSet::new()),
            Change::Applied(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(key(&object));
                }
                self.objects.insert(key(&object), object);
            }
            Change::Deleted(object) => {
                self.objects.remove(&key(&object));
            }
            Change::Listed => {
                self.is_complete = true;
                if let Some(listed) = self.listed.take() {
                    self.objects.retain(|key, _| listed.contains(key));
                }
            }
        }
    }

    /// Whether the objects are those that exist.
    const fn is_current(&self) -> bool {
        self.is_complete && self.listed.is_none()
    }
}

/// The list of HelmOps, and its changes.
///
/// # Errors
/// If HelmOps cannot be watched.
pub async fn list(
    cluster: &Cluster,
    scope: Scope<'_>,
    selector: Option<&str>,
    columns: Columns,
    screen: Screen,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let config = watcher::Config {
        label_selector: selector.map(str::to_owned),
        ..watcher::Config::default()
    };
    let mut changes = std::pin::pin!(cluster.watch::<WithoutObjects>(scope, config));
    let mut watched = Watched::default();
    let mut before: Option<(Vec<HelmOpSummary>, MoreRows)> = None;
    while let Some(()) = next(&mut changes, screen, |change| watched.apply(change)).await? {
        if !watched.is_current() {
            continue;
        }
        let now = Timestamp::now();
        let objects = watched.objects.values();
        let mut summaries: Vec<_> = objects
            .map(|one| HelmOpSummary::of_listed(one, None, now))
            .collect();
        sort(&mut summaries);
        let rows = match before {
            Some((before, mut rows)) if screen == Screen::Lines => {
                for changed in changed(&before, &summaries) {
                    rows.row(&columns.cells(&changed, now), console.out, console.styles)?;
                }
                rows
            }
            _ => {
                screen.clear(console)?;
                columns
                    .table(&summaries, now)
                    .begin(console.out, console.styles)?
            }
        };
        console.out.flush()?;
        before = Some((summaries, rows));
    }
    Ok(())
}

fn by_name(summaries: &[HelmOpSummary]) -> BTreeMap<(&str, &str), &HelmOpSummary> {
    let summaries = summaries.iter();
    summaries
        .map(|one| ((&*one.namespace, &*one.name), one))
        .collect()
}

/// The summaries that differ from those before, and those of HelmOps that are gone.
fn changed(before: &[HelmOpSummary], after: &[HelmOpSummary]) -> Vec<HelmOpSummary> {
    let (mut old, new) = (by_name(before), by_name(after));
    let mut changed = Vec::new();
    for (key, summary) in new {
        if old.remove(&key) != Some(summary) {
            changed.push(summary.clone());
        }
    }
    changed.extend(old.into_values().map(|gone| HelmOpSummary {
        state: "Deleted".to_owned(),
        reason: String::new(),
        message: String::new(),
        ..gone.clone()
    }));
    changed
}

/// The next change, and those that follow closely; on a terminal also nothing, after a while, so that ages are current. Returns `None`
/// when the watch ends.
async fn next<C>(
    changes: &mut (impl Stream<Item = Result<C, Failure>> + Unpin),
    screen: Screen,
    mut apply: impl FnMut(C),
) -> Result<Option<()>, Failure> {
    let first = match screen {
        Screen::Lines => changes.next().await,
        Screen::Terminal => match timeout(REFRESH, changes.next()).await {
            Ok(first) => first,
            Err(_) => return Ok(Some(())),
        },
    };
    let Some(first) = first else {
        return Ok(None);
    };
    apply(first?);
    while let Ok(Some(change)) = timeout(PAUSE, changes.next()).await {
        apply(change?);
    }
    Ok(Some(()))
}

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
                        rows.row(line, console.out, console.styles)?;
                    }
                    rows
                } else {
                    let mut table = Table::new(&["OBJECT", "STATE", "VERSION", "RUNS", "MESSAGE"]);
                    for line in lines {
                        table.row(line);
                    }
                    table.begin(console.out, console.styles)?
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

    #[test]
    fn a_list_shows_what_is_new_changed_or_gone() {
        let summary = |name: &str, version: &str| HelmOpSummary {
            name: name.to_owned(),
            version: version.to_owned(),
            state: "Ready".to_owned(),
            ..HelmOpSummary::default()
        };
        let before = [summary("a", "1"), summary("b", "1"), summary("c", "1")];
        let after = [summary("a", "1"), summary("b", "2"), summary("d", "1")];
        let changed: Vec<_> = changed(&before, &after)
            .into_iter()
            .map(|one| (one.name, one.state))
            .collect();
        let expected = [("b", "Ready"), ("d", "Ready"), ("c", "Deleted")];
        assert_eq!(
            changed,
            expected.map(|(name, state)| (name.to_owned(), state.to_owned()))
        );
    }

    #[test]
    fn objects_that_are_not_listed_again_are_gone() {
        let object = |name: &str| -> Decoded<HelmOp> {
            serde_json::from_value(json!({ "metadata": { "namespace": "shop", "name": name } })).unwrap()
        };
        let mut watched = Watched::default();
        for change in [
            Change::Restarted,
            Change::Applied(object("a")),
            Change::Applied(object("b")),
            Change::Listed,
            Change::Applied(object("c")),
            Change::Restarted,
            Change::Applied(object("b")),
            Change::Listed,
        ] {
            watched.apply(change);
        }
        let names: Vec<_> = watched.objects.keys().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["b"]);
    }
}
