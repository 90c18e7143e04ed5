//! `make bench`: measures `kubectl helmop`: its size, its start, the list of many HelmOps, and `validate` of many files, compared with
//! reading them only.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use helmops_bench::{cli, validate};
use tempfile::TempDir;

/// Measures kubectl-helmop. Fails if it is larger than 15 MB, starts in more than 10 ms, lists 1,000 HelmOps after more than 300 ms, or
/// validates 10,000 files in more than 2 seconds.
#[derive(Parser)]
#[command(name = "cli-bench")]
struct Arguments {
    /// The number of files
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// How often each is measured; the medians are reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeat: u16,
    /// kubectl-helmop, built with the profile cli
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cli-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let (program, repeat) = (&arguments.program, arguments.repeat.into());
    let started = cli::measure(program, repeat).await?;
    print(&format!("## kubectl helmop\n\n{}", cli::report(started)))?;
    let files = usize::try_from(arguments.files)?;
    let folder = TempDir::with_prefix("helmops-bench-")?;
    validate::write(folder.path(), files)?;
    let validated = validate::measure(program, folder.path(), files, repeat)?;
    print(&format!(
        "## Validating files\n\n{}",
        validate::report(validated, files)
    ))?;
    let shortfalls = [cli::shortfall(started), validate::shortfall(validated, files)];
    let shortfalls: Vec<_> = shortfalls.into_iter().flatten().collect();
    if !shortfalls.is_empty() {
        bail!(shortfalls.join("; "));
    }
    Ok(())
}

fn print(section: &str) -> Result<()> {
    writeln!(std::io::stdout(), "\n{section}").context("cannot write to standard output")
}
