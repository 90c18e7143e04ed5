//! Assembles the process.

use std::sync::Arc;

use anyhow::Context;
use helmops_certs::{
    clients::{Clients, server_config_for},
    reload,
    resolver::{CertResolver, server_config},
};
use helmops_kube::PolicyCache;
use helmops_process::{
    self as runtime, Limits, Prepared, ServeMetrics, Transport, prepare, serve_metrics_and_probes,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    args::Args,
    certificate, kube_client,
    metrics::Metrics,
    policies,
    router::{AppState, router},
};

/// Runs the webhook until it receives a stop signal.
///
/// # Errors
/// If it cannot start, or if one of its tasks fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let Prepared {
        signals,
        registry,
        health,
        mut supervisor,
    } = prepare(&args.process)?;
    let source = args.certificate()?;
    let metrics = Metrics::register(&registry)?;
    let serve_metrics = ServeMetrics::register(&registry, "helmops_webhook")?;

    serve_metrics_and_probes(&args.process, &registry, Vec::new(), &health, &mut supervisor).await?;

    let policy_cache = PolicyCache::default();
    let client = kube_client::client(&args).await?;
    if let Some(client) = client.clone().filter(|_| args.enforce_policies) {
        tracing::info!(
            "Policy cache not synced: Policies are not enforced at admission yet (the controller still enforces them)"
        );
        // Readiness does not wait for the cache: an unavailable webhook blocks all changes of HelmOps, one without Policies none.
        let task = policies::watch(client, policy_cache.clone(), supervisor.stop_token());
        supervisor.spawn("policies", task);
    }

    let resolver = CertResolver::empty();
    let config = match args.client_ca_file.clone() {
        None => server_config(Arc::clone(&resolver))?,
        Some(file) => {
            let clients = Clients::read(file, args.allowed_client_names.clone()).await?;
            let reload = Arc::clone(&clients).watch(reload::DEFAULT_INTERVAL, supervisor.stop_token());
            supervisor.spawn("client CA reload", reload);
            server_config_for(Arc::clone(&resolver), clients)?
        }
    };
    let listener = runtime::listen(args.bind_address)
        .await
        .with_context(|| format!("cannot listen on --bind-address {}", args.bind_address))?;
    tracing::info!(address = %listener.local_addr()?, version = runtime::version(), "serving admission webhooks");
    certificate::spawn(
        source,
        client,
        resolver,
        (&metrics, &registry),
        &health,
        &mut supervisor,
    )?;
    let tracer = args
        .traces
        .start("helmops-webhook", None, &registry, &mut supervisor)?;
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
            policies: policy_cache,
            overload: Arc::default(),
            tracer,
        }),
        limits,
        serve_metrics,
        supervisor.stop_token(),
    );
    supervisor.spawn("webhook server", async {
        server.await;
    });
    supervisor.run(signals).await?;
    Ok(())
}
