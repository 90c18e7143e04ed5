//! The command while it runs.

use std::path::Path;

use anyhow::Context;
use helmops_bed::process::Process;
use helmops_bed::random;
use helmops_bed::test_bed::{TestBed, binary};
use helmops_bed::wait::eventually;

use crate::harness::SOON;

/// `kubectl helmop ui`.
pub struct Ui {
    pub process: Process,
    /// The address, such as `http://127.0.0.1:1234`.
    pub origin: String,
    /// The key in the link.
    pub key: String,
}

impl Ui {
    /// Starts the plugin with a kubeconfig and more arguments, and reads the link that it prints. kubectl replaces itself by the plugin,
    /// so that signals reach it.
    pub async fn start(bed: &TestBed, kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut command = bed.command(&binary("kubectl-helmop").unwrap());
        command
            .args(["ui", "--open=false"])
            .args(arguments)
            .env("KUBECONFIG", kubeconfig);
        let log = bed.directory.join(format!("ui-{}.log", random::word()));
        let process = Process::start("kubectl-helmop", command, &log).unwrap();
        let link = eventually("the link", SOON, async || {
            let log = process.log();
            let link = log.split_whitespace().find(|word| word.contains("/#key="));
            link.map(str::to_owned).context(log.clone())
        });
        let link = link.await.unwrap();
        let (origin, key) = link.split_once("/#key=").unwrap();
        Self {
            origin: origin.to_owned(),
            key: key.to_owned(),
            process,
        }
    }

    /// The link of a page, with the key.
    pub fn link(&self, path: &str) -> String {
        format!("{}{path}#key={}", self.origin, self.key)
    }
}
