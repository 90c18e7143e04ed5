//! `values`: the values that the chart of a HelmOp gets on a cluster.
//!
//! ```text
//! BundleDeployment (options, rendered values) ─┐
//! chart (helm.valuesFiles) ────────────────────┼─► render: merged as by the agent ─► YAML, without the values of Secrets
//! ConfigMaps, Secrets of the cluster ──────────┘
//! ```

use go_formats::yaml;
use helmops_api::{Bundle, BundleDeployment, BundleDeploymentOptions, Cluster as WorkloadCluster, HelmOp};
use helmops_core::targeting::cluster_of;
use helmops_helm::values_from::sources;
use helmops_release::names::ReleaseKey;
use k8s_openapi::api::core::v1::Secret;
use tempfile::NamedTempFile;

use crate::{
    cluster::{
        Cluster, ClusterArgs,
        contexts::Contexts,
        selection::{Scope, deployments_of, helmop_name},
    },
    clusters::agent_namespace,
    failure::Failure,
    render::{self, Account, AccountArgs, ChartAccess, ReleaseValues, ValuesOf},
    state::history::{matches, no_such_cluster},
    terminal::{Console, progress::during},
};

/// The arguments of `values`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The values on the only cluster of a HelmOp
  kubectl helmop values web

  # Those on one of several clusters, whose ConfigMaps and Secrets another context reads
  kubectl helmop values web --cluster edge-1 --cluster-context edge-1=edge

They are those of the last BundleDeployment, without the values.yaml of the chart. Values of Secrets are masked.")]
pub struct ValuesArgs {
    /// Name of the HelmOp
    #[arg(value_parser = helmop_name)]
    pub name: String,
    /// The cluster, if there are several: NAME, or NAMESPACE/NAME
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Show the values of Secrets too
    #[arg(long)]
    pub show_secrets: bool,
    /// Context of a Cluster, to read its ConfigMaps and Secrets; by default the current context is used
    #[arg(long, value_name = "CLUSTER=CONTEXT")]
    pub cluster_context: Vec<String>,
    /// Who reads.
    #[command(flatten)]
    pub account: AccountArgs,
}

/// Prints the values.
///
/// # Errors
/// If there are several clusters and none is selected, or if some of the values cannot be read.
pub async fn run(args: &ValuesArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let contexts = Contexts::parse(&args.cluster_context, cluster)?;
    let upstream = cluster.connect().await?;
    let helmop: HelmOp = upstream.get(&upstream.namespace, &args.name).await?;
    let selector = deployments_of(&upstream.namespace, &args.name);
    let deployments: Vec<BundleDeployment> = upstream.list_known(Scope::All, Some(&selector)).await?;
    let id = (&*upstream.namespace, &*args.name);
    let deployment = selected(&deployments, id, args.cluster.as_deref())?;
    let options = BundleDeploymentOptions {
        lifecycle: deployment.spec.lifecycle.clone(),
        ..BundleDeploymentOptions::clone(&deployment.spec.options)
    };
    let key = ReleaseKey::of(deployment.metadata.name.as_deref().unwrap_or_default(), &options);
    let (_, name) = cluster_of(deployment).unwrap_or_default();
    let of = ValuesOf {
        cluster: name,
        options: &options,
        own: &own_values(&upstream, deployment).await?,
        namespace: &key.namespace,
    };
    let account = if sources(&options, options.lifecycle.as_deref(), "").is_empty() {
        None
    } else {
        Some(account(args, &contexts, &upstream, deployment, &options).await?)
    };
    let archive = archive(&upstream, &helmop, &options, console).await?;
    let archive = archive.as_ref().map(NamedTempFile::path);
    let values = ReleaseValues::read(of, account.as_ref(), archive).await?;
    let values = if args.show_secrets {
        values.merged()?
    } else {
        values.masked()?
    };
    let text = yaml::emit_exact(&values.into());
    let text = text.map_err(|error| Failure::because("cannot print the values", &error))?;
    Ok(write!(console.out, "{text}")?)
}

/// Who reads the ConfigMaps and Secrets of the cluster.
async fn account(
    args: &ValuesArgs,
    contexts: &Contexts,
    upstream: &Cluster,
    deployment: &BundleDeployment,
    options: &BundleDeploymentOptions,
) -> Result<Account, Failure> {
    let (namespace, name) = cluster_of(deployment).unwrap_or_default();
    let Some(downstream) = contexts.of(name) else {
        let text = format!("the ConfigMaps and Secrets of cluster {name} cannot be read");
        return Err(Failure::unable(text).with_hint(format!("add --cluster-context {name}=CONTEXT")));
    };
    let known = upstream.find::<WorkloadCluster>(namespace, name).await?;
    let of_agent = agent_namespace(known.as_ref());
    args.account.account(options, &of_agent, &downstream).await
}

