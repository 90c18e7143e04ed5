//! The client for the API server, if it is needed.

use anyhow::Context;
use helmops_kube::{ConnectError, connect};
use kube::Client;

use crate::args::{Args, TlsSource};

/// The user agent in the logs of the API server.
const USER_AGENT: &str = "helmops-webhook";

/// The client for the API server. `None` if it is not needed, or if it is needed only for Policies and no API server is
/// configured.
///
/// # Errors
/// If the kubeconfig is invalid, or if the managed certificate needs an API server and none is configured.
pub async fn client(args: &Args) -> anyhow::Result<Option<Client>> {
    if !args.enforce_policies {
        tracing::info!(
            "--enforce-policies=false: Policies are not enforced at admission (the controller still enforces them)"
        );
    }
    match args.tls_source {
        TlsSource::Managed => {
            let client = connect(USER_AGENT, args.kubeconfig.as_deref()).await.context(
                "--tls-source=managed stores the certificate in a Secret; without an API server, set --tls-source=files",
            )?;
            Ok(Some(client))
        }
        TlsSource::Files if args.enforce_policies => for_policies(args).await,
        TlsSource::Files => Ok(None),
    }
}

async fn for_policies(args: &Args) -> anyhow::Result<Option<Client>> {
    match connect(USER_AGENT, args.kubeconfig.as_deref()).await {
        Ok(client) => Ok(Some(client)),
        Err(error @ ConnectError::NotConfigured(_)) => {
            tracing::warn!(
                "Policies are not enforced at admission (the controller still enforces them): {error}"
            );
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
