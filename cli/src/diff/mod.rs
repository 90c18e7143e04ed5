//! `diff`: what a HelmOp would change on each cluster.
//!
//! ```text
//! HelmOp (cluster or file) ─┐
//! Bundle, Clusters, … ──────┴─► `read` ─► core: Bundle, targets, values ─► `changes`: options and values by cluster ─► `unified`
//!                                                                     └─► Helm: objects ─► `manifests` (--manifests) ─┘
//! ```
//!
//! The Bundle and the BundleDeployments are computed by the functions that the controller uses, from the same objects.

mod changes;
mod manifests;
mod read;
mod unified;

use std::path::PathBuf;

use helmops_api::HelmOp;

use self::{changes::Change, manifests::Manifests, read::Workspace};
use crate::{
    cluster::{ClusterArgs, selection::helmop_name},
    create::read_helmops,
    failure::{Failure, NEGATIVE, UNABLE},
    render::RenderArgs,
    terminal::{Console, progress::during},
};

/// The arguments of `diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What a changed file would change on which clusters
  kubectl helmop diff -f web.yaml

  # The objects too, as Helm would render them, on the cluster of another context
  kubectl helmop diff -f web.yaml --manifests --cluster-context edge-1=edge

  # What is still to be rolled out
  kubectl helmop diff web

Exit codes: 0 without a difference, 1 with one, 2 after an error.")]
pub struct DiffArgs {
    /// Name of the HelmOp
    #[arg(value_parser = helmop_name, required_unless_present = "file", conflicts_with = "file")]
    pub name: Option<String>,
    /// File with HelmOps; - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Compare the objects too: rendered by Helm with what is deployed
    #[arg(long)]
    pub manifests: bool,
    /// Context of a Cluster, to read what is deployed there; by default the current context is used for all
    #[arg(long, value_name = "CLUSTER=CONTEXT", requires = "manifests")]
    pub cluster_context: Vec<String>,
    /// Only these Clusters
    #[arg(long, value_name = "NAME")]
    pub cluster: Vec<String>,
    /// How objects are rendered.
    #[command(flatten)]
    pub render: RenderArgs,
}

/// Prints what would change.
///
/// # Errors
/// Without a message and with exit code 1 if something would change; with a message and code 2 if that is not known.
pub async fn run(args: &DiffArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    match differs(args, cluster, console).await {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::reported(NEGATIVE)),
        // Code 1 means a difference.
        Err(failure) if failure.code == NEGATIVE => Err(Failure {
            code: UNABLE,
            ..failure
        }),
        Err(failure) => Err(failure),
    }
}

async fn differs(args: &DiffArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<bool, Failure> {
    let connected = cluster.connect().await?;
    let helmops = match (&args.file, &args.name) {
        (Some(file), _) => read_helmops(file)?,
        (None, name) => vec![
            connected
                .get(&connected.namespace, name.as_deref().unwrap_or_default())
                .await?,
        ],
    };
    let manifests = args
        .manifests
        .then(|| Manifests::new(args, cluster))
        .transpose()?;
    let mut is_different = false;
    for mut helmop in helmops {
        let namespace = namespace(&helmop, cluster, &connected.namespace);
        helmop.metadata.namespace = Some(namespace.clone());
        let name = helmop.metadata.name.clone().unwrap_or_default();
        let reading = Workspace::read(&connected, &namespace, &name);
        let workspace = during(console, "Reading the clusters", reading).await?;
        let computing = workspace.changes(&connected.client, &mut helmop, &args.cluster);
        let changes = during(console, "Resolving the version", computing).await?;
        for warning in &changes.warnings {
            writeln!(console.err, "warning: {warning}")?;
        }
        for group in changes::grouped(&changes.all) {
            is_different = true;
            unified::write(&title(&name, &group), group.before, group.after, console)?;
        }
        if let Some(manifests) = &manifests {
            for change in &changes.all {
                is_different |= manifests
                    .write(&connected, (&helmop, workspace.bundle.as_ref()), change, console)
                    .await?;
            }
        }
    }
    Ok(is_different)
}

/// The namespace of a HelmOp: of the flag, of the object, or of the context.
fn namespace(helmop: &HelmOp, cluster: &ClusterArgs, of_context: &str) -> String {
    let own = helmop.metadata.namespace.clone();
    cluster
        .namespace
        .clone()
        .or(own)
        .unwrap_or_else(|| of_context.to_owned())
}

fn title(name: &str, group: &changes::Group<'_>) -> String {
    let clusters = group.clusters.join(", ");
    let plural = if group.clusters.len() == 1 { "" } else { "s" };
    format!("{name} on cluster{plural} {clusters}: {}", group.what)
}

impl Change {
    /// Whether options, values or certificates differ.
    fn is_deployment(&self) -> bool {
        self.before != self.after
    }
}