/// The chart, if it has files with values.
async fn archive(
    upstream: &Cluster,
    helmop: &HelmOp,
    options: &BundleDeploymentOptions,
    console: &mut Console<'_>,
) -> Result<Option<NamedTempFile>, Failure> {
    let helm = options.helm.as_ref();
    let Some(helm) = helm.filter(|helm| !helm.values_files.is_empty()) else {
        return Ok(None);
    };
    let access = ChartAccess::of(helmop, &upstream.namespace);
    let name = helmop.metadata.name.as_deref().unwrap_or_default();
    let bundle = upstream.find::<Bundle>(&upstream.namespace, name).await?;
    let fetching = render::fetch_of(&upstream.client, helmop, bundle.as_ref(), helm, access);
    during(console, "Fetching the chart", fetching).await.map(Some)
}

/// The BundleDeployment of the cluster that is meant.
fn selected<'d>(
    deployments: &'d [BundleDeployment],
    (namespace, name): (&str, &str),
    cluster: Option<&str>,
) -> Result<&'d BundleDeployment, Failure> {
    let title = |deployment: &BundleDeployment| {
        cluster_of(deployment).map(|(namespace, name)| format!("{namespace}/{name}"))
    };
    let is_meant = |deployment: &&BundleDeployment| {
        let title = title(deployment).unwrap_or_default();
        cluster.is_none_or(|cluster| matches(&title, cluster))
    };
    let found: Vec<_> = deployments.iter().filter(is_meant).collect();
    match (&found[..], cluster) {
        ([deployment], _) => Ok(deployment),
        ([], Some(cluster)) => Err(no_such_cluster(namespace, name, cluster)),
        ([], None) => Err(Failure::unable(format!(
            "HelmOp {name:?} in namespace {namespace:?} has no BundleDeployment yet"
        ))
        .with_hint(format!(
            "see why with: kubectl helmop status {name} -n {namespace}"
        ))),
        (several, _) => {
            let mut names: Vec<_> = several
                .iter()
                .filter_map(|deployment| title(deployment))
                .collect();
            names.sort();
            Err(Failure::unable(format!(
                "HelmOp {name:?} is on {} clusters, and their values may differ: {}",
                names.len(),
                names.join(", ")
            ))
            .with_hint("select one with --cluster"))
        }
    }
}

/// The values of the options, which are in a Secret unless the BundleDeployment has them itself.
async fn own_values(upstream: &Cluster, deployment: &BundleDeployment) -> Result<String, Failure> {
    let (spec, metadata) = (&deployment.spec, &deployment.metadata);
    if spec.values_hash.is_empty() {
        let helm = spec.options.helm.as_ref();
        let values = helm.and_then(|helm| helm.values.as_ref());
        return Ok(values.map_or_else(String::new, |values| values.as_str().to_owned()));
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    let secret: Secret = upstream.get(namespace, name).await?;
    let values = secret.data.and_then(|mut data| data.remove("values"));
    Ok(String::from_utf8_lossy(&values.unwrap_or_default().0).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployments(clusters: &[(&str, &str)]) -> Vec<BundleDeployment> {
        let deployment = |(namespace, name): &(&str, &str)| {
            let labels =
                json!({ "fleet.cattle.io/cluster": name, "fleet.cattle.io/cluster-namespace": namespace });
            serde_json::from_value(json!({ "metadata": { "name": "web", "labels": labels } })).unwrap()
        };
        clusters.iter().map(deployment).collect()
    }

    #[test]
    fn one_of_several_clusters_has_to_be_selected() {
        let all = deployments(&[("shop", "b"), ("shop", "a"), ("other", "a")]);
        for (count, cluster, expected) in [
            (1, None, Ok(0)),
            (3, Some("b"), Ok(0)),
            (3, Some("other/a"), Ok(2)),
            (
                3,
                None,
                Err("is on 3 clusters, and their values may differ: other/a, shop/a, shop/b"),
            ),
            (
                3,
                Some("a"),
                Err("is on 2 clusters, and their values may differ: other/a, shop/a"),
            ),
            (3, Some("c"), Err("has no BundleDeployment on cluster \"c\"")),
            (0, None, Err("has no BundleDeployment yet")),
        ] {
            match (selected(&all[..count], ("shop", "web"), cluster), expected) {
                (Ok(found), Ok(index)) => assert_eq!(found, &all[index], "{cluster:?}"),
                (Err(failure), Err(part)) => {
                    assert!(failure.message.contains(part), "{}", failure.message);
                    assert!(!failure.hint.is_empty(), "{}", failure.message);
                }
                (found, _) => panic!("{cluster:?} {found:?}"),
            }
        }
    }
}
