//! Helm, as a child process: a request in, an outcome out. Also what a request needs from the cluster: the account that deploys, and the
//! values of `valuesFrom`.
//!
//! ```text
//! Request ─► workspace (kubeconfig) ─► protocol ─► child (agent/helm) ─► outcome: Success or Failure
//!                                                           │
//!                     the post-renderer of the agent ◄──────┘
//! ```
//!
//! Rendering, hooks, order and the format of records are Helm's own.

#![warn(missing_docs)]

pub mod account;
mod arguments;
pub mod child;
pub mod kubeconfig;
pub mod kustomize;
pub mod outcome;
pub mod protocol;
pub mod request;
mod run_mark;
pub mod run_scope;
pub mod settings;
pub mod values_files;
pub mod values_from;
pub mod workspace;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use helmops_kube::lease::Leadership;
use helmops_release::manifest;
use tokio::{process::Command, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

use self::{
    arguments::arguments,
    child::{ChildProcess, Ending, Limits, Output},
    outcome::{SecretTexts, of_command, of_engine},
    protocol::ESCAPED,
    request::{Action, Request},
    run_scope::RunScope,
    workspace::{Workspace, Workspaces},
};

pub use self::{
    outcome::{Failure, FailureReason, Success},
    run_mark::RunMark,
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
pub const MAX_CRD_BYTES: usize = 16 << 20;
/// Maximum number of CRDs of a chart. Each costs requests; the largest charts have some hundred.
pub const MAX_CRDS: usize = 1000;
/// To print the version takes a tenth of a second.
const VERSION_DEADLINE: Duration = Duration::from_secs(30);

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
            Action::Crds(_) => ("CRDs", MAX_CRD_BYTES),
            Action::Render(_) => ("objects", manifest::MAX_BYTES),
            Action::Patch(_) => ("patched files", manifest::MAX_BYTES),
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
    /// The program, with an environment of its own, and without a limit of memory.
    pub fn new(program: HelmProgram, workspaces: Workspaces) -> Self {
        Self {
            program,
            workspaces,
            environment: Vec::new(),
            ends: Ends::default(),
            memory: None,
        }
    }

    /// Runs Helm. [`RunScope`] interrupts it: it records that the release has failed. So does the end of leadership, after which there is
    /// less time for that ([`Ends`]). If the future is dropped, it is killed, and a record may stay pending. `mark` is in its workspace.
    ///
    /// # Errors
    /// If Helm fails or cannot be run.
    pub async fn run(
        &self,
        request: Request,
        kubeconfig: Vec<u8>,
        stop: &RunScope,
        child: &ChildProcess,
        mark: Option<RunMark>,
    ) -> Result<Success, Failure> {
        let workspace = self.workspace(&request, kubeconfig, mark).await?;
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
    async fn workspace(
        &self,
        request: &Request,
        kubeconfig: Vec<u8>,
        mark: Option<RunMark>,
    ) -> Result<Workspace, Failure> {
        let workspaces = self.workspaces.clone();
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
