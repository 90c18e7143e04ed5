//! The deployed objects and their state on each cluster.

use std::collections::HashMap;

use super::{
    deployments::{Deployment, Object},
    state::DeploymentState,
};
use crate::api::BundleDeployment;

/// Fleet's word for an object that is as it should be.
pub const READY: &str = "Ready";

/// Names an object on any cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its API version.
    pub api_version: &'a str,
    /// Its namespace; empty for an object of the whole cluster.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// An object on all clusters.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Names it.
    pub key: Key<'a>,
    /// Its state wherever it is, in the order of the deployments.
    pub entries: Vec<Entry<'a>>,
    /// Some deployment does not tell the state of all its objects.
    pub is_incomplete: bool,
}

/// An object on one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Position of the deployment.
    pub deployment: usize,
    /// Fleet's or the agent's word.
    pub state: &'a str,
}

impl<'a> Row<'a> {
    /// The first state that is not `Ready`.
    pub fn state(&self) -> &'a str {
        let mut states = self.entries.iter().map(|entry| entry.state);
        states.find(|state| *state != READY).unwrap_or(READY)
    }
}

/// The objects of all deployments, in no order that means anything.
pub fn rows<'a>(deployments: &[Deployment<'a>]) -> Vec<Row<'a>> {
    let mut table = Table::default();
    for (position, deployment) in deployments.iter().enumerate() {
        if let Object::Decoded(object) = deployment.object {
            table.add(position, deployment.state, object);
        }
    }
    table.rows
}

#[derive(Default)]
struct Table<'a> {
    rows: Vec<Row<'a>>,
    positions: HashMap<Key<'a>, usize>,
    /// Where the next object is likely to be: clusters list the same objects in the same order, so that they are
    /// seldom searched for.
    next: usize,
}

impl<'a> Table<'a> {
    fn add(&mut self, position: usize, state: DeploymentState, object: &'a BundleDeployment) {
        let status = &object.status;
        let default = default_state(state, status.incomplete_state);
        let mut put = |[kind, api_version, namespace, name]: [&'a String; 4], state| {
            let key = Key {
                kind,
                api_version,
                namespace,
                name,
            };
            let deployment = position;
            self.put(key, Entry { deployment, state }, status.incomplete_state);
        };
        for object in &status.resources {
            let names = [&object.kind, &object.api_version, &object.namespace, &object.name];
            put(names, default);
        }
        for object in &status.non_ready_status {
            let names = [&object.kind, &object.api_version, &object.namespace, &object.name];
            put(
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
            put(names, state);
        }
        self.next = 0;
    }

    /// What is said last of an object in a deployment counts.
    fn put(&mut self, key: Key<'a>, entry: Entry<'a>, is_incomplete: bool) {
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

/// The state of objects that a deployment says nothing else of. That it is not ready or changed follows from some of
/// its objects, so it says nothing of the others.
fn default_state(state: DeploymentState, is_incomplete: bool) -> &'static str {
    match state {
        DeploymentState::NotReady | DeploymentState::Modified if is_incomplete => "Unknown",
        DeploymentState::NotReady | DeploymentState::Modified => READY,
        DeploymentState::Ready
        | DeploymentState::Pending
        | DeploymentState::OutOfSync
        | DeploymentState::WaitApplied
        | DeploymentState::ErrApplied => state.as_str(),
    }
}
