//! The cost and the result of one reading of an index.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// One line of JSON, which both readers print.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// CPU time of all threads, in seconds.
    #[serde(rename = "cpu_seconds_per_run")]
    pub cpu: f64,
    /// Time, in seconds.
    #[serde(rename = "wall_seconds_per_run")]
    pub wall: f64,
    /// Peak resident memory, in bytes.
    #[serde(rename = "peak_rss_bytes")]
    pub peak: u64,
    /// Number of versions of the chart.
    pub versions: usize,
    /// The version that an empty request selects.
    pub latest: String,
}

impl Reading {
    /// Runs a reader to its end.
    ///
    /// # Errors
    /// If it fails, or prints something else; its messages go to stderr.
    pub fn of(mut reader: Command) -> Result<Self> {
        let output = reader
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {reader:?}"))?;
        ensure!(output.status.success(), "{reader:?} failed ({})", output.status);
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{reader:?} printed {}", String::from_utf8_lossy(&output.stdout)))
    }
}
