//! `completion` and the man pages: what other programs learn of the command line.

use std::path::PathBuf;

use clap::{Command, ValueEnum};
use clap_complete::Shell;

use crate::{failure::Failure, terminal::Console};

/// The name of the program.
const PROGRAM: &str = "kubectl-helmop";
/// The program as the name of a function in bash. The generator replaces a hyphen in two different ways, so its script must not have one.
const FUNCTION: &str = "kubectl_helmop";
/// What kubectl runs for the words after `kubectl helmop`.
const FOR_KUBECTL: &str = include_str!("kubectl_complete-helmop");

/// The arguments of `completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Bash, for kubectl-helmop in this shell
  source <(kubectl helmop completion bash)

  # Zsh, for kubectl-helmop in all shells
  kubectl helmop completion zsh > \"${fpath[1]}/_kubectl-helmop\"

  # For kubectl helmop, in all shells that complete kubectl: a program in a folder of $PATH (needs bash)
  kubectl helmop completion kubectl > ~/.local/bin/kubectl_complete-helmop
  chmod +x ~/.local/bin/kubectl_complete-helmop")]
pub struct CompletionArgs {
    /// The shell, or kubectl
    #[arg(value_enum)]
    pub shell: Completed,
}

/// What completes words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Completed {
    /// Bash
    Bash,
    /// Elvish
    Elvish,
    /// Fish
    Fish,
    /// kubectl, for `kubectl helmop`
    Kubectl,
    /// PowerShell
    Powershell,
    /// Zsh
    Zsh,
}

/// Prints the completion script of a program.
pub fn run(args: &CompletionArgs, program: &mut Command, console: &mut Console<'_>) -> Result<(), Failure> {
    let script = match args.shell {
        Completed::Bash => bash(program),
        Completed::Elvish => generated(Shell::Elvish, program, PROGRAM),
        Completed::Fish => generated(Shell::Fish, program, PROGRAM),
        Completed::Kubectl => FOR_KUBECTL.to_owned(),
        Completed::Powershell => generated(Shell::PowerShell, program, PROGRAM),
        Completed::Zsh => generated(Shell::Zsh, program, PROGRAM),
    };
    Ok(write!(console.out, "{script}")?)
}

fn generated(shell: Shell, program: &mut Command, name: &str) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, program, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The script for bash, generated for a name without a hyphen and registered for the program.
fn bash(program: &mut Command) -> String {
    let script = generated(Shell::Bash, program, FUNCTION);
    let end_of_registration = format!(" {FUNCTION}\n");
    let lines = script.split_inclusive('\n').map(|line| {
        if line.trim_start().starts_with("complete ") {
            line.replace(&end_of_registration, &format!(" {PROGRAM}\n"))
        } else {
            line.to_owned()
        }
    });
    lines.collect()
}

/// The arguments of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # For man kubectl-helmop and man kubectl-helmop-validate
  kubectl helmop man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

pub fn write_man_pages(args: &ManArgs, program: Command) -> Result<(), Failure> {
    let attempt = format!("cannot write the man pages to {}", args.directory.display());
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(program, &args.directory));
    written.map_err(|error| Failure::because(attempt, &error))
}
