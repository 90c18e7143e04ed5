//! The page of one HelmOp.

use std::{collections::BTreeMap, mem};

use helmops_api::{
    Bundle, BundleDeployment, Cluster, Decoded, HelmOp, ObjectName, WithoutObjects, lifecycle::Dependency,
    target::BundleRef,
};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use serde::Serialize;

use super::{
    clusters::row,
    parts::Tone,
    rollout::Rollout,
    waits::{OnCluster, Wait, waits},
};
use crate::{
    state::{
        clusters::{ClusterReport, name, running},
        history::{AttemptReport, HistoryReport, ResolvedVersion},
        page::HelmOpReport,
        read::Observed,
        revisions::Revisions,
        summary::{HelmOpSummary, is_suspended},
    },
    ui::tables::Contents,
};

/// How many attempts are shown.
const MAX_ATTEMPTS: usize = 200;

/// The Events of a HelmOp, or why they cannot be read.
pub type Events = Result<Vec<Event>, String>;

/// What is known.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Namespace of the HelmOp.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// All HelmOps.
    pub helmops: &'a Contents<WithoutObjects>,
    /// All clusters.
    pub clusters: &'a Contents<Cluster>,
    /// Its Bundle.
    pub bundle: &'a Contents<Bundle>,
    /// Its BundleDeployments.
    pub deployments: &'a Contents<BundleDeployment>,
    /// Its Events.
    pub events: &'a Events,
    /// Helm's revisions on its clusters, as far as they have been read.
    pub revisions: &'a Revisions,
    /// The time.
    pub now: Timestamp,
}

/// What the page shows.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmOpView {
    /// Whether everything has been read once.
    pub is_known: bool,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// The HelmOp; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helmop: Option<Box<Details>>,
}

/// A HelmOp.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// As `kubectl helmop status NAME`, without the clusters.
    pub report: HelmOpReport,
    /// How good its state is.
    pub tone: Tone,
    /// How good its conditions are, in their order.
    pub condition_tones: Vec<Tone>,
    /// The roll-out.
    pub rollout: Rollout,
    /// What clusters wait for.
    pub waits: Vec<Wait>,
    /// What it depends on.
    pub depends_on: Vec<Related>,
    /// What depends on it.
    pub needed_by: Vec<Related>,
    /// Its clusters.
    pub clusters: Vec<OnClusterRow>,
    /// The versions that were resolved.
    pub resolved: Vec<ResolvedVersion>,
    /// The attempts, newest first.
    pub attempts: Vec<Attempt>,
    /// The number of attempts that are left out.
    pub older_attempts: usize,
    /// Which attempts are missing, and why.
    pub history_notes: Vec<String>,
}

/// Another HelmOp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Related {
    /// Its namespace.
    pub namespace: String,
    /// Its name; for a selector, what it selects, and for an object of clusters, its kind and name.
    pub name: String,
    /// Its state; empty for what is no HelmOp.
    pub state: String,
    /// How good its state is.
    pub tone: Tone,
    /// Whether it is a HelmOp that can be shown.
    pub exists: bool,
}

/// The release on a cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnClusterRow {
    /// As in `kubectl helmop status NAME`.
    #[serde(flatten)]
    pub report: ClusterReport,
    /// How good its state is.
    pub tone: Tone,
    /// The version that runs; empty if it is not known.
    pub running: String,
    /// When the agent of the cluster last reported; empty if it is not known.
    pub last_seen: String,
    /// Whether it has not reported for too long.
    pub is_silent: bool,
}

/// An attempt on a cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// As in `kubectl helmop history`.
    #[serde(flatten)]
    pub report: AttemptReport,
    /// How good its outcome is.
    pub tone: Tone,
}

