//! `version`: of this program, and of helmops on the cluster.

use crate::{cluster::ClusterArgs, failure::Failure, terminal::Console};

/// The arguments of `version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Without a cluster
  kubectl helmop version --client")]
pub struct VersionArgs {
    /// Only the version of this program
    #[arg(long)]
    pub client: bool,
}

/// Prints the versions.
pub async fn run(
    args: &VersionArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    writeln!(console.out, "kubectl-helmop {}", helmops_process::version())?;
    if args.client {
        return Ok(());
    }
    let cluster = cluster.connect().await?;
    let server = cluster.client.apiserver_version().await;
    let server =
        server.map_err(|error| Failure::because(format!("cannot reach {}", cluster.server), &error))?;
    Ok(writeln!(console.out, "Kubernetes {}", server.git_version)?)
}
