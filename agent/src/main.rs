//! `helmops-agent`: the process, and the post-renderer that `helmops-helm` runs.

use std::process::ExitCode;

use clap::Parser;
use helmops_agent::{
    args::{Args, Command},
    post_render, run,
};
use helmops_process::run_process;

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Some(Command::PostRender) => post_render::run(),
        None => run_process(run(args.run)),
    }
}
