//! A simulation of several candidates, one API server, and all failures between them: responses that are late, lost or
//! errors, writes that succeed without a response, clocks that run at different speeds, candidates that are suspended for a
//! while, a Lease that is deleted. There must never be two leaders at the same time.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use proptest::prelude::*;

use super::*;

const CANDIDATES: usize = 3;
/// Simulated time with failures, in milliseconds, and the time without failures that follows.
const FAILURES: u64 = 300_000;
const NO_FAILURES: u64 = 60_000;

/// A repeatable random number generator. The recorded cases in proptest-regressions depend on its sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn percent(&mut self, times: u64) -> bool {
        self.below(100) < times
    }
}

/// The API server, with one Lease.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    /// Handles a write as the API server does; `None` for a conflict.
    fn write(&mut self, next: &Action) -> Option<Lease> {
        let mut lease = match next {
            Action::Create(spec) if self.lease.is_none() => Lease {
                metadata: ObjectMeta {
                    uid: Some(format!("created-in-{}", self.version)),
                    ..ObjectMeta::default()
                },
                spec: Some(spec.clone()),
            },
            Action::Replace(lease) => {
                let stored = self.lease.as_ref()?.metadata.resource_version.as_ref();
                (stored == lease.metadata.resource_version.as_ref()).then(|| Lease::clone(lease))?
            }
            Action::Create(_) | Action::Wait(_) => return None,
        };
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        Some(lease)
    }
}

/// The message between a candidate and the server. It arrives when it is due.
enum Message {
    /// None: the candidate acts when it is due.
    Idle,
    /// A read request.
    ReadRequest,
    /// The response to a read.
    ReadResponse(Option<Lease>),
    /// A write request, and when it was sent.
    WriteRequest(Action, Instant),
    /// The response to a write, and when the request was sent.
    WriteResponse(Option<Lease>, Instant),
    /// A lost message: the request of the candidate times out.
    Lost,
}

struct Candidate {
    elector: Elector,
    message: Message,
    /// When the message arrives, in true time.
    due: u64,
    /// The speed of its clock, in thousandths of true time.
    speed: u64,
    start: Instant,
    /// The number of its terms as leader.
    terms: u32,
}

impl Candidate {
    /// The time of its own clock.
    fn clock(&self, time: u64) -> Instant {
        self.start + Duration::from_millis(time * self.speed / 1000)
    }
}

