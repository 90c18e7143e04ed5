//! Assembles the process.

use anyhow::Context;
use helmops_kube::connect;
use helmops_process::{
    self as process, Limits, Prepared, ServeMetrics, Transport, prepare, serve_metrics_and_probes,
};

use crate::{
    args::Args,
    entries,
    limits::CONNECTIONS,
    metrics::Metrics,
    recorder::Recorder,
    router::{AppState, router},
    status_writer::StatusWriter,
    table::SharedTable,
};

/// The user agent in the logs of the API server.
const USER_AGENT: &str = "helmops-receiver";

/// The prefix of the metrics of the server.
pub const PREFIX: &str = "helmops_receiver";

/// Runs the receiver until it receives a stop signal.
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
    let namespace = args.namespace.clone().or_else(process::own_namespace);
    let namespace = namespace.context("the namespace of helmops is not known; set --namespace")?;
    let metrics = Metrics::register(&registry)?;
    let serve_metrics = ServeMetrics::register(&registry, PREFIX)?;

    serve_metrics_and_probes(&args.process, &registry, Vec::new(), &health, &mut supervisor).await?;

    let client = connect(USER_AGENT, args.kubeconfig.as_deref()).await?;
    let table = SharedTable::new(None);
    let loaded = health.gate("receivers");
    let entries = entries::follow(
        client.clone(),
        namespace,
        table.clone(),
        metrics.clone(),
        loaded,
        supervisor.stop_token(),
    );
    supervisor.spawn("receivers", entries);
    let (recorder, recording) = Recorder::new(StatusWriter::new(client, metrics.clone()));
    // It ends when the server has ended, and with it the last request.
    supervisor.spawn("recorder", recording);

    let listener = process::listen(args.bind_address)
        .await
        .with_context(|| format!("cannot listen on --bind-address {}", args.bind_address))?;
    tracing::info!(address = %listener.local_addr()?, version = process::version(), "receiving requests");
    let limits = Limits {
        drain: args.process.drain(),
        ..CONNECTIONS
    };
    let app = router(AppState::new(table, recorder, metrics, health));
    let server = process::serve(
        listener,
        Transport::Plain,
        app,
        limits,
        serve_metrics,
        supervisor.stop_token(),
    );
    supervisor.spawn("server", async {
        server.await;
    });
    supervisor.run(signals).await?;
    Ok(())
}
