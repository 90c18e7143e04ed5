//! Permits with two keys: the namespace of a request, and its host.

use std::{
    pin::{Pin, pin},
    task::Poll,
};

use futures::{FutureExt, future::join_all, poll};

use super::*;

const LIMITS: PairLimits = PairLimits {
    total: 64,
    per_key: 8,
    per_second: 12,
    per_pair: 6,
};

type Semaphore = FairSemaphore<usize, usize>;
type Permit = FairPermit<usize, usize>;

fn semaphore() -> Semaphore {
    FairSemaphore::with_pairs(LIMITS)
}

/// The permits that a namespace gets immediately, for these hosts.
fn acquired(semaphore: &Semaphore, namespace: usize, hosts: impl IntoIterator<Item = usize>) -> Vec<Permit> {
    let acquire = |host| semaphore.acquire_pair(namespace, host).now_or_never();
    hosts.into_iter().filter_map(acquire).collect()
}

/// A waiter, which is queued.
async fn waiter(
    semaphore: &Semaphore,
    namespace: usize,
    host: usize,
) -> Pin<Box<dyn Future<Output = Permit> + '_>> {
    let mut waiter: Pin<Box<dyn Future<Output = Permit>>> = Box::pin(semaphore.acquire_pair(namespace, host));
    assert!(poll!(&mut waiter).is_pending());
    waiter
}

#[test]
fn a_namespace_at_its_limit_leaves_permits_to_others() {
    let semaphore = semaphore();
    let mut held = Vec::new();
    for namespace in 0..8 {
        let all = acquired(&semaphore, namespace, 0..100);
        assert_eq!(all.len(), LIMITS.per_key);
        held.push(all);
    }
    assert!(acquired(&semaphore, 8, 0..100).is_empty(), "the total");
}

#[test]
fn a_host_has_a_limit_for_all_and_one_for_each_namespace() {
    let semaphore = semaphore();
    let first = acquired(&semaphore, 0, [7; 100]);
    assert_eq!(first.len(), LIMITS.per_pair);
    let second = acquired(&semaphore, 1, [7; 100]);
    assert_eq!(second.len(), LIMITS.per_second - LIMITS.per_pair);
    assert!(acquired(&semaphore, 2, [7; 100]).is_empty());
    drop(first);
    assert_eq!(acquired(&semaphore, 2, [7]).len(), 1);
}

#[tokio::test]
async fn what_waits_for_a_host_holds_no_permit() {
    let semaphore = semaphore();
    let _held = [acquired(&semaphore, 0, [0; 20]), acquired(&semaphore, 1, [0; 20])];
    let _waiting = join_all((10..30).map(|namespace| waiter(&semaphore, namespace, 0))).await;
    assert_eq!(acquired(&semaphore, 5, 0..100).len(), LIMITS.per_key);
}

/// Two namespaces reach their limit with their own servers, and have more requests that wait for a shared host.
#[tokio::test]
async fn what_waits_for_its_namespace_holds_no_host() {
    let semaphore = semaphore();
    let _held = [acquired(&semaphore, 0, 1..100), acquired(&semaphore, 1, 1..100)];
    let _waiting = join_all((0..40).map(|number| waiter(&semaphore, number % 2, 0))).await;
    assert_eq!(acquired(&semaphore, 5, [0; 20]).len(), LIMITS.per_pair);
}

/// Every limit is reached, and one namespace has a long queue: another namespace is still served next.
#[tokio::test]
async fn waiting_namespaces_are_served_in_turn() {
    let semaphore = semaphore();
    let mut held = acquired(&semaphore, 0, [0; 6]);
    let _others = [acquired(&semaphore, 1, [0; 6]), acquired(&semaphore, 2, 0..100)];
    let mut queue = join_all((0..100).map(|_| waiter(&semaphore, 0, 0))).await;
    let mut one = waiter(&semaphore, 3, 0).await;
    let mut more = waiter(&semaphore, 3, 0).await;
    held.truncate(4);
    let (first, second) = (poll!(&mut queue[0]), poll!(&mut one));
    assert!(first.is_ready(), "it is the oldest waiter");
    assert!(second.is_ready(), "the other namespace is next");
    assert!(poll!(&mut queue[1]).is_pending() && poll!(&mut more).is_pending());
}

/// A host at its limit does not block requests to other hosts.
#[tokio::test]
async fn a_released_permit_unblocks_every_waiter_within_the_limits() {
    let semaphore = semaphore();
    let mut held = acquired(&semaphore, 0, [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(held.len(), LIMITS.per_key);
    let mut own = waiter(&semaphore, 0, 2).await;
    let _full = [acquired(&semaphore, 1, [0; 6]), acquired(&semaphore, 2, [0; 2])];
    let mut other = waiter(&semaphore, 2, 0).await;
    held.remove(0);
    assert!(poll!(&mut own).is_ready() && poll!(&mut other).is_ready());
}

/// Many namespaces request few hosts, in all orders, and some cancel: all others are served, and no state is left.
#[tokio::test]
async fn every_waiter_is_served_and_no_state_is_left() {
    let semaphore = semaphore();
    let requests = (0..3000_usize).map(async |number| {
        let (namespace, host) = (number * 7 % 30, number * number % 7);
        if number % 10 == 3 {
            let mut cancelled = pin!(semaphore.acquire_pair(namespace, host));
            drop(poll!(&mut cancelled));
            tokio::task::yield_now().await;
            return;
        }
        let _permit = semaphore.acquire_pair(namespace, host).await;
        assert_within_limits(&semaphore, namespace);
        for _ in 0..number % 5 {
            tokio::task::yield_now().await;
        }
    });
    join_all(requests).await;
    assert_empty(&semaphore);
}

#[tokio::test]
async fn a_permit_granted_to_a_dropped_waiter_is_passed_on() {
    let semaphore = semaphore();
    let mut held = acquired(&semaphore, 0, [0; 6]);
    let (first, mut second) = (waiter(&semaphore, 0, 0).await, waiter(&semaphore, 0, 0).await);
    held.pop();
    drop(first);
    let Poll::Ready(permit) = poll!(&mut second) else {
        panic!("it is not granted");
    };
    drop((held, permit, second));
    assert_empty(&semaphore);
}

fn assert_within_limits(semaphore: &Semaphore, namespace: usize) {
    let state = lock(&semaphore.state);
    assert!(state.seconds.values().all(|held| *held <= LIMITS.per_second));
    let queue = &state.keys[&namespace];
    assert!(queue.held <= LIMITS.per_key);
    assert!(queue.pairs.values().all(|pair| pair.held <= LIMITS.per_pair));
}

fn assert_empty(semaphore: &Semaphore) {
    let state = lock(&semaphore.state);
    assert_eq!((state.free, state.seconds.len()), (LIMITS.total, 0));
    assert_eq!((state.keys.len(), state.ready.len()), (0, 0));
}
