//! A real Prometheus server, and promtool.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::command::run;
use crate::probe;
use crate::process::Process;
use crate::test_bed::TestBed;
use crate::tools::Monitoring;

/// Prometheus starts within a second; a busy machine takes longer.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// The tests of all alerts take a second.
const PROMTOOL_DEADLINE: Duration = Duration::from_mins(1);

/// A Prometheus server that scrapes some processes every second.
#[derive(Debug)]
pub struct Prometheus {
    url: String,
    client: Client,
    _process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a server that ends with the control plane `bed`; its folder is removed with it. `targets` are addresses by job name.
    pub async fn start(bed: &TestBed, tools: &Monitoring, targets: &BTreeMap<&str, String>) -> Result<Self> {
        let folder = TempDir::with_prefix_in("prometheus-", &bed.directory)?;
        let scraped = targets.iter().map(|(job, address)| {
            json!({ "job_name": job, "honor_labels": true, "static_configs": [{ "targets": [address] }] })
        });
        let configuration = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s" },
            "scrape_configs": scraped.collect::<Vec<_>>(),
        });
        // JSON is valid YAML.
        let config = folder.path().join("prometheus.yaml");
        std::fs::write(&config, configuration.to_string())?;
        let (program, data) = (tools.prometheus(), folder.path().join("data"));
        let client = probe::client(None)?;
        let (process, [port]) = Process::start_on_ports(
            "prometheus",
            &folder.path().join("log"),
            |[port]| {
                let mut command = bed.command(&program);
                command
                    .arg(format!("--config.file={}", config.display()))
                    .arg(format!("--storage.tsdb.path={}", data.display()))
                    .arg(format!("--web.listen-address=127.0.0.1:{port}"));
                command
            },
            async |[port]| {
                probe::ready(
                    &client,
                    &format!("http://127.0.0.1:{port}/-/ready"),
                    READY_DEADLINE,
                )
                .await
            },
        )
        .await?;
        Ok(Self {
            url: format!("http://127.0.0.1:{port}"),
            client,
            _process: process,
            _folder: folder,
        })
    }

    /// Runs an instant query: each series of the result and its value.
    ///
    /// # Errors
    /// If the query is invalid.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>> {
        let url = Url::parse_with_params(&format!("{}/api/v1/query", self.url), [("query", query)])?;
        let text = self.client.get(url).send().await?.text().await?;
        let mut response: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(
            response.get("status") == Some(&json!("success")),
            "{query}: {text}"
        );
        let result = response.pointer_mut("/data/result").map(Value::take);
        serde_json::from_value(result.with_context(|| text.clone())?).with_context(|| text.clone())
    }
}

/// Runs promtool in a folder: whether it succeeded, and its output, which is empty if it finds no problem.
pub async fn promtool(
    tools: &Monitoring,
    folder: &Path,
    arguments: &[&str],
    input: &str,
) -> Result<(bool, String)> {
    let mut promtool = Command::new(tools.promtool());
    promtool.args(arguments).current_dir(folder);
    let output = run(promtool, input, PROMTOOL_DEADLINE).await?;
    Ok((output.status.success(), output.stdout + &output.stderr))
}
