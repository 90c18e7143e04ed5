//! A chart as Helm deploys it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use helmops_bed::command;
use helmops_bed::tools::Tools;
use serde_json::Value;
use tokio::process::Command;

use crate::object::documents;

/// Longer than Helm waits for a hook.
const DEADLINE: Duration = Duration::from_mins(6);

/// Runs the program in its arguments, and prints the CPU time of it (the second line) after its output.
const TIMED: &str = "\"$0\" \"$@\"; code=$?; times; exit $code";

/// The end of a run of Helm.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its error, if it failed.
    pub error: Option<String>,
    pub elapsed: Duration,
    /// Its CPU time.
    pub cpu: Duration,
}

/// Helm for one release.
#[derive(Clone, Copy, Debug)]
pub struct Helm<'r> {
    pub tools: &'r Tools,
    /// The credentials for the control plane.
    pub kubeconfig: &'r Path,
    /// The archive of the chart.
    pub archive: &'r Path,
    /// The name of the release, and of its namespace.
    pub release: &'r str,
}

impl Helm<'_> {
    /// Renders the chart with these values, without the cluster.
    ///
    /// # Errors
    /// If Helm cannot render it.
    pub async fn render(&self, values: &Path) -> Result<Vec<Value>> {
        let mut command = Command::new(self.tools.helm());
        command.arg("template").arg(self.release).arg(self.archive);
        command
            .args(["--namespace", self.release, "--include-crds", "--values"])
            .arg(values);
        Ok(documents(&command::run(command, "", DEADLINE).await?.ok()?))
    }

    /// `helm install`, as users run it.
    ///
    /// # Errors
    /// If Helm cannot be run.
    pub async fn install(&self, values: &Path) -> Result<Ended> {
        self.run("install", &["--create-namespace"], Some(values)).await
    }

    /// `helm upgrade`.
    ///
    /// # Errors
    /// If Helm cannot be run.
    pub async fn upgrade(&self, values: &Path) -> Result<Ended> {
        self.run("upgrade", &[], Some(values)).await
    }

    /// `helm uninstall`.
    ///
    /// # Errors
    /// If Helm cannot be run.
    pub async fn uninstall(&self) -> Result<Ended> {
        self.run("uninstall", &[], None).await
    }

    async fn run(&self, action: &str, more: &[&str], values: Option<&Path>) -> Result<Ended> {
        let mut command = Command::new("sh");
        command
            .args(["-c", TIMED])
            .arg(self.tools.helm())
            .args([action, self.release]);
        if let Some(values) = values {
            command.arg(self.archive).arg("--values").arg(values);
        }
        command
            .args(["--namespace", self.release, "--kubeconfig"])
            .arg(self.kubeconfig)
            .args(more);
        let start = Instant::now();
        let output = command::run(command, "", DEADLINE).await?;
        let elapsed = start.elapsed();
        let error = (!output.status.success()).then(|| message(&output.stderr));
        Ok(Ended {
            error,
            elapsed,
            cpu: cpu(&output.stdout).context("the shell printed no times")?,
        })
    }
}

/// The error that Helm prints, without warnings.
fn message(stderr: &str) -> String {
    let start = stderr.find("Error: ").map_or(0, |at| at + "Error: ".len());
    let message = stderr.get(start..).unwrap_or(stderr).trim();
    let prefixes = ["INSTALLATION FAILED: ", "UPGRADE FAILED: "];
    let stripped = prefixes.iter().find_map(|prefix| message.strip_prefix(prefix));
    stripped.unwrap_or(message).to_owned()
}

/// The times of children in what the shell prints, such as `0m0.25s 0m0.03s`, its last line.
fn cpu(stdout: &str) -> Option<Duration> {
    let line = stdout.trim_end().lines().last()?;
    let mut sum = 0.0;
    for time in line.split_whitespace() {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        sum += minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?;
    }
    Duration::try_from_secs_f64(sum).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_shell_are_added() {
        let stdout = "NOTES\n0m0.00s 0m0.00s\n1m0.25s 0m0.50s\n";
        assert_eq!(cpu(stdout), Some(Duration::from_millis(60_750)));
        assert_eq!(cpu("NOTES"), None);
    }

    #[test]
    fn the_error_has_no_prefix_of_helm() {
        let stderr = "level=WARN msg=\"x\"\nError: INSTALLATION FAILED: no value\n";
        assert_eq!(message(stderr), "no value");
    }
}
