//! Whether an access to the management cluster works.

use helmops_api::{BundleDeployment, Cluster, MetadataOnly};
use helmops_join::access::{Joined, ManagementServer};
use helmops_kube::{config_of, set_user_agent};
use helmops_process::exit::with_causes;
use helmops_runtime::client::{ApiError, bounded, for_election};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    config::Kubeconfig,
};
use serde_json::json;

/// Whether an access works.
#[derive(Debug)]
pub(super) enum Verdict {
    Works,
    /// The management cluster does not know the token.
    Unauthorized(String),
    /// Anything else, which may be over soon.
    Fails(String),
}

/// Does what an agent needs: to list its BundleDeployments, and to report. Nothing is changed.
pub(super) async fn verify(client: &Client, joined: &Joined) -> Verdict {
    let deployments =
        Api::<MetadataOnly<BundleDeployment>>::namespaced(client.clone(), &joined.deployment_namespace);
    if let Err(error) = bounded(deployments.list(&ListParams::default().limit(1))).await {
        return verdict(&error);
    }
    let clusters = Api::<Cluster>::namespaced(client.clone(), &joined.cluster.namespace);
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let report = Patch::Merge(json!({ "status": {} }));
    match bounded(clusters.patch_status(&joined.cluster.name, &params, &report)).await {
        Ok(_) => Verdict::Works,
        Err(error) => verdict(&error),
    }
}

fn verdict(error: &ApiError) -> Verdict {
    let text = with_causes(error);
    match error.status() {
        Some(status) if status.code == 401 => Verdict::Unauthorized(text),
        _ => Verdict::Fails(text),
    }
}

/// A client of a kubeconfig.
pub(super) fn connect(kubeconfig: &str) -> anyhow::Result<Client> {
    let mut config = config_of(Kubeconfig::from_yaml(kubeconfig)?, None)?;
    set_user_agent(&mut config, "helmops-agent");
    for_election(config)
}

/// Whether a CA of the system has signed the certificate of the management cluster, as Fleet's agent tries it: without the token.
pub(super) async fn is_trusted_by_system(server: &ManagementServer) -> bool {
    let by_system = ManagementServer {
        authorities: String::new(),
        ..server.clone()
    };
    let Ok(client) = connect(&by_system.kubeconfig("default", "")) else {
        return false;
    };
    // Any response: the certificate was verified before.
    match bounded(client.apiserver_version()).await {
        Ok(_) => true,
        Err(error) => error.is_response(),
    }
}
