//! A real Prometheus, and its tool.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::probe;
use crate::process::Process;
use crate::tools::Monitoring;

/// It starts within a second; a busy machine takes longer.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// A Prometheus that scrapes some processes each second.
#[derive(Debug)]
pub struct Prometheus {
    url: String,
    client: Client,
    _process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one. `targets` are addresses by the names of their jobs.
    pub async fn start(tools: &Monitoring, targets: &BTreeMap<&str, String>) -> Result<Self> {
        let folder = TempDir::with_prefix("helmops-prometheus-")?;
        let scraped = targets.iter().map(|(job, address)| {
            json!({ "job_name": job, "honor_labels": true, "static_configs": [{ "targets": [address] }] })
        });
        let configuration = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s" },
            "scrape_configs": scraped.collect::<Vec<_>>(),
        });
        // JSON is YAML too.
        let config = folder.path().join("prometheus.yaml");
        std::fs::write(&config, configuration.to_string())?;
        let (program, data) = (tools.prometheus(), folder.path().join("data"));
        let client = probe::client(None)?;
        let (process, [port]) = Process::start_on_ports(
            "prometheus",
            &folder.path().join("log"),
            |[port]| {
                let mut command = Command::new(&program);
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

    /// What it answers now: each series and its value.
    ///
    /// # Errors
    /// Where it does not understand the question.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>> {
        let url = Url::parse_with_params(&format!("{}/api/v1/query", self.url), [("query", query)])?;
        let text = self.client.get(url).send().await?.text().await?;
        let mut answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(answer.get("status") == Some(&json!("success")), "{query}: {text}");
        let result = answer.pointer_mut("/data/result").map(Value::take);
        serde_json::from_value(result.with_context(|| text.clone())?).with_context(|| text.clone())
    }
}

/// What promtool says in a folder, when it is given something to read; nothing where it has nothing to say.
pub async fn promtool(
    tools: &Monitoring,
    folder: &Path,
    arguments: &[&str],
    input: &str,
) -> Result<(bool, String)> {
    let mut promtool = Command::new(tools.promtool())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = promtool.stdin.take().context("no standard input")?;
    stdin.write_all(input.as_bytes()).await?;
    drop(stdin);
    let output = promtool.wait_with_output().await?;
    let told = String::from_utf8([output.stdout, output.stderr].concat())?;
    Ok((output.status.success(), told))
}
