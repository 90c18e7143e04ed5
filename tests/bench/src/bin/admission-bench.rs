//! `make bench`: measures the webhook, alone or compared with another server.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use helmops_bed::test_bed;
use helmops_bench::measure::{Plan, Report, measure};
use helmops_bench::server::Program;
use helmops_bench::table;
use tokio::signal::unix::{SignalKind, signal};

/// Measures an admission webhook for HelmOps under a load like that of the API server: CPU time, latency, memory and startup.
///
/// Every response is checked; a wrong one fails the measurement. Without a command, the helmops-webhook in the folder of this
/// program is measured. In a command, {port} and {admin} stand for free ports of 127.0.0.1, {cert} and {key} for PEM files
/// and {certs} for their folder, with tls.crt and tls.key.
#[derive(Parser)]
#[command(name = "admission-bench")]
struct Arguments {
    /// Requests of each load
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// Number of measurements of each load; the medians are reported
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Numbers of concurrent streams of validating requests
    #[arg(long, default_value = "1,16,64", value_delimiter = ',', value_name = "N,..", value_parser = clap::value_parser!(u16).range(1..=1024))]
    streams: Vec<u16>,
    /// Path of the validating webhook
    #[arg(long, default_value = "/validate", value_name = "PATH")]
    validate: String,
    /// Path of the mutating webhook
    #[arg(long, default_value = "/mutate", value_name = "PATH")]
    mutate: String,
    /// Command of another server, in words without spaces, to measure alternately and to compare with
    #[arg(long, value_name = "COMMAND")]
    peer: Option<String>,
    /// Path of the peer's validating webhook [default: that of --validate]
    #[arg(long, value_name = "PATH", requires = "peer")]
    peer_validate: Option<String>,
    /// Path of the peer's mutating webhook [default: that of --mutate]
    #[arg(long, value_name = "PATH", requires = "peer")]
    peer_mutate: Option<String>,
    /// Command to measure instead of the webhook
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// One thread: the client leaves as much CPU time as possible to the server.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = tokio::select! {
        result = run(Arguments::parse()) => result,
        signal = interrupted() => signal,
    };
    if let Err(error) = &result {
        eprintln!("admission-bench: {error:#}");
    }
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let plan = Plan {
        requests: arguments.requests,
        repeat: arguments.repeat,
        streams: arguments.streams.clone(),
    };
    let programs = programs(arguments)?;
    say(&conditions(&plan)?)?;
    let reports = measure(&plan, &programs).await?;
    for report in &reports {
        say(&format!("\n## {}\n\n{}", report.name, table::report(report)))?;
    }
    if let [ours, peer] = reports.as_slice() {
        let ratios = table::comparison(ours, peer);
        say(&format!("\n## {} / {}\n\n{ratios}", ours.name, peer.name))?;
    }
    reports.iter().try_for_each(check)
}

/// The server to measure, and its peer.
fn programs(arguments: Arguments) -> Result<Vec<Program>> {
    let Arguments {
        validate,
        mutate,
        command,
        ..
    } = arguments;
    let command = if command.is_empty() { webhook()? } else { command };
    let mut programs = vec![program(command, validate.clone(), mutate.clone())?];
    if let Some(peer) = arguments.peer {
        let command = peer.split_whitespace().map(str::to_owned).collect();
        let (validate, mutate) = (
            arguments.peer_validate.unwrap_or(validate),
            arguments.peer_mutate.unwrap_or(mutate),
        );
        let mut peer = program(command, validate, mutate)?;
        peer.name = format!("peer {}", peer.name);
        programs.push(peer);
    }
    Ok(programs)
}

fn program(command: Vec<String>, validate: String, mutate: String) -> Result<Program> {
    let first = command.first().context("an empty command")?;
    let name = Path::new(first)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    Ok(Program {
        name: name.unwrap_or_default(),
        command,
        validate,
        mutate,
    })
}

/// The webhook with the flags of a cluster, without Policies.
fn webhook() -> Result<Vec<String>> {
    let path = test_bed::binary("helmops-webhook")?;
    let path = path.to_str().context("a path that is not UTF-8")?;
    let flags = "--bind-address 127.0.0.1:{port} --metrics-bind-address 127.0.0.1:{admin} \
        --health-probe-bind-address 127.0.0.1:0 \
        --tls-source files --tls-cert-file {cert} --tls-private-key-file {key} --log-format json --enforce-policies=false";
    Ok(std::iter::once(path)
        .chain(flags.split(' '))
        .map(str::to_owned)
        .collect())
}

/// The conditions of the measurement, to interpret the figures.
fn conditions(plan: &Plan) -> Result<String> {
    let cpus = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let build = if cfg!(debug_assertions) {
        "; a debug build, whose figures mean little"
    } else {
        ""
    };
    let Plan { requests, repeat, .. } = plan;
    Ok(format!(
        "medians of {repeat} x {requests} requests; {cpus} CPUs for server and client, load average {load} before{build}"
    ))
}

fn check(report: &Report) -> Result<()> {
    match &report.first_error {
        None => Ok(()),
        Some(error) => bail!("{} sent wrong responses, for example: {error}", report.name),
    }
}

/// Returns an error on a signal. Servers are killed when their measurement is dropped.
async fn interrupted() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    bail!("interrupted")
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
