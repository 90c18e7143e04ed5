//! `helmops-webhook`: the process.

use std::process::ExitCode;

use clap::Parser;
use helmops_shared::runtime::run_process;
use helmops_webhook::{Args, run};

fn main() -> ExitCode {
    let args = Args::parse();
    run_process(run(args))
}
