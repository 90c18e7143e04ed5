//! Assembles the process.

use std::{future::ready, sync::Arc};

use futures::StreamExt;
use helmops_certs::{
    clients::{Clients, server_config_for},
    reload,
    resolver::{CertResolver, server_config},
};
use helmops_policies::PolicyCache;
use helmops_process::{
    self as process, Limits, Port, PortConfig, Prepared, Transport, prepare, serve_metrics_and_probes,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    args::Args,
    certificate,
    cycles::Cycles,
    kube_client,
    metrics::Metrics,
    router::{AppState, router},
};

/// The port for the API server.
pub const PORT: PortConfig = PortConfig {
    flag: "--bind-address",
    prefix: "helmops_webhook",
    limits: Limits::DEFAULT,
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
    serve_metrics_and_probes(&args.process, &registry, Vec::new(), &health, &mut supervisor).await?;

    let policy_cache = PolicyCache::default();
    let client = kube_client::client(&args).await?;
    if let Some(client) = client.clone().filter(|_| args.enforce_policies) {
        tracing::info!(
            "Policy cache not synced: Policies are not enforced at admission yet (the controller still enforces them)"
        );
        // Readiness does not wait for the cache: an unavailable webhook blocks all changes of HelmOps, one without Policies none.
        let (cache, stop) = (policy_cache.clone(), supervisor.stop_token());
        supervisor.spawn("policies", async move {
            let changes = cache.watch(&client).for_each(|_| ready(()));
            stop.run_until_cancelled(changes).await;
        });
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
    let port = PORT.with_drain(args.process.drain());
    let port = Port::bind(args.bind_address, &registry, port).await?;
    tracing::info!(address = %port.address, version = process::version(), "serving admission webhooks");
    let cycles = client.clone().map(Cycles::new);
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
    let app = router(AppState {
        metrics,
        health,
        policies: policy_cache,
        cycles,
        overload: Arc::default(),
        tracer,
    });
    let transport = Transport::Tls(TlsAcceptor::from(Arc::new(config)));
    supervisor.spawn(
        "webhook server",
        port.serve(transport, app, supervisor.stop_token()),
    );
    supervisor.run(signals).await?;
    Ok(())
}
