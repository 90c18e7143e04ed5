//! Which objects are reconciled, how often, and how many at a time.

use std::{
    num::NonZeroU16,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use helmops_kube::lease::Leadership;
use helmops_process::lock;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{advance, sleep},
};

use super::*;

const LONG: Duration = Duration::from_secs(10);
const DEBOUNCE: Duration = Duration::from_millis(20);

/// The namespace is the part before the slash.
impl QueueKey for &'static str {
    fn namespace(&self) -> &str {
        self.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

impl QueueKey for usize {
    fn namespace(&self) -> &'static str {
        ""
    }
}

/// `large` has a longer debounce.
fn debounce(key: &&str) -> Duration {
    if *key == "large" { DEBOUNCE * 10 } else { DEBOUNCE }
}

/// A running queue that records what it has started.
struct TestQueue {
    triggers: mpsc::UnboundedSender<&'static str>,
    started: Arc<Mutex<Vec<&'static str>>>,
    max_running: Arc<AtomicUsize>,
    stop: CancellationToken,
    task: JoinSet<()>,
}

impl TestQueue {
    /// A reconciliation takes `duration`; each object is requeued after `requeue`.
    fn new(workers: u16, duration: Duration, requeue: Option<Duration>) -> Self {
        let (triggers, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let workers = Workers::new(
            NonZeroU16::new(workers).unwrap(),
            Leadership::always(),
            stop.clone(),
        );
        workers.open();
        let started = Arc::new(Mutex::new(Vec::new()));
        let max_running = Arc::new(AtomicUsize::new(0));
        let (log, most, stopping) = (Arc::clone(&started), Arc::clone(&max_running), stop.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let now = Arc::new(AtomicUsize::new(0));
            let work = |key, permit: WorkerPermit| {
                let (log, most, now) = (Arc::clone(&log), Arc::clone(&most), Arc::clone(&now));
                async move {
                    lock(&log).push(key);
                    most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    assert_ne!(key, "panics", "this work panics");
                    sleep(duration).await;
                    now.fetch_sub(1, Ordering::Relaxed);
                    drop(permit);
                    requeue
                }
            };
            let triggers = tokio_stream(receiver).map(|key| Trigger {
                key,
                debounce: debounce(&key),
            });
            run(triggers, &workers, &depth(), &stopping, work).await;
        });
        Self {
            triggers,
            started,
            max_running,
            stop,
            task,
        }
    }

    fn trigger(&self, keys: &[&'static str]) {
        for key in keys {
            self.triggers.send(key).unwrap();
        }
    }

    fn started(&self) -> Vec<&'static str> {
        let mut started = lock(&self.started).clone();
        started.sort_unstable();
        started
    }
}

fn depth() -> IntGauge {
    IntGauge::new("depth", "Depth.").unwrap()
}

