//! Reads a HelmOp with what is made from it.

use futures::future::join;
use helmops_api::{Bundle, BundleDeployment, Decoded, HelmOp};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;

use crate::{
    cluster::{
        Cluster,
        selection::{Scope, deployments_of},
    },
    failure::Failure,
};

/// A HelmOp, its Bundle, the BundleDeployments of its clusters, and the Events about all of them.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub helmop: HelmOp,
    /// Its Bundle, of the same name.
    pub bundle: Option<Bundle>,
    /// One for each cluster.
    pub deployments: Vec<Decoded<BundleDeployment>>,
    /// Events of objects with its name.
    pub events: Vec<Event>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// Which of them are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All but the Events.
    WithoutEvents,
    All,
}

/// The field selector of the Events about a HelmOp, its Bundle and its BundleDeployments: all have the same name.
pub fn events_of(name: &str) -> String {
    format!("regarding.name={name}")
}

/// Reads a HelmOp and what is made from it, all at the same time. What cannot be read besides the HelmOp is noted.
///
/// # Errors
/// If the HelmOp cannot be read.
pub async fn observed(cluster: &Cluster, name: &str, parts: Parts) -> Result<Observed, Failure> {
    let namespace = &cluster.namespace;
    let selector = deployments_of(namespace, name);
    let objects = join(
        cluster.get::<HelmOp>(namespace, name),
        cluster.find::<Bundle>(namespace, name),
    );
    let lists = join(
        cluster.list::<BundleDeployment>(Scope::All, Some(&selector)),
        async {
            match parts {
                Parts::All => events(cluster, name).await,
                Parts::WithoutEvents => Ok(Vec::new()),
            }
        },
    );
    let ((helmop, bundle), (deployments, events)) = join(objects, lists).await;
    let mut notes = Vec::new();
    Ok(Observed {
        helmop: helmop?,
        bundle: or_note(bundle, "the Bundle", &mut notes),
        deployments: or_note(deployments, "the BundleDeployments", &mut notes),
        events: or_note(events, "Events", &mut notes),
        notes,
    })
}

/// The Events of all namespaces; without permission for these, those of the HelmOp's own.
pub async fn events(cluster: &Cluster, name: &str) -> Result<Vec<Event>, Failure> {
    let params = ListParams::default().fields(&events_of(name));
    let all = match cluster.list_by::<Event>(Scope::All, params.clone()).await {
        Err(_) => {
            let own = Scope::Namespace(&cluster.namespace);
            cluster.list_by::<Event>(own, params).await?
        }
        Ok(all) => all,
    };
    Ok(all.into_iter().filter_map(valid).collect())
}

fn valid(event: Decoded<Event>) -> Option<Event> {
    match event {
        Decoded::Valid(event) => Some((*event).clone()),
        Decoded::Invalid { .. } => None,
    }
}

fn or_note<T: Default>(part: Result<T, Failure>, what: &str, notes: &mut Vec<String>) -> T {
    part.unwrap_or_else(|failure| {
        notes.push(format!("{what} cannot be shown: {}", failure.message));
        T::default()
    })
}
