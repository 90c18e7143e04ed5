//! Assembles and runs the process.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use helmops_fetch::{FetchMetrics, MemoryBounds, Resolver};
use helmops_helm::{Ends, Helm, HelmProgram, workspace::Workspaces};
use helmops_kube::{
    configuration,
    lease::{Leadership, LeaseName},
};
use helmops_process::{self as process, Prepared, Signals, prepare, serve_metrics_and_probes};
use helmops_release::health::ErrorTable;
use helmops_runtime::{
    client, election::Candidate, events, health_signals::HealthSignals, retry_state::RetryState,
    workers::Workers,
};
use helmops_trace::Tracer;
use kube::{Client, Config};
use prometheus::Registry;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    args::RunArgs,
    charts::{ChartCache, ChartMetrics, Charts},
    context::Context,
    deployments::Deployments,
    folders,
    helm::{HelmMemory, HelmMetrics, HelmRuns},
    inputs::{Accounts, ValuesSources, WatchedObjects},
    live::{Kinds, LiveObjects},
    memory::Releases,
    metrics::{DriftMetrics, Metrics},
    owned::OwnedReleases,
    records::Records,
    removal::order::RemovalWaits,
    reports::Reports,
    rules::SetRules,
    running::RunningWork,
    triggers,
    upstream::{NamespaceGuard, Registrar, RemovalMetrics, Upstream, heartbeat},
};

/// The name of the program, and the field manager of the Lease. That of objects of releases is Fleet's.
const PROGRAM: &str = "helmops-agent";
/// The Lease of Fleet's agent: both never run at a time.
const LEASE: &str = "fleet-agent";

/// Runs the agent until a signal stops it.
///
/// # Errors
/// If it cannot start, or one of its tasks fails.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let Prepared {
        mut signals,
        registry,
        health,
        mut supervisor,
    } = prepare(&args.process)?;
    // Registered before the first connection, so that an agent without one exposes them too.
    let metrics = Metrics::register(&registry)?;
    serve_metrics_and_probes(&args.process, &registry, Vec::new(), &health, &mut supervisor).await?;

    // Before the wait for the access: a volume that cannot be used is noticed when the pod starts.
    let folder = folders::private(&args.work_dir)
        .with_context(|| format!("cannot use the folder {} (--work-dir)", args.work_dir.display()))?;
    let config = configuration(PROGRAM, args.kubeconfig.as_deref()).await?;
    let work = TaskTracker::new();
    let candidate = Candidate {
        args: &args.lease,
        program: PROGRAM,
        pod_name: args.pod_name.as_deref(),
    };
    let lease = || Ok(LeaseName::new(Some(&args.namespace), LEASE.to_owned())?);
    let (election, leadership) = candidate.elect(lease, config.clone(), &registry, &health)?;
    let downstream = client::for_work(config.clone(), leadership.clone())?;
    // An agent that waits for its registration is ready: there is nothing that it does not do yet, and an installer that waits for it may
    // register it next. Once it is registered, it is not ready until its caches are synced.
    let registration = health.gate("registration");
    health.set_started();
    let pod = args.pod_name.as_deref().unwrap_or(PROGRAM);
    let registrar = Registrar::new(client::for_election(config.clone())?, &args.namespace, pod);
    // This may wait for a long time: for the Secret, or for the controller.
    let mut upstream = tokio::select! {
        found = Upstream::find(&args, &folder, &downstream, &leadership, &registrar, &registration) => found?,
        signal = signals.next() => {
            tracing::info!(signal, "stopping before there is access to the management cluster");
            return Ok(());
        }
    };
    let loop_signals = HealthSignals::new(&health);
    registration.open();
    election.start(&mut supervisor, &work);
    if let Some(access) = upstream.access.take() {
        supervisor.spawn("access", access.keep(supervisor.stop_token()));
    }
    let instance = args.pod_name.as_deref();
    let tracer = args.traces.start(PROGRAM, instance, &registry, &mut supervisor)?;
    let (events, event_writer) = events::queue(metrics.reconciles.dropped_events.clone());
    let (drift, removals) = (
        DriftMetrics::register(&registry)?,
        RemovalMetrics::register(&registry)?,
    );
    let reporting = Reporting {
        reports: Reports::new(events, drift, removals),
        metrics,
        tracer,
    };
    let this_cluster = Downstream {
        config,
        client: downstream,
        leadership,
    };
    let stop = supervisor.stop_token();
    let context = context(&args, &folder, this_cluster, upstream, &registry, reporting, stop)?;
    let context = Arc::new(context);
    tracing::info!(
        version = process::version(),
        namespace = args.namespace,
        cluster = %context.cluster,
        deployments = context.deployment_namespace,
        "starting"
    );
    supervisor.spawn(
        "events",
        event_writer.run(
            context.downstream.clone(),
            PROGRAM.into(),
            supervisor.stop_token(),
        ),
    );
    supervisor.spawn(
        "heartbeat",
        heartbeat::run(
            context.upstream.clone(),
            context.cluster.clone(),
            args.namespace.clone(),
            context.leadership.clone(),
            args.checkin_interval,
            context.metrics.clone(),
            supervisor.stop_token(),
        ),
    );
    let loops = triggers::run(
        Arc::clone(&context),
        args.collection_interval,
        loop_signals,
        Workers::new(args.workers, context.leadership.clone(), supervisor.stop_token()),
        supervisor.stop_token(),
    );
    supervisor.spawn("loops", work.track_future(loops));
    work.close();
    supervisor.run(signals).await?;
    Ok(())
}

