//! `poll`: requests a poll for newer versions, and reports what it has found.

use super::{
    observed::{Depth, observe},
    patch::{self, PatchArgs},
    reconcile::token,
    selection::{Selection, Target},
    verdict,
    waiting::{self, Awaited, WaitArgs},
};
use crate::{cluster::ClusterArgs, failure::Failure, terminal::Console};
use helmops_api::labels;

/// The arguments of `poll`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Look for a newer version in the range now
  kubectl helmop poll web

  # Of all HelmOps in the namespace
  kubectl helmop poll --all")]
pub struct PollArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    patch: PatchArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Writes the annotation, and waits until the controller has polled.
pub async fn run(args: &PollArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let token = token();
    let mut requested = Vec::new();
    for target in args.selection.targets(&cluster).await? {
        let Target { cluster, name, title } = &target;
        let before = observe(cluster, name, Depth::HelmOp).await?.helmop.status;
        let annotation = patch::annotation(labels::POLL_REQUESTED_AT, &token);
        let stored = patch::send(cluster, name, &annotation, args.patch).await?;
        let line = format!("helmop {title}: poll requested{}", args.patch.suffix());
        args.patch.report(&line, stored, requested.is_empty(), console)?;
        requested.push((target, before.unwrap_or_default().version));
    }
    if args.wait.no_wait || args.patch.is_dry_run() {
        return Ok(());
    }
    for (target, before) in &requested {
        let awaited = Awaited {
            target,
            depth: Depth::Bundle,
            verdict: &|observed| verdict::polled(observed, &token, before),
            has_output: args.patch.prints_objects(),
        };
        waiting::until(&awaited, args.wait.timeout, console).await?;
    }
    Ok(())
}
