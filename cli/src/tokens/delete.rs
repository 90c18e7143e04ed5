//! `token delete`.

use helmops_api::ClusterRegistrationToken;
use kube::{Api, api::DeleteParams};

use crate::{
    cluster::{ClusterArgs, api_error},
    failure::Failure,
    terminal::Console,
};

/// The arguments of `token delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Nothing can be registered with it any more; clusters that have registered stay
  kubectl helmop token delete join-x7k2p -n fleet-default")]
pub struct DeleteTokenArgs {
    /// Name of the token
    pub name: String,
}

/// Deletes a token.
///
/// # Errors
/// If the API server rejects that, or there is no such token.
pub async fn run(
    args: &DeleteTokenArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let management = cluster.connect().await?;
    let namespace = &management.namespace;
    let api = Api::<ClusterRegistrationToken>::namespaced(management.client.clone(), namespace);
    let name = helmops_kube::path_segment(&args.name);
    let deleted = api.delete(&name, &DeleteParams::default()).await;
    deleted.map_err(|error| {
        let attempt = format!("cannot delete ClusterRegistrationToken {namespace}/{}", args.name);
        let failure = api_error::failed(attempt, &error);
        if api_error::is_not_found(&error) {
            failure.with_hint(format!(
                "list those that exist with: kubectl helmop token list --namespace {namespace}"
            ))
        } else {
            failure
        }
    })?;
    writeln!(
        console.out,
        "ClusterRegistrationToken {namespace}/{} deleted",
        args.name
    )?;
    Ok(())
}