/// The access to this cluster.
struct Downstream {
    config: Config,
    client: Client,
    leadership: Leadership,
}

/// What users learn of the work by.
struct Reporting {
    metrics: Metrics,
    reports: Reports,
    tracer: Tracer,
}

fn context(
    args: &RunArgs,
    work: &Path,
    Downstream {
        config,
        client: downstream,
        leadership,
    }: Downstream,
    upstream: Upstream,
    registry: &Registry,
    reporting: Reporting,
    stop: CancellationToken,
) -> anyhow::Result<Context> {
    let Upstream {
        client: upstream,
        cluster,
        deployment_namespace,
        access: _,
    } = upstream;
    let deployments = Deployments::new();
    let rules = SetRules::new(&args.agent_scope);
    Ok(Context {
        guard: NamespaceGuard::new(
            upstream.clone(),
            &deployment_namespace,
            downstream.clone(),
            &args.namespace,
        ),
        removals: RemovalWaits::default(),
        owned: OwnedReleases::new(downstream.clone(), leadership.clone(), &args.namespace),
        records: Records::new(downstream.clone(), &args.namespace),
        kinds: Kinds::new(downstream.clone()),
        live: LiveObjects::new(
            downstream.clone(),
            args.release_namespaces.clone(),
            rules.of_set(),
            ErrorTable::default(),
        ),
        sources: ValuesSources::new(downstream.clone(), args.release_namespaces.clone()),
        awaited: WatchedObjects::new(downstream.clone(), args.release_namespaces.clone()),
        shows_pod_logs: args.show_pod_logs,
        charts: charts(args, work, registry, deployments.clone())?,
        helm: helm(args, work, leadership.clone(), registry)?,
        running: RunningWork::default(),
        releases: Releases::default(),
        retries: RetryState::default(),
        tracer: reporting.tracer,
        metrics: reporting.metrics,
        reports: reporting.reports,
        namespace: args.namespace.clone(),
        scope: args.agent_scope.clone(),
        stop,
        accounts: Accounts::new(
            downstream.clone(),
            config.clone(),
            leadership.clone(),
            &args.namespace,
            args.default_service_account.clone(),
        ),
        upstream,
        downstream,
        config,
        leadership,
        cluster,
        deployment_namespace,
        deployments,
        rules,
        release_namespaces: args.release_namespaces.clone(),
    })
}

fn helm(
    args: &RunArgs,
    work: &Path,
    leadership: Leadership,
    registry: &Registry,
) -> anyhow::Result<HelmRuns> {
    let workspaces = Workspaces::open(work)
        .with_context(|| format!("cannot use the folder {} (--work-dir)", work.display()))?;
    let post_renderer = std::env::current_exe().context("the path of this program is unknown")?;
    let lease = args
        .lease
        .lease_duration
        .saturating_sub(args.lease.renew_deadline);
    let mut helm = Helm::new(
        HelmProgram::Engine {
            path: args.helm.clone(),
            post_renderer,
        },
        workspaces,
    );
    helm.ends = Ends::of(leadership, args.process.shutdown().timeout, lease);
    Ok(HelmRuns::new(
        helm,
        args.helm_processes,
        Some(HelmMemory::of(args.memory_limit(), args.helm_processes)),
        HelmMetrics::register(registry)?,
    ))
}

/// The archives of charts. The agent works without a cache too: it downloads a chart each time.
fn charts(
    args: &RunArgs,
    work: &Path,
    registry: &Registry,
    deployments: Deployments,
) -> anyhow::Result<Charts> {
    let bounds = MemoryBounds::of(args.memory_limit().bytes(), None);
    let resolver = Resolver::new(
        &bounds,
        args.addresses.parse()?,
        FetchMetrics::register(registry)?,
    )
    .context("cannot create the HTTP client for chart repositories")?;
    let limit = u64::try_from(args.cache_size.bytes()).unwrap_or(u64::MAX);
    let cache = ChartCache::open(args.cache_dir.clone(), limit);
    if let Err(error) = &cache {
        let folder = args.cache_dir.display();
        tracing::warn!(%folder, %error, "charts are not kept: the folder cannot be used (--cache-dir)");
    }
    Ok(Charts::new(
        resolver,
        cache.ok(),
        work.to_owned(),
        deployments,
        ChartMetrics::register(registry)?,
    ))
}
