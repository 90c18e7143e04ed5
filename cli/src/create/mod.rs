//! `create`: a HelmOp from flags, from a release on a cluster, or from an object of another tool.
//!
//! ```text
//! flags ─────────────────────────────────────────────┐
//! record of a release ─► `from_release` ─────────────┼─► Draft (HelmOp, objects, notes) ─► core: validation ─► Batch ─► `send`, or `text`
//! files of Flux, of Argo CD or of k3s ─► `objects` ──┘                                                          └─► `report`
//!            (`from_helmrelease`, `from_application`, `from_helmchart`, `in_git`)
//! ```

mod batch;
mod draft;
mod flags;
mod from_application;
mod from_helmchart;
mod from_helmrelease;
mod from_release;
mod in_git;
mod note;
mod objects;
mod report;
mod send;
mod set;
mod text;
mod together;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use self::{
    batch::Batch,
    draft::Draft,
    from_release::FromRelease,
    objects::{Conversion, Objects, Settings},
    text::documents,
};
pub use self::{
    flags::read_helmops,
    flags::{ChartFlags, MAX_FILE as MAX_VALUES_FILE, TargetFlags},
    note::Loss,
    text::yaml,
};
use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{Format, write_json},
    terminal::Console,
};

/// The arguments of `create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The newest 1.x of a chart on all clusters with a label, with a poll every 15 minutes
  kubectl helmop create web --repo https://charts.example.com --chart web --version 1.x --poll 15m \\
    --target-selector env=prod --target-namespace shop

  # For Git, without a cluster
  kubectl helmop create web --repo oci://registry.example.com/charts/web --version 1.2.3 --dry-run=client -o yaml

  # Adopt a release that was installed with Helm: nothing changes on the cluster
  kubectl helmop create web --from-release shop/web --repo https://charts.example.com --local

  # Convert a HelmRelease of Flux, with its HelmRepository in the same file
  kubectl helmop create --from-helmrelease release.yaml --dry-run=client -o yaml

  # Convert all HelmReleases of an overlay
  kustomize build apps | kubectl helmop create --from-helmrelease - --dry-run=client -o yaml

  # Convert Applications of Argo CD that have a chart
  kubectl get application -n argocd -o yaml | kubectl helmop create --from-application - --dry-run=client -o yaml

  # Convert HelmCharts of k3s or RKE2, with their HelmChartConfigs
  kubectl get helmchart,helmchartconfig -n kube-system -o yaml | kubectl helmop create --from-helmchart - --dry-run=client -o yaml")]
pub struct CreateArgs {
    /// Name of the HelmOp; by default that of the release
    #[arg(required_unless_present_any = ["from_release", "FromObjects"])]
    pub name: Option<String>,
    /// Which chart.
    #[command(flatten)]
    pub chart: ChartFlags,
    /// Which clusters.
    #[command(flatten)]
    pub targets: TargetFlags,
    /// The source of a release.
    #[command(flatten)]
    pub from_release: FromRelease,
    /// The source of objects.
    #[command(flatten)]
    pub from_objects: FromObjects,
    /// Convert an object although this field is lost and something else is deployed; can be given several times, or with commas
    #[arg(
        long,
        value_enum,
        value_name = "FIELD",
        value_delimiter = ',',
        requires = "FromObjects",
        help_heading = "Source"
    )]
    pub accept: Vec<Loss>,
    /// Only print what would be created: without a request (client), or after validation by the API server (server)
    #[arg(long, value_enum, value_name = "WHERE", default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: DryRun,
    /// Output format: yaml, json or name
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
}

/// Which objects are converted.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(multiple = false, conflicts_with = "from_release")]
#[command(next_help_heading = "Source")]
pub struct FromObjects {
    /// A file or folder with HelmReleases, and their HelmRepositories, OCIRepositories, GitRepositories, ConfigMaps and Secrets; `-` for standard input
    #[arg(long, value_name = "PATH")]
    pub from_helmrelease: Option<PathBuf>,
    /// A file or folder with Applications of Argo CD, and Secrets with logins of their repositories; `-` for standard input
    #[arg(long, value_name = "PATH")]
    pub from_application: Option<PathBuf>,
    /// A file or folder with HelmCharts of k3s or RKE2, and their HelmChartConfigs, ConfigMaps and Secrets; `-` for standard input
    #[arg(long, value_name = "PATH")]
    pub from_helmchart: Option<PathBuf>,
}

