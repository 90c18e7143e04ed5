//! `helmops-receiver`: the process.

use std::{num::NonZeroUsize, process::ExitCode};

use clap::Parser;
use helmops_process::run_process_on;
use helmops_receiver::{Args, run};

/// A request is a digest of at most 1 MiB and a small object. Two threads serve thousands in a second.
const THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

fn main() -> ExitCode {
    let args = Args::parse();
    run_process_on(THREADS, run(args))
}
