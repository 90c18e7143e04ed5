//! Which HelmOps a command changes.

use helmops_api::{HelmOp, MetadataOnly};
use kube::ResourceExt;

use crate::{
    cluster::{
        Cluster,
        selection::{Scope, helmop_name},
    },
    failure::Failure,
};

/// HelmOps by name, by label, or all.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Selection {
    #[command(flatten)]
    which: Which,
    /// The HelmOps of all namespaces, with --selector or --all
    #[arg(short = 'A', long, conflicts_with = "names")]
    all_namespaces: bool,
}

#[derive(Clone, Debug, Default, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// Names of HelmOps
    #[arg(value_name = "NAME", value_parser = helmop_name)]
    names: Vec<String>,
    /// HelmOps with these labels, such as app=web
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// All HelmOps of the namespace
    #[arg(long)]
    all: bool,
}

/// A HelmOp that a command is about.
#[derive(Clone)]
pub struct Target {
    /// The cluster, with the namespace of the HelmOp.
    pub cluster: Cluster,
    /// Its name.
    pub name: String,
    /// What lines about it begin with: its name, with its namespace if there may be several.
    pub title: String,
}

impl Target {
    /// That of a name in the namespace of the cluster.
    pub fn named(cluster: &Cluster, name: &str) -> Self {
        Self {
            cluster: cluster.clone(),
            name: name.to_owned(),
            title: name.to_owned(),
        }
    }

    fn within(cluster: &Cluster, namespace: String, name: String) -> Self {
        Self {
            title: format!("{namespace}/{name}"),
            cluster: Cluster {
                namespace,
                ..cluster.clone()
            },
            name,
        }
    }
}

impl Selection {
    /// The HelmOps, in the order of the arguments. Names are not looked up: the patch of one that does not exist fails.
    pub async fn targets(&self, cluster: &Cluster) -> Result<Vec<Target>, Failure> {
        let Which { names, selector, .. } = &self.which;
        if !names.is_empty() {
            return Ok(names.iter().map(|name| Target::named(cluster, name)).collect());
        }
        let scope = if self.all_namespaces {
            Scope::All
        } else {
            Scope::Namespace(&cluster.namespace)
        };
        let selector = selector.as_deref();
        let list = cluster.list::<MetadataOnly<HelmOp>>(scope, selector).await?;
        if list.is_empty() {
            let labels = selector.map_or_else(String::new, |labels| format!(" with labels {labels:?}"));
            return Err(
                Failure::negative(format!("there is no HelmOp in {scope}{labels}"))
                    .with_hint("list those of all namespaces with: kubectl helmop status -A"),
            );
        }
        let target = |found: &helmops_api::Decoded<MetadataOnly<HelmOp>>| match scope {
            Scope::Namespace(_) => Target::named(cluster, &found.name_any()),
            Scope::All => Target::within(cluster, found.namespace().unwrap_or_default(), found.name_any()),
        };
        Ok(list.iter().map(target).collect())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        selection: Selection,
    }

    #[test]
    fn helmops_are_selected_by_name_by_label_or_all() {
        for (arguments, expected) in [
            ("web helmop.fleet.cattle.io/api", true),
            ("-l app=web", true),
            ("-A -l app=web", true),
            ("-A --all", true),
            ("", false),
            ("-A", false),
            ("-A web", false),
            ("web --all", false),
        ] {
            let words = std::iter::once("command").chain(arguments.split_whitespace());
            let parsed = Command::try_parse_from(words);
            assert_eq!(parsed.is_ok(), expected, "{arguments}");
        }
        let parsed = Command::try_parse_from(["command", "web", "helmop/api"]).unwrap();
        assert_eq!(parsed.selection.which.names, ["web", "api"]);
    }
}
