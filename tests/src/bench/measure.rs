//! The whole measurement: cold starts, then every load on fresh servers, several times over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use super::answer::Wrong;
use super::client::{Protocol, Target};
use super::corpus::{Sample, corpus};
use super::figures::Figures;
use super::load::{Load, Question, Streams, Webhook};
use super::server::{Program, Server, Workshop};
use super::usage;

/// Enough for a median that one slow start does not move.
const COLD_STARTS: usize = 15;
/// What a program does once, at first use, is done by then on every connection.
const WARM_UP: u32 = 1000;
/// Defaulting is the same path through a server as validating; one load tells the difference.
const MUTATING_STREAMS: u16 = 16;
/// Runtimes that give memory back in the background have done so by then.
const SETTLED: Duration = Duration::from_secs(3);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Requests of each load.
    pub requests: u32,
    /// How often each load is measured.
    pub repeat: u32,
    /// Numbers of concurrent streams of validating requests.
    pub streams: Vec<u16>,
    /// Protocols.
    pub protocols: Vec<Protocol>,
}

impl Plan {
    fn loads(&self, protocol: Protocol) -> Vec<Load> {
        let validate = |streams: &u16| Load {
            protocol,
            webhook: Webhook::Validate,
            streams: *streams,
        };
        let mutate = Load {
            protocol,
            webhook: Webhook::Mutate,
            streams: MUTATING_STREAMS,
        };
        self.streams.iter().map(validate).chain([mutate]).collect()
    }
}

/// Resident memory of a server, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// After its first answer and a pause.
    pub idle: u32,
    /// The most during all loads.
    pub peak: u32,
}

/// All that was measured of a server.
#[derive(Debug)]
pub struct Report {
    /// What it is called.
    pub name: String,
    /// From the start of the process to the first right answer.
    pub starts: Vec<Duration>,
    /// One for each repetition.
    pub loads: BTreeMap<Load, Vec<Figures>>,
    /// One for each repetition.
    pub memory: BTreeMap<Protocol, Vec<Memory>>,
    /// A wrong answer, if there was any.
    pub first_wrong: Option<Wrong>,
}

impl Report {
    fn new(program: &Program) -> Self {
        Self {
            name: program.name.clone(),
            starts: Vec::new(),
            loads: BTreeMap::new(),
            memory: BTreeMap::new(),
            first_wrong: None,
        }
    }
}

/// Measures each program, one beside the other: what disturbs the machine for a while disturbs all alike.
///
/// # Errors
/// When a server does not start, ends or does not answer; wrong answers are counted.
pub async fn measure(plan: &Plan, programs: &[Program]) -> Result<Vec<Report>> {
    let bench = Bench {
        plan,
        workshop: Workshop::new()?,
        corpus: corpus()?,
    };
    let mut contestants: Vec<_> = programs
        .iter()
        .map(|program| (program, Report::new(program)))
        .collect();
    bench.cold_starts(&mut contestants).await?;
    for repetition in 1..=plan.repeat {
        for protocol in &plan.protocols {
            eprintln!(
                "repetition {repetition} of {}, {}",
                plan.repeat,
                protocol.as_str()
            );
            bench.round(repetition, *protocol, &mut contestants).await?;
        }
    }
    Ok(contestants.into_iter().map(|(_, report)| report).collect())
}

type Contestant<'a> = (&'a Program, Report);

struct Bench<'a> {
    plan: &'a Plan,
    workshop: Workshop,
    corpus: Arc<[Sample]>,
}

impl Bench<'_> {
    async fn start(&self, program: &Program, protocol: Protocol) -> Result<(Server, Duration)> {
        Server::start(program, &self.workshop, protocol, &self.corpus).await
    }

    async fn cold_starts(&self, contestants: &mut [Contestant<'_>]) -> Result<()> {
        let protocol = *self.plan.protocols.first().context("no protocol to measure")?;
        eprintln!("{COLD_STARTS} cold starts, {}", protocol.as_str());
        for _ in 0..COLD_STARTS {
            for (program, report) in &mut *contestants {
                let (mut server, took) = self.start(program, protocol).await?;
                server.process.kill().await?;
                report.starts.push(took);
            }
        }
        Ok(())
    }

    /// All loads of a protocol, once. Who goes first changes with each load, and for each load with each repetition.
    async fn round(
        &self,
        repetition: u32,
        protocol: Protocol,
        contestants: &mut [Contestant<'_>],
    ) -> Result<()> {
        let mut running = Vec::new();
        for (program, report) in contestants {
            let (server, _) = self.start(program, protocol).await?;
            running.push((*program, report, server));
        }
        sleep(SETTLED).await;
        for (_, report, server) in &mut running {
            let idle = usage::memory(server.process.pid()?)?.resident;
            report
                .memory
                .entry(protocol)
                .or_default()
                .push(Memory { idle, peak: idle });
        }
        if repetition.is_multiple_of(2) {
            running.reverse();
        }
        for load in self.plan.loads(protocol) {
            for (program, report, server) in &mut running {
                self.load(load, program, report, server).await?;
            }
            running.reverse();
        }
        for (_, report, mut server) in running {
            let peak = usage::memory(server.process.pid()?)?.peak;
            let memory = report.memory.entry(protocol).or_default();
            memory.last_mut().context("idle memory was read before")?.peak = peak;
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
        let question = Question::new(&server.target, path, load.webhook, &self.corpus)?;
        let pid = server.process.pid()?;
        let measured = run(&server.target, question, load, self.plan.requests, pid);
        let (figures, first_wrong) = server.process.until(measured).await?;
        let (webhook, streams) = (load.webhook.as_str(), load.streams);
        eprintln!(
            "  {} {webhook} x {streams}: {:.0}/s, {} wrong",
            program.name, figures.rate, figures.wrong
        );
        report.loads.entry(load).or_default().push(figures);
        report.first_wrong = report.first_wrong.take().or(first_wrong);
        Ok(())
    }
}

async fn run(
    target: &Target,
    question: Question,
    load: Load,
    requests: u32,
    pid: u32,
) -> Result<(Figures, Option<Wrong>)> {
    let mut streams = Streams::open(target, question, load.streams).await?;
    let warm_up = streams.drive(WARM_UP.min(requests)).await?;
    let before = usage::cpu_time(pid)?;
    let mut outcome = streams.drive(requests).await?;
    let cpu = usage::cpu_time(pid)?.saturating_sub(before);
    // What is wrong is wrong, at whatever time.
    outcome.wrong += warm_up.wrong;
    let first_wrong = warm_up.first_wrong.or(outcome.first_wrong.take());
    Ok((Figures::of(outcome, cpu), first_wrong))
}
