//! Servers to measure: any program that serves the two webhooks over HTTPS.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use super::client::Target;
use super::corpus::Sample;
use super::load::{Endpoint, Streams, Webhook};
use helmops_bed::private_ca::PrivateCa;
use helmops_bed::process::Process;

/// Well above the startup time of any server that is worth measuring.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// A fiftieth of a quick startup, for a sufficient resolution.
const RETRY_INTERVAL: Duration = Duration::from_micros(200);

/// A server program and the paths of its webhooks.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name in tables.
    pub name: String,
    /// Its command, with placeholders: `{port}` and `{admin}` stand for free ports of 127.0.0.1, `{cert}` and `{key}`
    /// for PEM files, `{certs}` for their folder, with `tls.crt` and `tls.key`.
    pub command: Vec<String>,
    /// Path of the validating webhook.
    pub validate: String,
    /// Path of the mutating webhook.
    pub mutate: String,
}

impl Program {
    pub fn path(&self, webhook: Webhook) -> &str {
        match webhook {
            Webhook::Validate => &self.validate,
            Webhook::Mutate => &self.mutate,
        }
    }
}

/// Certificates and logs during a measurement.
#[derive(Debug)]
pub struct Workspace {
    folder: TempDir,
    ca: String,
}

impl Workspace {
    /// A new folder with a new certificate.
    pub fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("helmops-bench-")?;
        let ca = PrivateCa::new("helmops bench")?;
        let issued = ca.issue(&["127.0.0.1"])?;
        let workspace = Self {
            folder,
            ca: ca.pem().to_owned(),
        };
        std::fs::write(workspace.file("tls.crt"), issued.certificate)?;
        std::fs::write(workspace.file("tls.key"), issued.key)?;
        Ok(workspace)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &Program, [port, admin]: [u16; 2]) -> Command {
        let placeholders = [
            ("{port}", port.to_string()),
            ("{admin}", admin.to_string()),
            ("{cert}", self.file("tls.crt").display().to_string()),
            ("{key}", self.file("tls.key").display().to_string()),
            ("{certs}", self.folder.path().display().to_string()),
        ];
        let mut words = program.command.iter().map(|word| fill(word, &placeholders));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }
}

fn fill(word: &str, placeholders: &[(&str, String)]) -> String {
    placeholders
        .iter()
        .fold(word.to_owned(), |word, (placeholder, value)| {
            word.replace(placeholder, value)
        })
}

/// A server that is started and sends the expected responses.
#[derive(Debug)]
pub struct Server {
    pub process: Process,
    /// Its address.
    pub target: Target,
}

impl Server {
    /// Starts a server. The time is from just before its process is created to the first expected response.
    pub async fn start(
        program: &Program,
        workspace: &Workspace,
        corpus: &Arc<[Sample]>,
    ) -> Result<(Self, Duration)> {
        let has_port = program.command.iter().any(|word| word.contains("{port}"));
        ensure!(
            has_port,
            "the command of {} lacks the placeholder {{port}}",
            program.name
        );
        let started = Cell::new(Instant::now());
        let (process, [port, _]) = Process::start_on_ports(
            &program.name,
            &workspace.file("log"),
            |ports| {
                let command = workspace.command(program, ports);
                started.set(Instant::now());
                command
            },
            async |[port, _]| {
                wait_for_first_response(&Target::new(port, &workspace.ca)?, program, corpus).await
            },
        )
        .await?;
        let took = started.get().elapsed();
        Ok((
            Self {
                process,
                target: Target::new(port, &workspace.ca)?,
            },
            took,
        ))
    }
}

async fn wait_for_first_response(target: &Target, program: &Program, corpus: &Arc<[Sample]>) -> Result<()> {
    let started = Instant::now();
    loop {
        let Err(reason) = send_one_request(target, program, corpus).await else {
            return Ok(());
        };
        if started.elapsed() > START_DEADLINE {
            return Err(reason.context(format!("no expected response within {START_DEADLINE:?}")));
        }
        // Timers of the runtime have a resolution of a millisecond, too coarse for this; no other task is waiting.
        std::thread::sleep(RETRY_INTERVAL);
        tokio::task::yield_now().await;
    }
}

async fn send_one_request(target: &Target, program: &Program, corpus: &Arc<[Sample]>) -> Result<()> {
    let webhook = Webhook::Validate;
    let endpoint = Endpoint::new(target, program.path(webhook), webhook, corpus)?;
    let result = Streams::open(target, endpoint, 1).await?.drive(1).await?;
    result
        .first_error
        .map_or(Ok(()), |error| Err(error).context("a wrong response"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        let workspace = Workspace::new().unwrap();
        let words = "server --listen=127.0.0.1:{port} --admin {admin} --dir {certs} {cert} {key} {other}";
        let program = Program {
            name: "it".to_owned(),
            command: words.split(' ').map(str::to_owned).collect(),
            validate: "/v".to_owned(),
            mutate: "/m".to_owned(),
        };
        let command = workspace.command(&program, [1234, 5678]);
        let words: Vec<_> = command
            .as_std()
            .get_args()
            .map(|word| word.to_str().unwrap())
            .collect();
        let folder = workspace.folder.path().to_str().unwrap();
        let (cert, key) = (format!("{folder}/tls.crt"), format!("{folder}/tls.key"));
        let expected = [
            "--listen=127.0.0.1:1234",
            "--admin",
            "5678",
            "--dir",
            folder,
            &cert,
            &key,
            "{other}",
        ];
        assert_eq!(command.as_std().get_program(), "server");
        assert_eq!(words, expected);
        assert!(
            std::fs::read_to_string(cert)
                .unwrap()
                .starts_with("-----BEGIN CERTIFICATE-----")
        );
        assert!(std::fs::read_to_string(key).unwrap().contains("PRIVATE KEY-----"));
    }

    #[tokio::test]
    async fn a_command_without_a_port_is_rejected() {
        let workspace = Workspace::new().unwrap();
        let program = Program {
            name: "it".to_owned(),
            command: vec!["true".to_owned()],
            validate: "/v".to_owned(),
            mutate: "/m".to_owned(),
        };
        let corpus = crate::corpus::corpus().unwrap();
        let error = Server::start(&program, &workspace, &corpus).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the command of it lacks the placeholder {port}"
        );
    }
}
