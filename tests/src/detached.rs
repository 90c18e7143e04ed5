//! `testbed up`, `down` and `status`: one control plane that outlives the command that started it.
//!
//! The `testbed serve` behind it holds a lock on a file with its process id, for as long as it lives: nothing
//! left over from an earlier one can pass for a running control plane.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::cluster::Cluster;
use crate::control_plane::STOP_DEADLINE;
use crate::tools::Tools;
use crate::wait::eventually;

/// Above the deadlines of the parts, so that their messages are in the log.
const START_DEADLINE: Duration = Duration::from_secs(150);
/// A `status` at the same moment holds the lock for microseconds.
const LOCK_DEADLINE: Duration = Duration::from_secs(1);

/// The folder that the commands meet at.
#[derive(Clone, Debug)]
pub struct Detached {
    folder: PathBuf,
}

/// The state of the control plane.
#[derive(Debug)]
pub enum Status {
    /// There is none.
    Stopped,
    /// The process with this id starts or stops it.
    Changing(Pid),
    /// It is ready.
    Running(Cluster),
}

/// Held by the `testbed serve` behind a detached control plane.
#[derive(Debug)]
pub struct Owner {
    detached: Detached,
    _lock: File,
}

impl Detached {
    /// The control plane of this folder, which is made if need be.
    pub fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .and_then(|()| folder.canonicalize())
            .map(|folder| Self { folder })
            .with_context(|| format!("cannot make the folder {}", folder.display()))
    }

    /// What runs now.
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

    /// Starts a control plane where none runs; `arguments` are for its `testbed serve`.
    pub async fn start(&self, arguments: &[String]) -> Result<Cluster> {
        // In the foreground, for the first build takes minutes and shows its progress.
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
            "cannot start a control plane; {} says\n{log}",
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
            // It leads a group of its own, which holds nothing but its programs.
            kill_process_group(owner, Signal::KILL)?;
        }
        self.gone().await
    }

    /// Becomes the owner, as long as the value lives.
    ///
    /// # Errors
    /// When there is one already.
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
                    .with_context(|| format!("no process id in {}", self.folder.display()))
            }
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock a file"),
        }
    }

    fn open_lock(&self) -> Result<File> {
        let path = self.folder.join("lock");
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))
    }

    fn description(&self) -> PathBuf {
        self.folder.join("cluster.json")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("testbed.log")
    }
}

impl Owner {
    /// Tells the other commands that the control plane is ready.
    pub fn announce(&self, cluster: &Cluster) -> Result<()> {
        let partial = self.detached.folder.join("cluster.json.partial");
        std::fs::write(&partial, serde_json::to_vec(cluster)?)?;
        Ok(std::fs::rename(partial, self.detached.description())?)
    }

    /// Tells them that it is no longer.
    pub fn withdraw(&self) -> Result<()> {
        match std::fs::remove_file(self.detached.description()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("cannot withdraw"),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
