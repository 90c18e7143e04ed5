//! Which HelmOps a command changes.

use helmops_api::{HelmOp, MetadataOnly};
use kube::ResourceExt;

use crate::{
    cluster::{Cluster, selection::Scope},
    failure::Failure,
};

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
        let scope = Scope::Namespace(&cluster.namespace);
        let selector = self.selector.as_deref();
        let list = cluster.list::<MetadataOnly<HelmOp>>(scope, selector).await?;
        let names: Vec<_> = list.iter().map(ResourceExt::name_any).collect();
        if names.is_empty() {
            let labels = selector.map_or_else(String::new, |labels| format!(" with labels {labels:?}"));
            return Err(
                Failure::negative(format!("there is no HelmOp in {scope}{labels}"))
                    .with_hint("list those of all namespaces with: kubectl helmop status -A"),
            );
        }
        Ok(names)
    }
}
