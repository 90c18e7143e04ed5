//! `make bench`: measures the agent with many releases, compared with Helm by hand.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use helmops_bed::test_bed::binary;
use helmops_bench::agent::report::report;
use helmops_bench::agent::run::{Plan, measure};
use helmops_bench::agent::scenario::{Objects, Scenario};

/// Measures the helmops-agent on a control plane with a simulated node: the deployment of charts, a time
/// in which nothing changes, a restart, drift and the removal, compared with Helm by hand on the same API server.
///
/// Fails if the agent writes or runs Helm although nothing changes.
#[derive(Parser)]
#[command(name = "agent-bench")]
struct Arguments {
    /// Numbers of charts with a ConfigMap; each is a measurement, 0 is none
    #[arg(long, default_value = "100,1000", value_delimiter = ',', value_name = "N,..", value_parser = clap::value_parser!(u16).range(..=9999))]
    charts: Vec<u16>,
    /// Numbers of charts with a ConfigMap, a Service and a Deployment
    #[arg(long, default_value = "100", value_delimiter = ',', value_name = "N,..", value_parser = clap::value_parser!(u16).range(..=9999))]
    workloads: Vec<u16>,
    /// Seconds in which nothing changes
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=3600))]
    idle: u16,
    /// Samples of drift that is reported, and of drift that is corrected
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    drift: u16,
    /// Maximum number of charts that are installed by hand; the comparison is for each chart
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=9999))]
    by_hand: u16,
    /// helmops-agent, built with the profile small; by default the one in the folder of this program
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
}

/// One thread: this program leaves as much CPU time as possible to the agent.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agent-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let plan = Plan {
        idle: Duration::from_secs(arguments.idle.into()),
        drift: arguments.drift.into(),
        by_hand: arguments.by_hand.into(),
    };
    let agent = match &arguments.agent {
        Some(program) => std::path::absolute(program)?,
        None => binary("helmops-agent")?,
    };
    let of = |objects| {
        move |charts: &u16| Scenario {
            charts: (*charts).into(),
            objects,
        }
    };
    let config = arguments.charts.iter().map(of(Objects::Config));
    let workloads = arguments.workloads.iter().map(of(Objects::Workload));
    let mut problems = Vec::new();
    let all = config.chain(workloads).filter(|scenario| scenario.charts > 0);
    for scenario in all {
        let measured = measure(scenario, plan, &agent).await?;
        print(&report(&measured))?;
        problems.append(&mut measured.problems());
    }
    match problems.as_slice() {
        [] => Ok(()),
        problems => bail!("{}", problems.join("; ")),
    }
}

fn print(section: &str) -> Result<()> {
    writeln!(std::io::stdout(), "\n{section}").context("cannot write to standard output")
}
