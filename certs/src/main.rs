//! `helmops-certs`: issue the webhook's serving certificate without cert-manager.

mod command;
mod output;

use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser;
use helmops_certs::causes::with_causes;

use crate::command::{Cli, run};

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    match run(&command, SystemTime::now(), &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}
