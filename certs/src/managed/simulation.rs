//! Simulation of several replicas and one API server with random faults: watches and writes are late, writes succeed without a
//! response, replicas are killed, the Secret and the bundles are damaged, and the API server applies a new bundle late. Every
//! certificate that a replica serves must be trusted by the API server at that time.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::bundle::{self, CaCertificate};
use super::changes::{Changes, changes_for};
use super::lifetimes::Lifetimes;
use super::observed::{Configuration, ConfigurationKind, Now, Observed, PerKind, Webhook};
use super::plan::{Desired, Step};
use super::rate_limiter::RateLimiter;
use super::stored::{AUTHORITIES, ISSUER_KEY, LEAF_CERT, LEAF_KEY, SecretData, Stored};

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

const REPLICAS: usize = 3;
const LEAF: Duration = Duration::from_mins(1);
const AUTHORITY: Duration = Duration::from_mins(3);
/// Milliseconds. The settle time must be longer than all delays together.
const MAX_WATCH_DELAY: u64 = 1200;
const MAX_WRITE_DELAY: u64 = 800;
const MAX_EFFECT_DELAY: u64 = 1000;
/// A write without a response times out.
const WRITE_TIMEOUT: u64 = 3000;
/// How long requests may fail after a bundle was damaged, or after a start soon after the Secret was damaged.
const RECOVERY: u64 = 12_000;
/// Time with faults.
const FAULT_PERIOD: u64 = 250_000;
/// Time without faults; long enough for the rotation of a CA.
const QUIET_PERIOD: u64 = 200_000;

/// An object with its resource version, if it exists.
type Object<T> = Option<(T, u64)>;

#[derive(Clone)]
enum Write {
    Secret(Option<u64>, Changes),
    Bundle(ConfigurationKind, u64, String),
}

/// The new state of an object, from a watch or a response.
#[derive(Clone)]
enum Update {
    Secret(Object<SecretData>),
    Bundle(ConfigurationKind, Object<Vec<u8>>),
}

enum Event {
    /// A write reaches the API server; the replica gets a response, if it still runs and there is one.
    WriteArrives(usize, u64, Write, bool),
    /// An update of a watch reaches a replica of this generation.
    UpdateArrives(usize, u64, Update),
    /// The write of a replica returns, with a response if there is one.
    WriteReturns(usize, u64, Option<Update>),
    /// The timer of a replica fires.
    Timer(usize, u64),
    /// A fault is injected.
    Fault,
}

struct Replica {
    generation: u64,
    started: u64,
    observed: Observed,
    version: Option<u64>,
    is_ready: bool,
    is_writing: bool,
    /// Updates of the watches during a write: a replica handles one event at a time.
    pending: Vec<Update>,
    step_limiter: RateLimiter,
    injection_limiters: PerKind<RateLimiter>,
    /// When the last update of each object arrives: they arrive in order.
    latest: [u64; 3],
    /// Offset of its clock, in milliseconds.
    skew: u64,
}

struct World {
    secret: Object<SecretData>,
    bundles: PerKind<Object<Vec<u8>>>,
    /// The bundles that the API server uses, each from a time on.
    effective: PerKind<Vec<(u64, Vec<u8>)>>,
    replicas: Vec<Replica>,
    events: Vec<(u64, u64, Event)>,
    parsed: HashMap<u64, Arc<Stored>>,
    parsed_bundles: HashMap<Vec<u8>, Vec<CaCertificate>>,
    rng: TestRng,
    counter: u64,
    time: u64,
    wall: SystemTime,
    monotonic: Instant,
    desired: Desired,
    bundle_damaged: u64,
    secret_damaged: u64,
    writes: u64,
    steps_taken: Vec<&'static str>,
    checks: u64,
}

