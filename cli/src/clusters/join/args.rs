//! The arguments of `cluster join`.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;

use crate::{cluster::duration::duration, clusters::workload::WorkloadArgs, output::OutputArgs};

/// The arguments of `cluster join`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Join the cluster of the context edge-1, with a label that targets can select
  kubectl helmop cluster join edge-1 --namespace fleet-default --to-context edge-1 --labels env=prod \\
      --image registry.example.com/helmops-agent:0.1.0

  # The workload cluster reaches the management cluster under another address than you do
  kubectl helmop cluster join edge-1 -n fleet-default --to-context edge-1 --server https://api.example.com:6443

  # Show what would be applied, and change nothing
  kubectl helmop cluster join edge-1 -n fleet-default --to-context edge-1 --dry-run=client -o yaml

  # After a failure, or when the agent was away for so long that its token has expired: the same command again")]
pub struct JoinArgs {
    /// Name of the Cluster
    pub name: String,
    /// The workload cluster.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Labels of the Cluster, such as env=prod,zone=eu; others that it has stay
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Address of the management cluster for the agent; by default that of the kubeconfig
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File with the CA of the management cluster for the agent; by default that of the kubeconfig
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// Image of the agent; by default the one that is installed, or the one beside that of the controller
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Additional flag of the agent, such as --agent-flag=--workers=5; can be given several times
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub agent_flag: Vec<String>,
    /// Stop Fleet's agent on the workload cluster, and continue with what it has deployed
    #[arg(long)]
    pub take_over: bool,
    /// Overwrite fields of the agent's objects that another field manager has set otherwise
    #[arg(long)]
    pub force_conflicts: bool,
    /// How long to wait for the agent to report
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub timeout: Duration,
    /// Print what would be applied, without a change
    #[arg(long, value_name = "client", value_enum)]
    pub dry_run: Option<DryRun>,
    /// The format of the dry run.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where a dry run takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// In this program.
    Client,
}

/// A label, as it is written in a flag.
///
/// # Errors
/// If it has no key.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be KEY=VALUE, such as env=prod".to_owned()),
    }
}
