//! `make bench`: measures the controller, compared with the same writes by a plain client.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use helmops_bench::controller::{report, run::measure, scenario::Scenario};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("controller-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let mut all = Vec::new();
    for scenario in Scenario::ALL {
        all.push(measure(scenario).await?);
    }
    say(&format!(
        "\n## HelmOps that exist when the controller starts\n\n{}",
        report::report(&all)
    ))?;
    match all.iter().flatten().find(|measured| measured.cost.downloads != 1) {
        None => Ok(()),
        Some(measured) => bail!("{} downloads of one index", measured.cost.downloads),
    }
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
