//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    changes::{poll, reconcile, rollback, suspend, wait},
    cluster::ClusterArgs,
    commands::{completion, explain, version},
    state::{events, history, status, tree},
    ui,
};

/// Look before you apply a HelmOp, and see why one is stuck
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-helmop",
    bin_name = "kubectl helmop",
    version = helmops_process::version(),
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Arguments {
    /// Which cluster and namespace.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show HelmOps: versions, ready clusters, polls; with a name, why one is in its state
    Status(status::StatusArgs),
    /// Show a HelmOp, its Bundle, its clusters and their objects
    Tree(tree::TreeArgs),
    /// Show the attempts to deploy a HelmOp on each cluster
    History(history::HistoryArgs),
    /// Show the Events about a HelmOp, its Bundle and its clusters
    Events(events::EventsArgs),
    /// Explain a reason that a condition, a denial, an Event or a metric names
    Explain(explain::ExplainArgs),
    /// Make the next attempt to deploy now, and wait until the HelmOp is ready
    Reconcile(reconcile::ReconcileArgs),
    /// Look for a newer version of the chart now
    Poll(poll::PollArgs),
    /// Deploy, correct and report nothing until the HelmOp is resumed
    Suspend(suspend::SuspendArgs),
    /// Go on after suspend
    Resume(suspend::SuspendArgs),
    /// Go back to an earlier version of the chart
    Rollback(rollback::RollbackArgs),
    /// Wait until HelmOps are ready, or have a version or a condition
    Wait(wait::WaitForArgs),
    /// Show HelmOps, clusters and roll-outs in the browser, live
    Ui(ui::UiArgs),
    /// Print the versions of this program and of helmops on the cluster
    Version(version::VersionArgs),
    /// Print the completion script of a shell
    Completion(completion::CompletionArgs),
    /// Write the man pages to a folder
    #[command(hide = true)]
    Man(completion::ManArgs),
}
