//! `make bench`: measures `kubectl helmop validate` of many files, compared with reading them only.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use helmops_bench::validate::{measure, report, shortfall, write};
use tempfile::TempDir;

/// Measures the validation of generated files. Fails if 10,000 files take more than 2 seconds.
#[derive(Parser)]
#[command(name = "validate-bench")]
struct Arguments {
    /// The number of files
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// How often each is measured; the medians are reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeat: u16,
    /// kubectl-helmop; by default that beside this program
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("validate-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("kubectl-helmop"),
    };
    let files = usize::try_from(arguments.files)?;
    let folder = TempDir::with_prefix("helmops-bench-")?;
    write(folder.path(), files)?;
    let figures = measure(&program, folder.path(), files, arguments.repeat.into())?;
    let text = format!("\n## Validating files\n\n{}", report(figures, files));
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")?;
    match shortfall(figures, files) {
        None => Ok(()),
        Some(shortfall) => bail!(shortfall),
    }
}
