//! Helm, as a child process: a request in, an outcome out.
//!
//! ```text
//! Request ─► workspace (kubeconfig) ─► protocol ─► child (agent/helm) ─► outcome: Success or Failure
//!                                                           │
//!                          post_render of this program ◄────┘
//! ```
//!
//! Rendering, hooks, order and the format of records are Helm's own.

pub mod arguments;
pub mod child;
mod crashes;
pub mod kubeconfig;
mod metrics;
pub mod outcome;
mod permits;
pub mod protocol;
pub mod request;
mod slow;
pub mod run_scope;
pub mod workspace;

use std::{
    ffi::OsString,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use helmops_fair::deadline;
use helmops_kube::lease::Leadership;
use helmops_process::MemoryLimit;
use helmops_release::{manifest, names::ReleaseKey};
use helmops_trace::{in_span, set_attribute};
use k8s_openapi::jiff::Timestamp;
use tokio::{process::Command, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

use self::{
    arguments::arguments,
    child::{ChildProcess, Ending, Limits, Output},
    crashes::Crashes,
    outcome::{SUPERSEDED, SecretTexts, of_command, of_engine},
    permits::{HelmPermits, Preparation, WAITING_MEMORY},
    request::{Action, Request},
    run_scope::RunScope,
    slow::{SlowRuns, Work},
    workspace::{Workspace, Workspaces},
};
use crate::post_render::ESCAPED;

pub use self::{
    crashes::{Crash, RunMark},
    metrics::HelmMetrics,
    outcome::{Failure, FailureReason, Success},
    run_scope::Tenant,
};

/// Less garbage collection: a third less CPU time for 5 MB of memory.
const GARBAGE_COLLECTION: (&str, &str) = ("GOGC", "400");
/// The memory from which Go collects garbage more often. A large chart still does not take much more than its objects.
const GO_MEMORY_LIMIT: &str = "GOMEMLIMIT";
const MAX_GO_MEMORY: u64 = 160 << 20;
/// The limits of a run. Each has a deadline of its own.
const LIMITS: Limits = Limits {
    deadline: Duration::MAX,
    // Helm records an interruption.
    grace: Ends::GRACE,
    // The outcome, with warnings.
    stdout: 1 << 20,
    // Of a crash, or of another program.
    stderr: 64 << 10,
    memory: None,
};
/// Bytes of CRDs. Those of the largest charts have some megabytes.
pub const MAX_CRDS: usize = 16 << 20;
/// To print the version takes a tenth of a second.
const VERSION_DEADLINE: Duration = Duration::from_secs(30);

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

/// The program that is run.
#[derive(Clone, Debug)]
pub enum HelmProgram {
    /// `helmops-helm`, built from `agent/helm`.
    Engine {
        /// Its path.
        path: PathBuf,
        /// The path of this program, which it runs to change objects.
        post_renderer: PathBuf,
    },
    /// A person's Helm 4, which only renders.
    Template(PathBuf),
}

impl HelmProgram {
    /// Its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Engine { path, .. } | Self::Template(path) => path,
        }
    }
}

/// The program, and what it is run with.
#[derive(Clone, Debug)]
pub struct Helm {
    /// The program.
    pub program: HelmProgram,
    /// The folder of its files.
    pub workspaces: Workspaces,
    /// Variables of its environment, in addition to its own: a person's kubeconfig may need programs and their settings.
    pub environment: Vec<(OsString, OsString)>,
    /// What ends a run early.
    pub ends: Ends,
    /// Bytes of memory that a run may use; `None` for no limit.
    pub memory: Option<u64>,
    permits: HelmPermits,
    slow: SlowRuns,
    crashes: Crashes,
    metrics: HelmMetrics,
}

/// What ends a run of Helm early, besides its deadline and the end of the agent.
#[derive(Clone, Debug)]
pub struct Ends {
    /// A run ends with the leadership in which it was started: another replica continues with the release.
    pub leadership: Leadership,
    /// How long Helm may take to record an interruption.
    pub grace: Duration,
    /// The same after leadership has ended. It is over before another replica is the leader.
    pub lease_grace: Duration,
    /// How long a run may take at least although its result is of no use any more.
    pub brief: Duration,
}

