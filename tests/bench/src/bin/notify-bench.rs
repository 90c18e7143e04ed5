//! `make bench`: measures the notifier.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("notify-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let table = helmops_bench::notify::report().await?;
    writeln!(std::io::stdout(), "\n## Alerts\n\n{table}").context("cannot write to standard output")
}
