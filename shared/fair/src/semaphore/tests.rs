use std::{
    collections::HashMap,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Wake, Waker},
};

use proptest::prelude::*;

use super::*;

type Permit = FairPermit<u8>;

/// A waiter that is polled only when it was woken.
struct Waiter {
    key: u8,
    future: Pin<Box<dyn Future<Output = Permit>>>,
    woken: Arc<Flag>,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waiters and permits, and what has been granted.
struct Model {
    semaphore: FairSemaphore<u8>,
    total: usize,
    share: usize,
    waiters: Vec<Waiter>,
    permits: Vec<Permit>,
    /// The keys of all permits that were granted, in order.
    granted: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(u8),
    AcquireFirst(u8),
    TryAcquire(u8),
    Cancel(usize),
    Release(usize),
    /// A permit is released, and the waiter that it goes to is dropped before it is polled.
    ReleaseAndCancelWoken(usize),
}

impl Model {
    fn new(total: usize, share: usize) -> Self {
        Self {
            semaphore: FairSemaphore::new(total, share),
            total,
            share,
            waiters: Vec::new(),
            permits: Vec::new(),
            granted: Vec::new(),
        }
    }

    fn acquire(&mut self, key: u8) {
        let semaphore = self.semaphore.clone();
        self.wait(key, Box::pin(async move { semaphore.acquire(key).await }));
    }

    fn acquire_first(&mut self, key: u8) {
        let semaphore = self.semaphore.clone();
        self.wait(key, Box::pin(async move { semaphore.acquire_first(key).await }));
    }

    fn wait(&mut self, key: u8, future: Pin<Box<dyn Future<Output = Permit>>>) {
        self.waiters.push(Waiter {
            key,
            future,
            woken: Arc::new(Flag(AtomicBool::new(true))),
        });
        self.poll();
    }

    /// Polls the waiters that were woken.
    fn poll(&mut self) {
        let mut waiting = Vec::new();
        for mut waiter in std::mem::take(&mut self.waiters) {
            if !waiter.woken.0.swap(false, Ordering::Relaxed) {
                waiting.push(waiter);
                continue;
            }
            let waker = Waker::from(Arc::clone(&waiter.woken));
            match waiter.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => waiting.push(waiter),
                Poll::Ready(permit) => {
                    self.granted.push(permit.key);
                    self.permits.push(permit);
                }
            }
        }
        self.waiters = waiting;
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Acquire(key) => self.acquire(key),
            Step::AcquireFirst(key) => self.acquire_first(key),
            Step::TryAcquire(key) => {
                if let Some(permit) = self.semaphore.try_acquire(key) {
                    self.granted.push(key);
                    self.permits.push(permit);
                }
            }
            Step::Cancel(index) if !self.waiters.is_empty() => {
                let index = index % self.waiters.len();
                self.waiters.remove(index);
            }
            Step::Release(index) if !self.permits.is_empty() => {
                let index = index % self.permits.len();
                self.permits.remove(index);
            }
            Step::ReleaseAndCancelWoken(index) if !self.permits.is_empty() => {
                let index = index % self.permits.len();
                self.permits.remove(index);
                self.waiters
                    .retain(|waiter| !waiter.woken.0.load(Ordering::Relaxed));
            }
            _ => {}
        }
        self.poll();
    }

    fn held(&self, key: u8) -> usize {
        self.permits.iter().filter(|permit| permit.key == key).count()
    }

    fn has_waiter(&self, key: u8) -> bool {
        self.waiters.iter().any(|waiter| waiter.key == key)
    }

    /// Whether the key waits for others to release their permits.
    fn is_due(&self, key: u8) -> bool {
        self.has_waiter(key) && self.held(key) < self.share
    }

    fn check(&self) {
        assert!(
            self.permits.len() <= self.total,
            "more permits are held than exist"
        );
        let keys: std::collections::HashSet<u8> = self
            .permits
            .iter()
            .map(|permit| permit.key)
            .chain(self.waiters.iter().map(|waiter| waiter.key))
            .collect();
        for key in &keys {
            assert!(self.held(*key) <= self.share, "key {key} has more than its share");
            assert!(
                !self.is_due(*key) || self.permits.len() == self.total,
                "a waiter of key {key} was not woken although a permit is free"
            );
        }
        assert_eq!(
            self.semaphore.keys(),
            keys.len(),
            "a key without permits and waiters is kept"
        );
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..5_u8;
    let step = prop_oneof![
        3 => key.clone().prop_map(Step::Acquire),
        1 => key.clone().prop_map(Step::AcquireFirst),
        1 => key.prop_map(Step::TryAcquire),
        1 => any::<usize>().prop_map(Step::Cancel),
        3 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::ReleaseAndCancelWoken),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_and_no_wake_up_is_lost(steps in steps(), total in 1..6_usize, share in 1..4_usize) {
        let mut model = Model::new(total, share);
        for step in &steps {
            model.step(step);
            model.check();
        }
        model.waiters.clear();
        model.permits.clear();
        prop_assert_eq!(model.semaphore.keys(), 0);
        prop_assert!(lock(&model.semaphore.state).ready.is_empty());
        prop_assert_eq!(lock(&model.semaphore.state).free, total);
    }

    #[test]
    fn a_key_waits_for_at_most_one_permit_of_each_other_key(
        steps in steps(), total in 1..6_usize, share in 1..4_usize
    ) {
        let mut model = Model::new(total, share);
        // For each key that waits for other keys: how many permits these were granted since.
        let mut passed = HashMap::<u8, HashMap<u8, usize>>::new();
        // A permit counts as granted even if its waiter is dropped immediately, which this model does not observe.
        for step in steps.iter().filter(|step| !matches!(step, Step::ReleaseAndCancelWoken(_))) {
            let before = model.granted.len();
            model.step(step);
            for other in &model.granted[before..] {
                passed.remove(other);
                for (key, counts) in &mut passed {
                    let count = counts.entry(*other).or_default();
                    *count += 1;
                    prop_assert!(*count <= 1, "key {} was passed twice by key {}", key, other);
                }
            }
            passed.retain(|key, _| model.is_due(*key));
            for key in 0..5 {
                if model.is_due(key) {
                    passed.entry(key).or_default();
                }
            }
        }
    }
}

