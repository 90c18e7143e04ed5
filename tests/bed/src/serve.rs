//! `testbed serve`: owns the control plane, and stops it when it is no longer needed.

use anyhow::{Context, Result};
use futures::future::LocalBoxFuture;
use rustix::process::{Signal, getpgrp, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::chart_server::ChartServer;
use crate::cluster::Cluster;
use crate::control_plane::{ControlPlane, Options};
use crate::process::Process;
use crate::tools::Tools;

/// A step between the readiness of the API server and its announcement, such as installing manifests or starting a program.
/// Whatever it starts runs as long as the control plane.
pub type Step = Box<dyn FnOnce(&Cluster) -> LocalBoxFuture<'_, Result<Started>>>;

/// The results of a step.
#[derive(Default)]
pub struct Started {
    /// Processes; if one ends, the control plane stops.
    pub processes: Vec<Process>,
    pub charts: Option<ChartServer>,
}

/// What stops a control plane, besides a signal or the failure of one of its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Only a signal.
    Signal,
    /// The end of standard input, which is reached even if its writer is killed.
    EndOfInput,
}

/// Runs a control plane until SIGTERM, SIGINT, SIGHUP or the event of `until`.
///
/// # Errors
/// If a step, a program of the control plane or `announce` fails. No process is left running in any case.
pub async fn serve(
    options: &Options,
    until: Until,
    steps: Vec<Step>,
    announce: impl FnOnce(&Cluster) -> Result<()>,
) -> Result<()> {
    let tools = Tools::prepare();
    let end = end(until)?;
    tokio::pin!(end);
    let tools = tokio::select! {
        tools = tools => tools?,
        () = &mut end => return Ok(()),
    };
    let mut plane = ControlPlane::new(tools)?;
    let outcome = tokio::select! {
        failure = run(&mut plane, options, steps, announce) => failure,
        () = end => Ok(()),
    };
    let stopped = plane.stop().await;
    outcome.and(stopped)
}

/// Kills all processes of the caller's process group, including the caller.
///
/// This includes processes that tests started in the group, at the cost of a proper exit status.
pub fn end_group() -> Result<()> {
    kill_process_group(getpgrp(), Signal::KILL).context("cannot end the process group")
}

/// Returns only with an error.
async fn run(
    plane: &mut ControlPlane,
    options: &Options,
    steps: Vec<Step>,
    announce: impl FnOnce(&Cluster) -> Result<()>,
) -> Result<()> {
    plane.start(options).await?;
    let mut charts = None;
    for step in steps {
        let started = step(plane.cluster()).await?;
        for process in started.processes {
            plane.adopt(process);
        }
        charts = started.charts.or(charts);
    }
    plane.announce_charts(charts.as_ref().map(ChartServer::url));
    announce(plane.cluster())?;
    Err(plane.failure().await)
}

fn end(until: Until) -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let input = async move {
        match until {
            Until::Signal => std::future::pending().await,
            Until::EndOfInput => end_of_input().await,
        }
    };
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            () = input => {}
        }
    })
}

/// Reads in a separate thread: at its shutdown, the runtime would wait for a read that never returns.
async fn end_of_input() {
    let (sender, ended) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(sender);
    });
    let _ = ended.await;
}
