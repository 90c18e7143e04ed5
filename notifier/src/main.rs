//! The program `helmops-notifier`.

use std::process::ExitCode;

use clap::Parser;
use helmops_notifier::{Args, run};
use helmops_process::run_process;

fn main() -> ExitCode {
    let args = Args::parse();
    run_process(run(args))
}
