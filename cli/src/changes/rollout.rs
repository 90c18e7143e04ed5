//! `rollout`: shows a rollout as a plan, pauses it, and lets it go on.

use helmops_api::{
    Bundle, HelmOp,
    bundle::{BundleStatus, HALT, ROLLBACK, RolloutStatus},
    labels,
};
use helmops_core::bundle::rollout_status;
use serde_json::json;

use super::{
    observed::{Depth, observe},
    patch::{self, PatchArgs},
    selection::{Selection, Target},
};
use crate::{
    cluster::{ClusterArgs, selection::helmop_name},
    failure::Failure,
    terminal::{
        Console,
        table::{Cell, Table},
    },
    ui::{Phase, partitions},
};

/// The arguments of `rollout`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The partitions, and what the next one waits for
  kubectl helmop rollout status web

  # Update no further cluster
  kubectl helmop rollout pause web")]
pub struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

/// What is done with a rollout.
#[derive(Debug, clap::Subcommand)]
enum RolloutCommand {
    /// Show the partitions in their order, and what the next one waits for
    Status(StatusArgs),
    /// Update no further cluster until the rollout is resumed
    Pause(PauseArgs),
    /// Go on after pause, or with a rollout that is halted or rolled back
    Resume(ResumeArgs),
}

/// The arguments of `rollout status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl helmop rollout status web -n fleet-default")]
struct StatusArgs {
    /// Name of the HelmOp
    #[arg(value_parser = helmop_name)]
    name: String,
}

/// The arguments of `rollout pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It sets spec.paused. What is being deployed to a cluster is not interrupted.

Examples:
  kubectl helmop rollout pause web -n fleet-default")]
struct PauseArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    patch: PatchArgs,
}

/// The arguments of `rollout resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It removes spec.paused. A rollout that is halted goes on until it has failed on more clusters than now, and so does one that was rolled back:
what has failed is tried again.

Examples:
  kubectl helmop rollout resume web -n fleet-default")]
struct ResumeArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    patch: PatchArgs,
}

/// Runs a command about rollouts.
pub async fn run(
    args: &RolloutArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match &args.command {
        RolloutCommand::Status(args) => status(args, cluster, console).await,
        RolloutCommand::Pause(args) => pause(args, cluster, console).await,
        RolloutCommand::Resume(args) => resume(args, cluster, console).await,
    }
}

async fn pause(args: &PauseArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    for (index, Target { cluster, name, title }) in args.selection.targets(&cluster).await?.iter().enumerate()
    {
        let patch = json!({ "spec": { "paused": true } });
        let stored = patch::send(cluster, name, &patch, args.patch).await?;
        let line = format!("helmop {title}: rollout paused{}", args.patch.suffix());
        args.patch.report(&line, stored, index == 0, console)?;
    }
    Ok(())
}

async fn resume(args: &ResumeArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    for (index, Target { cluster, name, title }) in args.selection.targets(&cluster).await?.iter().enumerate()
    {
        let observed = observe(cluster, name, Depth::Bundle).await?;
        let spec = json!({ "paused": false });
        let bundle = observed.bundle.as_ref();
        let patch = match bundle
            .and_then(rollout_status)
            .as_ref()
            .and_then(accepted_failures)
        {
            Some(accepted) => {
                let annotations = json!({ labels::RESUMED_ROLLOUT: accepted });
                json!({ "metadata": { "annotations": annotations }, "spec": spec })
            }
            None => json!({ "spec": spec }),
        };
        let stored = patch::send(cluster, name, &patch, args.patch).await?;
        let line = format!("helmop {title}: rollout resumed{}", args.patch.suffix());
        args.patch.report(&line, stored, index == 0, console)?;
    }
    Ok(())
}

/// The value of the annotation with which a rollout goes on that is halted or rolled back; `None` for another one.
fn accepted_failures(rollout: &RolloutStatus) -> Option<String> {
    let has_failed = [HALT, ROLLBACK].contains(&&*rollout.waits_for);
    has_failed.then(|| format!("{}/{}", rollout.id, rollout.failed))
}

