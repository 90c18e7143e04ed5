//! Long-running programs: the parts of the control plane, and the binaries under test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::ports::free_ports;
use crate::probe;

/// Enough for a panic or a usage error and the lines before it.
const TAIL_LINES: usize = 40;
/// To lose the race for a port once is rare; to lose it this often has another cause.
const PORT_ATTEMPTS: usize = 5;

/// A running program with its log; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `command` with both outputs in the file `log`, which is overwritten.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!(
                    "cannot start {name} ({})",
                    command.as_std().get_program().display()
                )
            })?;
        Ok(Self {
            name: name.to_owned(),
            log: log.to_owned(),
            child,
        })
    }

    /// Starts a program on free ports, and waits until it is `ready` on them.
    ///
    /// If another process binds one of the ports first, other ports are tried.
    pub async fn start_on_ports<const N: usize>(
        name: &str,
        log: &Path,
        command: impl Fn([u16; N]) -> Command,
        ready: impl AsyncFn([u16; N]) -> Result<()>,
    ) -> Result<(Self, [u16; N])> {
        for _ in 0..PORT_ATTEMPTS {
            let ports = free_ports()?;
            let mut process = Self::start(name, command(ports), log)?;
            match process.until(ready(ports)).await {
                Ok(()) => return Ok((process, ports)),
                Err(_) if process.lost_its_port() => process.kill().await?,
                Err(error) => return Err(error),
            }
        }
        bail!("{name}: the ports were already in use {PORT_ATTEMPTS} times");
    }

    /// Its process id.
    ///
    /// # Errors
    /// If it has ended and its exit status was read.
    pub fn pid(&self) -> Result<u32> {
        self.child
            .id()
            .with_context(|| format!("{} has ended", self.name))
    }

    /// Its complete output.
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map_or_else(
            |error| format!("(cannot read {}: {error})", self.log.display()),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// The last lines of its output.
    pub fn tail(&self) -> String {
        let log = self.log();
        let surplus = log.lines().count().saturating_sub(TAIL_LINES);
        log.lines().skip(surplus).collect::<Vec<_>>().join("\n")
    }

    /// Waits for `condition` while the program runs.
    ///
    /// # Errors
    /// If the condition fails or the program ends first; with the end of the log.
    pub async fn until<T>(&mut self, condition: impl Future<Output = Result<T>>) -> Result<T> {
        let error = tokio::select! {
            biased;
            status = self.child.wait() => anyhow!("it ended ({})", status?),
            outcome = condition => match outcome {
                Ok(value) => return Ok(value),
                Err(error) => error,
            },
        };
        let tail = self.tail();
        Err(anyhow!(
            "{} failed: {error:#}; its log ends with\n{tail}",
            self.name
        ))
    }

    /// Waits until `/readyz` on the admin port (`admin` is such as `http://127.0.0.1:8081`) returns 200.
    pub async fn until_ready(&mut self, admin: &str, deadline: Duration) -> Result<()> {
        let client = probe::client(None)?;
        let url = format!("{admin}/readyz");
        self.until(probe::ready(&client, &url, deadline)).await
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()?).ok().and_then(Pid::from_raw);
        kill_process(pid.context("invalid process id")?, signal)
            .with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    /// Sends SIGTERM and waits for the exit.
    ///
    /// # Errors
    /// If it still runs at the deadline; with the end of the log.
    pub async fn terminate(&mut self, deadline: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.exited(deadline).await
    }

    /// Waits for the exit of the program.
    ///
    /// # Errors
    /// If it still runs at the deadline; with the end of the log.
    pub async fn exited(&mut self, deadline: Duration) -> Result<ExitStatus> {
        if let Ok(status) = timeout(deadline, self.child.wait()).await {
            return Ok(status?);
        }
        let tail = self.tail();
        bail!(
            "{} still runs after {deadline:?}; its log ends with\n{tail}",
            self.name
        )
    }

    /// Kills it and waits for its exit.
    pub async fn kill(&mut self) -> Result<()> {
        self.child
            .kill()
            .await
            .with_context(|| format!("cannot kill {}", self.name))
    }

    fn lost_its_port(&mut self) -> bool {
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        ended && self.log().to_lowercase().contains("address already in use")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {} ends with\n{}\n---", self.name, self.tail());
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;
    use axum::http::StatusCode;
    use tempfile::TempDir;

    use super::*;
    use crate::chart_server::{ChartServer, FixedResponse};
    use crate::wait::eventually;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(folder: &TempDir, script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start("it", command, &folder.path().join("log")).unwrap()
    }

    async fn until_up(process: &Process) {
        let up = async || {
            ensure!(process.log() == "up\n", "the log does not contain \"up\"");
            Ok(())
        };
        eventually("the program to be up", SOON, up).await.unwrap();
    }

    #[tokio::test]
    async fn an_early_exit_is_reported_with_the_end_of_the_log() {
        let folder = TempDir::new().unwrap();
        let mut process = shell(&folder, "seq 100; echo boom >&2; exit 7");
        let error = process.until_ready("http://127.0.0.1:1", SOON).await.unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.ends_with("\n99\n100\nboom") && !text.contains("\n50\n"),
            "{text}"
        );
        assert!(text.contains("exit status: 7"), "{text}");
    }

    #[tokio::test]
    async fn readiness_follows_the_readyz_endpoint() {
        let folder = TempDir::new().unwrap();
        let mut process = shell(&folder, "exec sleep 60");
        let admin = ChartServer::http(folder.path()).await.unwrap();
        let error = process
            .until_ready(&admin.url(), Duration::from_millis(200))
            .await
            .unwrap_err();
        assert!(format!("{error:#}").contains("404 Not Found"), "{error:#}");
        let ok = FixedResponse {
            status: StatusCode::OK,
            content_type: "text/plain",
            body: "ok".into(),
        };
        admin.set_response("/readyz", ok);
        process.until_ready(&admin.url(), SOON).await.unwrap();
    }

    #[tokio::test]
    async fn terminate_returns_the_exit_status() {
        let folder = TempDir::new().unwrap();
        let mut process = shell(
            &folder,
            "trap 'exit 5' TERM; echo up; while :; do sleep 0.02; done",
        );
        until_up(&process).await;
        assert_eq!(process.terminate(SOON).await.unwrap().code(), Some(5));
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_an_error() {
        let folder = TempDir::new().unwrap();
        let mut process = shell(&folder, "trap '' TERM; echo up; while :; do sleep 0.02; done");
        until_up(&process).await;
        let error = process.terminate(Duration::from_millis(200)).await.unwrap_err();
        assert!(
            error.to_string().starts_with("it still runs after 200ms"),
            "{error}"
        );
        process.kill().await.unwrap();
        assert!(process.pid().is_err());
    }
}
