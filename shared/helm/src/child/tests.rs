use std::{future::Future, path::Path};

use tokio::fs;
use tokio_util::sync::CancellationToken;

use super::*;

const LIMITS: Limits = Limits {
    deadline: Duration::from_secs(20),
    grace: Duration::from_secs(20),
    stdout: 1000,
    stderr: 1000,
    memory: None,
};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

static ALWAYS: Leadership = Leadership::always();

fn ending(stop: &RunScope) -> Ending<'_> {
    Ending {
        child: Box::leak(Box::default()),
        stop,
        leadership: &ALWAYS,
        grace: LIMITS.grace,
        brief: Duration::ZERO,
    }
}

fn no_stop() -> RunScope {
    RunScope::of_agent(&CancellationToken::new(), "")
}

async fn output(script: &str, limits: Limits) -> Output {
    run(shell(script), b"", limits, ending(&no_stop())).await.unwrap()
}

/// Waits for something that takes milliseconds.
async fn eventually<F: Future<Output = bool>>(check: impl Fn() -> F) {
    for _ in 0..1000 {
        if check().await {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within 10 s");
}

async fn is_running(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).await.unwrap();
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).await;
    // A zombie has ended.
    status.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_child_gets_no_more_memory_than_its_limit() {
    let script = "sleep 0.2; x=$(head -c 100000000 /dev/zero | tr '\\0' a); echo ${#x}";
    let with = async |memory| output(script, Limits { memory, ..LIMITS }).await;
    assert_eq!(with(None).await.stdout, "100000000\n");
    let limited = with(Some(64 << 20)).await;
    assert_ne!(limited.end, End::Exited(0), "{limited:?}");
}

#[tokio::test]
async fn the_input_is_written_and_stays_open() {
    let input = "x".repeat(200_000);
    let script = shell("head -c 200000 | wc -c; timeout 0.2 cat; echo $?");
    let output = run(script, input.as_bytes(), LIMITS, ending(&no_stop()))
        .await
        .unwrap();
    let lines: Vec<_> = output.stdout.lines().map(str::trim).collect();
    assert_eq!((lines[0], output.end), ("200000", End::Exited(0)));
    // The time is over.
    assert_eq!(lines[1], "124");
}

#[tokio::test]
async fn the_start_of_a_long_error_is_kept_with_its_end() {
    let script = "echo 'fatal error: runtime: out of memory' >&2; head -c 5000 /dev/zero | tr '\\0' a >&2; echo end >&2";
    let stderr = output(script, LIMITS).await.stderr;
    assert!(
        stderr.starts_with("fatal error: runtime: out of memory\n"),
        "{stderr}"
    );
    assert!(stderr.ends_with("aend\n") && stderr.len() < 2000, "{stderr}");
}

#[tokio::test]
async fn outputs_and_the_exit_code_are_returned() {
    let output = output("echo out; echo err >&2; exit 3", LIMITS).await;
    let expected = Output {
        end: End::Exited(3),
        stdout: "out\n".to_owned(),
        stderr: "err\n".to_owned(),
    };
    assert_eq!(output, expected);
}

#[tokio::test]
async fn the_start_of_stdout_and_the_end_of_stderr_are_kept() {
    let output = output("seq 1 100000; seq 1 100000 >&2", LIMITS).await;
    assert_eq!(
        (output.stdout.len(), output.stderr.len()),
        (1000, START + 1 + 1000)
    );
    assert!(output.stdout.starts_with("1\n2\n") && output.stderr.ends_with("\n100000\n"));
}

#[tokio::test]
async fn a_missing_program_is_an_error() {
    let missing = Command::new("/does/not/exist");
    let error = run(missing, b"", LIMITS, ending(&no_stop())).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_child_that_is_killed_by_others_is_reported() {
    assert_eq!(output("kill -KILL $$", LIMITS).await.end, End::Killed(9));
}

#[tokio::test]
async fn the_deadline_ends_a_child_and_lets_it_clean_up() {
    let limits = Limits {
        deadline: Duration::from_millis(300),
        ..LIMITS
    };
    let script = "trap 'echo cleaned; exit 1' TERM; while :; do sleep 0.05; done";
    let output = output(script, limits).await;
    assert_eq!((output.end, &*output.stdout), (End::Deadline, "cleaned\n"));
}

#[tokio::test]
async fn a_child_that_completes_in_spite_of_the_signal_has_not_failed() {
    let limits = Limits {
        deadline: Duration::from_millis(300),
        ..LIMITS
    };
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    assert_eq!(output(script, limits).await.end, End::Exited(0));
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let limits = Limits {
        deadline: Duration::from_millis(300),
        grace: Duration::from_millis(300),
        ..LIMITS
    };
    // Its outputs are closed, so nothing else ends the child of the child.
    let script = format!(
        "trap '' TERM; exec >/dev/null 2>&1; sleep 60 & echo $! > {}; wait; sleep 60",
        pid.display()
    );
    assert_eq!(output(&script, limits).await.end, End::Deadline);
    eventually(async || !is_running(&pid).await).await;
}

#[tokio::test]
async fn a_child_of_the_child_that_holds_the_outputs_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("sleep 60 & echo $! > {}; echo done", pid.display());
    let output = output(&script, LIMITS).await;
    assert_eq!((output.end, &*output.stdout), (End::Exited(0), "done\n"));
    eventually(async || !is_running(&pid).await).await;
}

#[tokio::test]
async fn a_stop_ends_the_child() {
    let stop = no_stop();
    let running = run(shell("sleep 60"), b"", LIMITS, ending(&stop));
    let (output, ()) = tokio::join!(running, async {
        sleep(Duration::from_millis(100)).await;
        stop.agent.cancel();
    });
    assert_eq!(output.unwrap().end, End::Stopped);
}

#[tokio::test]
async fn a_dropped_run_kills_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("sleep 60 & echo $! > {}.new; mv {0}.new {0}; wait", pid.display());
    let stop = no_stop();
    tokio::select! {
        _ = run(shell(&script), b"", LIMITS, ending(&stop)) => panic!("it ended"),
        () = eventually(async || pid.exists()) => {}
    }
    eventually(async || !is_running(&pid).await).await;
}

