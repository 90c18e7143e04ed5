//! Puts the process together.

use std::sync::{Arc, atomic::AtomicBool};

use helmops_shared::runtime::{self, AdminServer, Health, Supervisor, cluster::connect, telemetry};

use crate::{
    args::Args,
    backoff::Backoff,
    context::{Context, FIELD_MANAGER as REPORTER},
    events,
    fleet_metrics::FleetMetrics,
    helmop,
    metrics::Metrics,
    resolve::{Fetches, Resolver},
    watch,
    workers::Workers,
    written::Written,
};

/// Runs the controller until it is told to stop.
///
/// # Errors
/// Where it cannot start, or a part of it fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::install(&args.process)?;
    // Without it the first HTTPS connection would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let registry = runtime::metrics::registry()?;
    let metrics = Metrics::register(&registry)?;
    let health = Health::default();
    let mut supervisor = Supervisor::new(health.clone(), args.process.shutdown());

    let admin = AdminServer::bind(args.process.metrics_bind_address, &registry, health.clone()).await?;
    supervisor.spawn("admin server", admin.run(supervisor.stop()));

    let client = connect(args.kubeconfig.as_deref()).await?;
    let (stores, writers) = watch::stores();
    if args.fleet_metrics {
        registry.register(Box::new(FleetMetrics::new(stores.helmops.clone())?))?;
    }
    let (events, queue) = events::queue(metrics.dropped_events.clone());
    let scope = args.scope();
    let context = Arc::new(Context {
        client,
        scope: scope.clone(),
        stores,
        resolver: Resolver::new(args.cache_size(), Fetches::register(&registry)?),
        workers: Workers::new(args.workers, supervisor.stop()),
        events,
        metrics,
        backoff: Backoff::default(),
        written: Written::default(),
        min_polling_interval: args.min_polling_interval,
        keeps_extras: AtomicBool::new(true),
    });
    tracing::info!(
        version = runtime::version(),
        workers = args.workers,
        %scope,
        "working on HelmOps"
    );
    supervisor.spawn(
        "events",
        queue.run(context.client.clone(), REPORTER.into(), supervisor.stop()),
    );
    supervisor.spawn(
        "helmop loop",
        helmop::run(context, writers, health.gate("caches"), supervisor.stop()),
    );
    supervisor.run().await?;
    Ok(())
}
