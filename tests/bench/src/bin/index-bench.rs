//! `make bench`: measures reading the index of a chart repository, compared with Helm's own loader.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use helmops_bench::index::{compare::compare, ours, report};

/// Measures the reader of repository indexes and Helm's loader, on two generated indexes in Helm's layout: CPU time, wall time
/// and peak memory, each reading in its own process. Fails if a limit is not met.
#[derive(Parser)]
#[command(name = "index-bench")]
struct Arguments {
    /// How often each reader reads each index; the medians are reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeat: u16,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Subcommand)]
enum Step {
    /// Reads one index, and prints the cost as JSON
    #[command(hide = true)]
    Read {
        /// The index
        file: PathBuf,
        /// The chart to find
        chart: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.step {
        None => run(arguments.repeat.into()),
        Some(Step::Read { file, chart }) => read(&file, &chart),
    };
    if let Err(error) = &result {
        eprintln!("index-bench: {error:#}");
    }
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(repeat: usize) -> Result<()> {
    let this = std::env::current_exe()?;
    let comparisons = compare(repeat, |file, chart| {
        let mut command = Command::new(&this);
        command.arg("read").arg(file).arg(chart);
        command
    })?;
    let build = if cfg!(debug_assertions) {
        "; a debug build, whose figures mean little"
    } else {
        ""
    };
    say(&format!(
        "\n## Reading an index, medians of {repeat}{build}\n\n{}",
        report::report(&comparisons)
    ))?;
    match report::shortfalls(&comparisons).as_slice() {
        [] => Ok(()),
        shortfalls => bail!("{}", shortfalls.join("; ")),
    }
}

fn read(file: &Path, chart: &str) -> Result<()> {
    let reading = ours::read(file, chart)?;
    say(&serde_json::to_string(&reading)?)
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
