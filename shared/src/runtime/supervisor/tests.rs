use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::*;

/// Signals sent by the test.
struct Sent(mpsc::UnboundedReceiver<&'static str>);

impl Signals for Sent {
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

struct Stage {
    supervisor: Supervisor,
    health: Health,
    signal: mpsc::UnboundedSender<&'static str>,
    signals: Sent,
}

fn stage() -> Stage {
    let health = Health::default();
    let (signal, received) = mpsc::unbounded_channel();
    Stage {
        supervisor: Supervisor::new(health.clone(), SHUTDOWN),
        health,
        signal,
        signals: Sent(received),
    }
}

async fn sleep_seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_makes_unready_waits_the_delay_then_cancels_and_drains() {
    let Stage {
        mut supervisor,
        health,
        signal,
        signals,
    } = stage();
    let start = Instant::now();
    let (stop, seen) = (supervisor.stop(), Arc::new(AtomicBool::new(false)));
    let (witness, at_stop) = (health.clone(), Arc::clone(&seen));
    supervisor.spawn("worker", async move {
        stop.cancelled().await;
        assert_eq!(
            start.elapsed().as_secs(),
            3 + 5,
            "asked to stop after the delay, not before"
        );
        at_stop.store(!witness.ready().ok(), Ordering::SeqCst);
        sleep_seconds(4).await;
    });
    let sending = async {
        sleep_seconds(3).await;
        assert!(health.ready().ok());
        signal.send("SIGTERM").unwrap();
        sleep_seconds(1).await;
        assert!(!health.ready().ok(), "unready during the delay");
    };
    let (result, ()) = tokio::join!(supervisor.run_until(signals), sending);
    result.unwrap();
    assert!(seen.load(Ordering::SeqCst));
    assert_eq!(start.elapsed().as_secs(), 3 + 5 + 4);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_by_itself_is_a_fault_and_stops_the_others() {
    let Stage {
        mut supervisor,
        health,
        signals,
        ..
    } = stage();
    let (stop, ended) = (supervisor.stop(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&ended);
    supervisor.spawn("backoff_without_init", async move {
        stop.cancelled().await;
        flag.store(true, Ordering::SeqCst);
    });
    supervisor.spawn("hasty", sleep_seconds(1));
    let fault = supervisor.run_until(signals).await.unwrap_err();
    assert!(
        matches!(fault, ProcessError::Ended { task: "hasty" }),
        "{fault:?}"
    );
    assert!(ended.load(Ordering::SeqCst), "the others end in order");
    assert!(!health.ready().ok());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_tells_why() {
    let Stage {
        mut supervisor,
        signals,
        ..
    } = stage();
    supervisor.spawn("lease", async {
        Err::<(), _>(io::Error::other("no permission to update leases"))
    });
    let fault = supervisor.run_until(signals).await.unwrap_err();
    assert_eq!(
        with_causes(&fault),
        "task \"lease\" failed: no permission to update leases"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_a_fault_with_its_message() {
    for (formatted, expected) in [(false, "plain"), (true, "number 7")] {
        let Stage {
            mut supervisor,
            signals,
            ..
        } = stage();
        supervisor.spawn("loop", async move {
            let number = 7;
            assert!(formatted, "plain");
            assert!(!formatted, "number {number}");
        });
        let fault = supervisor.run_until(signals).await.unwrap_err();
        assert!(
            matches!(&fault, ProcessError::Panicked { task: "loop", message } if message == expected),
            "{fault:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_during_the_delay_is_a_fault() {
    let Stage {
        mut supervisor,
        signal,
        signals,
        ..
    } = stage();
    supervisor.spawn("hasty", sleep_seconds(2));
    signal.send("SIGTERM").unwrap();
    let start = Instant::now();
    let fault = supervisor.run_until(signals).await.unwrap_err();
    assert!(
        matches!(fault, ProcessError::Ended { task: "hasty" }),
        "{fault:?}"
    );
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_while_stopping_is_a_fault() {
    let Stage {
        mut supervisor,
        signal,
        signals,
        ..
    } = stage();
    let stop = supervisor.stop();
    supervisor.spawn("lease", async move {
        stop.cancelled().await;
        Err::<(), _>(io::Error::other("cannot release"))
    });
    signal.send("SIGTERM").unwrap();
    let fault = supervisor.run_until(signals).await.unwrap_err();
    assert!(
        matches!(fault, ProcessError::Failed { task: "lease", .. }),
        "{fault:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_that_outlive_the_timeout_are_named() {
    let Stage {
        mut supervisor,
        signal,
        signals,
        ..
    } = stage();
    for name in ["stuck b", "stuck a"] {
        supervisor.spawn(name, std::future::pending::<()>());
    }
    let stop = supervisor.stop();
    supervisor.spawn("good", async move { stop.cancelled().await });
    signal.send("SIGTERM").unwrap();
    let start = Instant::now();
    let fault = supervisor.run_until(signals).await.unwrap_err();
    assert_eq!(start.elapsed(), SHUTDOWN.delay + SHUTDOWN.timeout);
    let text = fault.to_string();
    assert!(
        text.starts_with("still running 25 s after being asked to stop: stuck a, stuck b;"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_at_once() {
    for after in [2, SHUTDOWN.delay.as_secs() + 2] {
        let Stage {
            mut supervisor,
            signal,
            signals,
            ..
        } = stage();
        supervisor.spawn("stuck", std::future::pending::<()>());
        let start = Instant::now();
        let sending = async {
            signal.send("SIGTERM").unwrap();
            sleep_seconds(after).await;
            signal.send("SIGINT").unwrap();
        };
        let (result, ()) = tokio::join!(supervisor.run_until(signals), sending);
        let fault = result.unwrap_err();
        assert!(
            matches!(&fault, ProcessError::SecondSignal { signal: "SIGINT", tasks } if *tasks == ["stuck"]),
            "{fault:?}"
        );
        assert_eq!(start.elapsed().as_secs(), after);
    }
}

#[tokio::test]
async fn the_process_own_sigterm_is_heard() {
    let mut signals = OsSignals::install().unwrap();
    let pid = std::process::id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let heard = tokio::time::timeout(Duration::from_secs(20), signals.next()).await;
    assert_eq!(heard, Ok("SIGTERM"));
}
