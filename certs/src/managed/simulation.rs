//! Several replicas, one API server, and everything between them that can go wrong: watches and writes that are late, writes
//! that are carried out although nobody hears of it, replicas that are killed, a Secret and bundles that are damaged, and an
//! API server that notices a new bundle late. Whoever is asked presents a certificate that is trusted.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::bundle::{self, CaCertificate};
use super::lifetimes::Lifetimes;
use super::mint::{Changes, mint};
use super::pace::Pace;
use super::plan::{Step, Wanted};
use super::sight::{Configuration, Each, Hook, Kind, Now, Observed};
use super::stored::{AUTHORITIES, Data, ISSUER_KEY, LEAF_CERT, LEAF_KEY, Stored};

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

const REPLICAS: usize = 3;
const LEAF: Duration = Duration::from_mins(1);
const AUTHORITY: Duration = Duration::from_mins(3);
/// Milliseconds. Together they are shorter than the settle time, which is what that is for.
const LONGEST_WATCH: u64 = 1200;
const LONGEST_WRITE: u64 = 800;
const LONGEST_NOTICE: u64 = 1000;
/// Whoever gets no answer gives up.
const GIVEN_UP: u64 = 3000;
/// How long after a bundle was damaged, or after a start soon after the Secret was, a request may fail.
const MENDED: u64 = 12_000;
/// With things going wrong.
const TROUBLE: u64 = 250_000;
/// Long enough for an authority to be followed by another.
const PEACE: u64 = 200_000;

/// An object with its version, if it is there.
type Object<T> = Option<(T, u64)>;

#[derive(Clone)]
enum Write {
    Secret(Option<u64>, Changes),
    Bundle(Kind, u64, String),
}

/// Something that a replica is told.
#[derive(Clone)]
enum News {
    Secret(Object<Data>),
    Bundle(Kind, Object<Vec<u8>>),
}

enum Happening {
    /// A write reaches the API server; the answer goes to the replica, if it still lives and anything is answered.
    Arrives(usize, u64, Write, bool),
    /// News of a watch reach a replica in a life.
    Reaches(usize, u64, News),
    /// The write of a replica is over, and this is the answer, if there is any.
    Answered(usize, u64, Option<News>),
    /// A replica looks at the clock.
    Wakes(usize, u64),
    /// Somebody does something.
    Trouble,
}

struct Replica {
    life: u64,
    born: u64,
    sight: Observed,
    version: Option<u64>,
    is_ready: bool,
    is_writing: bool,
    /// What the watches told while it waited for an answer: it listens to one thing at a time.
    held: Vec<News>,
    steps: Pace,
    injections: Each<Pace>,
    /// When the last news of each object arrive: none overtakes another.
    latest: [u64; 3],
    /// How far its clock is off, in milliseconds.
    skew: u64,
}

struct World {
    secret: Object<Data>,
    bundles: Each<Object<Vec<u8>>>,
    /// What the API server goes by, from which time on.
    noticed: Each<Vec<(u64, Vec<u8>)>>,
    replicas: Vec<Replica>,
    agenda: Vec<(u64, u64, Happening)>,
    read: HashMap<u64, Arc<Stored>>,
    trusted: HashMap<Vec<u8>, Vec<CaCertificate>>,
    chance: TestRng,
    counter: u64,
    time: u64,
    wall: SystemTime,
    steady: Instant,
    wanted: Wanted,
    bundle_damaged: u64,
    secret_damaged: u64,
    writes: u64,
    done: Vec<&'static str>,
    checks: u64,
}

impl World {
    fn new(seed: &[u8; 32]) -> Self {
        let lifetimes = Lifetimes::new(LEAF, AUTHORITY, 0.5).unwrap();
        assert!(
            lifetimes.settle().as_millis() > u128::from(LONGEST_WATCH + 2 * LONGEST_WRITE + LONGEST_NOTICE)
        );
        let mut world = Self {
            secret: None,
            bundles: Each {
                mutating: Some((Vec::new(), 1)),
                validating: Some((Vec::new(), 2)),
            },
            noticed: Each::default(),
            replicas: Vec::new(),
            agenda: Vec::new(),
            read: HashMap::new(),
            trusted: HashMap::new(),
            chance: TestRng::from_seed(RngAlgorithm::ChaCha, seed),
            counter: 10,
            time: 0,
            wall: SystemTime::UNIX_EPOCH + Duration::from_hours(500_000),
            steady: Instant::now(),
            wanted: Wanted {
                names: vec!["a.b.svc".to_owned(), "127.0.0.1".to_owned()],
                lifetimes,
            },
            bundle_damaged: 0,
            secret_damaged: 0,
            writes: 0,
            done: Vec::new(),
            checks: 0,
        };
        for at in 0..REPLICAS {
            let replica = world.newborn();
            world.replicas.push(replica);
            world.list(at);
        }
        world.plan_trouble();
        world
    }