impl World {
    fn new(seed: &[u8; 32]) -> Self {
        let lifetimes = Lifetimes::new(LEAF, AUTHORITY, 0.5).unwrap();
        assert!(
            lifetimes.settle().as_millis()
                > u128::from(MAX_WATCH_DELAY + 2 * MAX_WRITE_DELAY + MAX_EFFECT_DELAY)
        );
        let mut world = Self {
            secret: None,
            bundles: PerKind {
                mutating: Some((Vec::new(), 1)),
                validating: Some((Vec::new(), 2)),
            },
            effective: PerKind::default(),
            replicas: Vec::new(),
            events: Vec::new(),
            parsed: HashMap::new(),
            parsed_bundles: HashMap::new(),
            rng: TestRng::from_seed(RngAlgorithm::ChaCha, seed),
            counter: 10,
            time: 0,
            wall: SystemTime::UNIX_EPOCH + Duration::from_hours(500_000),
            monotonic: Instant::now(),
            desired: Desired {
                names: vec!["a.b.svc".to_owned(), "127.0.0.1".to_owned()],
                lifetimes,
            },
            bundle_damaged: 0,
            secret_damaged: 0,
            writes: 0,
            steps_taken: Vec::new(),
            checks: 0,
        };
        for at in 0..REPLICAS {
            let replica = world.new_replica();
            world.replicas.push(replica);
            world.list(at);
        }
        world.schedule_fault();
        world
    }

    fn new_replica(&mut self) -> Replica {
        self.counter += 1;
        let max_delay = self.desired.lifetimes.settle();
        Replica {
            generation: self.counter,
            started: self.time,
            observed: Observed::default(),
            version: None,
            is_ready: false,
            is_writing: false,
            pending: Vec::new(),
            step_limiter: RateLimiter::new(max_delay),
            injection_limiters: PerKind {
                mutating: RateLimiter::new(max_delay),
                validating: RateLimiter::new(max_delay),
            },
            latest: [0; 3],
            skew: self.rng.random_range(0..2000),
        }
    }

    fn is_quiet(&self) -> bool {
        self.time >= FAULT_PERIOD
    }

    fn delay(&mut self, max: u64) -> u64 {
        if self.rng.random_ratio(700, 1000) {
            1 + self.rng.random_range(0..60)
        } else {
            1 + self.rng.random_range(0..max)
        }
    }

    fn schedule(&mut self, time: u64, event: Event) {
        self.counter += 1;
        self.events.push((time, self.counter, event));
    }

    fn schedule_fault(&mut self) {
        let next = self.time + 2000 + self.rng.random_range(0..40_000);
        self.schedule(next, Event::Fault);
    }

    /// A watch starts with a list.
    fn list(&mut self, at: usize) {
        self.send(at, Update::Secret(self.secret.clone()));
        for kind in ConfigurationKind::ALL {
            self.send(at, Update::Bundle(kind, self.bundles.of(kind).clone()));
        }
    }

    fn send(&mut self, at: usize, update: Update) {
        let arrival = self.time + self.delay(MAX_WATCH_DELAY);
        let replica = &mut self.replicas[at];
        let latest = match &update {
            Update::Secret(_) => &mut replica.latest[0],
            Update::Bundle(ConfigurationKind::Mutating, _) => &mut replica.latest[1],
            Update::Bundle(ConfigurationKind::Validating, _) => &mut replica.latest[2],
        };
        *latest = arrival.max(*latest + 1);
        let (arrival, generation) = (*latest, replica.generation);
        self.schedule(arrival, Event::UpdateArrives(at, generation, update));
    }

    fn broadcast(&mut self, update: &Update) {
        for at in 0..REPLICAS {
            self.send(at, update.clone());
        }
    }

    fn now(&self, at: usize) -> Now {
        let time = Duration::from_millis(self.time);
        Now {
            wall: self.wall + time + Duration::from_millis(self.replicas[at].skew),
            monotonic: self.monotonic + time,
        }
    }

    fn set_secret(&mut self, secret: Option<SecretData>) {
        self.counter += 1;
        self.secret = secret.map(|data| (data, self.counter));
        self.broadcast(&Update::Secret(self.secret.clone()));
    }

