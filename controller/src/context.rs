//! What a reconciliation uses: caches, clients, limits and retry state.

use std::time::Duration;

use helmops_fair::RateLimit;
use helmops_fetch::Resolver;
use helmops_runtime::{compute::Compute, events::Events, retry_state::RetryState, workers::Workers};
use helmops_trace::Tracer;
use kube::Client;

use crate::{
    bundle::GateResponses,
    content::ContentStorage,
    helmop::{Interest, UnrecordedPolls},
    import::Importing,
    metrics::Metrics,
    own_status::OwnStatus,
    pruned::Pruned,
    watch::{Scope, Stores},
    work::{BundleKey, ClusterKey, HelmOpKey, ScheduleKey, TokenKey},
};

/// What the loops share.
pub struct Context {
    /// Client for the API server.
    pub client: Client,
    /// Which HelmOps are reconciled.
    pub scope: Scope,
    pub stores: Stores,
    /// Resolves chart versions in repositories and registries.
    pub resolver: Resolver,
    /// Which charts HelmOps need from which repository.
    pub interest: Interest,
    /// Polls that no status shows.
    pub unrecorded_polls: UnrecordedPolls,
    /// What endpoints have decided about the gates of rollouts.
    pub gate_responses: GateResponses,
    /// Permits for reconciliations.
    pub workers: Workers,
    /// Permits and threads for long computations.
    pub compute: Compute,
    /// The queue of Events.
    pub events: Events,
    pub tracer: Tracer,
    pub metrics: Metrics,
    /// The retry state of all objects.
    pub retries: Retries,
    /// What stores charts in the management cluster.
    pub contents: ContentStorage,
    /// The imports of clusters, if this process does that.
    pub importing: Option<Importing>,
    pub min_polling_interval: Duration,
    /// The fields of the status of HelmOps that Fleet's CRD does not have: the API server drops them there, and then they must not
    /// count as a difference.
    pub own_status: OwnStatus,
    /// The unknown fields that the CRD of Bundle in the cluster lacks.
    pub pruned_bundle_fields: Pruned,
    /// The unknown fields that the CRD of BundleDeployment in the cluster lacks.
    pub pruned_deployment_fields: Pruned,
}

/// The retry state of all objects.
#[derive(Default)]
pub struct Retries {
    pub helmops: RetryState<HelmOpKey>,
    pub bundles: RetryState<BundleKey>,
    pub clusters: RetryState<ClusterKey>,
    pub imports: RetryState<ClusterKey>,
    pub schedules: RetryState<ScheduleKey>,
    pub tokens: RetryState<TokenKey>,
    /// By workspace.
    pub registrations: RetryState<String>,
    /// How fast clusters that register themselves become Clusters, by workspace.
    pub new_clusters: RateLimit<String>,
}
