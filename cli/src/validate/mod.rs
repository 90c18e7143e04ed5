//! `validate`: what the API server, the webhook and the Policies of the same files would say about objects in files, with the position of
//! each mistake.
//!
//! ```text
//! files ─► text ─► documents ─► object (values and their places) ─► review: schema, metadata, admission ─► Problem ─► Report ─► render
//!                                  └─► Policies of each namespace ────┘
//! ```
//!
//! The kinds are in `kind`; the rules are those of `helmops-core` and `helmops-notify`. `review` calls them, `locate` finds the text that each error is about.

mod cycles;
mod documents;
mod explained;
pub mod files;
mod kind;
pub mod locate;
pub mod metadata;
pub mod object;
mod parallel;
mod problem;
mod render;
mod report;
mod review;
pub mod schema;
pub mod source;
mod syntax;

use clap::ValueEnum;
use jiff::Timestamp;

pub use self::{
    explained::explained,
    files::Input,
    problem::{Problem, Related, Severity, rule},
    report::{Count, Options, Report, validate},
    source::{Line, Region},
};
use crate::{
    cluster::ClusterArgs,
    failure::{Failure, NEGATIVE, UNABLE},
    output::{write_json, write_yaml},
    terminal::Console,
};

/// What `kubectl apply` does with a null in values.
pub const IN_FILES: &str = "kubectl apply drops a null, and the default of the chart stays; use kubectl apply --server-side, or kubectl create and replace";

/// The arguments of `validate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
HelmOps, Policies, AlertProviders, Alerts, Receivers and Schedules are validated, other objects are skipped. Nothing is sent to a
cluster. What kubectl, the CRDs and admission would deny is an error, with its line and column. HelmOps are also compared with the
Policies of their namespace that are in the same files.

Exit codes: 0 everything is valid, 1 there are problems, 2 a file cannot be read.

Examples:
  # A file, and a folder with everything below it
  kubectl helmop validate web.yaml
  kubectl helmop validate -R deploy/

  # What kustomize would apply, in namespace fleet-default
  kustomize build overlays/prod | kubectl helmop validate -n fleet-default -f -

  # Annotations on a pull request, and a file for code scanning
  kubectl helmop validate -R -f deploy/ -o github
  kubectl helmop validate -R -f deploy/ -o sarif > helmops.sarif

  # Fail on warnings too
  kubectl helmop validate --warnings-as-errors -f web.yaml")]
pub struct ValidateArgs {
    /// File or folder with YAML or JSON, or - for standard input
    #[arg(short, long, value_name = "FILE", required_unless_present = "files", num_args = 1..)]
    pub filename: Vec<String>,
    /// The same, without -f
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    /// Read the folders in folders too, but not the templates of charts
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Leave out this file or folder; can be given several times
    #[arg(long, value_name = "PATH")]
    pub exclude: Vec<String>,
    /// Output format
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = true
    )]
    pub output: OutputFormat,
    /// Report warnings as errors
    #[arg(long, visible_alias = "strict")]
    pub warnings_as_errors: bool,
}

/// How problems are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Each problem with its line of the file
    #[default]
    #[value(hide = true)]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of GitHub Actions
    Github,
}

/// Validates files and prints the problems.
///
/// # Errors
/// If there are errors, or if a file cannot be read.
pub fn run(args: &ValidateArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let named: Vec<_> = args.filename.iter().chain(&args.files).cloned().collect();
    let how = files::Walk {
        recursive: args.recursive,
        exclude: args.exclude.clone(),
    };
    let inputs = files::find(&named, &how)?;
    let options = Options {
        namespace: cluster.namespace.as_deref(),
        warnings_as_errors: args.warnings_as_errors,
        now: Timestamp::now(),
    };
    let report = validate(&inputs, options);
    match args.output {
        OutputFormat::Text => render::text::write(&report, console)?,
        OutputFormat::Json => write_json(&mut console.out, &report)?,
        OutputFormat::Yaml => write_yaml(&mut console.out, &report)?,
        OutputFormat::Sarif => write_json(&mut console.out, &render::sarif::log(&report))?,
        OutputFormat::Github => render::github::write(&report, &mut console.out)?,
    }
    if report.unreadable > 0 {
        Err(Failure::reported(UNABLE))
    } else if report.errors > 0 {
        Err(Failure::reported(NEGATIVE))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