    fn set_bundle(&mut self, kind: ConfigurationKind, bundle: Vec<u8>) {
        self.counter += 1;
        let effective = self.effective.of(kind).last().map_or(0, |(time, _)| *time);
        let effective = effective.max(self.time + self.rng.random_range(0..MAX_EFFECT_DELAY));
        self.effective.of_mut(kind).push((effective, bundle.clone()));
        *self.bundles.of_mut(kind) = Some((bundle, self.counter));
        self.broadcast(&Update::Bundle(kind, self.bundles.of(kind).clone()));
    }

    /// Runs the next event.
    fn advance(&mut self) {
        let next = (0..self.events.len())
            .min_by_key(|&at| (self.events[at].0, self.events[at].1))
            .unwrap();
        let (time, _, event) = self.events.swap_remove(next);
        // Bundles that took effect before this event count in this check.
        self.time = time;
        self.check();
        match event {
            Event::WriteArrives(at, generation, write, has_response) => {
                self.write_arrives(at, generation, write, has_response);
            }
            Event::UpdateArrives(at, generation, update) if self.replicas[at].generation == generation => {
                if self.replicas[at].is_writing {
                    self.replicas[at].pending.push(update);
                } else {
                    self.apply_update(at, update);
                    self.act(at);
                }
            }
            Event::WriteReturns(at, generation, response) if self.replicas[at].generation == generation => {
                self.replicas[at].is_writing = false;
                let pending = std::mem::take(&mut self.replicas[at].pending);
                for update in response.into_iter().chain(pending) {
                    self.apply_update(at, update);
                }
                self.act(at);
            }
            Event::Timer(at, generation) if self.replicas[at].generation == generation => self.act(at),
            Event::UpdateArrives(..) | Event::WriteReturns(..) | Event::Timer(..) => {}
            Event::Fault if self.is_quiet() => {}
            Event::Fault => {
                self.inject_fault();
                self.schedule_fault();
            }
        }
        self.check();
    }

    fn write_arrives(&mut self, at: usize, generation: u64, write: Write, has_response: bool) {
        let update = match write {
            Write::Secret(version, changes) => {
                if self.secret.as_ref().map(|(_, version)| *version) == version {
                    let mut data = self.secret.clone().map(|(data, _)| data).unwrap_or_default();
                    for (key, value) in changes {
                        match value {
                            Some(value) => data.insert(key.to_owned(), value),
                            None => data.remove(key),
                        };
                    }
                    self.writes += 1;
                    self.set_secret(Some(data));
                }
                // After a conflict the replica reads the current state.
                Update::Secret(self.secret.clone())
            }
            Write::Bundle(kind, version, bundle) => {
                if self
                    .bundles
                    .of(kind)
                    .as_ref()
                    .is_some_and(|(_, now)| *now == version)
                {
                    self.writes += 1;
                    self.set_bundle(kind, bundle.into_bytes());
                }
                Update::Bundle(kind, self.bundles.of(kind).clone())
            }
        };
        let (end, response) = if has_response {
            (self.time + self.delay(MAX_WRITE_DELAY), Some(update))
        } else {
            (self.time + WRITE_TIMEOUT, None)
        };
        self.schedule(end, Event::WriteReturns(at, generation, response));
    }

    fn apply_update(&mut self, at: usize, update: Update) {
        let now = self.now(at).monotonic;
        match update {
            Update::Secret(secret) => {
                let stored = secret.as_ref().map(|(data, version)| {
                    let parsed = self
                        .parsed
                        .entry(*version)
                        .or_insert_with(|| Arc::new(Stored::read(data)));
                    Arc::clone(parsed)
                });
                let replica = &mut self.replicas[at];
                replica.observed.set_secret(stored, now);
                replica.version = secret.map(|(_, version)| version);
            }
            Update::Bundle(kind, bundle) => {
                let configuration = bundle.map(|(bundle, version)| Configuration {
                    uid: None,
                    resource_version: Some(version.to_string()),
                    webhooks: vec![Webhook {
                        name: String::new(),
                        bundle,
                    }],
                    injector: None,
                });
                self.replicas[at]
                    .observed
                    .set_configuration(kind, configuration, now);
            }
        }
    }

