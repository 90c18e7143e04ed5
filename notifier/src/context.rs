//! What a reconciliation uses: caches, clients, limits and retry state.

use helmops_notify::source::Privileged;
use helmops_runtime::{retry_state::RetryState, workers::Workers};
use kube::Client;

use crate::{
    metrics::Metrics,
    receiver::Published,
    watch::Stores,
    work::{AlertKey, ProviderKey, ReceiverKey},
};

/// What the loops share.
pub struct Context {
    /// Client for the API server.
    pub client: Client,
    /// The caches.
    pub stores: Stores,
    /// Permits for reconciliations.
    pub workers: Workers,
    /// The metrics.
    pub metrics: Metrics,
    /// The retry state of all objects.
    pub retries: Retries,
    /// The namespaces whose Alerts and Receivers may select objects of others.
    pub privileged: Privileged,
    /// What the process that receives requests knows.
    pub published: Published,
}

/// The retry state of all objects.
#[derive(Default)]
pub struct Retries {
    /// Of Alerts.
    pub alerts: RetryState<AlertKey>,
    /// Of AlertProviders.
    pub providers: RetryState<ProviderKey>,
    /// Of Receivers.
    pub receivers: RetryState<ReceiverKey>,
}
