//! The runs of Helm for all releases: permits for tenants, metrics, and what is known of earlier runs.

use std::{num::NonZeroUsize, time::Instant};

use helmops_fair::deadline;
use helmops_helm::{
    Failure, FailureReason, Helm, Success,
    child::ChildProcess,
    outcome::SUPERSEDED,
    request::{Action, Request},
    run_scope::RunScope,
};
use helmops_process::MemoryLimit;
use helmops_release::names::ReleaseKey;
use helmops_trace::{in_span, set_attribute};
use k8s_openapi::jiff::Timestamp;

use super::{
    crashes::{Crash, Crashes},
    metrics::HelmMetrics,
    permits::{HelmPermits, Preparation, WAITING_MEMORY},
    slow::{self, SlowRuns, Work},
};

/// What the agent needs itself, besides Helm, with the files of runs: they are in memory.
const OWN_MEMORY: u64 = 192 << 20;
/// The part of the rest that runs which wait for hooks may use (1/`WAITING_PART`).
const WAITING_PART: u64 = 4;
/// How many runs wait at most for each process of a tenant.
const WAITING: u64 = 4;
/// What a run of Helm may use at least: a small chart.
const MIN_MEMORY: u64 = 96 << 20;

/// How the memory of the agent is divided between runs of Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelmMemory {
    /// Bytes that a run may use.
    of_run: u64,
    /// How many runs may wait for hooks.
    waiting: u64,
}

impl HelmMemory {
    /// If the agent may use so much, and a tenant has so many runs at a time.
    pub fn of(limit: MemoryLimit, processes: NonZeroUsize) -> Self {
        let number = |number| u64::try_from(number).unwrap_or(u64::MAX);
        let processes = number(processes.get());
        let rest = number(limit.bytes()).saturating_sub(OWN_MEMORY);
        let waiting = rest / WAITING_PART / WAITING_MEMORY;
        let waiting = waiting.clamp(1, processes.saturating_mul(WAITING));
        let of_runs = rest.saturating_sub(waiting * WAITING_MEMORY);
        Self {
            of_run: (of_runs / processes.saturating_add(1)).max(MIN_MEMORY),
            waiting,
        }
    }
}

/// Helm, with what limits its runs and what is known of them.
#[derive(Clone, Debug)]
pub struct HelmRuns {
    /// What is run.
    pub helm: Helm,
    permits: HelmPermits,
    slow: SlowRuns,
    crashes: Crashes,
    metrics: HelmMetrics,
}

impl HelmRuns {
    /// At most `processes` of a tenant run at a time.
    pub fn new(
        helm: Helm,
        processes: NonZeroUsize,
        memory: Option<HelmMemory>,
        metrics: HelmMetrics,
    ) -> Self {
        let crashes = Crashes::of(helm.workspaces.left(), Timestamp::now());
        let waiting = memory.map_or(WAITING, |memory| memory.waiting);
        let waiting = usize::try_from(waiting).unwrap_or(usize::MAX);
        Self {
            helm: Helm {
                memory: memory.map(|memory| memory.of_run),
                ..helm
            },
            permits: HelmPermits::new(processes, waiting),
            slow: SlowRuns::default(),
            crashes,
            metrics,
        }
    }

    /// Waits until a run may be prepared. That may take as long as the runs of others, so the deadline of a reconciliation does not count.
    /// `waits`: it is known to wait for hooks ([`Self::is_slow`]).
    ///
    /// # Errors
    /// If the run is not to take place any more.
    pub async fn prepare(&self, stop: &RunScope, waits: bool) -> Result<Preparation, Failure> {
        let prepared = self.permits.prepare(&stop.tenant, waits);
        deadline::excluded(self.unless_stopped(stop, prepared)).await
    }

    /// Waits for something, unless [`RunScope`] or the end of leadership comes first.
    async fn unless_stopped<T>(&self, stop: &RunScope, wait: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = stop.agent.cancelled() => Err(Failure::new(FailureReason::Stopped, "the agent stops")),
            () = stop.superseded.cancelled() => Err(Failure::new(FailureReason::Superseded, SUPERSEDED)),
            () = self.helm.ends.leadership.until_lost() => {
                Err(Failure::new(FailureReason::Stopped, "this replica is no longer the leader"))
            }
            waited = wait => Ok(waited),
        }
    }

    /// Runs Helm, after a permit is free. [`RunScope`] interrupts it: it records that the release has failed. So does the end of
    /// leadership, after which there is less time for that ([`helmops_helm::Ends`]). If the future is dropped, it is killed, and a record may stay
    /// pending. So the deadline of a reconciliation does not count: each run has its own, and hooks and tests may take longer than that.
    ///
    /// # Errors
    /// If Helm fails or cannot be run.
    pub async fn run(
        &self,
        request: Request,
        kubeconfig: Vec<u8>,
        stop: &RunScope,
    ) -> Result<Success, Failure> {
        deadline::excluded(Box::pin(self.run_with_permit(request, kubeconfig, stop))).await
    }

    async fn run_with_permit(
        &self,
        request: Request,
        kubeconfig: Vec<u8>,
        stop: &RunScope,
    ) -> Result<Success, Failure> {
        let (what, release) = (Work::of(&request), request.release.clone());
        // What is rendered before a deployment says nothing of the deployment.
        let deploys = matches!(request.action, Action::Install(_) | Action::Upgrade(_));
        let waits = slow::is_slow(&request.action, self.slow.has(&what));
        let acquired = self.permits.acquire(&stop.tenant, waits);
        let permit = self.unless_stopped(stop, acquired).await?;
        let _running = self.metrics.running();
        let (action, started) = (request.action.name(), Instant::now());
        let child = ChildProcess::default();
        let work = async {
            set_attribute("helmops.action", || action);
            let mark = self.crashes.mark(&request);
            self.helm.run(request, kubeconfig, stop, &child, mark).await
        };
        let result = Box::pin(permit.during(&child, in_span("run Helm", work))).await;
        let failure = result.as_ref().err().map(|failure| failure.reason);
        self.metrics.ended(action, failure, started.elapsed());
        self.slow.ended(what, failure);
        if deploys {
            self.crashes.forget(&release);
        }
        result
    }

    /// Whether the last attempt of this deployment did not end in time, so that the next one may take as long.
    pub fn is_slow(&self, release: &ReleaseKey, deployment_id: &str) -> bool {
        self.slow.has(&Work::deployment(release, deployment_id))
    }

    /// Whether the last run of a deployment ended with the agent.
    pub fn crash(&self, release: &ReleaseKey, deployment_id: &str) -> Option<Crash> {
        self.crashes.get(release, deployment_id)
    }

    /// Forgets a release that was removed.
    pub fn forget(&self, release: &ReleaseKey) {
        self.crashes.forget(release);
        self.slow.forget(release);
    }
}

#[cfg(test)]
mod tests;
