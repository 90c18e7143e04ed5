//! `helmops-agent`: the process, and the post-renderer that Helm runs.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use helmops_agent::post_render::{self, PostRenderArgs};

/// The agent of a cluster.
#[derive(Parser)]
#[command(version, about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Change the objects of a chart from standard input to standard output; Helm runs it
    PostRender(PostRenderArgs),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::PostRender(args) => post_render::run(&args),
    }
}
