//! `suspend` and `resume`.

use helmops_api::HelmOp;
use serde_json::json;

use super::{
    observed::{Depth, observe},
    patch::{self, PatchArgs},
    selection::{Selection, Target},
};
use crate::{cluster::ClusterArgs, failure::Failure, terminal::Console};

/// The arguments of `suspend` and `resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Nothing is deployed, corrected or reported until the HelmOp is resumed; what runs keeps running
  kubectl helmop suspend web

  # Those of a team in all namespaces, for a script
  kubectl helmop suspend -A -l team=shop -o name

  # Go on
  kubectl helmop resume web")]
pub struct SuspendArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    patch: PatchArgs,
}

/// Sets `spec.lifecycle.suspend`.
pub async fn run(
    args: &SuspendArgs,
    suspend: bool,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let action = if suspend { "suspended" } else { "resumed" };
    let targets = args.selection.targets(&cluster).await?;
    for (index, Target { cluster, name, title }) in targets.iter().enumerate() {
        let observed = observe(cluster, name, Depth::HelmOp).await?;
        if is_suspended(&observed.helmop) == suspend {
            // A patch would add an empty block to a HelmOp that has none.
            let state = if suspend {
                "suspended already"
            } else {
                "not suspended"
            };
            let line = format!("helmop {title}: {state}");
            args.patch.report(&line, observed.helmop, index == 0, console)?;
            continue;
        }
        let value = if suspend { json!(true) } else { json!(null) };
        let patch = json!({ "spec": { "lifecycle": { "suspend": value } } });
        let stored = patch::send(cluster, name, &patch, args.patch).await?;
        if suspend && !is_suspended(&stored) {
            return Err(dropped(title));
        }
        let line = format!("helmop {title}: {action}{}", args.patch.suffix());
        args.patch.report(&line, stored, index == 0, console)?;
    }
    Ok(())
}

fn is_suspended(helmop: &HelmOp) -> bool {
    let lifecycle = helmop.spec.bundle.options.lifecycle.as_ref();
    lifecycle.is_some_and(|lifecycle| lifecycle.suspend == Some(true))
}

/// The API server has dropped a field that its CRD does not have.
fn dropped(title: &str) -> Failure {
    Failure::negative(format!(
        "helmop {title}: not suspended: the CRD of HelmOps on this cluster has no spec.lifecycle, as Fleet's own CRD"
    ))
    .with_hint("install the CRDs of helmops, or set spec.paused to stop the roll-out")
}
