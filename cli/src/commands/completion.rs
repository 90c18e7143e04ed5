//! `completion` and the man pages: what other programs learn of the command line.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{arguments::Arguments, failure::Failure, terminal::Console};

/// The arguments of `completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Bash, for this shell
  source <(kubectl helmop completion bash)

  # Zsh, for all shells
  kubectl helmop completion zsh > \"${fpath[1]}/_kubectl-helmop\"")]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the completion script.
pub fn run(args: &CompletionArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Arguments::command(),
        "kubectl-helmop",
        &mut script,
    );
    Ok(console.out.write_all(&script)?)
}

/// The arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Writes one page for each command.
pub fn write_man_pages(args: &ManArgs) -> Result<(), Failure> {
    let attempt = format!("cannot write the man pages to {}", args.directory.display());
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), &args.directory));
    written.map_err(|error| Failure::because(attempt, &error))
}
