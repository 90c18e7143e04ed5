//! What the controller sees of the cluster: stores that watches fill, and which HelmOps each change concerns.
//!
//! | watched | kept | concerns |
//! |---|---|---|
//! | HelmOps | all of them | themselves, unless only what the controller itself writes has changed |
//! | Bundles of HelmOps | all of them | the HelmOp of their name |
//! | BundleDeployments of HelmOps | all of them, by HelmOp | the HelmOp that their labels name |
//! | Secrets | nothing: their metadata pass by | the HelmOps that name them |
//! | Policies | those of each namespace, put together | the HelmOps of their namespace |
//! | Rancher's authorities | both Secrets | every HelmOp |

mod deployments;
mod merged;
mod news;
mod policies;
mod rancher_ca;
mod scope;
mod secrets;

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use helmops_shared::{
    api::{Bundle, Guarded, HelmOp, labels},
    runtime::cluster::{KnownPolicies, patient},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};

pub use self::{
    deployments::Deployments,
    policies::of as policies_of,
    rancher_ca::{CaBundle, MissingKey, RancherCa},
    scope::Scope,
};
use self::{
    news::News,
    scope::{paged, shielded},
};

/// A HelmOp, as the loop knows it.
pub type Key = ObjectRef<Guarded<HelmOp>>;

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
    /// What HelmOps may use.
    pub policies: KnownPolicies,
}

/// What fills the stores: the watches hold it.
pub struct Writers {
    helmops: Writer<Guarded<HelmOp>>,
    bundles: Writer<Guarded<Bundle>>,
    rancher_ca: [Writer<Secret>; 2],
}

/// What the watches tell of.
pub struct Watches {
    /// HelmOps that have changed themselves.
    pub helmops: BoxStream<'static, Key>,
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
        policies: KnownPolicies::default(),
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
        self.policies.wait_until_known().await;
    }
}

/// Begins to watch what is in the scope.
pub fn watch(client: &Client, scope: &Scope, stores: &Stores, writers: Writers) -> Watches {
    let of_helmops = watcher::Config::default().labels(labels::HELM_NAME);
    let mut news = News::default();
    let helmops = shielded::<HelmOp, _>(scope.watch(client, &scope.of_shard()).reflect(writers.helmops))
        .flat_map(move |event| stream::iter(news.of(&event)));
    let bundles = scope
        .watch(client, &of_helmops)
        .reflect(writers.bundles)
        .touched_objects();
    let known = stores.helmops.clone();
    let bundles = shielded::<Bundle, _>(bundles).filter_map(move |bundle| {
        let helmop = bundle
            .namespace()
            .map(|namespace| key(&namespace, &bundle.name_any()));
        let helmop = helmop.filter(|helmop| known.get(helmop).is_some());
        async { helmop }
    });
    Watches {
        helmops: helmops.boxed(),
        concerned: stream::select_all([
            bundles.boxed(),
            deployments(client, scope, &of_helmops, stores),
            policies::watch(client, scope, &stores.policies, stores.helmops.clone()).boxed(),
        ])
        .boxed(),
        mended: stream::select_all(
            scope
                .apis(client)
                .into_iter()
                .map(|(_, api)| secrets::watch(api, stores.helmops.clone(), stores.policies.clone()).boxed()),
        )
        .boxed(),
        all: rancher_ca::watch(client, scope, writers.rancher_ca).boxed(),
    }
}

/// They are in the namespaces of clusters, which only who may see the whole cluster may see.
fn deployments(
    client: &Client,
    scope: &Scope,
    of_helmops: &watcher::Config,
    stores: &Stores,
) -> BoxStream<'static, Key> {
    if !scope.is_cluster() {
        stores.deployments.are_out_of_sight();
        return stream::pending().boxed();
    }
    let events = patient(watcher(Api::all(client.clone()), paged(of_helmops.clone())));
    stores.deployments.follow(events, stores.helmops.clone()).boxed()
}

/// The HelmOps that are like this.
pub fn matching(helmops: &Store<Guarded<HelmOp>>, is_wanted: impl Fn(&Guarded<HelmOp>) -> bool) -> Vec<Key> {
    let helmops = helmops.state();
    let wanted = helmops.iter().filter(|helmop| is_wanted(helmop));
    wanted.map(|helmop| ObjectRef::from_obj(&**helmop)).collect()
}

/// Names a HelmOp.
pub fn key(namespace: &str, name: &str) -> Key {
    ObjectRef::new(name).within(namespace)
}