impl HelmOpView {
    /// The view at a time.
    pub fn of(inputs: &Inputs<'_>) -> Self {
        let Inputs {
            helmops,
            clusters,
            bundle,
            deployments,
            events,
            ..
        } = *inputs;
        let notes = [
            helmops.note.clone(),
            clusters.note.clone(),
            bundle.note.clone(),
            deployments.note.clone(),
            events.as_ref().err().cloned(),
        ];
        let mut notes: Vec<_> = notes.into_iter().flatten().collect();
        let view = Self {
            is_known: helmops.is_known && bundle.is_known && deployments.is_known,
            ..Self::default()
        };
        let helmop = match helmops.get(inputs.namespace, inputs.name) {
            Some(Decoded::Valid(helmop)) => Some(Box::new(Details::of(helmop, inputs))),
            Some(Decoded::Invalid { error, .. }) => {
                notes.push(format!("The HelmOp does not decode: {error}"));
                None
            }
            None => None,
        };
        Self {
            notes,
            helmop,
            ..view
        }
    }
}

impl Details {
    fn of(helmop: &HelmOp, inputs: &Inputs<'_>) -> Self {
        let observed = Observed {
            helmop: helmop.clone(),
            bundle: inputs.bundle.objects().find_map(Decoded::valid).cloned(),
            deployments: inputs.deployments.objects().cloned().collect(),
            events: inputs.events.clone().unwrap_or_default(),
            notes: Vec::new(),
        };
        let mut report = HelmOpReport::of(&observed, inputs.now);
        let clusters = mem::take(&mut report.clusters);
        let counted = helmop
            .status
            .as_ref()
            .and_then(|status| status.base.summary.as_ref());
        let rollout = Rollout::of(
            observed.bundle.as_ref(),
            counted,
            &report.summary.version,
            &clusters,
            &observed.deployments,
        );
        let deployments: BTreeMap<_, _> = observed
            .deployments
            .iter()
            .filter_map(Decoded::valid)
            .map(|deployment| (name(deployment), deployment))
            .collect();
        let on_clusters: Vec<_> = clusters
            .iter()
            .map(|report| on_cluster(report, &deployments, inputs))
            .collect();
        let history = HistoryReport::of(&observed, None, inputs.revisions).unwrap_or_default();
        Self {
            tone: Tone::of(&report.summary.state),
            condition_tones: report
                .conditions
                .iter()
                .map(|condition| Tone::of_condition(&condition.r#type, &condition.status))
                .collect(),
            waits: waits(on_clusters.iter().copied(), &rollout, is_suspended(helmop)),
            depends_on: depends_on(helmop, inputs),
            needed_by: needed_by(inputs),
            clusters: on_clusters.into_iter().map(OnClusterRow::of).collect(),
            resolved: history.resolved,
            history_notes: history.notes,
            older_attempts: history.attempts.len().saturating_sub(MAX_ATTEMPTS),
            attempts: history
                .attempts
                .into_iter()
                .take(MAX_ATTEMPTS)
                .map(Attempt::of)
                .collect(),
            rollout,
            report,
        }
    }
}

fn on_cluster<'a>(
    report: &'a ClusterReport,
    deployments: &BTreeMap<String, &'a BundleDeployment>,
    inputs: &Inputs<'a>,
) -> OnCluster<'a> {
    let (namespace, name) = report.cluster.split_once('/').unwrap_or_default();
    let cluster = inputs.clusters.get(namespace, name).and_then(Decoded::valid);
    OnCluster {
        report,
        deployment: deployments.get(&report.deployment).copied(),
        cluster,
        is_silent: cluster.is_some_and(|cluster| row(cluster, inputs.now).is_silent),
    }
}

impl OnClusterRow {
    fn of(on: OnCluster<'_>) -> Self {
        let running = on.deployment.and_then(running);
        let agent = on.cluster.and_then(|cluster| cluster.status.agent.as_ref());
        let state = if on.report.suspended {
            "Suspended"
        } else {
            &on.report.state
        };
        Self {
            tone: Tone::of(state),
            running: running
                .map(|running| running.version.to_owned())
                .unwrap_or_default(),
            last_seen: agent.map(|agent| agent.last_seen.clone()).unwrap_or_default(),
            is_silent: on.is_silent,
            report: ClusterReport {
                state: state.to_owned(),
                ..on.report.clone()
            },
        }
    }
}

