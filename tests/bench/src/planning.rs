//! Benchmark of the decisions about a Bundle for many clusters: the targets, the rollout, and the writes for each cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gotmpl::Budget;
use helmops_api::{Bundle, Cluster};
use helmops_core::targeting::{
    GateStates, Member, RolloutStep,
    delivery::{BundleDelivery, ClusterState},
    plan, targets,
};
use serde_json::json;

use helmops_bed::usage;

/// Numbers of clusters.
const SIZES: [usize; 3] = [200, 2_000, 20_000];
/// The shortest time of this many runs is reported.
const RUNS: usize = 5;

/// The cost of the decisions for a number of clusters.
struct Planning {
    /// The targets with their values.
    targets: Duration,
    /// The step of each cluster.
    rollout: Duration,
    /// The writes for all clusters.
    deliveries: Duration,
    /// Number of writes.
    actions: usize,
    /// Resident memory for all of it, in KiB.
    memory: u32,
}

/// The report, as Markdown.
///
/// # Errors
/// If a plan is not the expected one.
pub fn report() -> Result<String> {
    let mut lines = vec![
        "| clusters | targets ms | rollout ms | writes ms | writes | memory MiB |".to_owned(),
        "| ---: | ---: | ---: | ---: | ---: | ---: |".to_owned(),
    ];
    for clusters in SIZES {
        lines.push(row(clusters)?);
    }
    Ok(lines.join("\n"))
}

fn row(clusters: usize) -> Result<String> {
    let mut best = measure(clusters)?;
    for _ in 1..RUNS {
        let run = measure(clusters)?;
        best.targets = best.targets.min(run.targets);
        best.rollout = best.rollout.min(run.rollout);
        best.deliveries = best.deliveries.min(run.deliveries);
    }
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    Ok(format!(
        "| {clusters} | {:.2} | {:.2} | {:.2} | {} | {:.1} |",
        ms(best.targets),
        ms(best.rollout),
        ms(best.deliveries),
        best.actions,
        f64::from(best.memory) / 1024.0
    ))
}

fn measure(clusters: usize) -> Result<Planning> {
    let bundle = bundle(clusters)?;
    let clusters = (0..clusters).map(cluster).collect::<Result<Vec<_>>>()?;
    let before = usage::memory(std::process::id())?.resident;

    let started = Instant::now();
    let members = clusters.iter().map(|cluster| Member::new(cluster, &[]));
    let targets = targets(&bundle, members, &[], false, &Budget::default())?;
    let targeted = started.elapsed();

    let started = Instant::now();
    let rollout = plan(
        &bundle,
        &targets,
        &GateStates::default(),
        "2026-01-01T00:00:00Z".parse()?,
    )?;
    let planned = started.elapsed();

    let started = Instant::now();
    let sources = BTreeMap::new();
    let delivery = BundleDelivery::new(&bundle, &sources);
    let mut plans = Vec::with_capacity(targets.len());
    for target in &targets {
        let plan = delivery.plan(target, RolloutStep::Promote, &ClusterState::default());
        plans.push(plan.ok().context("a cluster is blocked")?);
    }
    let delivered = started.elapsed();

    let memory = usage::memory(std::process::id())?.resident;
    let actions = plans.iter().map(|plan| plan.actions.len()).sum();
    ensure!(
        rollout.unassigned.is_empty() && actions == 2 * targets.len(),
        "{actions} writes"
    );
    Ok(Planning {
        targets: targeted,
        rollout: planned,
        deliveries: delivered,
        actions,
        memory: memory.saturating_sub(before),
    })
}

/// A Bundle for all clusters, whose values differ.
fn bundle(clusters: usize) -> Result<Bundle> {
    let bundle = json!({
        "metadata": { "name": "web", "namespace": "bench", "uid": "bundle" },
        "spec": {
            "helm": {
                "repo": "https://charts.example.com", "chart": "web", "version": "1.0.0",
                "values": { "cluster": "global.fleet.clusterLabels.number", "replicas": 3, "text": "${ .ClusterName }" }
            },
            "targets": [{ "clusterSelector": {} }],
            "rolloutStrategy": { "maxNew": clusters },
        }
    });
    Ok(serde_json::from_str(&bundle.to_string())?)
}

fn cluster(number: usize) -> Result<Cluster> {
    let cluster = json!({
        "metadata": {
            "name": format!("c{number:05}"), "namespace": "bench", "labels": { "number": number.to_string() }
        },
        "status": { "namespace": format!("cluster-{number:05}") }
    });
    Ok(serde_json::from_str(&cluster.to_string())?)
}
