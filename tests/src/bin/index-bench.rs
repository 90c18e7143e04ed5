//! `make bench`: what reading the index of a chart repository costs, beside Helm's own loader.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use helmops_tests::bench::index::{compare::compare, ours, report};

/// Measures the reader of repository indexes beside Helm's loader, on two generated indexes of Helm's layout: CPU time,
/// time and the most memory, each reading in a process of its own. Fails if the figures fall short of what is promised.
#[derive(Parser)]
#[command(name = "index-bench")]
struct Arguments {
    /// How often each index is read by each; the medians are told
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeat: u16,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Subcommand)]
enum Step {
    /// Reads one index, and prints what it cost as JSON
    #[command(hide = true)]
    Read {
        /// The index
        file: PathBuf,
        /// The chart to look for
        chart: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.step {
        None => run(arguments.repeat.into()),
        Some(Step::Read { file, chart }) => read(&file, &chart),
    };
    if let Err(error) = &outcome {
        eprintln!("index-bench: {error:#}");
    }
    if outcome.is_ok() {
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
