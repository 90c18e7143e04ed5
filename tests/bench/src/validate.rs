//! Validating files: `kubectl helmop validate` of a folder, beside reading the same files only.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figures::median;

/// Files in each folder.
const PER_FOLDER: usize = 100;
/// The longest time that is acceptable for 10,000 files.
const LIMIT: f64 = 2.0;

/// The medians of some runs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Validating all files, from the start of the process to its end.
    pub validate: f64,
    /// Reading all files, in this process.
    pub read: f64,
    /// The size of all files, in bytes.
    pub bytes: u64,
}

/// Writes files with a HelmOp each, and a Policy for all of them.
pub fn write(folder: &Path, files: usize) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("policy.yaml"), POLICY)?;
    for number in 0..files {
        let folder = folder.join(format!("{:04}", number / PER_FOLDER));
        if number % PER_FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("{number:05}.yaml")), helmop(number))?;
    }
    Ok(())
}

const POLICY: &str = "\
apiVersion: fleet.cattle.io/v1alpha1
kind: Policy
metadata: {name: limits, namespace: fleet-default}
helmOp:
  allowedHelmRepoPatterns: ['https://charts\\.example\\.com/.*']
";

fn helmop(number: usize) -> String {
    format!(
        "# Generated.
apiVersion: fleet.cattle.io/v1alpha1
kind: HelmOp
metadata:
  name: app-{number:05}
  namespace: fleet-default
  labels: {{team: team-{team}}}
spec:
  helm:
    repo: https://charts.example.com/stable
    chart: web
    version: ^1.{minor}
    releaseName: app-{number:05}
    values:
      replicas: {minor}
      image: {{repository: registry.example.com/web, tag: \"{minor}.0\"}}
      ingress:
        host: app-{number}.${{ .ClusterLabels.domain }}
        tls: true
      resources:
        limits: {{cpu: 500m, memory: 256Mi}}
  pollingInterval: 15m
  rolloutStrategy: {{maxUnavailable: 25%}}
  targets:
  - name: production
    clusterSelector:
      matchExpressions:
      - {{key: env, operator: In, values: [production, staging]}}
    helm: {{version: 1.{minor}.x}}
  - name: others
    clusterSelector: {{}}
",
        team = number % 40,
        minor = number % 20,
    )
}

/// Measures both, some times in turn.
///
/// # Errors
/// If `program` does not find that all files are valid.
pub fn measure(program: &Path, folder: &Path, files: usize, repeat: usize) -> Result<Figures> {
    let (mut validate, mut reads, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..repeat {
        let started = Instant::now();
        bytes = read(folder)?;
        reads.push(started.elapsed());
        let started = Instant::now();
        let output = Command::new(program)
            .args(["validate", "-R", "-f"])
            .arg(folder)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        validate.push(started.elapsed());
        let text = String::from_utf8_lossy(&output.stdout);
        let expected = format!("{files} of {files} HelmOps valid");
        ensure!(output.status.success() && text.contains(&expected), "{text}");
    }
    let seconds = |all: &[Duration]| median(all.iter().map(Duration::as_secs_f64));
    Ok(Figures {
        validate: seconds(&validate),
        read: seconds(&reads),
        bytes,
    })
}

fn read(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            read(&entry.path())?
        } else {
            fs::read(entry.path())?.len() as u64
        };
    }
    Ok(bytes)
}

/// The figures in words.
pub fn report(figures: Figures, files: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "files are smaller than 2^53 bytes")]
    let megabytes = figures.bytes as f64 / 1e6;
    format!(
        "{files} files, {megabytes:.1} MB: validated in {:.0} ms, read alone in {:.0} ms (ratio {:.1})",
        figures.validate * 1e3,
        figures.read * 1e3,
        figures.validate / figures.read
    )
}

/// The limit, if it is not met.
pub fn shortfall(figures: Figures, files: usize) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "files are counted in thousands")]
    let limit = LIMIT * files as f64 / 10_000.0;
    (figures.validate > limit).then(|| {
        format!(
            "{files} files take {:.1} s; {limit:.1} s are allowed",
            figures.validate
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_both_times_and_a_limit() {
        let figures = Figures {
            validate: 0.5,
            read: 0.1,
            bytes: 8_000_000,
        };
        assert_eq!(
            report(figures, 10_000),
            "10000 files, 8.0 MB: validated in 500 ms, read alone in 100 ms (ratio 5.0)"
        );
        assert_eq!(shortfall(figures, 10_000), None);
        let shortfall = shortfall(figures, 1_000).unwrap();
        assert_eq!(shortfall, "1000 files take 0.5 s; 0.2 s are allowed");
    }
}