    fn newborn(&mut self) -> Replica {
        self.counter += 1;
        let longest = self.wanted.lifetimes.settle();
        Replica {
            life: self.counter,
            born: self.time,
            sight: Observed::default(),
            version: None,
            is_ready: false,
            is_writing: false,
            held: Vec::new(),
            steps: Pace::new(longest),
            injections: Each {
                mutating: Pace::new(longest),
                validating: Pace::new(longest),
            },
            latest: [0; 3],
            skew: self.chance.random_range(0..2000),
        }
    }

    fn is_peaceful(&self) -> bool {
        self.time >= TROUBLE
    }

    fn delay(&mut self, longest: u64) -> u64 {
        if self.chance.random_ratio(700, 1000) {
            1 + self.chance.random_range(0..60)
        } else {
            1 + self.chance.random_range(0..longest)
        }
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.counter += 1;
        self.agenda.push((time, self.counter, happening));
    }

    fn plan_trouble(&mut self) {
        let next = self.time + 2000 + self.chance.random_range(0..40_000);
        self.at(next, Happening::Trouble);
    }

    /// A watch begins with what there is.
    fn list(&mut self, at: usize) {
        self.send(at, News::Secret(self.secret.clone()));
        for kind in Kind::ALL {
            self.send(at, News::Bundle(kind, self.bundles.of(kind).clone()));
        }
    }

    fn send(&mut self, at: usize, news: News) {
        let arrival = self.time + self.delay(LONGEST_WATCH);
        let replica = &mut self.replicas[at];
        let latest = match &news {
            News::Secret(_) => &mut replica.latest[0],
            News::Bundle(Kind::Mutating, _) => &mut replica.latest[1],
            News::Bundle(Kind::Validating, _) => &mut replica.latest[2],
        };
        *latest = arrival.max(*latest + 1);
        let (arrival, life) = (*latest, replica.life);
        self.at(arrival, Happening::Reaches(at, life, news));
    }

    fn tell_all(&mut self, news: &News) {
        for at in 0..REPLICAS {
            self.send(at, news.clone());
        }
    }

    fn now(&self, at: usize) -> Now {
        let time = Duration::from_millis(self.time);
        Now {
            wall: self.wall + time + Duration::from_millis(self.replicas[at].skew),
            steady: self.steady + time,
        }
    }

    fn set_secret(&mut self, secret: Option<Data>) {
        self.counter += 1;
        self.secret = secret.map(|data| (data, self.counter));
        self.tell_all(&News::Secret(self.secret.clone()));
    }

    fn set_bundle(&mut self, kind: Kind, bundle: Vec<u8>) {
        self.counter += 1;
        let noticed = self.noticed.of(kind).last().map_or(0, |(time, _)| *time);
        let noticed = noticed.max(self.time + self.chance.random_range(0..LONGEST_NOTICE));
        self.noticed.of_mut(kind).push((noticed, bundle.clone()));
        *self.bundles.of_mut(kind) = Some((bundle, self.counter));
        self.tell_all(&News::Bundle(kind, self.bundles.of(kind).clone()));
    }

