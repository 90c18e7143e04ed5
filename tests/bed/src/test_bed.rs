//! A control plane for the tests of one program.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::control_plane::{Data, Options, STOP_DEADLINE};
use crate::permit::{Permit, acquire_permit};
use crate::tools::Tools;

/// Longer than the deadlines of the parts, so that their messages are printed.
const START_DEADLINE: Duration = Duration::from_secs(150);
const STOP_PAUSE: Duration = Duration::from_millis(20);

/// A control plane that stops when the last clone of this value is dropped, or when its process ends for any reason.
#[derive(Clone, Debug)]
pub struct TestBed {
    cluster: Cluster,
    server: Arc<Server>,
}

#[derive(Debug)]
struct Server {
    /// Holds the write end of the pipe; the server stops when it is closed.
    child: Child,
    /// `None` if it belongs to the test of another one, which has the permit.
    _permit: Option<Permit>,
}

impl TestBed {
    /// Waits for a permit, and starts a control plane with the program `testbed`, which cargo has built.
    pub async fn start(options: &Options) -> Result<Self> {
        let testbed = binary("testbed")?;
        // Without a deadline: this may compile Kubernetes.
        Tools::prepare().await?;
        let permit = acquire_permit().await?;
        let prepared = Options {
            data: Data::Prepared,
            ..options.clone()
        };
        Self::serve(&prepared, &testbed, Some(permit)).await
    }

    /// Starts a second control plane for the test that has this one, without a permit of its own: two tests that wait for the second
    /// permit of each other would wait forever. It starts empty: tools identify a cluster by the UID of its namespace `kube-system`.
    pub async fn start_beside(&self, options: &Options) -> Result<Self> {
        Self::serve(options, &binary("testbed")?, None).await
    }

    async fn serve(options: &Options, testbed: &Path, permit: Option<Permit>) -> Result<Self> {
        let mut server = Command::new(testbed)
            .args(["serve", "--end-group"])
            .args(options.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", testbed.display()))?;
        let output = server.stdout.take().context("stdout is not piped")?;
        let ready = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).map(|_| line)
        });
        let line = match timeout(START_DEADLINE, ready).await {
            Ok(line) => line??,
            Err(_) => String::new(),
        };
        if line.is_empty() {
            stop(&mut server);
            bail!("testbed serve did not start; see its messages above");
        }
        Ok(Self {
            cluster: serde_json::from_str(&line).with_context(|| format!("testbed serve printed {line}"))?,
            server: Arc::new(Server {
                child: server,
                _permit: permit,
            }),
        })
    }

    /// A command for [`crate::process::Process`], whose process ends with the test too.
    pub fn command(&self, program: &Path) -> tokio::process::Command {
        self.in_group(tokio::process::Command::new(program))
    }

    /// The command of a process that ends with the test too.
    pub(crate) fn in_group(&self, mut command: tokio::process::Command) -> tokio::process::Command {
        command.process_group(self.server.child.id().cast_signed());
        command
    }
}

impl Deref for TestBed {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// The path of the program `name` that cargo built with this one.
///
/// # Errors
/// If it has not been built.
pub fn binary(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    // Tests and benchmarks are one folder below the binaries.
    let mut paths = this.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    paths.find(|path| path.is_file()).with_context(|| {
        format!(
            "{name} is not in the folder of {}; build it with cargo first",
            this.display()
        )
    })
}

fn stop(server: &mut Child) {
    drop(server.stdin.take());
    let end = Instant::now() + STOP_DEADLINE;
    while Instant::now() < end {
        match server.try_wait() {
            Ok(None) => std::thread::sleep(STOP_PAUSE),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    eprintln!(
        "testbed: process {} has not ended within {STOP_DEADLINE:?}; killing its process group",
        server.id()
    );
    // Its exit status was not read yet, so its id and that of its group cannot be reused.
    if let Some(group) = Pid::from_raw(server.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = server.wait();
}
