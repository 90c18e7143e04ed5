//! The whole measurement: cold starts, then every load on new servers, repeated several times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use super::client::Target;
use super::corpus::{Sample, corpus};
use super::figures::Figures;
use super::load::{Endpoint, Load, Streams, Webhook};
use super::response::ResponseError;
use super::server::{Program, Server, Workspace};
use helmops_bed::usage;

/// Enough for a median that one slow start does not change.
const COLD_STARTS: usize = 15;
/// Requests until every connection has done its initialisation at first use.
const WARM_UP: u32 = 1000;
/// Defaulting takes the same path through a server as validating; one load is enough to show the difference.
const MUTATING_STREAMS: u16 = 16;
/// Runtimes that release memory in the background have done so by then.
const SETTLE_TIME: Duration = Duration::from_secs(3);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Requests of each load.
    pub requests: u32,
    /// Number of measurements of each load.
    pub repeat: u32,
    /// Numbers of concurrent streams of validating requests.
    pub streams: Vec<u16>,
}

impl Plan {
    fn loads(&self) -> Vec<Load> {
        let validate = |streams: &u16| Load {
            webhook: Webhook::Validate,
            streams: *streams,
        };
        let mutate = Load {
            webhook: Webhook::Mutate,
            streams: MUTATING_STREAMS,
        };
        self.streams.iter().map(validate).chain([mutate]).collect()
    }
}

/// Resident memory of a server, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// After its first response and a pause.
    pub idle: u32,
    /// Peak during all loads.
    pub peak: u32,
}

/// All measurements of a server.
#[derive(Debug)]
pub struct Report {
    pub name: String,
    /// From the start of the process to the first expected response.
    pub starts: Vec<Duration>,
    /// One for each repetition.
    pub loads: BTreeMap<Load, Vec<Figures>>,
    /// One for each repetition.
    pub memory: Vec<Memory>,
    /// The first wrong response, if any.
    pub first_error: Option<ResponseError>,
}

impl Report {
    fn new(program: &Program) -> Self {
        Self {
            name: program.name.clone(),
            starts: Vec::new(),
            loads: BTreeMap::new(),
            memory: Vec::new(),
            first_error: None,
        }
    }
}

/// Measures all programs alternately, so that a disturbance of the machine affects all of them.
///
/// # Errors
/// If a server does not start, exits or sends no response; wrong responses are counted.
pub async fn measure(plan: &Plan, programs: &[Program]) -> Result<Vec<Report>> {
    let bench = Bench {
        plan,
        workspace: Workspace::new()?,
        corpus: corpus()?,
    };
    let mut candidates: Vec<_> = programs
        .iter()
        .map(|program| (program, Report::new(program)))
        .collect();
    bench.cold_starts(&mut candidates).await?;
    for repetition in 1..=plan.repeat {
        eprintln!("repetition {repetition} of {}", plan.repeat);
        bench.repetition(repetition, &mut candidates).await?;
    }
    Ok(candidates.into_iter().map(|(_, report)| report).collect())
}

type Candidate<'a> = (&'a Program, Report);

struct Bench<'a> {
    plan: &'a Plan,
    workspace: Workspace,
    corpus: Arc<[Sample]>,
}

impl Bench<'_> {
    async fn start(&self, program: &Program) -> Result<(Server, Duration)> {
        Server::start(program, &self.workspace, &self.corpus).await
    }

    async fn cold_starts(&self, candidates: &mut [Candidate<'_>]) -> Result<()> {
        eprintln!("{COLD_STARTS} cold starts");
        for _ in 0..COLD_STARTS {
            for (program, report) in &mut *candidates {
                let (mut server, took) = self.start(program).await?;
                server.process.kill().await?;
                report.starts.push(took);
            }
        }
        Ok(())
    }

    /// Measures all loads once. The order of the servers changes with each load, and for each load with each
    /// repetition.
    async fn repetition(&self, repetition: u32, candidates: &mut [Candidate<'_>]) -> Result<()> {
        let mut running = Vec::new();
        for (program, report) in candidates {
            let (server, _) = self.start(program).await?;
            running.push((*program, report, server));
        }
        sleep(SETTLE_TIME).await;
        for (_, report, server) in &mut running {
            let idle = usage::memory(server.process.pid()?)?.resident;
            report.memory.push(Memory { idle, peak: idle });
        }
        if repetition.is_multiple_of(2) {
            running.reverse();
        }
        for load in self.plan.loads() {
            for (program, report, server) in &mut running {
                self.load(load, program, report, server).await?;
            }
            running.reverse();
        }
        for (_, report, mut server) in running {
            let peak = usage::memory(server.process.pid()?)?.peak;
            let memory = report.memory.last_mut();
            memory.context("idle memory was read before")?.peak = peak;
            server.process.kill().await?;
        }
        Ok(())
    }

    async fn load(
        &self,
        load: Load,
        program: &Program,
        report: &mut Report,
        server: &mut Server,
    ) -> Result<()> {
        let path = program.path(load.webhook);
        let endpoint = Endpoint::new(&server.target, path, load.webhook, &self.corpus)?;
        let pid = server.process.pid()?;
        let measured = run(&server.target, endpoint, load, self.plan.requests, pid);
        let (figures, first_error) = server.process.until(measured).await?;
        let (webhook, streams) = (load.webhook.as_str(), load.streams);
        eprintln!(
            "  {} {webhook} x {streams}: {:.0}/s, {} wrong",
            program.name, figures.rate, figures.wrong
        );
        report.loads.entry(load).or_default().push(figures);
        report.first_error = report.first_error.take().or(first_error);
        Ok(())
    }
}

async fn run(
    target: &Target,
    endpoint: Endpoint,
    load: Load,
    requests: u32,
    pid: u32,
) -> Result<(Figures, Option<ResponseError>)> {
    let mut streams = Streams::open(target, endpoint, load.streams).await?;
    let warm_up = streams.drive(WARM_UP.min(requests)).await?;
    let before = usage::cpu_time(pid)?;
    let mut result = streams.drive(requests).await?;
    let cpu = usage::cpu_time(pid)?.saturating_sub(before);
    // Wrong responses during the warm-up count too.
    result.wrong += warm_up.wrong;
    let first_error = warm_up.first_error.or(result.first_error.take());
    Ok((Figures::of(result, cpu), first_error))
}
