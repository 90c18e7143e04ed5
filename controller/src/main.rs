//! The program `helmops-controller`.

use std::process::ExitCode;

use clap::Parser;
use helmops_controller::{Args, run};
use helmops_process::run_process;

fn main() -> ExitCode {
    let args = Args::parse();
    run_process(run(args))
}
