//! `poll`: requests a poll for newer versions, and reports what it has found.

use super::{
    observed::{Depth, observe},
    patch::{self, PatchArgs},
    reconcile::token,
    selection::Selection,
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
    for name in args.selection.names(&cluster).await? {
        let before = observe(&cluster, &name, Depth::HelmOp).await?.helmop.status;
        let annotation = patch::annotation(labels::POLL_REQUESTED_AT, &token);
        patch::send(&cluster, &name, &annotation, args.patch).await?;
        writeln!(
            console.out,
            "helmop {name}: poll requested{}",
            args.patch.suffix()
        )?;
        requested.push((name, before.unwrap_or_default().version));
    }
    if args.wait.no_wait || args.patch.dry_run {
        return Ok(());
    }
    for (name, before) in &requested {
        let awaited = Awaited {
            name,
            depth: Depth::Bundle,
            verdict: &|observed| verdict::polled(observed, &token, before),
        };
        waiting::until(&cluster, &awaited, args.wait.timeout, console).await?;
    }
    Ok(())
}
