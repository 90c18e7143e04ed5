//! Patches of HelmOps: only the fields that a command is about.

use helmops_api::HelmOp;
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::Status,
};
use serde_json::{Value, json};

use crate::{cluster::Cluster, failure::Failure};

/// The field manager of this program.
pub const FIELD_MANAGER: &str = "kubectl-helmop";

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
    let result = api.patch(name, &params, &Patch::Merge(patch)).await;
    result.map_err(|error| failure(&error, name, &cluster.namespace))
}

/// A failure that names the HelmOp.
pub fn failure(error: &kube::Error, name: &str, namespace: &str) -> Failure {
    match error {
        kube::Error::Api(status) if is_absent(status) => {
            Failure::unable(format!("HelmOp {namespace}/{name} does not exist"))
                .with_hint("list those of all namespaces with: kubectl helmop status -A")
        }
        // The text of the webhook names field, offending text and fix.
        kube::Error::Api(status) => Failure::unable(format!("HelmOp {namespace}/{name}: {}", status.message)),
        error => Failure::because(format!("cannot change HelmOp {namespace}/{name}"), error),
    }
}

fn is_absent(status: &Status) -> bool {
    status.code == 404 && status.message.contains("helmops.fleet.cattle.io \"")
}
