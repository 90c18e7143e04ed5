//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    changes::{approve, poll, reconcile, rollback, rollout, suspend, wait},
    charts::{outdated, resolve, versions},
    check::CheckArgs,
    cluster::ClusterArgs,
    clusters::ClustersArgs,
    commands::{completion, explain, export, logs, values, version},
    create::CreateArgs,
    diff::DiffArgs,
    state::{events, history, status, tree},
    tokens::TokensArgs,
    ui, validate,
};

/// Look before you apply a HelmOp, and see why one is stuck
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-helmop",
    bin_name = "kubectl helmop",
    version = helmops_process::version(),
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  # See what is wrong with a HelmOp in a file, and what it would change
  kubectl helmop validate web.yaml
  kubectl helmop diff -f web.yaml

  # See why a HelmOp is in its state
  kubectl helmop status web -n fleet-default

  # Poll for a newer version of its chart, and wait until it is deployed
  kubectl helmop poll web -n fleet-default

Examples of a command: kubectl helmop COMMAND --help"
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
    /// Create a HelmOp from flags, from a Helm release, or from objects of Flux, Argo CD or k3s
    Create(Box<CreateArgs>),
    /// Show what a HelmOp would change on each cluster
    Diff(DiffArgs),
    /// Print the values that the chart of a HelmOp gets on a cluster
    Values(values::ValuesArgs),
    /// Print HelmOps as they should be in Git
    Export(export::ExportArgs),
    /// Validate HelmOps, Policies, Alerts and Receivers in files, without a cluster
    Validate(validate::ValidateArgs),
    /// Show which version of a chart would be selected now, and why
    Resolve(resolve::ResolveArgs),
    /// List the versions of a chart around the current one
    Versions(versions::VersionsArgs),
    /// List the HelmOps whose charts have newer versions
    Outdated(outdated::OutdatedArgs),
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
    /// Join, register, list and remove the clusters that HelmOps are deployed to
    Cluster(ClustersArgs),
    /// Create, list and delete the tokens by which clusters register themselves
    Token(TokensArgs),
    /// Check the installation: CRDs, processes, webhook, certificates, leader, permissions, agents
    Check(CheckArgs),
    /// Print the log lines of the processes, of all replicas in one order
    Logs(logs::LogsArgs),
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
    /// Show a rollout as a plan, pause it, or let it go on
    Rollout(rollout::RolloutArgs),
    /// Let a partition of a rollout begin that waits for approval
    Approve(approve::ApproveArgs),
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn assert_has_examples(command: &clap::Command) {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(
            help.contains("Examples:\n"),
            "{} has no examples",
            command.get_name()
        );
        let help = help.replace("\\\n", "");
        for line in help.lines().map(str::trim) {
            // Of a pipeline, the part that is about this program.
            let Some(at) = line.find("kubectl helmop ").filter(|_| !line.contains("COMMAND")) else {
                continue;
            };
            let line = line[at..].trim_end_matches(')').replace(['\'', '"'], "");
            let words = line
                .split_whitespace()
                .skip(1)
                .take_while(|word| !matches!(*word, "|" | ">"));
            if let Err(error) = Arguments::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
        for command in command.get_subcommands() {
            assert_has_examples(command);
        }
    }

    #[test]
    fn every_command_has_examples_that_it_accepts() {
        assert_has_examples(&Arguments::command());
    }
}