impl FromObjects {
    /// What is read, and how it is converted.
    fn selected(&self) -> Option<(&Path, &'static Conversion)> {
        [
            (&self.from_helmrelease, &from_helmrelease::CONVERSION),
            (&self.from_application, &from_application::CONVERSION),
            (&self.from_helmchart, &from_helmchart::CONVERSION),
        ]
        .into_iter()
        .find_map(|(path, conversion)| Some((path.as_deref()?, conversion)))
    }
}

/// Where a command ends that is only tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// It is not only tried
    #[default]
    None,
    /// Here: no object is sent
    Client,
    /// In the API server, which validates and stores nothing
    Server,
}

/// Creates HelmOps.
///
/// # Errors
/// If one of them is invalid or refused, or the API server does not accept it; if a source cannot be read, or would not be adopted as it is.
pub async fn run(args: &CreateArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut batch = batch(args, cluster, console).await?;
    batch.settle(&args.accept);
    if matches!(args.output, Some(Format::Yaml | Format::Json)) {
        batch.drafts.iter_mut().for_each(Draft::note_nulls);
    }
    report::write(&batch, console)?;
    for draft in &batch.drafts {
        draft.check()?;
    }
    if args.dry_run == DryRun::Client {
        print(&batch.drafts, args.output, " (dry run)", console)?;
        return batch.outcome();
    }
    let outcome = batch.outcome();
    if batch.drafts.is_empty() {
        return outcome;
    }
    let cluster = cluster.connect().await?;
    let (mut created, mut failures) = (Vec::new(), Vec::new());
    for draft in batch.drafts {
        match send::create(&cluster, draft, args.dry_run == DryRun::Server).await {
            Ok(draft) => created.push(draft),
            Err(failure) => failures.push(failure),
        }
    }
    let suffix = match args.dry_run {
        DryRun::Server => " (server dry run)",
        DryRun::None | DryRun::Client => "",
    };
    print(&created, args.output, suffix, console)?;
    match Failure::of_several(failures) {
        Some(failure) => Err(failure),
        None => outcome,
    }
}

async fn batch(
    args: &CreateArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<Batch, Failure> {
    let namespace = args.targets.namespace(cluster.namespace.as_deref());
    let mut batch = if let Some((path, conversion)) = args.from_objects.selected() {
        let settings = Settings {
            namespace: namespace.clone(),
            target_namespace: args.targets.target_namespace.clone(),
            clusters: args.targets.cluster.clone(),
        };
        let objects = Objects::read(path, conversion, settings)?;
        let batch = objects.batch(args.name.as_deref())?;
        args.chart.check_number(batch.len(), batch.kind)?;
        batch
    } else if let Some(release) = &args.from_release.from_release {
        let (name, flags) = (args.name.as_deref(), &args.chart);
        let draft = args.from_release.draft(release, name, flags, cluster, console);
        Batch::of(draft.await?)
    } else {
        Batch::of(Draft::named(args.name.as_deref().unwrap_or_default()))
    };
    for draft in &mut batch.drafts {
        draft.helmop.metadata.namespace.clone_from(&namespace);
        args.chart.apply(&mut draft.helmop)?;
        args.targets.apply(&mut draft.helmop)?;
    }
    if let Some(release) = &args.from_release.from_release {
        for draft in &batch.drafts {
            args.from_release.verify(release, draft, cluster, console).await?;
        }
    }
    Ok(batch)
}

fn print(
    drafts: &[Draft],
    format: Option<Format>,
    suffix: &str,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match format {
        Some(Format::Yaml) => {
            write!(console.out, "{}", documents(drafts)?)?;
        }
        Some(Format::Json) => {
            for object in drafts.iter().flat_map(Draft::objects) {
                write_json(&mut console.out, &object)?;
            }
        }
        Some(Format::Name) => {
            for draft in drafts {
                for name in draft.names() {
                    writeln!(console.out, "{name}")?;
                }
            }
        }
        Some(Format::Table | Format::Wide) | None => {
            for draft in drafts {
                for name in draft.names() {
                    writeln!(console.out, "{name} created{suffix}")?;
                }
            }
        }
    }
    Ok(())
}
