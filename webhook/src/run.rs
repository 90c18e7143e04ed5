//! Puts the process together.

use std::sync::Arc;

use anyhow::Context;
use helmops_certs::{
    hot::{HotPair, server_config},
    pair::PairPaths,
    reload::{self, ReloadEvent},
};
use helmops_shared::runtime::{
    self, AdminServer, Gate, Health, Limits, ServeMetrics, Supervisor, Transport, cluster::KnownPolicies,
    telemetry,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{
    args::Args,
    metrics::Metrics,
    policies,
    router::{Shared, router},
};

/// Runs the webhook until it is told to stop.
///
/// # Errors
/// Where it cannot start, or a part of it fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::install(&args.process)?;
    let registry = runtime::metrics::registry()?;
    let metrics = Metrics::register(&registry)?;
    let serve_metrics = ServeMetrics::register(&registry, "helmops_webhook")?;
    let health = Health::default();
    let mut supervisor = Supervisor::new(health.clone(), args.process.shutdown());

    let admin = AdminServer::bind(args.process.metrics_bind_address, &registry, health.clone()).await?;
    supervisor.spawn("admin server", admin.run(supervisor.stop()));

    let known = KnownPolicies::default();
    if let Some(client) = policies::client(&args).await? {
        // Readiness does not wait for it: a webhook that is away stops everybody, one that knows less stops nobody.
        let keep = policies::keep(client, known.clone(), supervisor.stop());
        supervisor.spawn("policies", keep);
    }

    let hot = HotPair::empty();
    let config = server_config(Arc::clone(&hot))?;
    let listener = TcpListener::bind(args.bind_address)
        .await
        .with_context(|| format!("cannot listen on --bind-address {}", args.bind_address))?;
    tracing::info!(address = %listener.local_addr()?, version = runtime::version(), "serving admission webhooks");
    supervisor.spawn(
        "certificate reload",
        reload::watch(
            PairPaths {
                cert: args.tls_cert_file,
                key: args.tls_private_key_file,
            },
            hot,
            reload::DEFAULT_INTERVAL,
            supervisor.stop(),
            follow(health.gate("certificate"), metrics.clone()),
        ),
    );
    let limits = Limits {
        drain: args.process.drain(),
        ..Limits::default()
    };
    let transport = Transport::Tls(TlsAcceptor::from(Arc::new(config)));
    let server = runtime::serve(
        listener,
        transport,
        router(Shared {
            metrics,
            policies: known,
        }),
        limits,
        serve_metrics,
        supervisor.stop(),
    );
    supervisor.spawn("webhook server", async {
        server.await;
    });
    supervisor.run().await?;
    Ok(())
}

/// Ready from the first certificate on; a later one that cannot be used leaves the last good one in place.
fn follow(gate: Gate, metrics: Metrics) -> impl FnMut(ReloadEvent<'_>) + Send {
    move |event| match event {
        ReloadEvent::Loaded(pair) => {
            metrics.certificate_loaded(pair.not_after());
            gate.open();
        }
        ReloadEvent::Refused(_) => metrics.certificate_failed(),
        ReloadEvent::Unchanged => {}
    }
}
