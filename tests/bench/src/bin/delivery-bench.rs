//! `make bench`: measures the deployment of HelmOps to clusters.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use helmops_bench::delivery::{CLUSTERS, HELMOPS, measure, report};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("delivery-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let measured = measure().await?;
    let text = format!(
        "\n## {HELMOPS} HelmOps on {CLUSTERS} clusters\n\n{}",
        report(&measured)
    );
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