fn tokio_stream(mut receiver: mpsc::UnboundedReceiver<&'static str>) -> impl Stream<Item = &'static str> {
    futures::stream::poll_fn(move |context| receiver.poll_recv(context))
}

/// Advances the time, and runs all tasks that are ready then.
async fn pass(time: Duration) {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    advance(time).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn changes_within_the_debounce_cause_one_reconciliation() {
    let queue = TestQueue::new(9, LONG, None);
    queue.trigger(&["a", "b", "a", "a"]);
    pass(DEBOUNCE + Duration::from_millis(1)).await;
    assert_eq!(queue.started(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn changes_without_a_pause_do_not_postpone_the_reconciliation() {
    let queue = TestQueue::new(1, Duration::ZERO, None);
    for _ in 0..40 {
        queue.trigger(&["a"]);
        pass(DEBOUNCE / 4).await;
    }
    let runs = queue.started().len();
    assert!((8..=10).contains(&runs), "{runs} in ten times the debounce");
}

#[tokio::test(start_paused = true)]
async fn the_debounce_depends_on_the_object() {
    let queue = TestQueue::new(9, LONG, None);
    queue.trigger(&["large", "small"]);
    pass(DEBOUNCE * 2).await;
    assert_eq!(queue.started(), ["small"]);
    queue.trigger(&["large"]);
    pass(DEBOUNCE * 9).await;
    assert_eq!(
        queue.started(),
        ["large", "small"],
        "a later change does not extend the debounce"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_while_it_runs_runs_again_afterwards_and_never_concurrently() {
    let queue = TestQueue::new(9, LONG, None);
    queue.trigger(&["a"]);
    pass(DEBOUNCE * 2).await;
    queue.trigger(&["a", "a"]);
    pass(LONG / 2).await;
    assert_eq!(queue.started(), ["a"]);
    pass(LONG).await;
    pass(DEBOUNCE * 2).await;
    assert_eq!(queue.started(), ["a", "a"]);
    assert_eq!(queue.max_running.load(Ordering::Relaxed), 1);
    pass(LONG * 10).await;
    assert_eq!(queue.started(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_while_it_runs_does_not_wait_longer_than_it_requests() {
    let queue = TestQueue::new(9, LONG, Some(DEBOUNCE));
    queue.trigger(&["large"]);
    pass(DEBOUNCE * 11).await;
    queue.trigger(&["large"]);
    pass(LONG).await;
    pass(DEBOUNCE * 2).await;
    assert_eq!(queue.started(), ["large", "large"]);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_workers_limits_concurrency() {
    let queue = TestQueue::new(2, LONG, None);
    queue.trigger(&["a", "b", "x/c", "x/d", "e"]);
    for _ in 0..4 {
        pass(LONG).await;
    }
    assert_eq!(queue.started(), ["a", "b", "e", "x/c", "x/d"]);
    assert_eq!(queue.max_running.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_requeued_after_its_delay_or_when_it_changes() {
    let queue = TestQueue::new(1, Duration::ZERO, Some(LONG));
    queue.trigger(&["a"]);
    pass(DEBOUNCE * 2).await;
    assert_eq!(queue.started().len(), 1);
    pass(LONG * 9 / 10).await;
    assert_eq!(queue.started().len(), 1, "not yet");
    pass(LONG / 5).await;
    assert_eq!(queue.started().len(), 2);
    queue.trigger(&["a"]);
    pass(DEBOUNCE * 2).await;
    assert_eq!(queue.started().len(), 3, "a change does not wait");
    pass(LONG).await;
    assert_eq!(queue.started().len(), 4, "and restarts the delay");
}

#[tokio::test(start_paused = true)]
async fn at_shutdown_running_work_is_finished_and_nothing_is_started() {
    let mut queue = TestQueue::new(1, LONG, Some(Duration::ZERO));
    queue.trigger(&["a"]);
    pass(DEBOUNCE * 2).await;
    queue.trigger(&["b"]);
    pass(DEBOUNCE * 2).await;
    queue.stop.cancel();
    pass(LONG / 2).await;
    assert!(queue.task.try_join_next().is_none(), "one is in progress");
    pass(LONG).await;
    assert!(queue.task.try_join_next().is_some());
    assert_eq!(queue.started(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_many_objects_delays_another_by_at_most_one_of_them() {
    let queue = TestQueue::new(1, LONG, None);
    queue.trigger(&["many/a", "many/b", "many/c", "many/d", "many/e", "many/f"]);
    pass(DEBOUNCE * 2).await;
    queue.trigger(&["few/a"]);
    pass(DEBOUNCE * 2).await;
    assert_eq!(queue.started().len(), 1);
    pass(LONG).await;
    pass(LONG).await;
    assert!(queue.started().contains(&"few/a"), "{:?}", queue.started());
    for _ in 0..9 {
        pass(LONG).await;
    }
    assert_eq!(queue.started().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_panics_is_requeued_and_affects_no_other() {
    let queue = TestQueue::new(2, LONG, None);
    queue.trigger(&["panics"]);
    pass(DEBOUNCE * 2).await;
    queue.trigger(&["a"]);
    pass(DEBOUNCE * 2).await;
    assert_eq!(queue.started(), ["a", "panics"]);
    pass(ABORTED.max_delay).await;
    assert_eq!(queue.started(), ["a", "panics", "panics"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_hangs_is_aborted_and_requeued() {
    let queue = TestQueue::new(1, DEADLINE * 9, None);
    queue.trigger(&["a"]);
    pass(DEBOUNCE * 2).await;
    pass(DEADLINE).await;
    pass(ABORTED.max_delay).await;
    assert_eq!(queue.started(), ["a", "a"]);
}