#[test]
fn one_key_is_served_in_order_of_arrival_after_waiters_with_priority() {
    let mut model = Model::new(1, 1);
    model.acquire(0);
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..10 {
        let (semaphore, order) = (model.semaphore.clone(), Arc::clone(&order));
        model.waiters.push(Waiter {
            key: 0,
            future: Box::pin(async move {
                let permit = if number < 8 {
                    semaphore.acquire(0).await
                } else {
                    semaphore.acquire_first(0).await
                };
                lock(&order).push(number);
                permit
            }),
            woken: Arc::new(Flag(AtomicBool::new(true))),
        });
        model.poll();
    }
    for _ in 0..10 {
        model.step(&Step::Release(0));
    }
    assert_eq!(*lock(&order), [8, 9, 0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn many_waiters_of_one_key_do_not_delay_another_key() {
    let mut model = Model::new(4, 4);
    for _ in 0..1000 {
        model.acquire(0);
    }
    model.acquire(1);
    model.step(&Step::Release(0));
    model.step(&Step::Release(0));
    assert_eq!(
        model.held(1),
        1,
        "it is served after at most one more permit of the other key"
    );
}

#[test]
fn a_key_cannot_use_the_share_of_other_keys() {
    let mut model = Model::new(10, 2);
    for _ in 0..100 {
        model.acquire(0);
    }
    assert_eq!(model.held(0), 2);
    for key in 1..5 {
        model.acquire(key);
        assert_eq!(model.held(key), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_threads_lose_no_permit() {
    let semaphore = FairSemaphore::new(8, 3);
    let in_progress = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..400_u64 {
        let (semaphore, in_progress) = (semaphore.clone(), Arc::clone(&in_progress));
        tasks.spawn(async move {
            for round in 0..20 {
                let acquire = semaphore.acquire(number % 7);
                // Some waiters time out.
                let limit = std::time::Duration::from_micros((number * 31 + round * 17) % 300);
                if let Ok(_permit) = tokio::time::timeout(limit, acquire).await {
                    assert!(in_progress.fetch_add(1, Ordering::Relaxed) < 8);
                    tokio::task::yield_now().await;
                    in_progress.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(semaphore.keys(), 0);
    let held: Vec<_> = (0..8).filter_map(|key| semaphore.try_acquire(key)).collect();
    assert_eq!(held.len(), 8, "all permits are free again");
}
