//! `make parity CHARTS=FOLDER`: does helmops deploy these charts as Helm does? `make parity HELMRELEASES=FOLDER`: does it convert these
//! HelmReleases without a change of their meaning?

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use helmops_parity::archive::{files, identity};
use helmops_parity::conversion;
use helmops_parity::report::{differing, report};
use helmops_parity::results::Results;
use helmops_parity::run::Settings;
use helmops_parity::suite::compare;

/// Deploys each chart archive of a folder with Helm on one control plane and as a HelmOp on another, through installation, upgrade and
/// removal, and compares manifests, hooks, objects, errors and readiness.
///
/// The charts run with their default values, and with one changed value for the upgrade. No container runs: pods of the simulated nodes
/// become ready immediately. A run continues where the last one ended; remove the file with the results to repeat all.
#[derive(Parser)]
#[command(name = "parity")]
struct Arguments {
    /// The folder with the archives (*.tgz)
    #[arg(required_unless_present = "helmreleases")]
    charts: Option<PathBuf>,
    /// Convert the HelmReleases of this folder, each folder in it for itself, and compare the HelmOps with them
    #[arg(long, value_name = "FOLDER", conflicts_with = "charts")]
    helmreleases: Option<PathBuf>,
    /// Only archives whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Charts at a time; with 1, the CPU time of helmops is measured for each chart
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    parallel: u8,
    /// lifecycle.install.crds and lifecycle.upgrade.crds of the HelmOps: `Skip`, `Create` or `CreateReplace`; by default Helm installs CRDs
    #[arg(long, value_name = "POLICY")]
    crds: Option<String>,
    /// The file with the results
    #[arg(long, value_name = "FILE", default_value = "target/parity/charts.jsonl")]
    results: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match (&arguments.charts, &arguments.helmreleases) {
        (Some(charts), _) => deploy(charts, &arguments).await,
        (None, Some(folder)) => convert(folder).await,
        (None, None) => Ok(true),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("parity: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn convert(folder: &Path) -> Result<bool> {
    let mut conversions = Vec::new();
    for folder in conversion::folders(folder)? {
        conversions.push(conversion::convert(&folder).await?);
    }
    let (text, faults) = conversion::report(&conversions)?;
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(faults == 0)
}

async fn deploy(charts: &Path, arguments: &Arguments) -> Result<bool> {
    let mut archives = files(charts)?;
    archives.retain(|path| path.to_string_lossy().contains(&arguments.only));
    if archives.is_empty() {
        bail!(
            "{} has no archive (*.tgz) whose name contains {:?}",
            charts.display(),
            arguments.only
        );
    }
    if let Some(folder) = arguments.results.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let results = Results::new(&arguments.results);
    let known = results.read()?;
    let is_known = |path: &PathBuf| identity(path).is_ok_and(|identity| known.contains_key(&identity));
    let waiting: Vec<_> = archives.iter().filter(|path| !is_known(path)).cloned().collect();
    if !waiting.is_empty() {
        let settings = Settings {
            crds: arguments.crds.clone(),
            is_alone: arguments.parallel == 1,
        };
        compare(waiting, arguments.parallel.into(), &settings, &results).await?;
    }
    let known = results.read()?;
    let mut compared: Vec<_> = known
        .into_values()
        .filter(|result| archives.iter().any(|path| path.ends_with(&result.file)))
        .collect();
    compared.sort_by(|one, other| one.file.cmp(&other.file));
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", report(&compared))?;
    writeln!(output, "all messages: {}", arguments.results.display())?;
    Ok(differing(&compared) == 0 && compared.len() == archives.len())
}