    /// The next thing that happens.
    fn advance(&mut self) {
        let next = (0..self.agenda.len())
            .min_by_key(|&at| (self.agenda[at].0, self.agenda[at].1))
            .unwrap();
        let (time, _, happening) = self.agenda.swap_remove(next);
        // What was noticed in between counts from then on.
        self.time = time;
        self.check();
        match happening {
            Happening::Arrives(at, life, write, is_answered) => self.arrives(at, life, write, is_answered),
            Happening::Reaches(at, life, news) if self.replicas[at].life == life => {
                if self.replicas[at].is_writing {
                    self.replicas[at].held.push(news);
                } else {
                    self.take(at, news);
                    self.act(at);
                }
            }
            Happening::Answered(at, life, answer) if self.replicas[at].life == life => {
                self.replicas[at].is_writing = false;
                let held = std::mem::take(&mut self.replicas[at].held);
                for news in answer.into_iter().chain(held) {
                    self.take(at, news);
                }
                self.act(at);
            }
            Happening::Wakes(at, life) if self.replicas[at].life == life => self.act(at),
            Happening::Reaches(..) | Happening::Answered(..) | Happening::Wakes(..) => {}
            Happening::Trouble if self.is_peaceful() => {}
            Happening::Trouble => {
                self.trouble();
                self.plan_trouble();
            }
        }
        self.check();
    }

