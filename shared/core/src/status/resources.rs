//! The deployed objects with their states, and their counts by state, in total and for each cluster.

use std::collections::BTreeMap;

use bounded_text::printable;
use helmops_api::status::{Omitted, PerClusterState, Resource, ResourceCounts, StatusBase};

use super::{
    budget::{self, Budget},
    deployments::{Deployment, ObservedDeployment},
    objects::{ObjectKey, READY, Row, rows},
};

/// The JSON of an object without its texts, in bytes: names of fields and of the lists of clusters.
const RESOURCE_FRAME: usize = 280;
/// The JSON of the counts of a cluster without its name, including `managedFields`, in bytes.
const COUNTS_FRAME: usize = 320;

/// Sets the list of objects and the counts, within the [budget].
pub fn fill(base: &mut StatusBase, deployments: &[Deployment<'_>]) {
    let clusters: Vec<String> = deployments.iter().map(|one| one.name.to_string()).collect();
    let mut omitted = Omitted::default();
    let mut remaining = Budget::of(budget::TOTAL - budget::NON_READY);

    let counts = counts_by_cluster(deployments, &clusters);
    let mut total = zero_counts();
    for (_, counts) in &counts {
        add(&mut total, counts);
    }
    base.resource_counts = Some(total);
    base.per_cluster_resource_counts = bounded_counts(counts, &mut remaining, &mut omitted);
    let rows = bounded_rows(rows(deployments), &mut remaining, &mut omitted);
    base.resources = resources(&rows, &clusters, &mut remaining, &mut omitted);
    base.omitted = (omitted != Omitted::default()).then_some(omitted);
}

/// Clears them if deployments are not watched: what is unknown is not reported.
pub fn clear(base: &mut StatusBase) {
    base.resources = Vec::new();
    base.resource_counts = None;
    base.per_cluster_resource_counts = BTreeMap::new();
    base.omitted = None;
}

/// The counts of each cluster that reports them, in the order of clusters.
fn counts_by_cluster<'c>(
    deployments: &[Deployment<'_>],
    clusters: &'c [String],
) -> Vec<(&'c str, ResourceCounts)> {
    let mut counts: Vec<(&str, ResourceCounts)> = Vec::with_capacity(deployments.len());
    for (deployment, cluster) in deployments.iter().zip(clusters) {
        let ObservedDeployment::Decoded(object) = deployment.observed else {
            continue;
        };
        if counts.last().is_none_or(|(last, _)| last != cluster) {
            counts.push((cluster, zero_counts()));
        }
        if let (Some((_, total)), Some(own)) = (counts.last_mut(), &object.status.resource_counts) {
            add(total, own);
        }
    }
    counts
}

/// Number of objects of all deployments, by state.
pub fn counts(deployments: &[Deployment<'_>]) -> ResourceCounts {
    let mut total = zero_counts();
    for deployment in deployments {
        if let ObservedDeployment::Decoded(object) = deployment.observed
            && let Some(own) = &object.status.resource_counts
        {
            add(&mut total, own);
        }
    }
    total
}

/// Counts of 0. They are set, so that each is written.
fn zero_counts() -> ResourceCounts {
    let zero = Some(0);
    ResourceCounts {
        ready: zero,
        desired_ready: zero,
        wait_applied: zero,
        modified: zero,
        orphaned: zero,
        missing: zero,
        unknown: zero,
        not_ready: zero,
    }
}

fn add(total: &mut ResourceCounts, more: &ResourceCounts) {
    for (total, more) in [
        (&mut total.ready, more.ready),
        (&mut total.desired_ready, more.desired_ready),
        (&mut total.wait_applied, more.wait_applied),
        (&mut total.modified, more.modified),
        (&mut total.orphaned, more.orphaned),
        (&mut total.missing, more.missing),
        (&mut total.unknown, more.unknown),
        (&mut total.not_ready, more.not_ready),
    ] {
        let sum = total.unwrap_or_default().saturating_add(more.unwrap_or_default());
        *total = Some(sum);
    }
}

fn bounded_counts(
    counts: Vec<(&str, ResourceCounts)>,
    remaining: &mut Budget,
    omitted: &mut Omitted,
) -> BTreeMap<String, ResourceCounts> {
    // The name is in the status and in `managedFields`.
    let bytes = |(cluster, _): &(&str, ResourceCounts)| 2 * budget::text(cluster) + COUNTS_FRAME;
    let is_ready = |(_, counts): &(&str, ResourceCounts)| counts.ready == counts.desired_ready;
    let kept = bounded(counts, budget::CLUSTER_COUNTS, remaining, bytes, is_ready);
    omitted.per_cluster_resource_counts = kept.omitted;
    kept.items
        .into_iter()
        .map(|(cluster, counts)| (cluster.to_owned(), counts))
        .collect()
}

/// An object with its sort keys and its state on all clusters together.
struct ListedObject<'a> {
    r#type: String,
    id: String,
    state: &'a str,
    row: Row<'a>,
}

fn bounded_rows<'a>(
    rows: Vec<Row<'a>>,
    remaining: &mut Budget,
    omitted: &mut Omitted,
) -> Vec<ListedObject<'a>> {
    let mut rows: Vec<_> = rows.into_iter().map(ListedObject::of).collect();
    // The API version orders objects that are the same to Fleet.
    rows.sort_by(|one, other| {
        let key = |named: &ListedObject<'a>| named.row.key.api_version;
        (&one.r#type, &one.id, key(one)).cmp(&(&other.r#type, &other.id, key(other)))
    });
    let is_ready = |named: &ListedObject<'_>| named.state == READY;
    let kept = bounded(rows, budget::RESOURCES, remaining, ListedObject::bytes, is_ready);
    omitted.resources = kept.omitted;
    kept.items
}

