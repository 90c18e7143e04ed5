//! Assembles and runs the process.

use std::sync::Arc;

use anyhow::Context as _;
use helmops_fetch::{FetchMetrics, Resolver};
use helmops_kube::{
    configuration,
    lease::{LeaseName, shard_lease},
};
use helmops_process::{
    self as process, MemoryLimit, MetricsWriter, Prepared, prepare, serve_metrics_and_probes,
};
use helmops_runtime::{
    client, compute::Compute, election::Candidate, events, health_signals::HealthSignals,
    store_budget::StoreBudget, workers::Workers,
};
use k8s_openapi::jiff::Timestamp;
use tokio_util::task::TaskTracker;

use crate::{
    args::Args,
    bundle::GateResponses,
    content::{self, ContentStorage},
    context::{Context, Retries},
    fleet_metrics,
    helmop::{Interest, UnrecordedPolls},
    import::Importing,
    loops,
    memory::MemoryParts,
    metrics::Metrics,
    notice_metrics,
    own_status::OwnStatus,
    pruned::Pruned,
    watch::{AgentOptions, Stores},
    writes::FIELD_MANAGER,
};

/// Runs the controller until a signal stops it.
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

    let memory_limit = args.memory_limit.unwrap_or_else(MemoryLimit::detected);
    let agents = args.agents(Timestamp::now())?;
    let importing = importing(&args, agents.as_ref())?;
    let memory = MemoryParts::of(memory_limit.bytes(), args.cache_size(), agents.is_some());
    let stores = Stores::new(agents, StoreBudget::new("controller", memory.objects));
    let exposers = exposers(&args, &stores);
    serve_metrics_and_probes(&args.process, &registry, exposers, &health, &mut supervisor).await?;

    let config = configuration("helmops-controller", args.kubeconfig.as_deref()).await?;
    // The Lease is held until these tasks have ended.
    let work = TaskTracker::new();
    let candidate = Candidate {
        args: &args.lease,
        program: "helmops-controller",
        pod_name: args.pod_name.as_deref(),
    };
    let lease = || {
        Ok(LeaseName::new(
            args.namespace.as_deref(),
            shard_lease(args.shard_id.as_deref())?,
        )?)
    };
    let (election, leadership) = candidate.elect(lease, config.clone(), &registry, &health)?;
    let client = client::for_work(config, leadership.clone())?;
    election.start(&mut supervisor, &work);
    let instance = args.pod_name.as_deref();
    let tracer = args
        .traces
        .start("helmops-controller", instance, &registry, &mut supervisor)?;
    let bounds = memory.responses;
    let (events, event_writer) = events::queue(metrics.reconciles.dropped_events.clone());
    let scope = args.scope();
    let lists = stores.lists.clone();
    let compute = Compute::default();
    let context = Arc::new(Context {
        client,
        scope: scope.clone(),
        stores,
        resolver: Resolver::new(
            &bounds,
            args.addresses.parse()?,
            FetchMetrics::register(&registry)?,
        )
        .context("cannot create the HTTP client for chart repositories")?
        .computing_with(&compute),
        interest: Interest::default(),
        unrecorded_polls: UnrecordedPolls::default(),
        gate_responses: GateResponses::default(),
        workers: Workers::new(args.workers, leadership, supervisor.stop_token()),
        compute,
        events,
        tracer,
        metrics,
        retries: Retries::default(),
        contents: ContentStorage::new(
            memory.contents,
            args.content_size.bytes(),
            args.content_grace_period,
        ),
        importing,
        min_polling_interval: args.min_polling_interval,
        own_status: OwnStatus::new(lists.helmops),
        pruned_bundle_fields: Pruned::new(lists.bundles),
        pruned_deployment_fields: Pruned::new(lists.deployments),
    });
    tracing::info!(
        version = process::version(),
        workers = args.workers,
        %memory_limit,
        cache_bytes = bounds.cache,
        %scope,
        "starting"
    );
    supervisor.spawn(
        "events",
        event_writer.run(
            context.client.clone(),
            FIELD_MANAGER.into(),
            supervisor.stop_token(),
        ),
    );
    supervisor.spawn(
        "loops",
        work.track_future(loops::run(
            context,
            HealthSignals::new(&health),
            supervisor.stop_token(),
        )),
    );
    work.close();
    supervisor.run(signals).await?;
    Ok(())
}

/// What writes the metrics that are computed from the caches.
fn exposers(args: &Args, stores: &Stores) -> Vec<Arc<MetricsWriter>> {
    let helmops = stores.helmops.clone();
    let mut exposers = Vec::<Arc<MetricsWriter>>::new();
    exposers.push(Arc::new(move |text| notice_metrics::expose(&helmops, text)));
    if let Some(delivery) = &stores.delivery {
        let contents = delivery.contents.clone();
        exposers.push(Arc::new(move |text| content::expose(&contents, text)));
    }
    if args.fleet_metrics {
        let helmops = stores.helmops.clone();
        exposers.push(Arc::new(move |text| fleet_metrics::expose(&helmops, text)));
    }
    exposers
}

/// The imports of clusters, if this process does that.
fn importing(args: &Args, agents: Option<&AgentOptions>) -> anyhow::Result<Option<Importing>> {
    if !agents.is_some_and(|agents| agents.imports) {
        return Ok(None);
    }
    let settings = args.imports.settings(args.api_server.read()?);
    Ok(Some(Importing::new(settings, args.addresses.parse()?)))
}
