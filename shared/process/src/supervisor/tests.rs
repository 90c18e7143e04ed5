use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::*;
use crate::signals::OsSignals;

/// Signals sent by the test.
struct FakeSignals(mpsc::UnboundedReceiver<&'static str>);

impl Signals for FakeSignals {
    async fn next(&mut self) -> &'static str {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

const SHUTDOWN: Shutdown = Shutdown {
    delay: Duration::from_secs(5),
    timeout: Duration::from_secs(25),
};

struct Fixture {
    supervisor: Supervisor,
    health: Health,
    signal: mpsc::UnboundedSender<&'static str>,
    signals: FakeSignals,
}

fn fixture() -> Fixture {
    let health = Health::default();
    let (signal, received) = mpsc::unbounded_channel();
    Fixture {
        supervisor: Supervisor::new(health.clone(), SHUTDOWN),
        health,
        signal,
        signals: FakeSignals(received),
    }
}

async fn sleep_seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_makes_the_process_unready_then_after_the_delay_tasks_are_stopped() {
    let Fixture {
        mut supervisor,
        health,
        signal,
        signals,
    } = fixture();
    let start = Instant::now();
    let (stop, was_unready) = (supervisor.stop_token(), Arc::new(AtomicBool::new(false)));
    let (task_health, at_stop) = (health.clone(), Arc::clone(&was_unready));
    supervisor.spawn("worker", async move {
        stop.cancelled().await;
        assert_eq!(
            start.elapsed().as_secs(),
            3 + 5,
            "the task is stopped after the delay, not before"
        );
        at_stop.store(!task_health.ready().ok(), Ordering::SeqCst);
        sleep_seconds(4).await;
    });
    assert!(!health.ready().ok(), "unready while the process starts");
    let sending = async {
        sleep_seconds(3).await;
        assert!(health.ready().ok());
        signal.send("SIGTERM").unwrap();
        sleep_seconds(1).await;
        assert!(!health.ready().ok(), "unready during the delay");
    };
    let (result, ()) = tokio::join!(supervisor.run(signals), sending);
    result.unwrap();
    assert!(was_unready.load(Ordering::SeqCst));
    assert_eq!(start.elapsed().as_secs(), 3 + 5 + 4);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_unexpectedly_is_an_error_and_stops_the_others() {
    let Fixture {
        mut supervisor,
        health,
        signals,
        ..
    } = fixture();
    let (stop, ended) = (supervisor.stop_token(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&ended);
    supervisor.spawn("other", async move {
        stop.cancelled().await;
        flag.store(true, Ordering::SeqCst);
    });
    supervisor.spawn("short", sleep_seconds(1));
    let error = supervisor.run(signals).await.unwrap_err();
    assert!(
        matches!(error, ProcessError::Ended { task: "short" }),
        "{error:?}"
    );
    assert!(ended.load(Ordering::SeqCst), "the others end cleanly");
    assert!(!health.ready().ok());
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_failed_task_has_its_reason() {
    let Fixture {
        mut supervisor,
        signals,
        ..
    } = fixture();
    supervisor.spawn("lease", async {
        Err::<(), _>(io::Error::other("no permission to update leases"))
    });
    let error = supervisor.run(signals).await.unwrap_err();
    assert_eq!(
        with_causes(&error),
        "task \"lease\" failed: no permission to update leases"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_an_error_with_the_panic_message() {
    for (formatted, expected) in [(false, "plain"), (true, "number 7")] {
        let Fixture {
            mut supervisor,
            signals,
            ..
        } = fixture();
        supervisor.spawn("loop", async move {
            let number = 7;
            assert!(formatted, "plain");
            assert!(!formatted, "number {number}");
        });
        let error = supervisor.run(signals).await.unwrap_err();
        assert!(
            matches!(&error, ProcessError::Panicked { task: "loop", message } if message == expected),
            "{error:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_during_the_delay_is_an_error() {
    let Fixture {
        mut supervisor,
        signal,
        signals,
        ..
    } = fixture();
    supervisor.spawn("short", sleep_seconds(2));
    signal.send("SIGTERM").unwrap();
    let start = Instant::now();
    let error = supervisor.run(signals).await.unwrap_err();
    assert!(
        matches!(error, ProcessError::Ended { task: "short" }),
        "{error:?}"
    );
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_during_the_shutdown_is_an_error() {
    let Fixture {
        mut supervisor,
        signal,
        signals,
        ..
    } = fixture();
    let stop = supervisor.stop_token();
    supervisor.spawn("lease", async move {
        stop.cancelled().await;
        Err::<(), _>(io::Error::other("cannot release"))
    });
    signal.send("SIGTERM").unwrap();
    let error = supervisor.run(signals).await.unwrap_err();
    assert!(
        matches!(error, ProcessError::Failed { task: "lease", .. }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_that_do_not_stop_in_time_are_named() {
    let Fixture {
        mut supervisor,
        signal,
        signals,
        ..
    } = fixture();
    for name in ["stuck b", "stuck a"] {
        supervisor.spawn(name, std::future::pending::<()>());
    }
    let stop = supervisor.stop_token();
    supervisor.spawn("good", async move { stop.cancelled().await });
    signal.send("SIGTERM").unwrap();
    let start = Instant::now();
    let error = supervisor.run(signals).await.unwrap_err();
    assert_eq!(start.elapsed(), SHUTDOWN.delay + SHUTDOWN.timeout);
    let text = error.to_string();
    assert!(
        text.starts_with("tasks did not stop within 25 s: stuck a, stuck b;"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_exits_immediately() {
    for after in [2, SHUTDOWN.delay.as_secs() + 2] {
        let Fixture {
            mut supervisor,
            signal,
            signals,
            ..
        } = fixture();
        supervisor.spawn("stuck", std::future::pending::<()>());
        let start = Instant::now();
        let sending = async {
            signal.send("SIGTERM").unwrap();
            sleep_seconds(after).await;
            signal.send("SIGINT").unwrap();
        };
        let (result, ()) = tokio::join!(supervisor.run(signals), sending);
        let error = result.unwrap_err();
        assert!(
            matches!(&error, ProcessError::SecondSignal { signal: "SIGINT", tasks } if *tasks == ["stuck"]),
            "{error:?}"
        );
        assert_eq!(start.elapsed().as_secs(), after);
    }
}

#[tokio::test]
async fn sigterm_of_the_process_is_received() {
    let mut signals = OsSignals::install().unwrap();
    let pid = std::process::id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let received = tokio::time::timeout(Duration::from_secs(20), signals.next()).await;
    assert_eq!(received, Ok("SIGTERM"));
}