impl Attempt {
    fn of(report: AttemptReport) -> Self {
        Self {
            // A revision that another one has replaced is neither good nor bad.
            tone: if report.outcome == "superseded" {
                Tone::Off
            } else {
                Tone::of(&report.outcome)
            },
            report,
        }
    }
}

/// What a HelmOp waits for.
struct Dependencies<'h> {
    /// The namespaces and names in `dependsOn` and `lifecycle.dependsOn`.
    named: Vec<(&'h str, &'h str)>,
    /// The entries with a selector.
    selected: Vec<&'h BundleRef>,
    /// The objects of clusters.
    objects: Vec<ObjectName<'h>>,
}

impl<'h> Dependencies<'h> {
    fn of(helmop: &'h HelmOp, namespace: &'h str) -> Self {
        let spec = &helmop.spec.bundle;
        let (plain, selected): (Vec<_>, Vec<_>) =
            spec.depends_on.iter().partition(|entry| entry.selector.is_none());
        let lifecycle = spec.options.lifecycle.iter();
        let own = lifecycle.flat_map(|lifecycle| &lifecycle.depends_on);
        let (objects, own): (Vec<_>, Vec<_>) = own.partition(|entry| entry.is_object());
        let plain = plain.into_iter().map(|entry| (namespace, &*entry.name));
        let own = own.into_iter().map(|entry| {
            let [_, _, namespace, name] = entry.key(namespace);
            (namespace, name)
        });
        let object = |entry: &'h Dependency| ObjectName {
            api_version: &entry.api_version,
            kind: &entry.kind,
            namespace: &entry.namespace,
            name: &entry.name,
        };
        Self {
            named: plain.chain(own).filter(|(_, name)| !name.is_empty()).collect(),
            selected,
            objects: objects.into_iter().map(object).collect(),
        }
    }
}

fn depends_on(helmop: &HelmOp, inputs: &Inputs<'_>) -> Vec<Related> {
    let Dependencies {
        named,
        selected,
        objects,
    } = Dependencies::of(helmop, inputs.namespace);
    // What is no HelmOp has no state here.
    let other = |name: String| Related {
        namespace: inputs.namespace.to_owned(),
        name,
        state: String::new(),
        tone: Tone::Pending,
        exists: false,
    };
    let selector = |entry: &BundleRef| match &*entry.name {
        "" => "Bundles with certain labels".to_owned(),
        name => format!("{name}, with certain labels"),
    };
    let helmops = named
        .into_iter()
        .map(|(namespace, name)| related(namespace, name, inputs));
    let selected = selected.into_iter().map(selector);
    let objects = objects.iter().map(ToString::to_string);
    helmops.chain(selected.chain(objects).map(other)).collect()
}

fn needed_by(inputs: &Inputs<'_>) -> Vec<Related> {
    let all = inputs.helmops.objects().filter_map(Decoded::valid);
    let mut needed = Vec::new();
    for other in all {
        let namespace = other.namespace().unwrap_or_default();
        let named = Dependencies::of(other, &namespace).named;
        if named.contains(&(inputs.namespace, inputs.name)) {
            needed.push(related(&namespace, &other.name_any(), inputs));
        }
    }
    needed
}

/// Another HelmOp.
fn related(namespace: &str, name: &str, inputs: &Inputs<'_>) -> Related {
    let found = inputs.helmops.get(namespace, name);
    let state = found.map_or_else(
        // A Bundle that is not made from a HelmOp, or none.
        || "Unknown".to_owned(),
        |found| HelmOpSummary::of_listed(found, None, inputs.now).state,
    );
    Related {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        tone: Tone::of(&state),
        state,
        exists: found.is_some(),
    }
}

#[cfg(test)]
mod tests;