    /// The reconcile loop of a replica.
    fn act(&mut self, at: usize) {
        let now = self.now(at);
        let plan = self.replicas[at].observed.plan(&self.desired, now);
        if let Some(leaf) = &plan.serve {
            self.replicas[at].observed.set_served(leaf.clone());
        }
        self.replicas[at].is_ready |= plan.is_injected;
        if self.replicas[at].is_writing {
            return;
        }
        let mut next_plan = plan.recheck_at;
        if let Some((step, _)) = &plan.step {
            match self.replicas[at].step_limiter.wait_until(now.monotonic) {
                None => return self.step(at, step, now),
                Some(wait) => next_plan = next_plan.min(wait),
            }
        }
        for kind in plan.inject {
            match self.replicas[at]
                .injection_limiters
                .of(kind)
                .wait_until(now.monotonic)
            {
                None => return self.inject(at, kind, plan.bundle.unwrap(), now),
                Some(wait) => next_plan = next_plan.min(wait),
            }
        }
        let wait = next_plan.saturating_duration_since(now.monotonic).as_millis() + 1;
        let generation = self.replicas[at].generation;
        self.schedule(
            self.time + u64::try_from(wait).unwrap(),
            Event::Timer(at, generation),
        );
    }

    fn step(&mut self, at: usize, step: &Step, now: Now) {
        let replica = &mut self.replicas[at];
        replica.step_limiter.record_attempt(now.monotonic);
        let stored = replica.observed.secret().get().map(AsRef::as_ref);
        let changes = changes_for(step, stored, &self.desired, now.wall).unwrap();
        let version = replica.version;
        self.steps_taken.push(match step {
            Step::IssueAll { .. } => "issue_all",
            Step::Renew { .. } => "renew",
            Step::Prepare => "prepare",
            Step::Switch => "switch",
            Step::Retire => "retire",
        });
        self.write(at, Write::Secret(version, changes));
    }

    fn inject(&mut self, at: usize, kind: ConfigurationKind, bundle: String, now: Now) {
        let replica = &mut self.replicas[at];
        replica
            .injection_limiters
            .of_mut(kind)
            .record_attempt(now.monotonic);
        let configuration = replica.observed.configuration(kind).get().unwrap();
        let version = configuration.resource_version.clone().unwrap().parse().unwrap();
        self.write(at, Write::Bundle(kind, version, bundle));
    }

    fn write(&mut self, at: usize, write: Write) {
        let arrival = self.time + self.delay(MAX_WRITE_DELAY);
        let generation = self.replicas[at].generation;
        self.replicas[at].is_writing = true;
        let (is_lost, has_response) = if self.is_quiet() {
            (false, true)
        } else {
            (self.rng.random_ratio(50, 1000), !self.rng.random_ratio(50, 1000))
        };
        if is_lost {
            self.schedule(
                self.time + WRITE_TIMEOUT,
                Event::WriteReturns(at, generation, None),
            );
        } else {
            self.schedule(arrival, Event::WriteArrives(at, generation, write, has_response));
        }
    }

    fn inject_fault(&mut self) {
        match self.rng.random_range(0..10) {
            0..=4 => {
                let at = usize::try_from(self.rng.random_range(0..REPLICAS as u64)).unwrap();
                self.replicas[at] = self.new_replica();
                self.list(at);
            }
            5..=7 => self.damage_secret(),
            _ => {
                let kind = if self.rng.random_ratio(500, 1000) {
                    ConfigurationKind::Mutating
                } else {
                    ConfigurationKind::Validating
                };
                let bundle: &[u8] = if self.rng.random_ratio(500, 1000) {
                    b""
                } else {
                    b"-----BEGIN CERT"
                };
                self.bundle_damaged = self.time;
                self.set_bundle(kind, bundle.to_vec());
            }
        }
    }

