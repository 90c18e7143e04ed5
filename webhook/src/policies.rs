//! Policies, kept by a watch.

use std::future::ready;

use futures::StreamExt;
use helmops_shared::runtime::cluster::{ConnectError, KnownPolicies, connect};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::args::Args;

/// The way to the API server that Policies come by; `None` where they are not wanted, or nobody says where it is.
///
/// # Errors
/// Where a kubeconfig is given that cannot be used.
pub async fn client(args: &Args) -> Result<Option<Client>, ConnectError> {
    if !args.policies {
        tracing::info!(
            "--policies=false: what Policies forbid is let pass, and refused by the controller alone"
        );
        return Ok(None);
    }
    match connect(args.kubeconfig.as_deref()).await {
        Ok(client) => {
            tracing::info!(
                "until Policies are known, what they forbid is let pass, and refused by the controller alone"
            );
            Ok(Some(client))
        }
        Err(error @ ConnectError::Nowhere(_)) => {
            tracing::warn!("what Policies forbid is let pass, and refused by the controller alone: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Keeps Policies until it is told to stop.
pub async fn keep(client: Client, known: KnownPolicies, stop: CancellationToken) {
    let changes = known.watch(&client).for_each(|_| ready(()));
    tokio::select! {
        () = changes => {}
        () = stop.cancelled() => {}
    }
}