impl Ends {
    /// Helm needs a second to record an interruption; an overloaded API server takes longer.
    const GRACE: Duration = Duration::from_secs(15);
    /// The part of the shutdown that is not for Helm: the status is written after it.
    const AFTER: Duration = Duration::from_secs(10);

    /// Without hooks, Helm needs a second or a few. An upgrade that is interrupted leaves a part of the objects as they were.
    const BRIEF: Duration = Duration::from_secs(10);

    /// Those of an agent whose shutdown may take this long, and that stops writing this long before another replica is the leader.
    pub fn of(leadership: Leadership, shutdown: Duration, lease: Duration) -> Self {
        Self {
            leadership,
            grace: shutdown.saturating_sub(Self::AFTER),
            // The rest is for the process to end, and for clocks that do not run at the same speed.
            lease_grace: lease.mul_f64(0.8),
            brief: Self::BRIEF,
        }
    }
}

impl Default for Ends {
    fn default() -> Self {
        Self {
            leadership: Leadership::always(),
            grace: Self::GRACE,
            lease_grace: Self::GRACE,
            brief: Self::BRIEF,
        }
    }
}

/// What a run prints.
struct Printed {
    what: &'static str,
    /// Its maximum bytes.
    max: usize,
}

impl Printed {
    fn of(action: &Action) -> Option<Self> {
        let (what, max) = match action {
            Action::Crds(_) => ("CRDs", MAX_CRDS),
            Action::Render(_) => ("objects", manifest::MAX_BYTES),
            _ => return None,
        };
        Some(Self { what, max })
    }

    /// The maximum bytes as the program writes them.
    const fn written(&self) -> usize {
        self.max * ESCAPED
    }

    fn too_much(&self) -> Failure {
        let message = format!("the {} of the chart have more than {} bytes", self.what, self.max);
        Failure::new(FailureReason::ChartInvalid, message)
    }
}

impl Helm {
    /// At most `processes` of a tenant run at a time.
    pub fn new(
        program: HelmProgram,
        workspaces: Workspaces,
        processes: NonZeroUsize,
        memory: Option<HelmMemory>,
        metrics: HelmMetrics,
    ) -> Self {
        let crashes = Crashes::of(workspaces.left(), Timestamp::now());
        let waiting = memory.map_or(WAITING, |memory| memory.waiting);
        let waiting = usize::try_from(waiting).unwrap_or(usize::MAX);
        Self {
            program,
            workspaces,
            environment: Vec::new(),
            ends: Ends::default(),
            memory: memory.map(|memory| memory.of_run),
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
            () = self.ends.leadership.until_lost() => {
                Err(Failure::new(FailureReason::Stopped, "this replica is no longer the leader"))
            }
            waited = wait => Ok(waited),
        }
    }

    /// Runs Helm, after a permit is free. [`RunScope`] interrupts it: it records that the release has failed. So does the end of
    /// leadership, after which there is less time for that ([`Ends`]). If the future is dropped, it is killed, and a record may stay
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
            self.run_now(request, kubeconfig, stop, &child).await
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

    async fn run_now(
        &self,
        request: Request,
        kubeconfig: Vec<u8>,
        stop: &RunScope,
        child: &ChildProcess,
    ) -> Result<Success, Failure> {
        let workspace = self.workspace(&request, kubeconfig).await?;
        let (command, input) = self.command(&request, &workspace)?;
        let printed = Printed::of(&request.action);
        let limits = Limits {
            deadline: request.deadline(),
            grace: self.ends.grace,
            stdout: printed.as_ref().map_or(LIMITS.stdout, Printed::written),
            memory: self.memory,
            ..LIMITS
        };
        let ending = Ending {
            child,
            stop,
            leadership: &self.ends.leadership,
            grace: self.ends.lease_grace,
            brief: self.ends.brief,
        };
        let output = child::run(command, &input, limits, ending).await;
        let output = output.map_err(|error| self.not_started(&error))?;
        // It removes a folder.
        let _ = spawn_blocking(move || drop(workspace)).await;
        self.outcome(&request, output, printed.as_ref())
    }

