//! Assembles and runs the process.

use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use helmops_fetch::Poster;
use helmops_kube::{
    configuration,
    lease::{Election, Leadership, LeaseMetrics, LeaseName, identity},
};
use helmops_process::{
    self as process, FairSemaphore, Health, OsSignals, PlainPort, Supervisor, admin, metrics, probes,
    telemetry,
};
use helmops_runtime::{client, health_signals::HealthSignals, workers::Workers};
use kube::Config;
use prometheus::Registry;
use tokio_util::task::TaskTracker;

use crate::{
    args::Args,
    context::{Context, Retries},
    loops,
    metrics::Metrics,
    receiver::{Published, google},
    send::{self, Failures},
    watch::Stores,
    writes::FIELD_MANAGER,
};

/// Requests at a time. Endpoints that hang keep theirs until the timeout of the request.
const MAX_SENDS: usize = 64;
/// Requests of the AlertProviders of one namespace at a time.
const MAX_SENDS_OF_NAMESPACE: usize = 16;
/// The name of the Lease.
const LEASE: &str = "helmops-notifier";

/// Runs the notifier until a signal stops it.
///
/// # Errors
/// If it cannot start, or one of its tasks fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::install(&args.process)?;
    let signals = OsSignals::install().context("cannot install the handlers for SIGTERM and SIGINT")?;
    // Without a default provider the first HTTPS connection would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let registry = metrics::registry()?;
    let metrics = Metrics::register(&registry)?;
    let health = Health::default();
    let mut supervisor = Supervisor::new(health.clone(), args.process.shutdown());
    serve(&args, &registry, &health, &mut supervisor).await?;

    let config = configuration("helmops-notifier", args.kubeconfig.as_deref()).await?;
    // The Lease is held until these tasks have ended.
    let work = TaskTracker::new();
    let (election, leadership) = leader_election(&args, config.clone(), &registry, &health)?;
    let client = client::for_work(config, leadership.clone())?;
    if let Some(election) = election {
        let drained = work.clone();
        let election = election.run(supervisor.stop_token(), async move { drained.wait().await });
        supervisor.spawn("leader election", election);
    }
    let stores = Stores::default();
    let namespace = args.namespace.clone().or_else(process::own_namespace);
    let namespace = namespace.context("the namespace of helmops is not known; set --namespace")?;
    let (outbox, sender, sent) = send::outbox();
    let context = Arc::new(Context {
        published: Published::new(client.clone(), namespace, stores.receivers.clone()),
        client,
        stores,
        workers: Workers::new(args.workers, leadership.clone(), supervisor.stop_token()),
        metrics,
        retries: Retries::default(),
        privileged: args.privileged(),
        leadership,
        instance: instance(args.pod_name.as_deref()),
        poster: Poster::new(args.addresses()?),
        outbox,
        failures: Failures::default(),
        sends: FairSemaphore::new(MAX_SENDS, MAX_SENDS_OF_NAMESPACE),
        memories: Mutex::default(),
    });
    tracing::info!(version = process::version(), workers = args.workers, "starting");
    let sending = sender.run(Arc::clone(&context), supervisor.stop_token());
    supervisor.spawn("sender", work.track_future(sending));
    let keys = google::keep(
        Arc::clone(&context),
        args.google_keys_url.clone(),
        supervisor.stop_token(),
    );
    supervisor.spawn("keys of Google", work.track_future(keys));
    let loop_signals = HealthSignals::new(&health);
    let loops = loops::run(context, sent, loop_signals, supervisor.stop_token());
    supervisor.spawn("loops", work.track_future(loops));
    work.close();
    supervisor.run(signals).await?;
    Ok(())
}

/// The name of this process in messages: that of its pod.
fn instance(pod: Option<&str>) -> String {
    let pod = pod.filter(|name| !name.is_empty());
    pod.map_or_else(|| "helmops-notifier".to_owned(), str::to_owned)
}

/// Serves metrics and probes.
async fn serve(
    args: &Args,
    registry: &Registry,
    health: &Health,
    supervisor: &mut Supervisor,
) -> anyhow::Result<()> {
    let metrics_port = PlainPort::bind(args.process.metrics_bind_address, registry, admin::PORT).await?;
    let app = admin::router(registry.clone(), Vec::new(), health.clone());
    supervisor.spawn("admin server", metrics_port.run(app, supervisor.stop_token()));
    let probe_port = PlainPort::bind(args.process.health_probe_bind_address, registry, probes::PORT).await?;
    let app = probes::router(health.clone());
    supervisor.spawn("probe server", probe_port.run(app, supervisor.stop_token()));
    Ok(())
}

/// Creates the leader election, if it is enabled, and the leadership that it controls.
fn leader_election(
    args: &Args,
    config: Config,
    registry: &Registry,
    health: &Health,
) -> anyhow::Result<(Option<Election>, Leadership)> {
    let metrics = LeaseMetrics::register(registry)?;
    if !args.lease.leader_elect {
        metrics.leads(true);
        return Ok((None, Leadership::always()));
    }
    let timing = args.lease.timing()?;
    let name = LeaseName::new(args.namespace.as_deref(), LEASE.to_owned())?;
    let identity = identity(args.pod_name.as_deref(), "helmops-notifier");
    let client = client::for_election(config)?;
    let (election, leadership) =
        Election::new(client, FIELD_MANAGER, name, identity, timing, metrics, health);
    Ok((Some(election), leadership))
}
