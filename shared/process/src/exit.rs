//! From a result to the exit code of the process.

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;

use tracing::dispatcher;

/// Runs `main` on a multi-threaded runtime and returns the exit code: 0 for a clean end, 1 for an error.
///
/// Unlike `#[tokio::main]` it does not wait for blocking work that is still in progress when `main` has
/// returned: such work would keep the process alive until the kubelet kills it.
pub fn run_process<E: Into<Box<dyn Error + Send + Sync>>>(
    main: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    run_on(&mut tokio::runtime::Builder::new_multi_thread(), main)
}

/// As [`run_process`], on at most `threads` threads. So the memory that threads need for their work does not depend on the
/// size of the node.
pub fn run_process_on<E: Into<Box<dyn Error + Send + Sync>>>(
    threads: NonZeroUsize,
    main: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    run_on(
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads.min(cores).get()),
        main,
    )
}

fn run_on<E: Into<Box<dyn Error + Send + Sync>>>(
    builder: &mut tokio::runtime::Builder,
    main: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit(Err(error)),
    };
    let result = runtime.block_on(main);
    runtime.shutdown_background();
    exit(result)
}

/// 0 for `Ok`, 1 for an error, which is logged with its causes (to stderr as text if logging is not set up).
pub fn exit<E: Into<Box<dyn Error + Send + Sync>>>(result: Result<(), E>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let text = with_causes(error.into().as_ref());
    if dispatcher::has_been_set() {
        tracing::error!("exiting: {text}");
    } else {
        eprintln!("error: {text}");
    }
    ExitCode::FAILURE
}

/// The error and its causes in one line, outermost first. A cause whose text its parent already contains
/// (some libraries print their source) is not repeated.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !last.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        last = cause_text;
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[derive(Debug, thiserror::Error)]
    enum Chain {
        #[error("cannot start")]
        Outer(#[source] Box<Chain>),
        #[error("cannot bind: in use (port 1)")]
        Repeating(#[source] Box<Chain>),
        #[error("in use")]
        Inner,
    }

    #[test]
    fn causes_follow_in_order_and_none_is_repeated() {
        let error = Chain::Outer(Box::new(Chain::Repeating(Box::new(Chain::Inner))));
        assert_eq!(with_causes(&error), "cannot start: cannot bind: in use (port 1)");
    }

    #[test]
    fn a_result_becomes_an_exit_code() {
        assert_eq!(
            format!("{:?}", exit::<Chain>(Ok(()))),
            format!("{:?}", ExitCode::SUCCESS)
        );
        assert_eq!(
            format!("{:?}", exit(Err(Chain::Inner))),
            format!("{:?}", ExitCode::FAILURE)
        );
    }

    #[test]
    fn blocking_work_does_not_keep_the_process_alive() {
        let start = Instant::now();
        let (_keep, blocker) = std::sync::mpsc::channel::<()>();
        let code = run_process(async move {
            // Ends only when `_keep` is dropped, after the process would have ended.
            drop(tokio::task::spawn_blocking(move || {
                blocker.recv_timeout(Duration::from_mins(1))
            }));
            tokio::task::yield_now().await;
            Ok::<(), Chain>(())
        });
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
