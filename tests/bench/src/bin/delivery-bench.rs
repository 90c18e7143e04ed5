//! `make bench`: measures the deployment of HelmOps to clusters.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use helmops_bench::{
    delivery::{SIZES, Size, measure, report},
    planning,
};

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
    print(&format!("## Planning\n\n{}", planning::report()?))?;
    for size in SIZES {
        let Size { clusters, helmops } = size;
        let measured = report(&measure(size).await?);
        print(&format!(
            "## {helmops} HelmOps on {clusters} clusters\n\n{measured}"
        ))?;
    }
    Ok(())
}

fn print(section: &str) -> Result<()> {
    writeln!(std::io::stdout(), "\n{section}").context("cannot write to standard output")
}
