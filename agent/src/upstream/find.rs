//! Finds the management cluster.

use std::{path::Path, time::Duration};

use helmops_api::{Cluster, NamespacedName};
use helmops_kube::lease::Leadership;
use helmops_process::{OnChange, exit::with_causes};
use helmops_runtime::client::{self, bounded};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use super::{
    access::{self, Access},
    credential::{Credential, SECRET},
};
use crate::args::RunArgs;

/// Between two looks for something that does not exist yet.
const RETRY: Duration = Duration::from_secs(2);

/// The management cluster, and which cluster this one is there.
pub struct Upstream {
    /// Its client.
    pub client: Client,
    /// The Cluster.
    pub cluster: NamespacedName,
    /// The namespace of the BundleDeployments.
    pub deployment_namespace: String,
    /// The access to it, if it is another cluster.
    pub access: Option<Access>,
}

impl Upstream {
    /// Waits for the access to the management cluster: the Secret, or the namespace of the Cluster if this is the management cluster
    /// itself. The token is written to a file in `folder`.
    ///
    /// # Errors
    /// If the access cannot be used.
    pub async fn find(
        args: &RunArgs,
        folder: &Path,
        downstream: &Client,
        leadership: &Leadership,
    ) -> anyhow::Result<Self> {
        if let Some(cluster) = &args.local {
            return Ok(Self {
                deployment_namespace: namespace_of(downstream, cluster).await,
                client: downstream.clone(),
                cluster: cluster.clone(),
                access: None,
            });
        }
        let credential = credential(downstream, &args.namespace).await?;
        let token_file = folder.join("upstream-token");
        access::write_token(&token_file, &credential.token().await?).await?;
        let config = credential.configuration(&token_file).await?;
        let client = client::for_work(config, leadership.clone())?;
        Ok(Self {
            client: client.clone(),
            cluster: credential.cluster.clone(),
            deployment_namespace: credential.deployment_namespace.clone(),
            access: Some(Access {
                downstream: downstream.clone(),
                upstream: client,
                leadership: leadership.clone(),
                namespace: args.namespace.clone(),
                credential,
                token_file,
                renew_at: args.renew_token_at,
            }),
        })
    }
}

/// The namespace of a Cluster, when the controller has created it.
async fn namespace_of(client: &Client, cluster: &NamespacedName) -> String {
    let api = Api::<Cluster>::namespaced(client.clone(), &cluster.namespace);
    let mut logged = OnChange::default();
    loop {
        let waiting = match bounded(api.get_opt(&cluster.name)).await {
            Ok(Some(found)) if !found.status.namespace.is_empty() => return found.status.namespace,
            Ok(Some(_)) => "it has no namespace yet".to_owned(),
            Ok(None) => "it does not exist".to_owned(),
            Err(error) => with_causes(&error),
        };
        if logged.record(Some(waiting.clone())) {
            tracing::info!(%cluster, waiting, "waiting for the Cluster of this cluster");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The Secret, when it exists.
async fn credential(client: &Client, namespace: &str) -> anyhow::Result<Credential> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let mut logged = OnChange::default();
    loop {
        let waiting = match bounded(api.get_opt(SECRET)).await {
            Ok(Some(secret)) => return Ok(Credential::of(&secret)?),
            Ok(None) => "it does not exist; join the cluster as docs/agent.md describes".to_owned(),
            Err(error) => with_causes(&error),
        };
        if logged.record(Some(waiting.clone())) {
            tracing::info!(
                namespace,
                name = SECRET,
                waiting,
                "waiting for the Secret with the access to the management cluster"
            );
        }
        tokio::time::sleep(RETRY).await;
    }
}
