//! Puts the process together.

use std::sync::Arc;

use anyhow::Context;
use helmops_certs::{
    clients::{Clients, server_config_for},
    hot::{CertResolver, server_config},
    reload,
};
use helmops_shared::runtime::{
    self, Health, Limits, PlainPort, ServeMetrics, Supervisor, Transport, admin, kube_client::PolicyCache,
    probes, telemetry,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    args::Args,
    certificate, kube_client,
    metrics::Metrics,
    policies,
    router::{AppState, router},
};

/// Runs the webhook until it is told to stop.
///
/// # Errors
/// Where it cannot start, or a part of it fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::install(&args.process)?;
    let source = args.certificate()?;
    let registry = runtime::metrics::registry()?;
    let metrics = Metrics::register(&registry)?;
    let serve_metrics = ServeMetrics::register(&registry, "helmops_webhook")?;
    let health = Health::default();
    let mut supervisor = Supervisor::new(health.clone(), args.process.shutdown());

    let metrics_port = PlainPort::bind(args.process.metrics_bind_address, &registry, admin::PORT).await?;
    let app = admin::router(registry.clone(), Vec::new(), health.clone());
    supervisor.spawn("admin server", metrics_port.run(app, supervisor.stop()));
    let probe_port = PlainPort::bind(args.process.health_probe_bind_address, &registry, probes::PORT).await?;
    let app = probes::router(health.clone());
    supervisor.spawn("probe server", probe_port.run(app, supervisor.stop()));

    let known = PolicyCache::default();
    let client = kube_client::client(&args).await?;
    if let Some(client) = client.clone().filter(|_| args.enforce_policies) {
        tracing::info!(
            "Policy cache not synced: Policies are not enforced at admission yet (the controller still enforces them)"
        );
        // Readiness does not wait for it: a webhook that is away stops everybody, one that knows less stops nobody.
        let keep = policies::keep(client, known.clone(), supervisor.stop());
        supervisor.spawn("policies", keep);
    }

    let hot = CertResolver::empty();
    let config = match args.client_ca_file.clone() {
        None => server_config(Arc::clone(&hot))?,
        Some(file) => {
            let clients = Clients::read(file, args.allowed_client_names.clone()).await?;
            let watch = Arc::clone(&clients).watch(reload::DEFAULT_INTERVAL, supervisor.stop());
            supervisor.spawn("client authorities", watch);
            server_config_for(Arc::clone(&hot), clients)?
        }
    };
    let listener = runtime::listen(args.bind_address)
        .await
        .with_context(|| format!("cannot listen on --bind-address {}", args.bind_address))?;
    tracing::info!(address = %listener.local_addr()?, version = runtime::version(), "serving admission webhooks");
    certificate::keep(
        source,
        client,
        hot,
        (&metrics, &registry),
        &health,
        &mut supervisor,
    )?;
    let limits = Limits {
        drain: args.process.drain(),
        ..Limits::default()
    };
    let transport = Transport::Tls(TlsAcceptor::from(Arc::new(config)));
    let server = runtime::serve(
        listener,
        transport,
        router(AppState {
            metrics,
            health,
            policies: known,
            bodies: Arc::default(),
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
