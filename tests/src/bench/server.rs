//! Servers to measure: any program that serves the two webhooks over HTTPS.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use super::client::{Protocol, Target};
use super::corpus::Sample;
use super::load::{Question, Streams, Webhook};
use crate::private_ca::PrivateCa;
use crate::process::Process;

/// Well above the start of anything that is worth measuring.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// A fiftieth of a quick start, so that a start is not told in steps.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// A server program, and where it serves what.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called in tables.
    pub name: String,
    /// Its command, with placeholders: `{port}` and `{admin}` stand for free ports of 127.0.0.1, `{cert}` and `{key}`
    /// for PEM files, `{certs}` for their folder, where they are `tls.crt` and `tls.key`.
    pub command: Vec<String>,
    /// Path of the validating webhook.
    pub validate: String,
    /// Path of the mutating webhook.
    pub mutate: String,
}

impl Program {
    /// Path of a webhook.
    pub fn path(&self, webhook: Webhook) -> &str {
        match webhook {
            Webhook::Validate => &self.validate,
            Webhook::Mutate => &self.mutate,
        }
    }
}

/// Certificates and logs, for as long as it is measured.
#[derive(Debug)]
pub struct Workshop {
    folder: TempDir,
    ca: String,
}

impl Workshop {
    /// A new folder with a new certificate.
    pub fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("helmops-bench-")?;
        let ca = PrivateCa::new("helmops bench")?;
        let issued = ca.issue(&["127.0.0.1"])?;
        let workshop = Self {
            folder,
            ca: ca.pem().to_owned(),
        };
        std::fs::write(workshop.file("tls.crt"), issued.certificate)?;
        std::fs::write(workshop.file("tls.key"), issued.key)?;
        Ok(workshop)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &Program, [port, admin]: [u16; 2]) -> Command {
        let places = [
            ("{port}", port.to_string()),
            ("{admin}", admin.to_string()),
            ("{cert}", self.file("tls.crt").display().to_string()),
            ("{key}", self.file("tls.key").display().to_string()),
            ("{certs}", self.folder.path().display().to_string()),
        ];
        let mut words = program.command.iter().map(|word| fill(word, &places));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }
}

fn fill(word: &str, places: &[(&str, String)]) -> String {
    places
        .iter()
        .fold(word.to_owned(), |word, (place, value)| word.replace(place, value))
}

/// A server that gives right answers.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Process,
    /// Where it is.
    pub target: Target,
}

impl Server {
    /// Starts a server. The time is from just before its process is made to the first right answer.
    pub async fn start(
        program: &Program,
        workshop: &Workshop,
        protocol: Protocol,
        corpus: &Arc<[Sample]>,
    ) -> Result<(Self, Duration)> {
        let asks_for_port = program.command.iter().any(|word| word.contains("{port}"));
        ensure!(
            asks_for_port,
            "the command of {} does not say where its {{port}} goes",
            program.name
        );
        let began = Cell::new(Instant::now());
        let (process, [port, _]) = Process::start_on_ports(
            &program.name,
            &workshop.file("log"),
            |ports| {
                let command = workshop.command(program, ports);
                began.set(Instant::now());
                command
            },
            async |[port, _]| {
                first_answer(&Target::new(port, protocol, &workshop.ca)?, program, corpus).await
            },
        )
        .await?;
        let took = began.get().elapsed();
        Ok((
            Self {
                process,
                target: Target::new(port, protocol, &workshop.ca)?,
            },
            took,
        ))
    }
}

async fn first_answer(target: &Target, program: &Program, corpus: &Arc<[Sample]>) -> Result<()> {
    let began = Instant::now();
    loop {
        let Err(reason) = ask_once(target, program, corpus).await else {
            return Ok(());
        };
        if began.elapsed() > START_DEADLINE {
            return Err(reason.context(format!("no right answer within {START_DEADLINE:?}")));
        }
        // Timers of the runtime tick once a millisecond, too coarse for this; nothing else is to be done meanwhile.
        std::thread::sleep(LOOK_AGAIN);
        tokio::task::yield_now().await;
    }
}

async fn ask_once(target: &Target, program: &Program, corpus: &Arc<[Sample]>) -> Result<()> {
    let webhook = Webhook::Validate;
    let question = Question::new(target, program.path(webhook), webhook, corpus)?;
    let outcome = Streams::open(target, question, 1).await?.drive(1).await?;
    outcome
        .first_wrong
        .map_or(Ok(()), |wrong| Err(wrong).context("a wrong answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        let workshop = Workshop::new().unwrap();
        let words = "server --listen=127.0.0.1:{port} --admin {admin} --dir {certs} {cert} {key} {other}";
        let program = Program {
            name: "it".to_owned(),
            command: words.split(' ').map(str::to_owned).collect(),
            validate: "/v".to_owned(),
            mutate: "/m".to_owned(),
        };
        let command = workshop.command(&program, [1234, 5678]);
        let words: Vec<_> = command
            .as_std()
            .get_args()
            .map(|word| word.to_str().unwrap())
            .collect();
        let folder = workshop.folder.path().to_str().unwrap();
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
    async fn a_command_without_a_port_is_refused() {
        let workshop = Workshop::new().unwrap();
        let program = Program {
            name: "it".to_owned(),
            command: vec!["true".to_owned()],
            validate: "/v".to_owned(),
            mutate: "/m".to_owned(),
        };
        let corpus = crate::bench::corpus::corpus().unwrap();
        let error = Server::start(&program, &workshop, Protocol::Http1, &corpus)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the command of it does not say where its {port} goes"
        );
    }
}
