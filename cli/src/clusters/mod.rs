//! The clusters that HelmOps are deployed to: `cluster join`, `cluster register`, `cluster list`, `cluster leave`.
//!
//! ```text
//! join:  both clusters ─► observed ─► plan (what is refused, which permissions are needed) ─► steps ─► the first heartbeat
//! register: this cluster, what `token create` has printed ─► the agent, and what it registers with
//! leave: both clusters ─► observed ─► steps in the order in which nothing is uninstalled by mistake
//! list:  Clusters, clock ─► rows
//! ```

pub mod join;
pub mod leave;
pub mod list;
pub mod register;
pub mod steps;
pub mod workload;

use helmops_join::agent_objects::AgentOptions;

use crate::{cluster::ClusterArgs, failure::Failure, terminal::Console};

pub fn agent_namespace(cluster: Option<&helmops_api::Cluster>) -> String {
    let scope = cluster.map_or("", |cluster| &cluster.spec.agent_namespace);
    AgentOptions::in_scope(scope).namespace().to_owned()
}

/// The arguments of `cluster`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Join the cluster of another context, and list all that joined
  kubectl helmop cluster join prod-1 --to-context prod-1 --labels env=prod -n fleet-default
  kubectl helmop cluster list -n fleet-default

  # Remove its agent and its Cluster; what is deployed keeps running
  kubectl helmop cluster leave prod-1 --to-context prod-1 -n fleet-default")]
pub struct ClustersArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ClustersCommand,
}

/// The commands for clusters.
#[derive(Debug, clap::Subcommand)]
pub enum ClustersCommand {
    /// Join a cluster: create its Cluster here, and install an agent there
    Join(join::JoinArgs),
    /// Register this cluster with the command that `token create` has printed
    Register(register::RegisterArgs),
    /// List the clusters: when their agents last reported, and what is ready on them
    List(list::ListArgs),
    /// Remove the agent of a cluster, and its Cluster
    Leave(leave::LeaveArgs),
}

/// Runs a command.
///
/// # Errors
/// See the commands.
pub async fn run(
    args: &ClustersArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match &args.command {
        ClustersCommand::Join(args) => join::run(args, cluster, console).await,
        ClustersCommand::Register(args) => register::run(args, cluster, console).await,
        ClustersCommand::List(args) => list::run(args, cluster, console).await,
        ClustersCommand::Leave(args) => leave::run(args, cluster, console).await,
    }
}
