//! The tokens by which clusters register themselves: `token create`, `token list`, `token delete`.
//!
//! ```text
//! create: ClusterRegistrationToken ─► the controller makes its Secret ─► the command for the administrator of the cluster
//! ```

pub mod create;
pub mod delete;
pub mod list;

use crate::{cluster::ClusterArgs, failure::Failure, terminal::Console};

/// The arguments of `token`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Print the command by which the administrator of a cluster registers it, valid for an hour
  kubectl helmop token create --ttl 1h -n fleet-default

  # The tokens of a workspace
  kubectl helmop token list -n fleet-default

  # End a token: clusters that have registered with it stay
  kubectl helmop token delete join-x7k2p -n fleet-default")]
pub struct TokensArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TokensCommand,
}

/// The commands for tokens.
#[derive(Debug, clap::Subcommand)]
pub enum TokensCommand {
    /// Create a token, and print the command that registers a cluster with it
    Create(create::CreateTokenArgs),
    /// List the tokens: when they expire, and whether they can be used
    List(list::ListTokensArgs),
    /// Delete a token: nothing can be registered with it any more
    Delete(delete::DeleteTokenArgs),
}

/// Runs a command.
///
/// # Errors
/// See the commands.
pub async fn run(args: &TokensArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    match &args.command {
        TokensCommand::Create(args) => Box::pin(create::run(args, cluster, console)).await,
        TokensCommand::List(args) => list::run(args, cluster, console).await,
        TokensCommand::Delete(args) => delete::run(args, cluster, console).await,
    }
}
