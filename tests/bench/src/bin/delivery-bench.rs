//! `make bench`: measures the deployment of HelmOps to clusters. Arguments are other sizes than those of `make bench`, as clusters and HelmOps:
//! `delivery-bench 10000x2`.

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
    let sizes: Vec<Size> = std::env::args()
        .skip(1)
        .map(|size| parse(&size))
        .collect::<Result<_>>()?;
    if sizes.is_empty() {
        print(&format!("## Planning\n\n{}", planning::report()?))?;
    }
    for size in if sizes.is_empty() { SIZES.to_vec() } else { sizes } {
        let Size { clusters, helmops } = size;
        let measured = report(&measure(size).await?);
        print(&format!(
            "## {helmops} HelmOps on {clusters} clusters\n\n{measured}"
        ))?;
    }
    Ok(())
}

fn parse(size: &str) -> Result<Size> {
    let (clusters, helmops) = size
        .split_once('x')
        .with_context(|| format!("{size:?} is not a size such as 2000x5"))?;
    Ok(Size {
        clusters: clusters.parse()?,
        helmops: helmops.parse()?,
    })
}

fn print(section: &str) -> Result<()> {
    writeln!(std::io::stdout(), "\n{section}").context("cannot write to standard output")
}
