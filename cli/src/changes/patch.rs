//! Patches of HelmOps: only the fields that a command is about.

use helmops_api::HelmOp;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, apply::FIELD_MANAGER, request::Request, selection::Scope},
    failure::Failure,
};

/// What every command that changes something has.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct PatchArgs {
    /// Send the change to the API server, which validates but does not store it
    #[arg(long)]
    pub dry_run: bool,
}

impl PatchArgs {
    /// What lines about a change end in, as kubectl marks a dry run.
    pub const fn suffix(self) -> &'static str {
        if self.dry_run { " (server dry run)" } else { "" }
    }
}

/// A patch that sets one annotation.
pub fn annotation(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}

/// Sends a merge patch and returns the HelmOp as it is stored then.
pub async fn send(cluster: &Cluster, name: &str, patch: &Value, args: PatchArgs) -> Result<HelmOp, Failure> {
    let params = PatchParams {
        dry_run: args.dry_run,
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let api = Api::<HelmOp>::namespaced(cluster.client.clone(), &cluster.namespace);
    match api.patch(name, &params, &Patch::Merge(patch)).await {
        Ok(helmop) => Ok(helmop),
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            Err(cluster.not_found::<HelmOp>(&cluster.namespace, name).await)
        }
        Err(error) => {
            let request = Request::of::<HelmOp>("patch", Scope::Namespace(&cluster.namespace));
            Err(request.named(name).failure(cluster, &error))
        }
    }
}
