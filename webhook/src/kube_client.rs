//! The way to the API server, for those who need it.

use anyhow::Context;
use helmops_shared::runtime::kube_client::{ConnectError, connect};
use kube::Client;

use crate::args::{Args, TlsSource};

/// Whom the API server's logs name.
const NAME: &str = "helmops-webhook";

/// The way to the API server; `None` where nobody needs it, or only Policies do and nobody says where it is.
///
/// # Errors
/// Where a kubeconfig is given that cannot be used, or the certificate cannot be kept without.
pub async fn client(args: &Args) -> anyhow::Result<Option<Client>> {
    if !args.enforce_policies {
        tracing::info!(
            "--enforce-policies=false: Policies are not enforced at admission (the controller still enforces them)"
        );
    }
    match args.tls_source {
        TlsSource::Managed => {
            let client = connect(NAME, args.kubeconfig.as_deref()).await.context(
                "--tls-source=managed keeps the certificate in a Secret; without an API server give --tls-source=files",
            )?;
            Ok(Some(client))
        }
        TlsSource::Files if args.enforce_policies => for_policies(args).await,
        TlsSource::Files => Ok(None),
    }
}

async fn for_policies(args: &Args) -> anyhow::Result<Option<Client>> {
    match connect(NAME, args.kubeconfig.as_deref()).await {
        Ok(client) => Ok(Some(client)),
        Err(error @ ConnectError::Nowhere(_)) => {
            tracing::warn!(
                "Policies are not enforced at admission (the controller still enforces them): {error}"
            );
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
