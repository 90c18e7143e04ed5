//! What the controller sees of the cluster: stores that watches fill, and which HelmOps each change concerns.
//!
//! | watched | kept | concerns |
//! |---|---|---|
//! | HelmOps | all of them | themselves, unless only what the controller itself writes has changed |
//! | Bundles of HelmOps | all of them | the HelmOp of their name |
//! | BundleDeployments of HelmOps | all of them, by HelmOp | the HelmOp that their labels name |
//! | Secrets | nothing: their metadata pass by | the HelmOps that name them |
//! | Rancher's authorities | both Secrets | every HelmOp |

mod deployments;
mod news;
mod rancher_ca;
mod secrets;

use futures::{Stream, StreamExt, stream::BoxStream};
use helmops_shared::api::{Bundle, Guarded, HelmOp, labels};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};

pub use self::{
    deployments::Deployments,
    news::is_news,
    rancher_ca::{CaBundle, MissingKey, RancherCa},
};

/// A HelmOp, as the loop knows it.
pub type Key = ObjectRef<Guarded<HelmOp>>;

/// Objects per page of a list: bounds the memory of an answer.
const PAGE: u32 = 500;

/// What has been seen, as it was last.
#[derive(Clone)]
pub struct Stores {
    /// The HelmOps.
    pub helmops: Store<Guarded<HelmOp>>,
    /// The Bundles that are made of HelmOps, by their label.
    pub bundles: Store<Guarded<Bundle>>,
    /// What became of them on each cluster.
    pub deployments: Deployments,
    /// What Rancher trusts.
    pub rancher_ca: RancherCa,
}

/// What fills the stores: the watches hold it.
pub struct Writers {
    helmops: Writer<Guarded<HelmOp>>,
    bundles: Writer<Guarded<Bundle>>,
    rancher_ca: [Writer<Secret>; 2],
}

/// What the watches tell of.
pub struct Watches {
    /// The HelmOps themselves.
    pub helmops: BoxStream<'static, watcher::Result<Guarded<HelmOp>>>,
    /// HelmOps that something else concerns that has changed.
    pub concerned: BoxStream<'static, Key>,
    /// HelmOps that were waiting for a Secret, perhaps: what they failed with may be mended.
    pub mended: BoxStream<'static, Key>,
    /// Something has changed that concerns every HelmOp.
    pub all: BoxStream<'static, ()>,
}

/// Empty stores.
pub fn stores() -> (Stores, Writers) {
    let (helmops, helmop_writer) = reflector::store();
    let (bundles, bundle_writer) = reflector::store();
    let (rancher_ca, rancher_ca_writers) = RancherCa::new();
    let stores = Stores {
        helmops,
        bundles,
        deployments: Deployments::default(),
        rancher_ca,
    };
    let writers = Writers {
        helmops: helmop_writer,
        bundles: bundle_writer,
        rancher_ca: rancher_ca_writers,
    };
    (stores, writers)
}

impl Stores {
    /// Waits until everything has been seen once, or is known not to be there.
    pub async fn wait_until_filled(&self) {
        // Stores fail only where their watch has ended already.
        let _ = self.helmops.wait_until_ready().await;
        let _ = self.bundles.wait_until_ready().await;
        self.deployments.wait_until_known().await;
        self.rancher_ca.wait_until_ready().await;
    }
}

/// Begins to watch.
pub fn watch(client: &Client, stores: &Stores, writers: Writers) -> Watches {
    let of_helmops = watcher::Config::default().labels(labels::HELM_NAME);
    let helmops = watched(Api::all(client.clone()), watcher::Config::default())
        .reflect(writers.helmops)
        .applied_objects();
    let bundles = watched(Api::all(client.clone()), of_helmops.clone())
        .reflect(writers.bundles)
        .touched_objects();
    let known = stores.helmops.clone();
    let bundles = shielded(bundles).filter_map(move |bundle: Guarded<Bundle>| {
        let helmop = bundle
            .namespace()
            .map(|namespace| key(&namespace, &bundle.name_any()));
        let helmop = helmop.filter(|helmop| known.get(helmop).is_some());
        async { helmop }
    });
    let deployments = watched(Api::all(client.clone()), of_helmops);
    let deployments = stores.deployments.follow(deployments, stores.helmops.clone());
    Watches {
        helmops: helmops.boxed(),
        concerned: futures::stream::select(bundles, deployments).boxed(),
        mended: secrets::watch(Api::all(client.clone()), stores.helmops.clone()).boxed(),
        all: rancher_ca::watch(client, writers.rancher_ca).boxed(),
    }
}

/// Names a HelmOp.
pub fn key(namespace: &str, name: &str) -> Key {
    ObjectRef::new(name).within(namespace)
}

/// Watches objects of a kind.
fn watched<K>(
    api: Api<Guarded<K>>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<watcher::Event<Guarded<K>>>> + use<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    watcher(api, config.page_size(PAGE)).default_backoff()
}

/// Keeps the failures of a watch to itself: they would slow the work on everything else down.
fn shielded<T: Resource<DynamicType = ()>>(
    changes: impl Stream<Item = watcher::Result<T>>,
) -> impl Stream<Item = T> {
    changes.filter_map(|change| async {
        match change {
            Ok(object) => Some(object),
            Err(error) => {
                tracing::warn!(kind = %T::kind(&()), %error, "watch failed and is begun anew");
                None
            }
        }
    })
}
