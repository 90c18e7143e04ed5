//! Everything that a reconciliation reaches out to.

use std::sync::atomic::AtomicBool;

use helmops_shared::api::{Guarded, HelmOp};
use kube::{Client, runtime::reflector::ObjectRef};

use crate::{backoff::Backoff, helmop::Stores, metrics::Metrics, resolve::Resolver, workers::Workers};

/// The name under which the API server notes who wrote a field.
pub const FIELD_MANAGER: &str = "helmops-controller";

/// What the helmop loop works with.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// HelmOps, Bundles and authorities, as last seen.
    pub stores: Stores,
    /// Chart repositories and registries.
    pub resolver: Resolver,
    /// How many HelmOps are worked on at a time.
    pub workers: Workers,
    /// What Prometheus sees.
    pub metrics: Metrics,
    /// Failures in a row.
    pub backoff: Backoff<ObjectRef<Guarded<HelmOp>>>,
    /// Whether the cluster's definition of HelmOp has our fields of the status beyond Fleet's. Where it lacks them the
    /// API server drops them, and they must not count as a difference.
    pub keeps_extras: AtomicBool,
}