impl<'a> ListedObject<'a> {
    fn of(row: Row<'a>) -> Self {
        Self {
            r#type: type_of(row.key),
            id: id_of(row.key),
            state: row.state(),
            row,
        }
    }

    fn bytes(&self) -> usize {
        let key = self.row.key;
        let texts = [
            &self.r#type,
            &self.id,
            key.kind,
            key.api_version,
            key.namespace,
            key.name,
            self.state,
        ];
        texts.map(budget::text).iter().sum::<usize>() + RESOURCE_FRAME
    }
}

/// Group and lower-case kind. The group of `v1` is empty.
fn type_of(key: ObjectKey<'_>) -> String {
    let kind = key.kind.to_lowercase();
    match key.api_version.split('/').next() {
        None | Some("" | "v1") => kind,
        Some(group) => format!("{group}.{kind}"),
    }
}

fn id_of(key: ObjectKey<'_>) -> String {
    if key.namespace.is_empty() {
        key.name.to_owned()
    } else {
        format!("{}/{}", key.namespace, key.name)
    }
}

/// The list of objects with the names of clusters, within the budget: first, for all objects, the clusters on which the object is
/// not ready, then the others.
fn resources(
    rows: &[ListedObject<'_>],
    clusters: &[String],
    remaining: &mut Budget,
    omitted: &mut Omitted,
) -> Vec<Resource> {
    let mut states: Vec<PerClusterState> = rows.iter().map(|_| PerClusterState::default()).collect();
    let mut is_truncated = vec![false; rows.len()];
    for ready in [false, true] {
        for ((named, states), is_truncated) in rows.iter().zip(&mut states).zip(&mut is_truncated) {
            for entry in named
                .row
                .entries
                .iter()
                .filter(|entry| (entry.state == READY) == ready)
            {
                let (Some(list), Some(cluster)) =
                    (list_of(states, entry.state), clusters.get(entry.deployment))
                else {
                    continue;
                };
                if remaining.take(budget::text(cluster)) {
                    list.push(cluster.clone());
                } else {
                    *is_truncated = true;
                    omitted.per_cluster_state += 1;
                }
            }
        }
    }
    rows.iter()
        .zip(states)
        .zip(is_truncated)
        .map(|((named, states), is_truncated)| named.resource(states, is_truncated))
        .collect()
}

impl ListedObject<'_> {
    fn resource(&self, states: PerClusterState, is_truncated: bool) -> Resource {
        let key = self.row.key;
        let plain = |text: &str| printable(text).into_owned();
        Resource {
            api_version: plain(key.api_version),
            kind: plain(key.kind),
            r#type: plain(&self.r#type),
            id: plain(&self.id),
            namespace: plain(key.namespace),
            name: plain(key.name),
            incomplete_state: self.row.is_incomplete || is_truncated,
            state: plain(self.state),
            per_cluster_state: (states != PerClusterState::default()).then_some(states),
            ..Resource::default()
        }
    }
}

/// The list of clusters for a state. Fleet has none for some states of deployments, nor for states that it does not know.
fn list_of<'s>(states: &'s mut PerClusterState, state: &str) -> Option<&'s mut Vec<String>> {
    Some(match state {
        READY => &mut states.ready,
        "WaitApplied" => &mut states.wait_applied,
        "Pending" => &mut states.pending,
        "Modified" => &mut states.modified,
        "Orphaned" => &mut states.orphaned,
        "Missing" => &mut states.missing,
        "Unknown" => &mut states.unknown,
        // The agent reports the last two for an object whose conditions show that it is not available.
        "NotReady" | "updating" | "error" => &mut states.not_ready,
        _ => return None,
    })
}

/// A list that was truncated to a budget.
struct Bounded<T> {
    items: Vec<T>,
    omitted: i64,
}

/// Keeps the `items`, in their order, that fit into `max` bytes and into the remaining budget; those that are not ready first.
fn bounded<T>(
    items: Vec<T>,
    max: usize,
    remaining: &mut Budget,
    bytes: impl Fn(&T) -> usize,
    is_ready: impl Fn(&T) -> bool,
) -> Bounded<T> {
    let mut own = Budget::of(max.min(remaining.remaining()));
    let mut is_kept = vec![false; items.len()];
    for ready in [false, true] {
        for (item, is_kept) in items
            .iter()
            .zip(&mut is_kept)
            .filter(|(item, _)| is_ready(item) == ready)
        {
            *is_kept = own.take(bytes(item));
        }
    }
    let used = max.min(remaining.remaining()) - own.remaining();
    remaining.take(used);
    let mut omitted = 0;
    let kept = items.into_iter().zip(is_kept).filter(|(_, is_kept)| {
        omitted += i64::from(!is_kept);
        *is_kept
    });
    let items = kept.map(|(item, _)| item).collect();
    Bounded { items, omitted }
}

#[cfg(test)]
mod tests;
