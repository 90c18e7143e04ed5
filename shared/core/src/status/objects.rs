//! The deployed objects and their state on each cluster.

use std::collections::HashMap;

use helmops_api::BundleDeployment;
use helmops_model::deployment_state::DeploymentState;

use super::deployments::{Deployment, ObservedDeployment};

/// Fleet's state of an object that is ready.
pub const READY: &str = "Ready";

/// Identifies an object on any cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectKey<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its API version.
    pub api_version: &'a str,
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// An object on all clusters.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Identifies it.
    pub key: ObjectKey<'a>,
    /// Its state on each cluster, in the order of the deployments.
    pub entries: Vec<Entry<'a>>,
    /// Whether a deployment does not report the state of all its objects.
    pub is_incomplete: bool,
}

/// An object on one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Index of the deployment.
    pub deployment: usize,
    /// The state, as Fleet or the agent names it.
    pub state: &'a str,
}

impl<'a> Row<'a> {
    /// The first state that is not `Ready`.
    pub fn state(&self) -> &'a str {
        let mut states = self.entries.iter().map(|entry| entry.state);
        states.find(|state| *state != READY).unwrap_or(READY)
    }
}

/// The objects of all deployments, in an unspecified order.
pub fn rows<'a>(deployments: &[Deployment<'a>]) -> Vec<Row<'a>> {
    let mut table = Table::default();
    for (index, deployment) in deployments.iter().enumerate() {
        if let ObservedDeployment::Decoded(object) = deployment.observed {
            table.add(index, deployment.state, object);
        }
    }
    table.rows
}

#[derive(Default)]
struct Table<'a> {
    rows: Vec<Row<'a>>,
    positions: HashMap<ObjectKey<'a>, usize>,
    /// The likely position of the next object: clusters list the same objects in the same order, so that most need no search.
    next: usize,
}

impl<'a> Table<'a> {
    fn add(&mut self, index: usize, state: DeploymentState, object: &'a BundleDeployment) {
        let status = &object.status;
        let default = default_state(state, status.incomplete_state);
        let mut add_entry = |[kind, api_version, namespace, name]: [&'a String; 4], state| {
            let key = ObjectKey {
                kind,
                api_version,
                namespace,
                name,
            };
            let deployment = index;
            self.add_entry(key, Entry { deployment, state }, status.incomplete_state);
        };
        for object in &status.resources {
            let names = [&object.kind, &object.api_version, &object.namespace, &object.name];
            add_entry(names, default);
        }
        for object in &status.non_ready_status {
            let names = [&object.kind, &object.api_version, &object.namespace, &object.name];
            add_entry(
                names,
                object.summary.as_ref().map_or("", |summary| &summary.state),
            );
        }
        for object in &status.modified_status {
            let names = [&object.kind, &object.api_version, &object.namespace, &object.name];
            let state = match (object.delete, object.missing) {
                (true, _) => "Orphaned",
                (false, true) => "Missing",
                (false, false) => "Modified",
            };
            add_entry(names, state);
        }
        self.next = 0;
    }

    /// Adds the state of an object. If a deployment reports several, the last one is used.
    fn add_entry(&mut self, key: ObjectKey<'a>, entry: Entry<'a>, is_incomplete: bool) {
        let position = match self.rows.get(self.next) {
            Some(row) if row.key == key => self.next,
            _ => *self.positions.entry(key).or_insert_with(|| {
                self.rows.push(Row {
                    key,
                    entries: Vec::new(),
                    is_incomplete: false,
                });
                self.rows.len() - 1
            }),
        };
        self.next = position + 1;
        let Some(row) = self.rows.get_mut(position) else {
            return;
        };
        row.is_incomplete |= is_incomplete;
        match row.entries.last_mut() {
            Some(last) if last.deployment == entry.deployment => *last = entry,
            _ => row.entries.push(entry),
        }
    }
}

/// The state of objects that a deployment does not report separately. `NotReady` and `Modified` result from some of its objects,
/// and do not apply to the others.
fn default_state(state: DeploymentState, is_incomplete: bool) -> &'static str {
    match state {
        DeploymentState::NotReady | DeploymentState::Modified if is_incomplete => "Unknown",
        DeploymentState::NotReady | DeploymentState::Modified => READY,
        DeploymentState::Ready
        | DeploymentState::Pending
        | DeploymentState::OutOfSync
        | DeploymentState::WaitApplied
        | DeploymentState::WaitingForDependency
        | DeploymentState::ErrApplied => state.as_str(),
    }
}
