//! A terminal session that is shown while it happens, and that notices when something is not as told.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::command::{Output, run};
use crate::wait::eventually;

/// No step of the demo takes longer, on a busy machine either.
const DEADLINE: Duration = Duration::from_mins(1);

/// Runs commands as a user would type them and prints them with their output.
pub struct Session {
    path: std::ffi::OsString,
    kubeconfig: PathBuf,
    folder: PathBuf,
    begun: Instant,
}

impl Session {
    /// A session whose commands are found in `tools` and run in `folder`.
    pub fn new(cluster: &Cluster, folder: PathBuf) -> Result<Self> {
        let tools = cluster.tools.kubectl();
        let tools = tools.parent().context("kubectl lies in no folder")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(tools.to_owned()).chain(std::env::split_paths(&path));
        Ok(Self {
            path: std::env::join_paths(folders)?,
            kubeconfig: cluster.kubeconfig.clone(),
            folder,
            begun: Instant::now(),
        })
    }

    /// A heading.
    pub fn title(&self, text: &str) -> Result<()> {
        let seconds = self.begun.elapsed().as_secs();
        say(&format!("\n\x1b[1m# {text}\x1b[0m  ({seconds} s)"))
    }

    /// Writes a file and shows it.
    pub fn file(&self, name: &str, content: &str) -> Result<()> {
        std::fs::write(self.path(name), content).with_context(|| format!("cannot write {name}"))?;
        say(&format!("\x1b[36m$ cat {name}\x1b[0m\n{}", content.trim_end()))
    }

    /// Path of a file of the session.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs a command that must succeed.
    pub async fn succeeds(&self, line: &str) -> Result<Output> {
        let output = self.shown(line).await?;
        ensure!(
            output.status.success(),
            "not as told: `{line}` failed ({})",
            output.status
        );
        Ok(output)
    }

    /// Runs a command that must be refused.
    pub async fn is_refused(&self, line: &str) -> Result<Output> {
        let output = self.shown(line).await?;
        ensure!(!output.status.success(), "not as told: `{line}` succeeded");
        Ok(output)
    }

    /// Repeats a command without showing it until it prints what is expected, then shows it once.
    pub async fn until_prints(&self, line: &str, expected: &str) -> Result<()> {
        eventually(line, DEADLINE, async || {
            let output = self.quiet(line).await?;
            let printed = output.stdout.trim();
            ensure!(printed == expected, "it prints {printed:?}, not {expected:?}");
            Ok(())
        })
        .await?;
        self.succeeds(line).await?;
        Ok(())
    }

    async fn shown(&self, line: &str) -> Result<Output> {
        say(&format!("\x1b[36m$ {line}\x1b[0m"))?;
        let output = self.quiet(line).await?;
        let printed = format!("{}{}", output.stderr, output.stdout);
        if !printed.trim().is_empty() {
            say(printed.trim_end())?;
        }
        Ok(output)
    }

    async fn quiet(&self, line: &str) -> Result<Output> {
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
    say(&format!("  {text}"))
}

/// Asserts that an output says something.
pub fn says(output: &Output, words: &str) -> Result<()> {
    let printed = format!("{}{}", output.stderr, output.stdout);
    ensure!(
        printed.contains(words),
        "not as told: {words:?} is missing in what `{}` printed",
        output.command
    );
    Ok(())
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
