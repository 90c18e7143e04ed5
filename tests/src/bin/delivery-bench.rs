//! `make bench`: measures the deployment of HelmOps to clusters.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use helmops_tests::bench::delivery::{CLUSTERS, HELMOPS, measure, report};
use helmops_tests::test_bed;

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
    let measured = measure(&test_bed::binary("testbed")?).await?;
    let text = format!(
        "\n## {HELMOPS} HelmOps on {CLUSTERS} clusters\n\n{}",
        report(&measured)
    );
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
