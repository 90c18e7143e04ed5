//! Assembles the process.

use anyhow::Context;
use helmops_kube::connect;
use helmops_process::{self as process, Port, Prepared, Transport, prepare, serve_metrics_and_probes};

use crate::{
    args::Args,
    entries,
    limits::PORT,
    metrics::Metrics,
    recorder::Recorder,
    router::{AppState, router},
    status_writer::StatusWriter,
    table::SharedTable,
};

/// The user agent in the logs of the API server.
const USER_AGENT: &str = "helmops-receiver";

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

    let port = PORT.with_drain(args.process.drain());
    let port = Port::bind(args.bind_address, &registry, port).await?;
    tracing::info!(address = %port.address, version = process::version(), "receiving requests");
    let app = router(AppState::new(table, recorder, metrics, health));
    supervisor.spawn(
        "server",
        port.serve(Transport::Plain, app, supervisor.stop_token()),
    );
    supervisor.run(signals).await?;
    Ok(())
}
