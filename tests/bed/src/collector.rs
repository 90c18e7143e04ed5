//! The receiver of the OpenTelemetry Collector, and the spans that it has received.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::process::Process;
use crate::test_bed::TestBed;
use crate::tools;
use crate::wait::eventually;

/// It starts within a second; a busy machine takes longer.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// A running collector. It ends when it is dropped.
#[derive(Debug)]
pub struct Collector {
    /// The base URL for `--otlp-endpoint`.
    pub endpoint: String,
    file: PathBuf,
    _process: Process,
    _folder: TempDir,
}

/// A span as the collector has received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The process: `service.name`.
    pub service: String,
    /// What was done.
    pub name: String,
    pub trace: String,
    pub id: String,
    /// The span that caused it; empty for the root.
    pub parent: String,
    /// When it started and ended, in nanoseconds since 1970.
    pub times: (u64, u64),
    /// Its attributes, as `NAME=VALUE`.
    pub attributes: Vec<String>,
    /// The error, if it failed.
    pub error: Option<String>,
}

impl Collector {
    /// Starts a collector that ends with the control plane.
    pub async fn start(bed: &TestBed) -> Result<Self> {
        let program = tools::collector().await?;
        let folder = TempDir::with_prefix_in("collector-", &bed.directory)?;
        let file = folder.path().join("traces.jsonl");
        let (process, [port]) = Process::start_on_ports(
            "otlp-collector",
            &folder.path().join("log"),
            |[port]| {
                let mut command = bed.command(&program);
                command
                    .arg(format!("--address=127.0.0.1:{port}"))
                    .arg("--file")
                    .arg(&file);
                command
            },
            async |[port]| {
                eventually("the collector", READY_DEADLINE, async || {
                    TcpStream::connect(("127.0.0.1", port)).await?;
                    Ok(())
                })
                .await
            },
        )
        .await?;
        Ok(Self {
            endpoint: format!("http://127.0.0.1:{port}"),
            file,
            _process: process,
            _folder: folder,
        })
    }

    /// All spans that were received so far, in the order of their arrival.
    pub fn spans(&self) -> Result<Vec<Span>> {
        let text = std::fs::read_to_string(&self.file)?;
        // The last line may not be complete.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut spans = Vec::new();
        for line in complete.lines() {
            let batch: Batch = serde_json::from_str(line)?;
            for group in batch.resource_spans {
                let service = group
                    .resource
                    .attributes
                    .iter()
                    .find(|one| one.key == "service.name");
                let service = service.map(Attribute::text).unwrap_or_default();
                let received = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
                spans.extend(received.map(|span| span.of(&service)));
            }
        }
        Ok(spans)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    spans: Vec<Received>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Received {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    name: String,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    #[serde(default)]
    attributes: Vec<Attribute>,
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u8,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    value: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    string_value: String,
}

impl Attribute {
    fn text(&self) -> String {
        self.value.string_value.clone()
    }
}

impl Received {
    fn of(self, service: &str) -> Span {
        let time = |text: &str| text.parse().unwrap_or_default();
        let attributes = self.attributes.iter();
        Span {
            service: service.to_owned(),
            trace: self.trace_id,
            id: self.span_id,
            parent: self.parent_span_id,
            times: (time(&self.start_time_unix_nano), time(&self.end_time_unix_nano)),
            attributes: attributes
                .map(|one| format!("{}={}", one.key, one.text()))
                .collect(),
            error: (self.status.code == 2).then_some(self.status.message),
            name: self.name,
        }
    }
}
