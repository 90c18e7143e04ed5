//! The results of charts, a line of JSON each, so that a run can be continued.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::compare::Difference;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChartResult {
    /// The name of the archive.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Why the chart was not compared to the end.
    pub broken: Option<String>,
    /// The steps that were compared.
    pub steps: Vec<StepResult>,
    pub has_random_values: bool,
}

/// The result of one step: `install`, `upgrade` or `remove`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepResult {
    pub name: String,
    pub helm_error: Option<String>,
    pub helmops_error: Option<String>,
    /// Seconds that Helm ran.
    pub helm_seconds: f64,
    /// CPU seconds of Helm.
    pub helm_cpu: f64,
    /// Seconds until the deployment ended.
    pub helmops_seconds: f64,
    /// CPU seconds of all processes of helmops; only if one chart runs at a time.
    pub helmops_cpu: Option<f64>,
    /// Objects that were compared.
    pub objects: usize,
    /// Why the HelmOp is not ready, if the workloads are not ready on Helm's side either, or are of a kind that it does not look at.
    pub not_ready: Option<String>,
    pub differences: Vec<Difference>,
}

/// The file with the results.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
}

impl Results {
    /// The results in a file.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Those that are in the file; of several of one archive the last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> Result<HashMap<(String, u64), ChartResult>> {
        let file = match std::fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        };
        let mut results = HashMap::new();
        for line in BufReader::new(file).lines() {
            // The last line is incomplete if the program was killed.
            if let Ok(result) = serde_json::from_str::<ChartResult>(&line?) {
                results.insert((result.file.clone(), result.bytes), result);
            }
        }
        Ok(results)
    }

    /// Adds a result.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&self, result: &ChartResult) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let line = format!("{}\n", serde_json::to_string(result)?);
        file.write_all(line.as_bytes())
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_again_without_an_incomplete_line() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::new(&folder.path().join("results"));
        assert!(results.read().unwrap().is_empty());
        let result = ChartResult {
            file: "a.tgz".to_owned(),
            bytes: 3,
            ..ChartResult::default()
        };
        results.add(&result).unwrap();
        OpenOptions::new()
            .append(true)
            .open(&results.path)
            .unwrap()
            .write_all(b"{\"file\":")
            .unwrap();
        assert_eq!(results.read().unwrap().len(), 1);
    }
}
