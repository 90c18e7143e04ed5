//! `helmops-agent`: the process, and the post-renderer that Helm runs.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use helmops_agent::{
    RunArgs,
    post_render::{self, PostRenderArgs},
    run,
};
use helmops_process::run_process;

/// Agent of a cluster: keeps the Helm releases that the BundleDeployments of the cluster describe
///
/// Every flag can also be set through an environment variable.
#[derive(Debug, Parser)]
#[command(name = "helmops-agent", version = helmops_process::version(), args_override_self = true)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Change the objects of a chart from standard input to standard output; Helm runs it
    #[command(hide = true)]
    PostRender(PostRenderArgs),
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Some(Command::PostRender(args)) => post_render::run(&args),
        None => run_process(run(args.run)),
    }
}
