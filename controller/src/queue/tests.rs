//! What is worked on, how often, and how many at a time.

use std::{
    num::NonZeroU16,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use helmops_shared::runtime::lock;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{advance, sleep},
};

use super::*;
use crate::lease::Leadership;

const LONG: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(20);

/// The part before the slash.
impl Object for &'static str {
    fn namespace(&self) -> &str {
        self.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

impl Object for usize {
    fn namespace(&self) -> &'static str {
        ""
    }
}

/// Changes of `large` are gathered for longer.
fn moment(key: &&str) -> Duration {
    if *key == "large" { MOMENT * 10 } else { MOMENT }
}

/// A queue that runs, and what was worked on.
struct Rig {
    triggers: mpsc::UnboundedSender<&'static str>,
    begun: Arc<Mutex<Vec<&'static str>>>,
    at_a_time: Arc<AtomicUsize>,
    stop: CancellationToken,
    task: JoinSet<()>,
}

impl Rig {
    /// Work takes `takes`; each object is worked on again after `again`.
    fn new(places: u16, takes: Duration, again: Option<Duration>) -> Self {
        let (triggers, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let workers = Workers::new(
            NonZeroU16::new(places).unwrap(),
            Leadership::always(),
            stop.clone(),
        );
        workers.open();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let at_a_time = Arc::new(AtomicUsize::new(0));
        let (log, most, stopping) = (Arc::clone(&begun), Arc::clone(&at_a_time), stop.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let now = Arc::new(AtomicUsize::new(0));
            let work = |key, place: WorkerPermit| {
                let (log, most, now) = (Arc::clone(&log), Arc::clone(&most), Arc::clone(&now));
                async move {
                    lock(&log).push(key);
                    most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    assert_ne!(key, "panics", "this work panics");
                    sleep(takes).await;
                    now.fetch_sub(1, Ordering::Relaxed);
                    drop(place);
                    again
                }
            };
            let triggers = tokio_stream(receiver);
            run(triggers, moment, &workers, &depth(), &stopping, work).await;
        });
        Self {
            triggers,
            begun,
            at_a_time,
            stop,
            task,
        }
    }

    fn trigger(&self, keys: &[&'static str]) {
        for key in keys {
            self.triggers.send(key).unwrap();
        }
    }

    fn begun(&self) -> Vec<&'static str> {
        let mut begun = lock(&self.begun).clone();
        begun.sort_unstable();
        begun
    }
}

fn depth() -> IntGauge {
    IntGauge::new("depth", "Depth.").unwrap()
}

fn tokio_stream(mut receiver: mpsc::UnboundedReceiver<&'static str>) -> impl Stream<Item = &'static str> {
    futures::stream::poll_fn(move |context| receiver.poll_recv(context))
}

/// Lets time pass, and everything happen that does then.
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
async fn what_changes_in_a_moment_is_worked_on_once() {
    let rig = Rig::new(9, LONG, None);
    rig.trigger(&["a", "b", "a", "a"]);
    pass(MOMENT + Duration::from_millis(1)).await;
    assert_eq!(rig.begun(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn changes_of_some_are_gathered_for_longer() {
    let rig = Rig::new(9, LONG, None);
    rig.trigger(&["large", "small"]);
    pass(MOMENT * 2).await;
    assert_eq!(rig.begun(), ["small"]);
    rig.trigger(&["large"]);
    pass(MOMENT * 9).await;
    assert_eq!(rig.begun(), ["large", "small"], "no longer for what came later");
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_worked_on_is_worked_on_afterwards_and_never_twice_at_a_time() {
    let rig = Rig::new(9, LONG, None);
    rig.trigger(&["a"]);
    pass(MOMENT * 2).await;
    rig.trigger(&["a", "a"]);
    pass(LONG / 2).await;
    assert_eq!(rig.begun(), ["a"]);
    pass(LONG).await;
    pass(MOMENT * 2).await;
    assert_eq!(rig.begun(), ["a", "a"]);
    assert_eq!(rig.at_a_time.load(Ordering::Relaxed), 1);
    pass(LONG * 10).await;
    assert_eq!(rig.begun(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_at_a_time_than_there_are_places() {
    let rig = Rig::new(2, LONG, None);
    rig.trigger(&["a", "b", "x/c", "x/d", "e"]);
    for _ in 0..4 {
        pass(LONG).await;
    }
    assert_eq!(rig.begun(), ["a", "b", "e", "x/c", "x/d"]);
    assert_eq!(rig.at_a_time.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn it_comes_again_when_it_says_so_or_earlier_when_it_changes() {
    let rig = Rig::new(1, Duration::ZERO, Some(LONG));
    rig.trigger(&["a"]);
    pass(MOMENT * 2).await;
    assert_eq!(rig.begun().len(), 1);
    pass(LONG * 9 / 10).await;
    assert_eq!(rig.begun().len(), 1, "not yet");
    pass(LONG / 5).await;
    assert_eq!(rig.begun().len(), 2);
    rig.trigger(&["a"]);
    pass(MOMENT * 2).await;
    assert_eq!(rig.begun().len(), 3, "a change does not wait");
    pass(LONG).await;
    assert_eq!(rig.begun().len(), 4, "and moves the time");
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_finished_and_nothing_else_begun() {
    let mut rig = Rig::new(1, LONG, Some(Duration::ZERO));
    rig.trigger(&["a"]);
    pass(MOMENT * 2).await;
    rig.trigger(&["b"]);
    pass(MOMENT * 2).await;
    rig.stop.cancel();
    pass(LONG / 2).await;
    assert!(rig.task.try_join_next().is_none(), "one is under way");
    pass(LONG).await;
    assert!(rig.task.try_join_next().is_some());
    assert_eq!(rig.begun(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_many_objects_delays_another_by_no_more_than_one_of_them() {
    let rig = Rig::new(1, LONG, None);
    rig.trigger(&["many/a", "many/b", "many/c", "many/d", "many/e", "many/f"]);
    pass(MOMENT * 2).await;
    rig.trigger(&["few/a"]);
    pass(MOMENT * 2).await;
    assert_eq!(rig.begun().len(), 1);
    pass(LONG).await;
    pass(LONG).await;
    assert!(rig.begun().contains(&"few/a"), "{:?}", rig.begun());
    for _ in 0..9 {
        pass(LONG).await;
    }
    assert_eq!(rig.begun().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_comes_again_later_and_ends_nothing_else() {
    let rig = Rig::new(2, LONG, None);
    rig.trigger(&["panics"]);
    pass(MOMENT * 2).await;
    rig.trigger(&["a"]);
    pass(MOMENT * 2).await;
    assert_eq!(rig.begun(), ["a", "panics"]);
    pass(BROKEN_OFF.longest).await;
    assert_eq!(rig.begun(), ["a", "panics", "panics"]);
}

#[tokio::test(start_paused = true)]
async fn work_that_never_ends_is_stopped_and_comes_again() {
    let rig = Rig::new(1, DEADLINE * 9, None);
    rig.trigger(&["a"]);
    pass(MOMENT * 2).await;
    pass(DEADLINE).await;
    pass(BROKEN_OFF.longest).await;
    assert_eq!(rig.begun(), ["a", "a"]);
}
