//! Programs that run to their end: kubectl, Helm and promtool.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The result of a program.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command line, for messages.
    pub command: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// The output of a program that succeeded and printed these warnings.
    pub(crate) fn succeeded(command: String, stderr: String) -> Self {
        Self {
            command,
            status: ExitStatus::default(),
            stdout: String::new(),
            stderr,
        }
    }

    /// The standard output of a program that succeeded.
    ///
    /// # Errors
    /// With the command line and its standard error if it failed.
    pub fn ok(self) -> Result<String> {
        if !self.status.success() {
            bail!("{} ({}): {}", self.command, self.status, self.stderr.trim());
        }
        Ok(self.stdout)
    }
}

/// Runs `command` to its end, with `stdin` as its input; a program still running at the deadline is killed.
pub async fn run(mut command: Command, stdin: &str, deadline: Duration) -> Result<Output> {
    let line = command_line(&command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {line}"))?;
    let mut pipe = child.stdin.take().context("stdin is not piped")?;
    let feed = async move {
        // A program may end before it reads all input; its exit status shows whether that is an error.
        let _ = pipe.write_all(stdin.as_bytes()).await;
    };
    let (output, ()) = timeout(deadline, async { tokio::join!(child.wait_with_output(), feed) })
        .await
        .with_context(|| format!("{line} did not end within {deadline:?}"))?;
    let output = output.with_context(|| format!("cannot read from {line}"))?;
    Ok(Output {
        command: line,
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn command_line(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn stdin_is_passed_and_stdout_is_captured() {
        let long = "x".repeat(1 << 20);
        let output = run(shell("cat"), &long, Duration::from_secs(10)).await.unwrap();
        assert_eq!(output.ok().unwrap().len(), long.len());
    }

    #[tokio::test]
    async fn a_failure_contains_the_command_and_its_stderr() {
        let output = run(shell("echo no >&2; exit 3"), "", Duration::from_secs(10))
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            output.ok().unwrap_err().to_string(),
            "sh -c echo no >&2; exit 3 (exit status: 3): no"
        );
    }

    #[tokio::test]
    async fn a_hanging_program_is_killed_at_the_deadline() {
        let error = run(shell("exec sleep 60"), "", Duration::from_millis(50))
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "sh -c exec sleep 60 did not end within 50ms");
    }
}
