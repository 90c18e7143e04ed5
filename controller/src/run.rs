//! Assembles and runs the process.

use std::sync::{Arc, atomic::AtomicBool};

use anyhow::Context as _;
use helmops_fetch::{FetchMetrics, MemoryBounds, Resolver};
use helmops_kube::{
    configuration,
    lease::{Election, Leadership, LeaseMetrics, LeaseName, identity, shard_lease},
};
use helmops_process::{
    self as process, Health, MetricsWriter, OsSignals, PlainPort, Supervisor, admin, probes, telemetry,
};
use helmops_runtime::{client, compute::Compute, events, health_signals::HealthSignals, workers::Workers};
use k8s_openapi::jiff::Timestamp;
use kube::Config;
use prometheus::Registry;
use tokio_util::task::TaskTracker;

use crate::{
    args::Args,
    context::{Context, Retries},
    fleet_metrics,
    helmop::Interest,
    loops,
    metrics::Metrics,
    pruned::Pruned,
    watch::{StoreBudget, Stores},
    writes::FIELD_MANAGER,
};

/// Runs the controller until a signal stops it.
///
/// # Errors
/// If it cannot start, or one of its tasks fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::install(&args.process)?;
    let signals = OsSignals::install().context("cannot install the handlers for SIGTERM and SIGINT")?;
    // Without a default provider the first HTTPS connection would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let registry = process::metrics::registry()?;
    let metrics = Metrics::register(&registry)?;
    let health = Health::default();
    let mut supervisor = Supervisor::new(health.clone(), args.process.shutdown());

    let memory_limit = args.memory_limit();
    let agents = args.agents(Timestamp::now())?;
    let stores = Stores::new(agents, StoreBudget::new(memory_limit.bytes()));
    let metrics_port = PlainPort::bind(args.process.metrics_bind_address, &registry, admin::PORT).await?;
    let mut exposers = Vec::<Arc<MetricsWriter>>::new();
    if args.fleet_metrics {
        let helmops = stores.helmops.clone();
        exposers.push(Arc::new(move |text| fleet_metrics::expose(&helmops, text)));
    }
    let app = admin::router(registry.clone(), exposers, health.clone());
    supervisor.spawn("admin server", metrics_port.run(app, supervisor.stop_token()));
    let probe_port = PlainPort::bind(args.process.health_probe_bind_address, &registry, probes::PORT).await?;
    let app = probes::router(health.clone());
    supervisor.spawn("probe server", probe_port.run(app, supervisor.stop_token()));

    let config = configuration("helmops-controller", args.kubeconfig.as_deref()).await?;
    // The Lease is held until these tasks have ended.
    let work = TaskTracker::new();
    let (election, leadership) = leader_election(&args, config.clone(), &registry, &health)?;
    let client = client::for_work(config, leadership.clone())?;
    if let Some(election) = election {
        let drained = work.clone();
        let election = election.run(supervisor.stop_token(), async move { drained.wait().await });
        supervisor.spawn("leader election", election);
    }
    let instance = args.pod_name.as_deref();
    let (tracer, exporter) = args.traces.tracer("helmops-controller", instance, &registry)?;
    if let Some(exporter) = exporter {
        supervisor.spawn("traces", exporter.run(supervisor.stop_token()));
    }
    let bounds = MemoryBounds::of(memory_limit.bytes(), args.cache_size());
    let (events, event_writer) = events::queue(metrics.reconciles.dropped_events.clone());
    let scope = args.scope();
    let lists = stores.lists.clone();
    let context = Arc::new(Context {
        client,
        scope: scope.clone(),
        stores,
        resolver: Resolver::new(&bounds, args.addresses()?, FetchMetrics::register(&registry)?)
            .context("cannot create the HTTP client for chart repositories")?,
        interest: Interest::default(),
        workers: Workers::new(args.workers, leadership, supervisor.stop_token()),
        compute: Compute::default(),
        events,
        tracer,
        metrics,
        retries: Retries::default(),
        min_polling_interval: args.min_polling_interval,
        stores_own_status_fields: AtomicBool::new(true),
        pruned_bundle_fields: Pruned::new(lists.bundles),
        pruned_deployment_fields: Pruned::new(lists.deployments),
    });
    tracing::info!(
        version = process::version(),
        workers = args.workers,
        %memory_limit,
        cache_bytes = bounds.cache,
        %scope,
        "starting"
    );
    supervisor.spawn(
        "events",
        event_writer.run(
            context.client.clone(),
            FIELD_MANAGER.into(),
            supervisor.stop_token(),
        ),
    );
    supervisor.spawn(
        "loops",
        work.track_future(loops::run(
            context,
            HealthSignals::new(&health),
            supervisor.stop_token(),
        )),
    );
    work.close();
    supervisor.run(signals).await?;
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
    let name = LeaseName::new(args.namespace.as_deref(), shard_lease(args.shard_id.as_deref())?)?;
    let identity = identity(args.pod_name.as_deref(), "helmops-controller");
    let client = client::for_election(config)?;
    let (election, leadership) =
        Election::new(client, FIELD_MANAGER, name, identity, timing, metrics, health);
    Ok((Some(election), leadership))
}
