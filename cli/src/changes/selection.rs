//! Which HelmOps a command changes.

use helmops_api::HelmOp;
use kube::{Api, api::ListParams};

use crate::{cluster::Cluster, failure::Failure};

/// HelmOps by name, by label, or all of the namespace.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Selection {
    /// Names of HelmOps
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// HelmOps with these labels, such as app=web
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// All HelmOps of the namespace
    #[arg(long)]
    pub all: bool,
}

impl Selection {
    /// The names of the HelmOps, in the order of the arguments. Names are not looked up: the patch of one that does not exist fails.
    pub async fn names(&self, cluster: &Cluster) -> Result<Vec<String>, Failure> {
        if !self.names.is_empty() {
            return Ok(self.names.clone());
        }
        let params = ListParams {
            label_selector: self.selector.clone(),
            ..ListParams::default()
        };
        let api = Api::<HelmOp>::namespaced(cluster.client.clone(), &cluster.namespace);
        let list = api.list_metadata(&params).await.map_err(|error| {
            Failure::because(
                format!("cannot list the HelmOps of namespace {}", cluster.namespace),
                &error,
            )
        })?;
        let names: Vec<_> = list
            .items
            .into_iter()
            .filter_map(|helmop| helmop.metadata.name)
            .collect();
        if names.is_empty() {
            let what = self
                .selector
                .as_deref()
                .map(|labels| format!(" with labels {labels}"));
            return Err(Failure::negative(format!(
                "namespace {} has no HelmOp{}",
                cluster.namespace,
                what.unwrap_or_default()
            ))
            .with_hint("list those of all namespaces with: kubectl helmop status -A"));
        }
        Ok(names)
    }
}
