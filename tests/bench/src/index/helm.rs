//! Helm's own loader, in a program built from `tests/truth`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The program that loads an index with Helm's package.
#[derive(Debug)]
pub struct Loader {
    program: PathBuf,
}

impl Loader {
    /// Builds it into a folder. Go caches compiled packages, so this takes minutes once and a second afterwards.
    ///
    /// # Errors
    /// If Go is missing or fails; its messages go to stderr.
    pub fn build(folder: &Path) -> Result<Self> {
        let program = folder.join("load-index");
        let status = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg("./cmd/load-index")
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../truth"))
            .status()
            .context("cannot run go, which builds Helm's loader")?;
        ensure!(status.success(), "go build of Helm's loader failed ({status})");
        Ok(Self { program })
    }

    /// A command that loads an index once.
    pub fn command(&self, file: &Path, chart: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(file).arg(chart);
        command
    }
}
