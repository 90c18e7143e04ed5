//! The number of HelmOps, and their repository.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::index::layout;

/// The one chart of a tiny repository.
const TINY: &str = "\
apiVersion: v1
entries:
  web:
  - apiVersion: v2
    name: web
    urls: [web-0.2.0.tgz]
    version: 0.2.0
  - apiVersion: v2
    name: web
    urls: [web-0.1.0.tgz]
    version: 0.1.0
";

/// Entries of a large index: those of a large public repository, about 4 MB.
const LARGE: usize = 3600;

/// A repository and HelmOps that use it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub helmops: usize,
    /// Whether the repository has a large index.
    pub large: bool,
    pub polling: Option<&'static str>,
    /// How long to measure after all is done and the controller has been restarted.
    pub afterwards: Option<Duration>,
    /// Number of measurements. Of a few seconds, one alone differs by a quarter from the next.
    pub runs: usize,
}

impl Scenario {
    /// The measured scenarios.
    pub const ALL: [Self; 4] = [
        Self {
            helmops: 100,
            large: true,
            polling: None,
            afterwards: None,
            runs: 5,
        },
        Self {
            helmops: 100,
            large: true,
            polling: Some("30s"),
            afterwards: Some(Duration::from_mins(1)),
            runs: 1,
        },
        Self {
            helmops: 1000,
            large: false,
            polling: None,
            afterwards: None,
            runs: 5,
        },
        Self {
            helmops: 10_000,
            large: false,
            polling: None,
            afterwards: Some(Duration::from_mins(2)),
            runs: 1,
        },
    ];

    /// Writes the index, and returns the chart of the HelmOps.
    pub fn publish(self, folder: &Path) -> Result<&'static str> {
        let mut index = BufWriter::new(File::create(folder.join("index.yaml"))?);
        let chart = if self.large {
            layout::write(&mut index, LARGE)?;
            layout::CHART
        } else {
            index.write_all(TINY.as_bytes())?;
            "web"
        };
        index.flush()?;
        Ok(chart)
    }

    pub fn objects(self, repo: &str, chart: &str) -> Vec<Value> {
        let object = |number| {
            json!({
                "apiVersion": "fleet.cattle.io/v1alpha1",
                "kind": "HelmOp",
                "metadata": { "name": name(number) },
                "spec": {
                    "helm": { "repo": repo, "chart": chart, "version": ">=0.0.1" },
                    "targets": [{ "clusterSelector": {} }],
                    "pollingInterval": self.polling.unwrap_or("0s"),
                },
            })
        };
        (0..self.helmops).map(object).collect()
    }
}

/// Name of a HelmOp by its number.
pub fn name(number: usize) -> String {
    format!("helmop-{number}")
}