    fn damage_secret(&mut self) {
        self.secret_damaged = self.time;
        let Some((mut data, _)) = self.secret.clone() else {
            return;
        };
        let kind = self.rng.random_range(0..8);
        match kind {
            0 | 1 => return self.set_secret(None),
            2 => data.clear(),
            3 => _ = data.insert(LEAF_CERT.to_owned(), b"garbage".to_vec()),
            4 => _ = data.remove(LEAF_KEY),
            5 => _ = data.remove(ISSUER_KEY),
            6 => _ = data.insert(AUTHORITIES.to_owned(), b"-----BEGIN".to_vec()),
            _ => {
                let key = data.get(ISSUER_KEY).cloned().unwrap_or_default();
                data.insert(LEAF_KEY.to_owned(), key);
            }
        }
        self.set_secret(Some(data));
    }

    /// Asserts that every ready replica serves a certificate that the API server trusts.
    fn check(&mut self) {
        let is_damaged = self.bundle_damaged > 0 && self.time < self.bundle_damaged + RECOVERY;
        let wall = self.wall + Duration::from_millis(self.time);
        for at in 0..REPLICAS {
            let replica = &self.replicas[at];
            let is_late = self.secret_damaged > 0
                && replica.started + RECOVERY > self.secret_damaged
                && self.time < self.secret_damaged.max(replica.started) + RECOVERY;
            if !replica.is_ready || is_damaged || is_late {
                continue;
            }
            let leaf = replica.observed.served().unwrap().clone();
            assert!(
                leaf.is_valid(wall),
                "replica {at} serves an invalid certificate at {} ms",
                self.time
            );
            for kind in ConfigurationKind::ALL {
                let effective = self
                    .effective
                    .of(kind)
                    .iter()
                    .rev()
                    .find(|(from, _)| *from <= self.time);
                let Some((_, bundle)) = effective else { continue };
                let trusted = self
                    .parsed_bundles
                    .entry(bundle.clone())
                    .or_insert_with(|| bundle::read(bundle));
                assert!(
                    trusted.contains(&leaf.authority),
                    "replica {at} serves a certificate of {}, but {kind:?} trusts {trusted:?} at {} ms",
                    leaf.authority,
                    self.time
                );
                self.checks += 1;
            }
        }
    }

    fn is_converged(&self) -> bool {
        let stored = Stored::read(&self.secret.as_ref().unwrap().0);
        let leaf = stored.leaf.as_ref().unwrap();
        let pem = bundle::pem(&stored.authorities);
        let served = |replica: &Replica| {
            replica.is_ready && replica.observed.served().unwrap().authority == leaf.authority
        };
        let has_bundle =
            |kind: ConfigurationKind| self.bundles.of(kind).as_ref().unwrap().0 == pem.as_bytes();
        self.replicas.iter().all(served)
            && ConfigurationKind::ALL.into_iter().all(has_bundle)
            && stored.issuer.is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_replica_serves_a_trusted_certificate_and_the_state_converges(seed in any::<[u8; 32]>()) {
        let mut world = World::new(&seed);
        while world.time < FAULT_PERIOD + QUIET_PERIOD {
            world.advance();
        }
        // A change may be in progress.
        while !world.is_converged() && world.time < FAULT_PERIOD + QUIET_PERIOD + RECOVERY {
            world.advance();
        }
        let count = |what| world.steps_taken.iter().filter(|step| **step == what).count();
        prop_assert!(world.is_converged());
        prop_assert!(world.checks > 1000, "{} checks", world.checks);
        prop_assert!(count("renew") > 3, "{:?}", world.steps_taken);
        prop_assert!(count("prepare") > 0 && count("switch") > 0 && count("retire") > 0, "{:?}", world.steps_taken);
        // About one change of certificates every twenty seconds, three objects, and repairs.
        prop_assert!(world.writes < 400, "{} writes: {:?}", world.writes, world.steps_taken);
    }
}
