//! Everything that a reconciliation reaches out to.

use std::{sync::atomic::AtomicBool, time::Duration};

use helmops_shared::api::{HelmOp, labels};
use kube::{Client, core::ObjectMeta};

use crate::{
    compute::Compute,
    events::Events,
    helmop::Interest,
    memory::RetryState,
    metrics::Metrics,
    resolve::Resolver,
    watch::{Scope, Stores},
    work::{BundleKey, ClusterKey, HelmOpKey},
    workers::Workers,
};

/// The name under which the API server notes who wrote a field.
pub const FIELD_MANAGER: &str = "helmops-controller";

/// What the loops work with.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Which HelmOps are worked on.
    pub scope: Scope,
    /// HelmOps, Bundles and authorities, as last seen.
    pub stores: Stores,
    /// Chart repositories and registries.
    pub resolver: Resolver,
    /// Which charts HelmOps want of repositories.
    pub interest: Interest,
    /// How many objects are worked on at a time.
    pub workers: Workers,
    /// Where long computations run.
    pub compute: Compute,
    /// What `kubectl describe` shows.
    pub events: Events,
    /// What Prometheus sees.
    pub metrics: Metrics,
    /// What is remembered of HelmOps.
    pub helmops: RetryState<HelmOpKey, RetryKey>,
    /// Of Bundles, where they are brought to clusters; they ask for what their generation says.
    pub bundles: RetryState<BundleKey, Option<i64>>,
    /// Of Clusters, likewise.
    pub clusters: RetryState<ClusterKey, Option<i64>>,
    /// The shortest time between two looks for newer versions.
    pub min_polling_interval: Duration,
    /// Whether the cluster's definition of HelmOp has our fields of the status beyond Fleet's. Where it lacks them the
    /// API server drops them, and they must not count as a difference.
    pub keeps_extras: AtomicBool,
}

/// What a HelmOp asked for when something failed: once it asks for something else, the failure no longer counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryKey {
    generation: Option<i64>,
    token: Option<String>,
}

impl RetryKey {
    /// What a HelmOp asks for.
    pub fn of(helmop: &HelmOp) -> Self {
        Self::of_metadata(&helmop.metadata)
    }

    /// What a HelmOp with these metadata asks for.
    pub fn of_metadata(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        Self {
            generation: metadata.generation,
            token: annotations
                .and_then(|annotations| annotations.get(labels::POLL_REQUESTED_AT))
                .cloned(),
        }
    }
}
