//! The process: from arguments to an exit code.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::{
    arguments::{Arguments, Command},
    changes::{approve, poll, reconcile, rollback, rollout, suspend, wait},
    charts::{outdated, resolve, versions},
    check, clusters,
    commands::{completion, explain, export, logs, values, version},
    create, diff,
    failure::{Failure, UNABLE},
    state::{events, history, status, tree},
    terminal::{Console, style::Style},
    tokens, ui, validate,
};

/// Parses the arguments of the process, runs the command, and reports an error on standard error.
pub fn main() -> ExitCode {
    Console::of_process(|console| {
        let arguments = match Arguments::try_parse() {
            Ok(arguments) => arguments,
            Err(error) if error.use_stderr() => {
                // It quotes arguments. If standard error is closed, no report is possible.
                let _ = write!(console.err, "{}", error.render());
                return ExitCode::from(UNABLE);
            }
            // Help and version are texts of this program.
            Err(error) => error.exit(),
        };
        let result = run(arguments, console).and_then(|()| Ok(console.out.flush()?));
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                report(&failure, console);
                failure.exit_code()
            }
        }
    })
}

/// Runs one command.
///
/// # Errors
/// See [`Failure`]: its message and exit code are those of the command.
pub fn run(arguments: Arguments, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = &arguments.cluster;
    match arguments.command {
        Command::Create(args) => block_on(create::run(&args, cluster, console)),
        Command::Diff(args) => block_on(diff::run(&args, cluster, console)),
        Command::Values(args) => block_on(values::run(&args, cluster, console)),
        Command::Export(args) => block_on(export::run(&args, cluster, console)),
        Command::Validate(args) => validate::run(&args, cluster, console),
        Command::Resolve(args) => block_on(resolve::run(&args, cluster, console)),
        Command::Versions(args) => block_on(versions::run(&args, cluster, console)),
        Command::Outdated(args) => block_on(outdated::run(&args, cluster, console)),
        Command::Status(args) => block_on(status::run(&args, cluster, console)),
        Command::Tree(args) => block_on(tree::run(&args, cluster, console)),
        Command::History(args) => block_on(history::run(&args, cluster, console)),
        Command::Events(args) => block_on(events::run(&args, cluster, console)),
        Command::Explain(args) => explain::run(&args, console),
        Command::Cluster(args) => block_on(clusters::run(&args, cluster, console)),
        Command::Token(args) => block_on(tokens::run(&args, cluster, console)),
        Command::Check(args) => block_on(check::run(&args, cluster, console)),
        Command::Logs(args) => block_on(logs::run(&args, cluster, console)),
        Command::Reconcile(args) => block_on(reconcile::run(&args, cluster, console)),
        Command::Poll(args) => block_on(poll::run(&args, cluster, console)),
        Command::Suspend(args) => block_on(suspend::run(&args, true, cluster, console)),
        Command::Resume(args) => block_on(suspend::run(&args, false, cluster, console)),
        Command::Rollback(args) => block_on(rollback::run(&args, cluster, console)),
        Command::Rollout(args) => block_on(rollout::run(&args, cluster, console)),
        Command::Approve(args) => block_on(approve::run(&args, cluster, console)),
        Command::Wait(args) => block_on(wait::run(&args, cluster, console)),
        Command::Ui(args) => block_on(ui::run(&args, cluster, console)),
        Command::Version(args) => block_on(version::run(&args, cluster, console)),
        Command::Completion(args) => completion::run(&args, &mut Arguments::command(), console),
        Command::Man(args) => completion::write_man_pages(&args, Arguments::command()),
    }
}

/// Runs a command that sends requests. One thread is enough for one command, and starts in no time.
fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("cannot start", &error))?;
    let result = runtime.block_on(command);
    // A thread may still read a response that is not needed any more.
    runtime.shutdown_background();
    result
}

fn report(failure: &Failure, console: &mut Console<'_>) {
    if failure.is_broken_pipe() {
        return;
    }
    // What was printed before the failure comes first. If standard error is closed, no report is possible.
    let _ = console.out.flush();
    if failure.is_reported() {
        return;
    }
    let error = console.styles.paint(Style::Bad, "error:");
    let _ = writeln!(console.err, "{error} {}", failure.message);
    if !failure.hint.is_empty() {
        let _ = writeln!(console.err, "hint: {}", failure.hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::buffers::Buffers;

    #[test]
    fn a_failure_controls_no_terminal() {
        for has_colors in [false, true] {
            let mut buffers = Buffers::default();
            let failure = Failure::unable("chart \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}2J \u{202e}txt.exe")
                .with_hint("see \u{1b}[8mhidden\u{1b}[0m");
            report(&failure, &mut buffers.with_colors(has_colors));
            let expected = "error: chart ]0;title2J txt.exe\nhint: see hidden\n";
            let expected = if has_colors {
                expected.replacen("error:", "\u{1b}[31merror:\u{1b}[0m", 1)
            } else {
                expected.to_owned()
            };
            assert_eq!(buffers.err(), expected);
        }
    }
}
