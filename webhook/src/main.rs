//! `helmops-webhook`: the process.

use std::{num::NonZeroUsize, process::ExitCode};

use clap::Parser;
use helmops_process::run_process_on;
use helmops_webhook::{Args, run};

/// Each thread decodes one review at a time. Four threads serve tens of thousands of reviews per second, and the memory for
/// what they decode concurrently fits into the limit of the manifest.
const THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

fn main() -> ExitCode {
    let args = Args::parse();
    run_process_on(THREADS, run(args))
}