async fn status(args: &StatusArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let observed = observe(&cluster, &args.name, Depth::Bundle).await?;
    let Some(bundle) = &observed.bundle else {
        return Err(Failure::negative(
            "the HelmOp has no Bundle yet, so nothing is rolled out",
        ));
    };
    let none = BundleStatus::default();
    let status = bundle.status.as_deref().unwrap_or(&none);
    for line in head(&observed.helmop, bundle, status) {
        writeln!(console.out, "{line}")?;
    }
    let table = table(status);
    if !table.is_empty() {
        writeln!(console.out)?;
        table.write(&mut console.out, console.styles)?;
    }
    Ok(())
}

/// What is rolled out, and what it waits for.
fn head(helmop: &HelmOp, bundle: &Bundle, status: &BundleStatus) -> Vec<String> {
    let helm = bundle.spec.options.helm.as_ref();
    let version = helm.map_or("", |helm| &helm.version);
    let summary = status.summary.clone().unwrap_or_default();
    let mut lines = vec![format!(
        "version {version}: {} of {} clusters ready",
        summary.ready.unwrap_or_default(),
        summary.desired_ready.unwrap_or_default()
    )];
    let rollout = rollout_status(bundle);
    if let Some(rollout) = &rollout {
        lines.push(format!("rollout {}", rollout.id));
    }
    if helmop.spec.bundle.paused {
        lines.push("paused: spec.paused is set; go on with: kubectl helmop rollout resume".to_owned());
    }
    if status.observed_generation != bundle.metadata.generation {
        lines.push("the controller has not planned the last change yet".to_owned());
    } else if let Some(rollout) = rollout.filter(|rollout| !rollout.message.is_empty()) {
        lines.push(rollout.message);
    }
    lines
}

fn table(status: &BundleStatus) -> Table {
    let mut table = Table::new(&[
        "PARTITION",
        "CLUSTERS",
        "UNAVAILABLE",
        "MAX",
        "COMPLETE SINCE",
        "STATE",
    ]);
    for (partition, shown) in status.partitions.iter().zip(partitions(status)) {
        let state = match shown.phase {
            Phase::Done => "done".to_owned(),
            Phase::Active => "in progress".to_owned(),
            Phase::Waiting => format!("waits for {}", shown.waits_for),
        };
        table.row([
            Cell::from(&*partition.name),
            partition.count.to_string().into(),
            partition.unavailable.to_string().into(),
            partition.max_unavailable.to_string().into(),
            Cell::or_blank(&*partition.completed_at),
            state.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::terminal::style::Styles;

    fn decoded<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_halted_rollout_is_resumed_with_the_failures_that_it_has() {
        let accepted = |waits_for: &str| {
            let rollout = json!({ "id": "abc", "waitsFor": waits_for, "failed": 4 });
            accepted_failures(&decoded(rollout))
        };
        assert_eq!(accepted("Halt"), Some("abc/4".to_owned()));
        assert_eq!(accepted("Rollback"), Some("abc/4".to_owned()));
        assert_eq!((accepted("Soak"), accepted("")), (None, None));
    }

    #[test]
    fn a_rollout_is_shown_as_a_plan() {
        let helmop: HelmOp = decoded(json!({ "spec": { "paused": true } }));
        let partition = |name: &str, unavailable: i64, completed: &str| json!({ "name": name, "count": 3, "maxUnavailable": 1, "unavailable": unavailable, "completedAt": completed });
        let rollout =
            json!({ "id": "abc", "waitsFor": "Approval", "partition": "eu", "message": "it waits" });
        let bundle: Bundle = decoded(json!({
            "metadata": { "generation": 2 }, "spec": { "helm": { "version": "1.2.3" } },
            "status": {
                "observedGeneration": 2, "summary": { "ready": 3, "desiredReady": 9 }, "rollout": rollout,
                "partitions": [partition("canary", 0, "2026-12-01T09:00:00Z"), partition("eu", 0, ""), partition("us", 0, "")],
            },
        }));
        let status = bundle.status.as_deref().unwrap();
        let head = head(&helmop, &bundle, status);
        assert_eq!(
            head,
            [
                "version 1.2.3: 3 of 9 clusters ready",
                "rollout abc",
                "paused: spec.paused is set; go on with: kubectl helmop rollout resume",
                "it waits"
            ]
        );
        let text = table(status).text(Styles::new(false));
        let shown: Vec<_> = text
            .lines()
            .skip(1)
            .map(|line| line.rsplit("  ").next().unwrap().trim())
            .collect();
        assert_eq!(shown, ["done", "waits for approval", "waits for eu"], "{text}");
        assert!(text.contains("2026-12-01T09:00:00Z"), "{text}");
    }
}
