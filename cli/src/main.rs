//! `kubectl-helmop`: the plugin that kubectl runs for `kubectl helmop`.

use std::process::ExitCode;

fn main() -> ExitCode {
    helmops_cli::main()
}
