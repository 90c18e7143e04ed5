//! Puts the process together.

use std::sync::{Arc, atomic::AtomicBool};

use helmops_shared::runtime::{self, AdminServer, Health, Supervisor, cluster::connect, telemetry};

use crate::{
    args::Args,
    backoff::Backoff,
    context::Context,
    helmop,
    metrics::Metrics,
    resolve::{Fetches, Resolver},
    workers::Workers,
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
    let (stores, writers) = helmop::stores();
    let context = Arc::new(Context {
        client,
        stores,
        resolver: Resolver::new(args.cache_size(), Fetches::register(&registry)?),
        workers: Workers::new(args.workers, supervisor.stop()),
        metrics,
        backoff: Backoff::default(),
        keeps_extras: AtomicBool::new(true),
    });
    tracing::info!(
        version = runtime::version(),
        workers = args.workers,
        "working on HelmOps"
    );
    supervisor.spawn(
        "helmop loop",
        helmop::run(context, writers, health.gate("caches"), supervisor.stop()),
    );
    supervisor.run().await?;
    Ok(())
}
