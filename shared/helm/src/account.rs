//! The account that deploys a release.

use helmops_kube::path_segment;
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use thiserror::Error;

use super::request::Identity;

/// The ServiceAccount that is used if a deployment names none and it exists: as in Fleet.
const FLEET_DEFAULT: &str = "fleet-default";

/// Why the account is not known.
#[derive(Debug, Error)]
pub enum AccountError {
    /// The API server could not be called.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The named ServiceAccount does not exist.
    #[error(
        "looking up service account {namespace}/{name}: it does not exist; create it in the namespace of the agent, or correct \
         serviceAccount, or the flag --default-service-account of the agent"
    )]
    Missing {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// The account that deploys: the named ServiceAccount of the agent's namespace, else the one called `fleet-default` if it exists,
/// else the agent's own.
///
/// # Errors
/// If the named one does not exist, or cannot be read.
pub async fn identity(
    client: &Client,
    agent_namespace: &str,
    service_account: &str,
) -> Result<Identity, AccountError> {
    let is_named = !service_account.is_empty();
    let name = if is_named { service_account } else { FLEET_DEFAULT };
    let api = Api::<ServiceAccount>::namespaced(client.clone(), agent_namespace);
    let found = bounded(api.get_metadata_opt(&path_segment(name))).await;
    let found = found.map_err(CallError::of(
        "read",
        format_args!("ServiceAccount {agent_namespace}/{name}"),
    ))?;
    match found {
        Some(_) => Ok(Identity::ServiceAccount {
            namespace: agent_namespace.to_owned(),
            name: name.to_owned(),
        }),
        None if !is_named => Ok(Identity::Agent),
        None => Err(AccountError::Missing {
            namespace: agent_namespace.to_owned(),
            name: name.to_owned(),
        }),
    }
}