struct World {
    server: Server,
    candidates: Vec<Candidate>,
    /// Writes that timed out, and still reach the server later.
    delayed: Vec<(u64, Action)>,
    random: Random,
    time: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed | 1);
        let second = Duration::from_secs(1);
        let timing = Timing::new(15 * second, 10 * second, 2 * second).unwrap();
        let candidates = (0..CANDIDATES)
            .map(|number| Candidate {
                elector: Elector::new(format!("candidate-{number}"), timing),
                message: Message::Idle,
                due: random.below(3000),
                // At most a tenth apart; real clocks differ by a thousandth of that.
                speed: 950 + random.below(101),
                start: Instant::now() + Duration::from_secs(random.below(1_000_000)),
                terms: 0,
            })
            .collect();
        Self {
            server: Server::default(),
            candidates,
            delayed: Vec::new(),
            random,
            time: 0,
        }
    }

    fn is_without_failures(&self) -> bool {
        self.time >= FAILURES
    }

    /// A network delay, mostly short.
    fn delay(&mut self) -> u64 {
        if self.is_without_failures() || self.random.percent(80) {
            1 + self.random.below(50)
        } else {
            self.random.below(6000)
        }
    }

    /// Simulates the next event.
    fn advance(&mut self) {
        let earliest = (0..CANDIDATES).min_by_key(|&at| self.candidates[at].due).unwrap();
        let due = self.candidates[earliest].due;
        self.time = self.time.max(due);
        let time = self.time;
        let (arrived, delayed) = self.delayed.drain(..).partition(|(at, _)| *at <= time);
        self.delayed = delayed;
        let arrived: Vec<(u64, Action)> = arrived;
        for (_, write) in arrived {
            self.server.write(&write);
        }
        if !self.is_without_failures() && self.random.percent(1) && self.all_have_observed_the_lease() {
            self.server.lease = None;
        }
        self.act(earliest);
        self.check();
    }

    fn all_have_observed_the_lease(&self) -> bool {
        let mut electors = self.candidates.iter().map(|candidate| &candidate.elector);
        electors.all(|elector| {
            elector
                .observed
                .as_ref()
                .is_some_and(|observed| observed.lease.is_some())
        })
    }

    fn act(&mut self, at: usize) {
        let now = self.candidates[at].clock(self.time);
        let wall = MicroTime(
            Timestamp::from_microsecond(i64::try_from(self.random.below(1 << 40)).unwrap()).unwrap(),
        );
        let message = std::mem::replace(&mut self.candidates[at].message, Message::Idle);
        let was_leader = self.candidates[at].elector.leads(now);
        match message {
            Message::Idle if self.candidates[at].elector.must_read() => self.send(at, Message::ReadRequest),
            Message::Idle => self.decide(at, now, &wall),
            Message::ReadRequest => {
                let lease = self.server.lease.clone();
                self.respond(at, Message::ReadResponse(lease));
            }
            Message::ReadResponse(lease) => {
                self.candidates[at].elector.observe(lease, now);
                self.decide(at, now, &wall);
            }
            Message::WriteRequest(next, sent) => {
                let written = self.server.write(&next);
                self.respond(at, Message::WriteResponse(written, sent));
            }
            Message::WriteResponse(Some(lease), sent) => {
                self.candidates[at].elector.write_succeeded(lease, sent);
                self.wait(at);
            }
            Message::WriteResponse(None, _) | Message::Lost => {
                self.candidates[at].elector.write_failed();
                self.wait(at);
            }
        }
        let candidate = &mut self.candidates[at];
        if !was_leader && candidate.elector.leads(now) {
            candidate.terms += 1;
        }
    }

    fn decide(&mut self, at: usize, now: Instant, wall: &MicroTime) {
        match self.candidates[at].elector.next(now, wall) {
            Action::Wait(_) => self.wait(at),
            next => self.send(at, Message::WriteRequest(next, now)),
        }
    }

    /// Sends a request, which may be lost, or time out and arrive later.
    fn send(&mut self, at: usize, message: Message) {
        let delay = self.delay();
        if !self.is_without_failures() && self.random.percent(10) {
            if let Message::WriteRequest(next, _) = message
                && self.random.percent(50)
            {
                let late = self.time + self.random.below(20_000);
                self.delayed.push((late, next));
            }
            self.put(at, Message::Lost, 5000);
        } else {
            self.put(at, message, delay);
        }
    }

    /// Sends a response, which may be lost.
    fn respond(&mut self, at: usize, message: Message) {
        if !self.is_without_failures() && self.random.percent(10) {
            self.put(at, Message::Lost, 5000);
        } else {
            let delay = self.delay();
            self.put(at, message, delay);
        }
    }

    /// Waits until the next attempt, or longer if the process is suspended.
    fn wait(&mut self, at: usize) {
        let is_suspended = !self.is_without_failures() && self.random.percent(3);
        let pause = if is_suspended {
            self.random.below(40_000)
        } else {
            2000 + self.random.below(400)
        };
        self.put(at, Message::Idle, pause);
    }

    fn put(&mut self, at: usize, message: Message, delay: u64) {
        let candidate = &mut self.candidates[at];
        candidate.message = message;
        candidate.due = self.time + delay;
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |&at: &usize| {
            let candidate: &Candidate = &self.candidates[at];
            candidate.elector.leads(candidate.clock(self.time))
        };
        (0..CANDIDATES).filter(leads).collect()
    }

    fn check(&self) {
        let leaders = self.leaders();
        assert!(leaders.len() <= 1, "{leaders:?} lead at {} ms", self.time);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_two_leaders_and_always_one_without_failures(seed in any::<u64>()) {
        let mut world = World::new(seed);
        while world.time < FAILURES + NO_FAILURES {
            world.advance();
        }
        prop_assert_eq!(world.leaders().len(), 1);
        prop_assert!(world.candidates.iter().map(|candidate| candidate.terms).sum::<u32>() > 1, "leadership never changed");
    }
}
