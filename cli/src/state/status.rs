//! `status`: HelmOps in a table, or one of them on a page.

use std::collections::HashMap;

use helmops_api::{Bundle, Decoded, MetadataOnly, WithoutObjects, labels};
use jiff::Timestamp;
use kube::{Resource, ResourceExt, api::ListParams};

use super::{
    live::{self, Screen},
    page::HelmOpReport,
    read::{Parts, observed},
    summary::{Columns, HelmOpSummary, sort},
};
use crate::{
    cluster::{
        Cluster, ClusterArgs,
        objects::report_nothing,
        selection::{Scope, SelectionArgs, helmop_name},
    },
    failure::Failure,
    output::{Format, OutputArgs, write_json, write_yaml},
    terminal::{Console, progress},
};

/// The arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # All HelmOps of the namespace
  kubectl helmop status

  # Those of a team in all namespaces, with charts and messages
  kubectl helmop status -A -l team=shop -o wide

  # One of them: conditions, clusters that are not ready, Events, what to do
  kubectl helmop status web

  # Each change
  kubectl helmop status web --watch")]
pub struct StatusArgs {
    /// Name of a HelmOp; all are listed without one
    #[arg(value_parser = helmop_name)]
    pub name: Option<String>,
    /// Which HelmOps are listed.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Show changes until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Prints the status.
///
/// # Errors
/// If the HelmOp does not exist, or objects cannot be read.
pub async fn run(args: &StatusArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let format = args.output.output;
    if args.watch && !matches!(format, Format::Table | Format::Wide) {
        return Err(Failure::unable(
            "--watch prints a table only: leave -o out, or use -o wide",
        ));
    }
    let cluster = cluster.connect().await?;
    let screen = Screen::of(console.is_terminal);
    match &args.name {
        Some(_) if args.selection.all_namespaces || args.selection.selector.is_some() => {
            Err(Failure::unable(
                "a HelmOp is selected by its name and namespace: leave -A and -l out, or the name",
            ))
        }
        Some(name) if args.watch => live::page(&cluster, name, screen, console).await,
        Some(name) => {
            let read = observed(&cluster, name, Parts::All);
            let observed = progress::during(console, "Reading the HelmOp", read).await?;
            let now = Timestamp::now();
            print_page(&HelmOpReport::of(&observed, now), format, now, console)
        }
        None => list(args, &cluster, screen, console).await,
    }
}

async fn list(
    args: &StatusArgs,
    cluster: &Cluster,
    screen: Screen,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let format = args.output.output;
    let scope = args.selection.scope(cluster);
    let selector = args.selection.selector.as_deref();
    let columns = Columns {
        namespace: scope == Scope::All,
        wide: format == Format::Wide,
    };
    if args.watch {
        return live::list(cluster, scope, selector, columns, screen, console).await;
    }
    let read = cluster.list::<WithoutObjects>(scope, selector);
    let listed = progress::during(console, "Reading HelmOps", read).await?;
    let bundles = handled_polls(cluster, scope, &listed).await;
    let now = Timestamp::now();
    let mut summaries: Vec<_> = listed
        .iter()
        .map(|helmop| HelmOpSummary::of_listed(helmop, bundles.get(&key(helmop)), now))
        .collect();
    sort(&mut summaries);
    match format {
        Format::Json => Ok(write_json(&mut console.out, &summaries)?),
        Format::Yaml => Ok(write_yaml(&mut console.out, &summaries)?),
        Format::Name => Ok(summaries
            .iter()
            .try_for_each(|one| writeln!(console.out, "helmop.fleet.cattle.io/{}", one.name))?),
        Format::Table | Format::Wide if summaries.is_empty() => {
            report_nothing::<WithoutObjects>(console, scope, selector)
        }
        Format::Table | Format::Wide => Ok(columns
            .table(&summaries, now)
            .write(&mut console.out, console.styles)?),
    }
}

fn print_page(
    report: &HelmOpReport,
    format: Format,
    now: Timestamp,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match format {
        Format::Json => Ok(write_json(&mut console.out, report)?),
        Format::Yaml => Ok(write_yaml(&mut console.out, report)?),
        Format::Name => Ok(writeln!(
            console.out,
            "helmop.fleet.cattle.io/{}",
            report.summary.name
        )?),
        Format::Table | Format::Wide => report.write(console, now),
    }
}

/// Namespace and name.
fn key(object: &impl Resource) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The Bundles, with their metadata alone, if a poll is requested of any HelmOp: they record which one was handled. What cannot be read
/// counts as not handled.
async fn handled_polls(
    cluster: &Cluster,
    scope: Scope<'_>,
    listed: &[Decoded<WithoutObjects>],
) -> HashMap<(String, String), Bundle> {
    let is_requested =
        |helmop: &Decoded<WithoutObjects>| helmop.annotations().contains_key(labels::POLL_REQUESTED_AT);
    if !listed.iter().any(is_requested) {
        return HashMap::new();
    }
    let params = ListParams::default().labels(labels::HELM_NAME);
    let bundles = cluster.list_by::<MetadataOnly<Bundle>>(scope, params).await;
    let valid = |bundle: &Decoded<MetadataOnly<Bundle>>| {
        let metadata = bundle.valid()?.metadata.clone();
        let bundle = Bundle {
            metadata,
            ..Bundle::default()
        };
        Some((key(&bundle), bundle))
    };
    bundles.iter().flatten().filter_map(valid).collect()
}
