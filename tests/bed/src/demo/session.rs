//! A terminal session that prints its commands and their output, and fails if something is not as expected.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::command::{Output, run};
use crate::wait::eventually;

/// No step of the demo takes longer, even on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// Runs commands as a user would type them and prints them with their output.
pub struct Session {
    path: std::ffi::OsString,
    kubeconfig: PathBuf,
    folder: PathBuf,
    started: Instant,
}

impl Session {
    /// A session whose commands are found in `tools` and run in `folder`.
    pub fn new(cluster: &Cluster, folder: PathBuf) -> Result<Self> {
        let tools = cluster.tools.kubectl();
        let tools = tools.parent().context("the path of kubectl has no folder")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(tools.to_owned()).chain(std::env::split_paths(&path));
        Ok(Self {
            path: std::env::join_paths(folders)?,
            kubeconfig: cluster.kubeconfig.clone(),
            folder,
            started: Instant::now(),
        })
    }

    /// Prints a heading with the elapsed time.
    pub fn title(&self, text: &str) -> Result<()> {
        let seconds = self.started.elapsed().as_secs();
        print_line(&format!("\n\x1b[1m# {text}\x1b[0m  ({seconds} s)"))
    }

    /// Writes a file and prints it.
    pub fn file(&self, name: &str, content: &str) -> Result<()> {
        std::fs::write(self.path(name), content).with_context(|| format!("cannot write {name}"))?;
        print_line(&format!("\x1b[36m$ cat {name}\x1b[0m\n{}", content.trim_end()))
    }

    /// Path of a file of the session.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs a command that must succeed.
    pub async fn succeeds(&self, line: &str) -> Result<Output> {
        let output = self.run_shown(line).await?;
        ensure!(
            output.status.success(),
            "not as expected: `{line}` failed ({})",
            output.status
        );
        Ok(output)
    }

    /// Runs a command that must be rejected.
    pub async fn is_refused(&self, line: &str) -> Result<Output> {
        let output = self.run_shown(line).await?;
        ensure!(!output.status.success(), "not as expected: `{line}` succeeded");
        Ok(output)
    }

    /// Repeats a command without printing it until its output is as expected, then prints it once.
    pub async fn until_prints(&self, line: &str, expected: &str) -> Result<()> {
        eventually(line, DEADLINE, async || {
            let output = self.run_quiet(line).await?;
            let printed = output.stdout.trim();
            ensure!(printed == expected, "it prints {printed:?}, not {expected:?}");
            Ok(())
        })
        .await?;
        self.succeeds(line).await?;
        Ok(())
    }

    async fn run_shown(&self, line: &str) -> Result<Output> {
        print_line(&format!("\x1b[36m$ {line}\x1b[0m"))?;
        let output = self.run_quiet(line).await?;
        let printed = format!("{}{}", output.stderr, output.stdout);
        if !printed.trim().is_empty() {
            print_line(printed.trim_end())?;
        }
        Ok(output)
    }

    async fn run_quiet(&self, line: &str) -> Result<Output> {
        let mut command = Command::new("bash");
        command
            .args(["-c", line])
            .current_dir(&self.folder)
            .env("PATH", &self.path)
            .env("KUBECONFIG", &self.kubeconfig);
        run(command, "", DEADLINE).await
    }
}

/// Prints a remark.
pub fn remark(text: &str) -> Result<()> {
    print_line(&format!("  {text}"))
}

/// Checks that an output contains a text.
pub fn ensure_contains(output: &Output, text: &str) -> Result<()> {
    let printed = format!("{}{}", output.stderr, output.stdout);
    ensure!(
        printed.contains(text),
        "not as expected: the output of `{}` does not contain {text:?}",
        output.command
    );
    Ok(())
}

fn print_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
