//! `reconcile`: requests a reconciliation on each cluster.

use jiff::Timestamp;

use super::{
    observed::Depth,
    patch::{self, PatchArgs},
    selection::{Selection, Target},
    verdict::{self, Request},
    waiting::{self, Awaited, WaitArgs},
};
use crate::{cluster::ClusterArgs, failure::Failure, terminal::Console};

/// The arguments of `reconcile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Make the next attempt now, and wait until the HelmOp is ready
  kubectl helmop reconcile web

  # Deploy the same version again
  kubectl helmop reconcile web --force

  # Forget failed attempts: all retries are available again
  kubectl helmop reconcile -l app=shop --reset --no-wait")]
pub struct ReconcileArgs {
    #[command(flatten)]
    selection: Selection,
    /// Deploy again, although nothing has changed
    #[arg(long, conflicts_with = "reset")]
    force: bool,
    /// Forget failed attempts
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    patch: PatchArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Writes the annotation, and waits until the agents have handled it and the HelmOp is ready.
pub async fn run(
    args: &ReconcileArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let request = match (args.force, args.reset) {
        (true, _) => Request::Force,
        (false, true) => Request::Reset,
        (false, false) => Request::Reconcile,
    };
    let token = token();
    let targets = args.selection.targets(&cluster).await?;
    for (index, Target { cluster, name, title }) in targets.iter().enumerate() {
        let annotation = patch::annotation(request.annotation(), &token);
        let stored = patch::send(cluster, name, &annotation, args.patch).await?;
        let line = format!("helmop {title}: reconciliation requested{}", args.patch.suffix());
        args.patch.report(&line, stored, index == 0, console)?;
    }
    if args.wait.no_wait || args.patch.is_dry_run() {
        return Ok(());
    }
    for target in &targets {
        let awaited = Awaited {
            target,
            depth: Depth::Deployments,
            verdict: &|observed| verdict::reconciled(observed, request, &token),
            has_output: args.patch.prints_objects(),
        };
        waiting::until(&awaited, args.wait.timeout, console).await?;
    }
    Ok(())
}

/// A value that no earlier request has: the time, as a person reads it.
pub fn token() -> String {
    Timestamp::now().to_string()
}