#[tokio::test]
async fn standard_input_stays_open_and_ends_with_the_agent() {
    // `cat` ends when its input does: at the deadline it still runs.
    let limits = Limits {
        deadline: Duration::from_millis(300),
        ..LIMITS
    };
    assert_eq!(output("exec cat", limits).await.end, End::Deadline);
}

/// The rest of the lease is shorter than the time that a child has otherwise.
#[tokio::test]
async fn a_child_does_not_outlive_the_lease_of_its_agent() {
    let (sender, leadership) = Leadership::elected();
    let second = Duration::from_secs(1);
    sender.set(Some(Instant::now() + second));
    let stop = no_stop();
    let ending = Ending {
        child: &ChildProcess::default(),
        stop: &stop,
        leadership: &leadership,
        grace: second,
        brief: Duration::ZERO,
    };
    let start = Instant::now();
    let ended = run(
        shell("trap 'echo term' TERM; while :; do sleep 0.05; done"),
        b"",
        LIMITS,
        ending,
    );
    let ended = ended.await.unwrap();
    assert_eq!((ended.end, &*ended.stdout), (End::Stopped, "term\n"));
    let taken = start.elapsed();
    assert!((second * 2..second * 5).contains(&taken), "{taken:?}");

    // Leadership ends while the child records that the agent stops.
    sender.set(Some(Instant::now() + second));
    stop.agent.cancel();
    let start = Instant::now();
    let ended = run(
        shell("trap '' TERM; while :; do sleep 0.05; done"),
        b"",
        LIMITS,
        ending,
    );
    assert_eq!(ended.await.unwrap().end, End::Stopped);
    assert!(start.elapsed() < second * 5);
}
