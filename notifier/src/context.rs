//! What a reconciliation uses: caches, clients, limits and retry state.

use std::{collections::HashMap, sync::Mutex, time::Instant};

use helmops_fetch::Poster;
use helmops_kube::lease::Leadership;
use helmops_notify::source::Privileged;
use helmops_runtime::{retry_state::RetryState, workers::Workers, writes::FieldManager};
use kube::Client;

use crate::{
    failures::Failures,
    memory::AlertMemory,
    metrics::Metrics,
    outbox::Outbox,
    permits::Permits,
    published::Published,
    watch::Stores,
    work::{AlertKey, ProviderKey, ReceiverKey},
};

/// The field manager of all writes.
pub const MANAGER: FieldManager = FieldManager("helmops-notifier");

/// What the loops share.
pub struct Context {
    /// Client for the API server.
    pub client: Client,
    pub stores: Stores,
    /// Permits for reconciliations.
    pub workers: Workers,
    pub metrics: Metrics,
    /// The retry state of all objects.
    pub retries: Retries,
    /// The namespaces whose Alerts and Receivers may select objects of others.
    pub privileged: Privileged,
    /// What the process that receives requests knows.
    pub published: Published,
    /// Whether this replica is the leader.
    pub leadership: Leadership,
    /// The name of this process in messages.
    pub instance: String,
    /// Sends requests.
    pub poster: Poster,
    /// The messages on their way.
    pub outbox: Outbox,
    /// The endpoints that fail.
    pub failures: Failures,
    /// Permits for requests, shared between namespaces.
    pub sends: Permits,
    /// What is remembered of Alerts in the process only. An entry is dropped with its Alert.
    pub memories: Mutex<HashMap<AlertKey, AlertMemory>>,
    /// When a push has polled all HelmOps of a Receiver. An entry is dropped with its Receiver.
    pub polled_all: Mutex<HashMap<ReceiverKey, Instant>>,
}

/// The retry state of all objects.
#[derive(Default)]
pub struct Retries {
    pub alerts: RetryState<AlertKey>,
    pub providers: RetryState<ProviderKey>,
    pub receivers: RetryState<ReceiverKey>,
}
