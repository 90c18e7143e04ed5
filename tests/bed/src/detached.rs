//! `testbed up`, `down` and `status`: one control plane that outlives the command that started it.
//!
//! Its `testbed serve` holds a lock on a file with its process id as long as it runs, so leftovers of an earlier one are
//! never mistaken for a running control plane.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::cluster::Cluster;
use crate::control_plane::STOP_DEADLINE;
use crate::files;
use crate::tools::Tools;
use crate::wait::eventually;

/// Longer than the deadlines of the parts, so that their messages are in the log.
const START_DEADLINE: Duration = Duration::from_secs(150);
/// A concurrent `status` holds the lock for microseconds.
const LOCK_DEADLINE: Duration = Duration::from_secs(1);

/// A control plane, identified by the folder that holds its state.
#[derive(Clone, Debug)]
pub struct Detached {
    folder: PathBuf,
}

/// The state of the control plane.
#[derive(Debug)]
pub enum Status {
    /// It does not run.
    Stopped,
    /// The process with this id is starting or stopping it.
    Changing(Pid),
    /// It is ready.
    Running(Cluster),
}

/// Held by the `testbed serve` of a detached control plane.
#[derive(Debug)]
pub struct Owner {
    detached: Detached,
    _lock: File,
}

impl Detached {
    /// The control plane of this folder, which is created if it does not exist.
    pub fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .and_then(|()| folder.canonicalize())
            .map(|folder| Self { folder })
            .with_context(|| format!("cannot create the folder {}", folder.display()))
    }

    /// The current state.
    pub fn status(&self) -> Result<Status> {
        let Some(owner) = self.owner()? else {
            return Ok(Status::Stopped);
        };
        match std::fs::read(self.description()) {
            Ok(json) => Ok(Status::Running(serde_json::from_slice(&json)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Status::Changing(owner)),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.description().display())),
        }
    }

    /// Starts the control plane if it does not run; `arguments` are for its `testbed serve`.
    pub async fn start(&self, arguments: &[String]) -> Result<Cluster> {
        // In the foreground, because the first build takes minutes and prints its progress.
        Tools::prepare().await?;
        let mut server = self.spawn(arguments)?;
        let started = eventually("the control plane", START_DEADLINE, async || {
            if let Some(status) = server.try_wait()? {
                return Ok(Err(anyhow!("testbed serve ended ({status})")));
            }
            match self.status()? {
                Status::Running(cluster) => Ok(Ok(cluster)),
                Status::Stopped | Status::Changing(_) => bail!("it is starting"),
            }
        });
        let error = match started.await {
            Ok(Ok(cluster)) => return Ok(cluster),
            Ok(Err(error)) | Err(error) => error,
        };
        self.stop().await?;
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        Err(error.context(format!(
            "cannot start a control plane; the log {} contains\n{log}",
            self.log().display()
        )))
    }

    /// Stops the control plane and waits until it is gone.
    pub async fn stop(&self) -> Result<()> {
        let Some(owner) = self.owner()? else {
            return Ok(());
        };
        kill_process(owner, Signal::TERM)?;
        if let Err(error) = self.gone().await {
            eprintln!("testbed: {error:#}; process {owner} and its programs are killed");
            // It is the leader of its own process group, which contains only its programs.
            kill_process_group(owner, Signal::KILL)?;
        }
        self.gone().await
    }

    /// Becomes the owner, until the returned value is dropped.
    ///
    /// # Errors
    /// If there is an owner already.
    pub async fn own(&self) -> Result<Owner> {
        let mut lock = self.open_lock()?;
        eventually("another testbed serve to end", LOCK_DEADLINE, async || {
            Ok(lock.try_lock()?)
        })
        .await?;
        lock.set_len(0)?;
        write!(lock, "{}", std::process::id())?;
        let owner = Owner {
            detached: self.clone(),
            _lock: lock,
        };
        owner.withdraw()?;
        Ok(owner)
    }

    fn spawn(&self, arguments: &[String]) -> Result<Child> {
        let testbed = std::env::current_exe()?;
        Command::new(&testbed)
            .args(["serve", "--detached", "--state"])
            .arg(&self.folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(self.log())?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", testbed.display()))
    }

    async fn gone(&self) -> Result<()> {
        eventually("the control plane to end", STOP_DEADLINE, async || {
            ensure!(self.owner()?.is_none(), "testbed serve still runs");
            Ok(())
        })
        .await
    }

    fn owner(&self) -> Result<Option<Pid>> {
        let lock = self.open_lock()?;
        match lock.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let id = std::io::read_to_string(&lock)?;
                let id = id.parse().ok().and_then(Pid::from_raw);
                id.map(Some)
                    .with_context(|| format!("the lock file in {} has no process id", self.folder.display()))
            }
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock the lock file"),
        }
    }

    fn open_lock(&self) -> Result<File> {
        files::open_lock(&self.folder.join("lock"))
    }

    fn description(&self) -> PathBuf {
        self.folder.join("cluster.json")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("testbed.log")
    }
}

impl Owner {
    /// Records for the other commands that the control plane is ready.
    pub fn announce(&self, cluster: &Cluster) -> Result<()> {
        let partial = self.detached.folder.join("cluster.json.partial");
        std::fs::write(&partial, serde_json::to_vec(cluster)?)?;
        Ok(std::fs::rename(partial, self.detached.description())?)
    }

    /// Records for the other commands that the control plane is no longer ready.
    pub fn withdraw(&self) -> Result<()> {
        match std::fs::remove_file(self.detached.description()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context("cannot remove the description of the control plane")
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