    /// Creates the files of a run.
    async fn workspace(&self, request: &Request, kubeconfig: Vec<u8>) -> Result<Workspace, Failure> {
        let (workspaces, mark) = (self.workspaces.clone(), self.crashes.mark(request));
        let values = match (&self.program, &request.action) {
            (HelmProgram::Template(_), Action::Render(render)) => render.deploy.values.clone(),
            // They are in the request.
            _ => Vec::new(),
        };
        let created = spawn_blocking(move || workspaces.create(&kubeconfig, &values, mark.as_ref()));
        let created = created.await.map_err(|error| self.not_started(&error))?;
        created.map_err(|error| self.not_started(&error))
    }

    fn outcome(
        &self,
        request: &Request,
        output: Output,
        printed: Option<&Printed>,
    ) -> Result<Success, Failure> {
        let deploy = request.action.deploy();
        let secrets = deploy.map(|deploy| deploy.secrets.clone()).unwrap_or_default();
        if let Some(printed) = printed.filter(|printed| output.stdout.len() >= printed.written()) {
            return Err(printed.too_much());
        }
        let ended = match &self.program {
            HelmProgram::Engine { .. } => of_engine(&output, &secrets),
            HelmProgram::Template(_) => of_command(&output, &secrets).map(|success| Success {
                printed: output.stdout,
                ..success
            }),
        };
        let success = ended.map_err(|failure| failure.of_memory(self.memory))?;
        match printed {
            Some(printed) if success.printed.len() >= printed.max => Err(printed.too_much()),
            _ => Ok(success),
        }
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

    /// The version of Helm, such as `v4.2`: whether the program is there, and is Helm.
    ///
    /// # Errors
    /// If it cannot be run, or fails.
    pub async fn version(&self) -> Result<String, Failure> {
        let mut command = Command::new(self.program.path());
        command.env_clear().arg("version");
        let limits = Limits {
            deadline: VERSION_DEADLINE,
            ..LIMITS
        };
        let ending = Ending {
            child: &ChildProcess::default(),
            stop: &RunScope::of_agent(&CancellationToken::new(), ""),
            leadership: &Leadership::always(),
            grace: LIMITS.grace,
            brief: Ends::BRIEF,
        };
        let output = child::run(command, b"", limits, ending).await;
        let output = output.map_err(|error| self.not_started(&error))?;
        of_command(&output, &SecretTexts::default())?;
        Ok(output.stdout.trim().to_owned())
    }

    /// A bit less than the limit: Go has to collect garbage before it gets no more memory.
    fn go_memory_limit(&self) -> String {
        let limit = self
            .memory
            .map_or(MAX_GO_MEMORY, |memory| MAX_GO_MEMORY.min(memory / 4 * 3));
        limit.to_string()
    }

    fn not_started(&self, error: &dyn std::fmt::Display) -> Failure {
        let program = self.program.path().display();
        Failure::new(
            FailureReason::NotStarted,
            format!("cannot run Helm ({program}): {error}"),
        )
    }

    /// The command for a request, and its input.
    fn command(&self, request: &Request, workspace: &Workspace) -> Result<(Command, Vec<u8>), Failure> {
        let mut command = Command::new(self.program.path());
        let home = workspace.home();
        let input = match (&self.program, &request.action) {
            (HelmProgram::Engine { post_renderer, .. }, action) => {
                // What it does is visible in a list of processes.
                command.args([action.name(), &request.release.name]);
                protocol::encoded(request, &workspace.kubeconfig(), post_renderer)?
            }
            (HelmProgram::Template(_), Action::Render(render)) => {
                command.args(arguments(
                    request,
                    render,
                    &workspace.kubeconfig(),
                    workspace.values(),
                ));
                Vec::new()
            }
            (HelmProgram::Template(_), _) => return Err(self.not_started(&"it only renders charts")),
        };
        command
            .current_dir(&home)
            .env_clear()
            .env("HOME", &home)
            .env("TMPDIR", &home)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            // Plugins that add commands: there are none.
            .env("HELM_NO_PLUGINS", "1")
            .env("HELM_DRIVER", "secret")
            .env(GARBAGE_COLLECTION.0, GARBAGE_COLLECTION.1)
            .env(GO_MEMORY_LIMIT, self.go_memory_limit())
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok((command, input))
    }
}

#[cfg(test)]
mod tests;