    fn arrives(&mut self, at: usize, life: u64, write: Write, is_answered: bool) {
        let news = match write {
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
                // Whoever was not quick enough reads what is there.
                News::Secret(self.secret.clone())
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
                News::Bundle(kind, self.bundles.of(kind).clone())
            }
        };
        let (over, answer) = if is_answered {
            (self.time + self.delay(LONGEST_WRITE), Some(news))
        } else {
            (self.time + GIVEN_UP, None)
        };
        self.at(over, Happening::Answered(at, life, answer));
    }

    fn take(&mut self, at: usize, news: News) {
        let now = self.now(at).steady;
        match news {
            News::Secret(secret) => {
                let stored = secret.as_ref().map(|(data, version)| {
                    let read = self
                        .read
                        .entry(*version)
                        .or_insert_with(|| Arc::new(Stored::read(data)));
                    Arc::clone(read)
                });
                let replica = &mut self.replicas[at];
                replica.sight.secret_is(stored, now);
                replica.version = secret.map(|(_, version)| version);
            }
            News::Bundle(kind, bundle) => {
                let seen = bundle.map(|(bundle, version)| Configuration {
                    uid: None,
                    resource_version: Some(version.to_string()),
                    hooks: vec![Hook {
                        name: String::new(),
                        bundle,
                    }],
                    injector: None,
                });
                self.replicas[at].sight.configuration_is(kind, seen, now);
            }
        }
    }

    /// What the loop of a replica does.
    fn act(&mut self, at: usize) {
        let now = self.now(at);
        let plan = self.replicas[at].sight.plan(&self.wanted, now);
        if let Some(leaf) = &plan.serve {
            self.replicas[at].sight.serves(leaf.clone());
        }
        self.replicas[at].is_ready |= plan.is_injected;
        if self.replicas[at].is_writing {
            return;
        }
        let mut again = plan.again;
        if let Some((step, _)) = &plan.step {
            match self.replicas[at].steps.wait(now.steady) {
                None => return self.step(at, step, now),
                Some(wait) => again = again.min(wait),
            }
        }
        for kind in plan.inject {
            match self.replicas[at].injections.of(kind).wait(now.steady) {
                None => return self.inject(at, kind, plan.bundle.unwrap(), now),
                Some(wait) => again = again.min(wait),
            }
        }
        let wait = again.saturating_duration_since(now.steady).as_millis() + 1;
        let life = self.replicas[at].life;
        self.at(
            self.time + u64::try_from(wait).unwrap(),
            Happening::Wakes(at, life),
        );
    }

    fn step(&mut self, at: usize, step: &Step, now: Now) {
        let replica = &mut self.replicas[at];
        replica.steps.tried(now.steady);
        let stored = replica.sight.secret().get().map(AsRef::as_ref);
        let changes = mint(step, stored, &self.wanted, now.wall).unwrap();
        let version = replica.version;
        self.done.push(match step {
            Step::Anew { .. } => "anew",
            Step::Renew { .. } => "renew",
            Step::Prepare => "prepare",
            Step::Switch => "switch",
            Step::Retire => "retire",
        });
        self.write(at, Write::Secret(version, changes));
    }

    fn inject(&mut self, at: usize, kind: Kind, bundle: String, now: Now) {
        let replica = &mut self.replicas[at];
        replica.injections.of_mut(kind).tried(now.steady);
        let seen = replica.sight.configuration(kind).get().unwrap();
        let version = seen.resource_version.clone().unwrap().parse().unwrap();
        self.write(at, Write::Bundle(kind, version, bundle));
    }

    fn write(&mut self, at: usize, write: Write) {
        let arrival = self.time + self.delay(LONGEST_WRITE);
        let life = self.replicas[at].life;
        self.replicas[at].is_writing = true;
        let (is_lost, is_answered) = if self.is_peaceful() {
            (false, true)
        } else {
            (
                self.chance.random_ratio(50, 1000),
                !self.chance.random_ratio(50, 1000),
            )
        };
        if is_lost {
            self.at(self.time + GIVEN_UP, Happening::Answered(at, life, None));
        } else {
            self.at(arrival, Happening::Arrives(at, life, write, is_answered));
        }
    }

    fn trouble(&mut self) {
        match self.chance.random_range(0..10) {
            0..=4 => {
                let at = usize::try_from(self.chance.random_range(0..REPLICAS as u64)).unwrap();
                self.replicas[at] = self.newborn();
                self.list(at);
            }
            5..=7 => self.damage_secret(),
            _ => {
                let kind = if self.chance.random_ratio(500, 1000) {
                    Kind::Mutating
                } else {
                    Kind::Validating
                };
                let bundle: &[u8] = if self.chance.random_ratio(500, 1000) {
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
        let kind = self.chance.random_range(0..8);
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

    /// Every replica that is asked presents a certificate that the API server trusts.
    fn check(&mut self) {
        let is_damaged = self.bundle_damaged > 0 && self.time < self.bundle_damaged + MENDED;
        let wall = self.wall + Duration::from_millis(self.time);
        for at in 0..REPLICAS {
            let replica = &self.replicas[at];
            let is_late = self.secret_damaged > 0
                && replica.born + MENDED > self.secret_damaged
                && self.time < self.secret_damaged.max(replica.born) + MENDED;
            if !replica.is_ready || is_damaged || is_late {
                continue;
            }
            let leaf = replica.sight.served().unwrap().clone();
            assert!(
                leaf.is_valid(wall),
                "{at} serves what is not valid at {} ms",
                self.time
            );
            for kind in Kind::ALL {
                let noticed = self
                    .noticed
                    .of(kind)
                    .iter()
                    .rev()
                    .find(|(from, _)| *from <= self.time);
                let Some((_, bundle)) = noticed else { continue };
                let trusted = self
                    .trusted
                    .entry(bundle.clone())
                    .or_insert_with(|| bundle::read(bundle));
                assert!(
                    trusted.contains(&leaf.authority),
                    "{at} serves a certificate of {}, and {kind:?} trusts {trusted:?} at {} ms",
                    leaf.authority,
                    self.time
                );
                self.checks += 1;
            }
        }
    }

    fn is_whole(&self) -> bool {
        let stored = Stored::read(&self.secret.as_ref().unwrap().0);
        let leaf = stored.leaf.as_ref().unwrap();
        let pem = bundle::pem(&stored.authorities);
        let served = |replica: &Replica| {
            replica.is_ready && replica.sight.served().unwrap().authority == leaf.authority
        };
        let holds = |kind: Kind| self.bundles.of(kind).as_ref().unwrap().0 == pem.as_bytes();
        self.replicas.iter().all(served) && Kind::ALL.into_iter().all(holds) && stored.issuer.is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whoever_is_asked_presents_what_is_trusted_and_all_is_mended_in_the_end(seed in any::<[u8; 32]>()) {
        let mut world = World::new(&seed);
        while world.time < TROUBLE + PEACE {
            world.advance();
        }
        // It may just be changing something.
        while !world.is_whole() && world.time < TROUBLE + PEACE + MENDED {
            world.advance();
        }
        let count = |what| world.done.iter().filter(|done| **done == what).count();
        prop_assert!(world.is_whole());
        prop_assert!(world.checks > 1000, "{} checks", world.checks);
        prop_assert!(count("renew") > 3, "{:?}", world.done);
        prop_assert!(count("prepare") > 0 && count("switch") > 0 && count("retire") > 0, "{:?}", world.done);
        // About one change of certificates every twenty seconds, three objects, and what is mended.
        prop_assert!(world.writes < 400, "{} writes: {:?}", world.writes, world.done);
    }
}
