//! Requests that were handled before.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::Hash,
    time::Duration,
};

use ring::digest::{self, SHA256};

/// The digest of a request: its path, the time that its sender has signed if there is one, and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestDigest([u8; 32]);

impl RequestDigest {
    /// The digest of a request to the Receiver with this digest in its path.
    pub fn of(path_digest: &str, signed_time: Option<i64>, body: &[u8]) -> Self {
        let mut context = digest::Context::new(&SHA256);
        context.update(&(path_digest.len() as u64).to_be_bytes());
        context.update(path_digest.as_bytes());
        match signed_time {
            None => context.update(&[0]),
            Some(seconds) => {
                context.update(&[1]);
                context.update(&seconds.to_be_bytes());
            }
        }
        context.update(body);
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(context.finish().as_ref()) {
            *to = *from;
        }
        Self(bytes)
    }
}

/// The requests that were handled within some time, by Receiver. Times are those since any fixed point.
#[derive(Debug)]
pub struct ReplayWindow<R> {
    length: Duration,
    max_entries: usize,
    /// Only of Receivers with a request.
    by_receiver: HashMap<R, Handled>,
    entries: usize,
}

/// The requests of one Receiver.
#[derive(Debug, Default)]
struct Handled {
    times: HashMap<RequestDigest, Duration>,
    /// In the order of their times.
    order: VecDeque<(Duration, RequestDigest)>,
}

impl<R: Clone + Eq + Hash> ReplayWindow<R> {
    /// A window of this length, with at most `max_entries` requests of all Receivers. Above that, the oldest requests of the Receiver with
    /// the most are forgotten, so that a flood to one Receiver shortens the window of no other.
    pub fn new(length: Duration, max_entries: usize) -> Self {
        Self {
            length,
            max_entries,
            by_receiver: HashMap::new(),
            entries: 0,
        }
    }

    /// Whether the request was handled within the window.
    pub fn was_handled(&self, receiver: &R, request: &RequestDigest, now: Duration) -> bool {
        let handled = self.by_receiver.get(receiver);
        let time = handled.and_then(|handled| handled.times.get(request));
        time.is_some_and(|time| !self.has_expired(*time, now))
    }

    /// Records that a request was handled. One that failed is not recorded: its sender repeats it.
    pub fn handled(&mut self, receiver: &R, request: RequestDigest, now: Duration) {
        self.forget_expired(receiver, now);
        let handled = self.by_receiver.entry(receiver.clone()).or_default();
        if handled.add(request, now) {
            self.entries += 1;
        }
        while self.entries > self.max_entries {
            let Some(largest) = self.largest() else { return };
            self.forget_first(&largest);
        }
    }

    fn has_expired(&self, time: Duration, now: Duration) -> bool {
        now.saturating_sub(time) >= self.length
    }

    fn forget_expired(&mut self, receiver: &R, now: Duration) {
        while self
            .first_of(receiver)
            .is_some_and(|time| self.has_expired(time, now))
        {
            self.forget_first(receiver);
        }
    }

    /// The time of the oldest request of a Receiver.
    fn first_of(&self, receiver: &R) -> Option<Duration> {
        let (time, _) = self.by_receiver.get(receiver)?.order.front()?;
        Some(*time)
    }

    /// The Receiver with the most requests, and of several the one with the oldest.
    fn largest(&self) -> Option<R> {
        let all = self.by_receiver.iter();
        let rank = |handled: &Handled| {
            let oldest = handled.order.front().map(|(time, _)| *time);
            (handled.order.len(), std::cmp::Reverse(oldest))
        };
        let largest = all.max_by_key(|(_, handled)| rank(handled));
        largest.map(|(receiver, _)| receiver.clone())
    }

    fn forget_first(&mut self, receiver: &R) {
        let Some(handled) = self.by_receiver.get_mut(receiver) else {
            return;
        };
        if let Some((_, request)) = handled.order.pop_front() {
            handled.times.remove(&request);
            self.entries -= 1;
        }
        if handled.order.is_empty() {
            self.by_receiver.remove(receiver);
        }
    }
}

impl Handled {
    /// Adds a request. Returns whether it is new.
    fn add(&mut self, request: RequestDigest, now: Duration) -> bool {
        // A clock that goes back must not put a time out of order.
        let now = self.order.back().map_or(now, |(last, _)| now.max(*last));
        let Entry::Vacant(entry) = self.times.entry(request) else {
            return false;
        };
        entry.insert(now);
        self.order.push_back((now, request));
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_request_is_known_for_the_length_of_the_window() {
        let mut window = ReplayWindow::new(second(600), 10_000);
        let request = RequestDigest::of("path", None, b"body");
        assert!(!window.was_handled(&"a", &request, second(1)));
        assert!(
            !window.was_handled(&"a", &request, second(1)),
            "only a handled request counts"
        );
        window.handled(&"a", request, second(1));
        assert!(window.was_handled(&"a", &request, second(600)));
        assert!(!window.was_handled(&"a", &request, second(601)));
        // Its room is free with the next one.
        let next = RequestDigest::of("path", None, b"next");
        window.handled(&"a", next, second(601));
        assert_eq!(window.entries, 1);
        window.handled(&"a", request, second(602));
        assert!(window.was_handled(&"a", &request, second(603)), "handled again");
    }

    #[test]
    fn a_flood_to_one_receiver_shortens_the_window_of_no_other() {
        let mut window = ReplayWindow::new(second(600), 100);
        let digest = |number: u32| RequestDigest::of("path", None, &number.to_be_bytes());
        for number in 0..10 {
            window.handled(&"quiet", digest(number), second(0));
        }
        for number in 10..10_000 {
            window.handled(&"flood", digest(number), second(1));
        }
        assert!((0..10).all(|number| window.was_handled(&"quiet", &digest(number), second(2))));
        assert!(!window.was_handled(&"flood", &digest(10), second(2)));
        assert!((9_910..10_000).all(|number| window.was_handled(&"flood", &digest(number), second(2))));
        assert_eq!(window.entries, 100);
    }

    #[test]
    fn path_time_and_body_do_not_run_into_each_other() {
        let digest = |path, time: Option<i64>, body: &[u8]| RequestDigest::of(path, time, body);
        assert_ne!(digest("a", None, b"bc"), digest("ab", None, b"c"));
        assert_ne!(digest("a", Some(1), b"b"), digest("a", Some(2), b"b"));
        assert_ne!(digest("a", Some(0), b"b"), digest("a", None, b"b"));
        assert_ne!(
            digest("a", Some(1), b""),
            digest("a", None, &[0, 0, 0, 0, 0, 0, 0, 1])
        );
    }

    proptest! {
        #[test]
        fn the_window_is_bounded(requests in prop::collection::vec((0..5_u8, 0..50_u8, 0..400_u64), 0..300)) {
            let mut window = ReplayWindow::new(second(600), 7);
            let mut now = second(0);
            for (receiver, body, pause) in requests {
                now += second(pause);
                let request = RequestDigest::of("path", None, &[body]);
                window.handled(&receiver, request, now);
                let handled = || window.by_receiver.values();
                prop_assert!(window.entries <= 7);
                prop_assert_eq!(window.entries, handled().map(|handled| handled.order.len()).sum::<usize>());
                prop_assert!(handled().all(|handled| !handled.order.is_empty() && handled.order.len() == handled.times.len()));
                prop_assert!(window.was_handled(&receiver, &request, now));
            }
        }
    }
}
