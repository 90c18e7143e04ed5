//! From objects to views: what the pages show, again after each change.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use helmops_api::{Bundle, BundleDeployment, Cluster as FleetCluster, WithoutObjects};
use jiff::Timestamp;
use kube::runtime::watcher;
use serde::Serialize;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    hub::{Publisher, Source, json},
    tables::{Table, changed},
    topic::Topic,
    view::{
        clusters::ClustersView,
        helmop::{Events, HelmOpView, Inputs},
        helmops::HelmOpsView,
    },
};
use crate::{
    cluster::{
        Cluster,
        contexts::Contexts,
        selection::{Scope, deployments_of},
    },
    failure::causes,
    state::{read, revisions::Revisions},
};

/// What depends on the time alone, such as a silent agent, is computed again this often.
const TICK: Duration = Duration::from_secs(15);
/// How often Events are read, while a page shows them: they are too many to be watched.
const EVENTS: Duration = Duration::from_secs(10);
/// How often the API server is probed, while a page is open.
const PROBE: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// The records of Helm are read again after a change of a deployment, but not before this time is over: a roll-out has many changes.
const RECORDS_PAUSE: Duration = Duration::from_secs(15);
/// How often they are read without a change: a cluster may be back. Each try may need a login of a person.
const RECORDS: Duration = Duration::from_mins(5);

/// The cluster, as the pages need it.
#[derive(Clone)]
pub struct Live(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    /// Those of clusters with records of Helm.
    contexts: Contexts,
    helmops: Table<WithoutObjects>,
    clusters: Table<FleetCluster>,
    server: watch::Sender<Bytes>,
}

/// Whether the API server responds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerView<'s> {
    /// Its address.
    address: &'s str,
    /// Its version; empty if it does not respond.
    version: String,
    /// Why it does not respond; empty if it does.
    error: String,
}

impl Live {
    /// Nothing is read before [`Self::follow`].
    pub fn new(cluster: Cluster, contexts: Contexts) -> Self {
        let server = ServerView {
            address: &cluster.server,
            version: String::new(),
            error: String::new(),
        };
        Self(Arc::new(Inner {
            server: watch::Sender::new(json(&server)),
            helmops: Table::default(),
            clusters: Table::default(),
            cluster,
            contexts,
        }))
    }

    /// Watches what all pages have in common. It does not end.
    pub async fn follow(&self) {
        let Inner {
            cluster,
            helmops,
            clusters,
            ..
        } = &*self.0;
        let scopes = [Scope::All, Scope::Namespace(&cluster.namespace)];
        let config = watcher::Config::default();
        tokio::join!(
            helmops.follow(cluster, &scopes, &config),
            clusters.follow(cluster, &scopes, &config),
            self.probe(),
        );
    }

    async fn probe(&self) {
        let Inner { cluster, server, .. } = &*self.0;
        loop {
            if server.receiver_count() > 0 {
                let probed = timeout(PROBE_TIMEOUT, cluster.client.apiserver_version()).await;
                let (version, error) = match probed {
                    Ok(Ok(info)) => (info.git_version, String::new()),
                    Ok(Err(error)) => (String::new(), causes(&error)),
                    Err(_) => (String::new(), "it does not respond".to_owned()),
                };
                let view = json(&ServerView {
                    address: &cluster.server,
                    version,
                    error,
                });
                replace(server, view);
            }
            sleep(PROBE).await;
        }
    }

    async fn helmops(self, views: Publisher) {
        let mut helmops = self.0.helmops.subscribe();
        loop {
            let view = HelmOpsView::of(&helmops.borrow_and_update(), Timestamp::now());
            views.publish(&view);
            changed(&mut helmops, TICK).await;
        }
    }

    async fn clusters(self, views: Publisher) {
        let mut clusters = self.0.clusters.subscribe();
        loop {
            let view = ClustersView::of(&clusters.borrow_and_update(), Timestamp::now());
            views.publish(&view);
            changed(&mut clusters, TICK).await;
        }
    }

    async fn helmop(self, namespace: String, name: String, views: Publisher) {
        let cluster = Cluster {
            namespace: namespace.clone(),
            ..self.0.cluster.clone()
        };
        let (bundle, deployments) = (Table::<Bundle>::default(), Table::<BundleDeployment>::default());
        let events = watch::Sender::new(Ok(Vec::new()));
        let revisions = watch::Sender::new(Revisions::default());
        let own = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let on_clusters = watcher::Config::default().labels(&deployments_of(&namespace, &name));
        let computed = async {
            let mut sources = (
                self.0.helmops.subscribe(),
                self.0.clusters.subscribe(),
                bundle.subscribe(),
                deployments.subscribe(),
                events.subscribe(),
                revisions.subscribe(),
            );
            loop {
                let view = HelmOpView::of(&Inputs {
                    namespace: &namespace,
                    name: &name,
                    helmops: &sources.0.borrow_and_update(),
                    clusters: &sources.1.borrow_and_update(),
                    bundle: &sources.2.borrow_and_update(),
                    deployments: &sources.3.borrow_and_update(),
                    events: &sources.4.borrow_and_update(),
                    revisions: &sources.5.borrow_and_update(),
                    now: Timestamp::now(),
                });
                views.publish(&view);
                tokio::select! {
                    () = changed(&mut sources.0, TICK) => {}
                    () = changed(&mut sources.1, TICK) => {}
                    () = changed(&mut sources.2, TICK) => {}
                    () = changed(&mut sources.3, TICK) => {}
                    Ok(()) = sources.4.changed() => {}
                    Ok(()) = sources.5.changed() => {}
                }
            }
        };
        let bundle_scope = [Scope::Namespace(&namespace)];
        tokio::join!(
            bundle.follow(&cluster, &bundle_scope, &own),
            deployments.follow(&cluster, &[Scope::All], &on_clusters),
            follow_events(&cluster, &name, &events),
            follow_revisions(&deployments, &self.0.contexts, &revisions),
            computed,
        );
    }
}

async fn follow_events(cluster: &Cluster, name: &str, events: &watch::Sender<Events>) {
    loop {
        let read = read::events(cluster, name)
            .await
            .map_err(|failure| failure.message);
        replace(events, read);
        sleep(EVENTS).await;
    }
}

/// Reads the records of Helm on the clusters, one time after the other.
async fn follow_revisions(
    deployments: &Table<BundleDeployment>,
    contexts: &Contexts,
    revisions: &watch::Sender<Revisions>,
) {
    let mut deployments = deployments.subscribe();
    loop {
        // The table lives as long as the feed.
        let _ = deployments.wait_for(|contents| contents.is_known).await;
        let observed: Vec<_> = deployments.borrow().objects().cloned().collect();
        replace(revisions, Revisions::read(&observed, None, contexts).await);
        sleep(RECORDS_PAUSE).await;
        changed(&mut deployments, RECORDS).await;
    }
}

/// Sends a value, if it differs from the one before.
fn replace<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|before| {
        let differs = *before != value;
        *before = value;
        differs
    });
}

impl Source for Live {
    fn follow(&self, topic: Topic, views: Publisher) -> BoxFuture<'static, ()> {
        let live = self.clone();
        match topic {
            Topic::HelmOps => Box::pin(live.helmops(views)),
            Topic::Clusters => Box::pin(live.clusters(views)),
            Topic::HelmOp { namespace, name } => Box::pin(live.helmop(namespace, name, views)),
        }
    }

    fn server(&self) -> watch::Receiver<Bytes> {
        self.0.server.subscribe()
    }
}

#[cfg(test)]
mod tests;
