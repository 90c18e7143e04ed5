//! Assembles and runs the process.

use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use helmops_fetch::Poster;
use helmops_kube::{configuration, lease::LeaseName};
use helmops_process::{self as process, MemoryLimit, Prepared, prepare, serve_metrics_and_probes};
use helmops_runtime::{
    client, election::Candidate, health_signals::HealthSignals, store_budget::StoreBudget, workers::Workers,
};
use tokio_util::task::TaskTracker;

use crate::{
    args::Args,
    context::{Context, Retries},
    failures::Failures,
    loops,
    metrics::Metrics,
    permits::Permits,
    published::Published,
    receiver::google,
    send,
    watch::Stores,
};

/// The name of the Lease.
const LEASE: &str = "helmops-notifier";

/// Runs the notifier until a signal stops it.
///
/// # Errors
/// If it cannot start, or one of its tasks fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let Prepared {
        signals,
        registry,
        health,
        mut supervisor,
    } = prepare(&args.process)?;
    let metrics = Metrics::register(&registry)?;
    serve_metrics_and_probes(&args.process, &registry, Vec::new(), &health, &mut supervisor).await?;

    let config = configuration("helmops-notifier", args.kubeconfig.as_deref()).await?;
    // The Lease is held until these tasks have ended.
    let work = TaskTracker::new();
    let candidate = Candidate {
        args: &args.lease,
        program: "helmops-notifier",
        pod_name: args.pod_name.as_deref(),
    };
    let lease = || Ok(LeaseName::new(args.namespace.as_deref(), LEASE.to_owned())?);
    let (election, leadership) = candidate.elect(lease, config.clone(), &registry, &health)?;
    let client = client::for_work(config, leadership.clone())?;
    election.start(&mut supervisor, &work);
    let memory_limit = args.memory_limit.unwrap_or_else(MemoryLimit::detected);
    // The rest is for pages of lists while they are decoded, each of which may have several MB, and for messages.
    let stores = Stores::new(StoreBudget::new("notifier", memory_limit.bytes() / 3));
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
        poster: Poster::new(args.addresses.parse()?),
        outbox,
        failures: Failures::default(),
        sends: Permits::default(),
        memories: Mutex::default(),
        polled_all: Mutex::default(),
    });
    tracing::info!(version = process::version(), workers = args.workers, %memory_limit, "starting");
    let sending = sender.run(Arc::clone(&context), supervisor.stop_token());
    supervisor.spawn("sender", work.track_future(sending));
    let (of_metrics, stop) = (Arc::clone(&context), supervisor.stop_token());
    let following = async move { of_metrics.metrics.follow(&of_metrics.leadership, stop).await };
    supervisor.spawn("metrics of the leader", work.track_future(following));
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
