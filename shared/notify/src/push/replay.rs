//! Requests that were handled before.

use std::{
    collections::{HashSet, VecDeque},
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

/// The requests that were handled within some time. Times are those since any fixed point.
#[derive(Debug)]
pub struct ReplayWindow {
    length: Duration,
    max_entries: usize,
    known: HashSet<RequestDigest>,
    /// In the order of their times.
    times: VecDeque<(Duration, RequestDigest)>,
}

impl ReplayWindow {
    /// A window of this length. The oldest request is forgotten earlier if there are more than `max_entries`.
    pub fn new(length: Duration, max_entries: usize) -> Self {
        Self {
            length,
            max_entries,
            known: HashSet::new(),
            times: VecDeque::new(),
        }
    }

    /// Whether the request was handled within the window.
    pub fn was_handled(&mut self, request: &RequestDigest, now: Duration) -> bool {
        self.forget(now);
        self.known.contains(request)
    }

    /// Records that a request was handled. One that failed is not recorded: its sender repeats it.
    pub fn handled(&mut self, request: RequestDigest, now: Duration) {
        self.forget(now);
        // A clock that goes back must not put a time out of order.
        let now = self.times.back().map_or(now, |(last, _)| now.max(*last));
        if self.known.insert(request) {
            self.times.push_back((now, request));
        }
        while self.times.len() > self.max_entries {
            self.forget_first();
        }
    }

    fn forget(&mut self, now: Duration) {
        while self
            .times
            .front()
            .is_some_and(|(time, _)| now.saturating_sub(*time) >= self.length)
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, request)) = self.times.pop_front() {
            self.known.remove(&request);
        }
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
        assert!(!window.was_handled(&request, second(1)));
        assert!(
            !window.was_handled(&request, second(1)),
            "only a handled request counts"
        );
        window.handled(request, second(1));
        assert!(window.was_handled(&request, second(600)));
        assert!(!window.was_handled(&request, second(601)));
        assert!(window.known.is_empty() && window.times.is_empty());
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
        fn the_window_is_bounded(requests in prop::collection::vec((0..50_u8, 0..400_u64), 0..300)) {
            let mut window = ReplayWindow::new(second(600), 7);
            let mut now = second(0);
            for (body, pause) in requests {
                now += second(pause);
                let request = RequestDigest::of("path", None, &[body]);
                window.handled(request, now);
                prop_assert!(window.was_handled(&request, now));
                prop_assert!(window.times.len() <= 7);
                prop_assert_eq!(window.times.len(), window.known.len());
            }
        }
    }
}
