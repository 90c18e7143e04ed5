//! What the pure parts say of what is seen, by value.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::bundle::{self, CaCertificate};
use super::lifetimes::Lifetimes;
use super::mint::mint;
use super::plan::{Plan, Step, Wanted};
use super::sight::{Configuration, Hook, Kind, Now, Observed};
use super::stored::{AUTHORITIES, Data, ISSUER_KEY, LEAF_CERT, LEAF_KEY, NEXT_KEY, Stored};
use crate::issue::{issue_ca, issue_leaf};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// Of the lifetimes below.
const SETTLE: Duration = HOUR;
/// A second less.
const ALMOST: Duration = Duration::from_secs(3599);

/// One replica, whose API server and Secret do what it says at once.
struct Replica {
    sight: Observed,
    data: Data,
    now: Now,
    wanted: Wanted,
}

impl Replica {
    /// With what it has issued first, injected and settled.
    fn settled() -> Self {
        let mut replica = Self {
            sight: Observed::default(),
            data: Data::new(),
            now: Now {
                wall: SystemTime::UNIX_EPOCH + 20_000 * DAY,
                steady: Instant::now(),
            },
            wanted: wanted(&["a.b.svc", "127.0.0.1"]),
        };
        replica.inject("");
        replica.sight.secret_is(None, replica.now.steady);
        assert!(matches!(replica.step(), Step::Anew { retained } if retained.is_empty()));
        let plan = replica.plan();
        replica.sight.serves(plan.serve.unwrap());
        assert_eq!(plan.inject, Kind::ALL);
        assert!(!plan.is_injected);
        replica.inject(&plan.bundle.unwrap());
        assert!(replica.plan().is_injected);
        replica.pass(2 * SETTLE);
        replica
    }

    fn plan(&self) -> Plan {
        self.sight.plan(&self.wanted, self.now)
    }

    /// Takes the step that is planned.
    fn step(&mut self) -> Step {
        let (step, _) = self.plan().step.unwrap();
        let stored = self.sight.secret().get().cloned();
        for (key, value) in mint(&step, stored.as_deref(), &self.wanted, self.now.wall).unwrap() {
            match value {
                Some(value) => self.data.insert(key.to_owned(), value),
                None => self.data.remove(key),
            };
        }
        self.reads();
        step
    }

    fn reads(&mut self) {
        let stored = Arc::new(Stored::read(&self.data));
        self.sight.secret_is(Some(stored), self.now.steady);
    }

    fn holds(&mut self, key: &str, value: &[u8]) {
        self.data.insert(key.to_owned(), value.to_vec());
        self.reads();
    }

    fn inject(&mut self, bundle: &str) {
        for kind in Kind::ALL {
            let seen = configuration(bundle);
            self.sight.configuration_is(kind, Some(seen), self.now.steady);
        }
    }

    /// Injects what is planned, and serves it.
    fn follow(&mut self) {
        let plan = self.plan();
        if let Some(leaf) = plan.serve {
            self.sight.serves(leaf);
        }
        self.inject(&plan.bundle.unwrap());
    }

    fn pass(&mut self, time: Duration) {
        self.now.wall += time;
        self.now.steady += time;
    }

    fn stored(&self) -> &Stored {
        self.sight.secret().get().unwrap()
    }

    fn signer(&self) -> CaCertificate {
        self.stored().leaf.as_ref().unwrap().authority.clone()
    }
}

fn wanted(names: &[&str]) -> Wanted {
    Wanted {
        names: names.iter().map(ToString::to_string).collect(),
        lifetimes: Lifetimes::new(90 * DAY, 900 * DAY, 0.0).unwrap(),
    }
}

fn configuration(bundle: &str) -> Configuration {
    Configuration {
        uid: None,
        resource_version: None,
        hooks: vec![Hook {
            name: "validate.helmops.fleet.cattle.io".to_owned(),
            bundle: bundle.as_bytes().to_vec(),
        }],
        injector: None,
    }
}

#[test]
fn nothing_is_to_be_done_where_all_is_well() {
    let replica = Replica::settled();
    let plan = replica.plan();
    assert!(plan.step.is_none() && plan.serve.is_none() && plan.inject.is_empty());
    assert!(plan.is_injected);
    assert!(plan.again > replica.now.steady);
}

#[test]
fn nothing_is_issued_before_it_is_known_what_is_there() {
    let wanted = wanted(&["a.b.svc"]);
    let now = Now {
        wall: SystemTime::now(),
        steady: Instant::now(),
    };
    let mut sight = Observed::default();
    assert!(sight.plan(&wanted, now).step.is_none());
    sight.secret_is(None, now.steady);
    assert!(sight.plan(&wanted, now).step.is_none(), "whom do callers trust?");
    sight.configuration_is(Kind::Mutating, None, now.steady);
    assert!(sight.plan(&wanted, now).step.is_none());
    sight.configuration_is(Kind::Validating, None, now.steady);
    assert!(sight.plan(&wanted, now).step.is_some());
}

#[test]
fn a_certificate_is_renewed_after_two_thirds_of_its_life_and_served_at_once() {
    let mut replica = Replica::settled();
    replica.pass((60 * 24 - 3) * HOUR);
    assert!(replica.plan().step.is_none());
    replica.pass(HOUR);
    let signer = replica.signer();
    assert_eq!(replica.step(), Step::Renew { names: vec![] });
    assert_eq!(replica.signer(), signer, "by the same CA");
    let plan = replica.plan();
    assert!(plan.serve.is_some() && plan.inject.is_empty() && plan.step.is_none());
}

#[test]
fn a_ca_is_followed_by_another_that_is_trusted_before_it_is_used() {
    let mut replica = Replica::settled();
    let old = replica.signer();
    // Long after the certificate's own renewal, which comes first.
    replica.pass(600 * DAY);
    replica.step();
    replica.follow();
    assert_eq!(replica.step(), Step::Prepare);
    let next = replica.stored().next.as_ref().unwrap().authority.clone();
    assert_eq!(replica.stored().authorities, [old.clone(), next.clone()]);
    assert_eq!(replica.signer(), old);

    replica.pass(SETTLE);
    assert!(replica.plan().step.is_none(), "no caller trusts it yet");
    replica.follow();
    replica.pass(ALMOST);
    assert!(replica.plan().step.is_none());
    let again = replica.plan().again - replica.now.steady;
    assert_eq!(again, Duration::from_secs(1), "and it looks when it is time");
    replica.pass(Duration::from_secs(1));
    assert_eq!(replica.step(), Step::Switch);
    assert_eq!(replica.signer(), next);
    assert_eq!(replica.stored().authorities, [next.clone(), old.clone()]);
    assert!(!replica.data.contains_key(NEXT_KEY));
    assert_eq!(replica.plan().serve.unwrap().authority, next);

    replica.follow();
    replica.pass(2 * ALMOST + Duration::from_secs(1));
    assert!(replica.plan().step.is_none());
    replica.pass(Duration::from_secs(1));
    assert_eq!(replica.step(), Step::Retire);
    assert_eq!(replica.stored().authorities, [next]);
    replica.follow();
    assert!(replica.plan().step.is_none() && replica.plan().is_injected);
}

#[test]
fn a_rotation_waits_while_a_caller_does_not_trust_the_next_ca() {
    let mut replica = Replica::settled();
    let old = bundle::pem(&replica.stored().authorities);
    replica.pass(600 * DAY);
    replica.step();
    replica.follow();
    assert_eq!(replica.step(), Step::Prepare);
    replica.follow();
    replica.pass(SETTLE / 2);
    // Somebody puts the bundle back, and it is injected again.
    replica
        .sight
        .configuration_is(Kind::Mutating, Some(configuration(&old)), replica.now.steady);
    assert_eq!(replica.plan().inject, [Kind::Mutating]);
    replica.pass(SETTLE);
    assert!(replica.plan().step.is_none());
    replica.follow();
    replica.pass(SETTLE / 2);
    assert!(replica.plan().step.is_none(), "it settles anew");
    replica.pass(SETTLE / 2);
    assert_eq!(replica.step(), Step::Switch);
}

#[test]
fn another_replica_goes_on_where_one_was_killed() {
    let mut replica = Replica::settled();
    replica.pass(600 * DAY);
    replica.step();
    replica.follow();
    replica.step();
    let bundle = replica.plan().bundle.unwrap();
    let mut other = Replica {
        sight: Observed::default(),
        ..replica
    };
    other.inject(&bundle);
    other.reads();
    assert!(other.plan().serve.is_some());
    other.pass(SETTLE);
    assert_eq!(other.step(), Step::Switch);
}

#[test]
fn a_secret_that_is_gone_is_made_anew_and_the_certificate_that_is_trusted_stays() {
    let mut replica = Replica::settled();
    let old = replica.signer();
    replica.sight.secret_is(None, replica.now.steady);
    replica.data.clear();
    assert_eq!(
        replica.step(),
        Step::Anew {
            retained: vec![old.clone()]
        }
    );
    let new = replica.signer();
    assert_eq!(replica.stored().authorities, [new.clone(), old.clone()]);
    assert!(replica.plan().serve.is_none(), "nobody trusts it yet");
    replica.follow();
    assert!(replica.plan().serve.is_none(), "it may not have got around yet");
    replica.pass(SETTLE);
    assert!(replica.plan().serve.is_some());
    replica.follow();
    replica.pass(SETTLE);
    assert_eq!(replica.step(), Step::Retire);
    assert_eq!(replica.stored().authorities, [new]);
}

#[test]
fn what_is_served_is_given_up_at_once_where_nobody_trusts_it_any_more() {
    let mut replica = Replica::settled();
    replica.sight.secret_is(None, replica.now.steady);
    replica.data.clear();
    replica.step();
    let only = replica.signer().pem();
    replica.inject(&only);
    assert!(replica.plan().serve.is_some());
}

#[test]
fn damage_is_mended_with_the_same_ca_where_there_is_one() {
    let stranger = issue_ca("stranger", SystemTime::UNIX_EPOCH + 19_999 * DAY, 90 * DAY).unwrap();
    let issued = SystemTime::UNIX_EPOCH + 20_000 * DAY;
    let foreign = issue_leaf(&stranger, &["a.b.svc".to_owned()], &[], issued, DAY).unwrap();
    let anothers = stranger.key_pem();
    let garbage: &[u8] = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let damages: [&[(&str, &[u8])]; 5] = [
        &[(LEAF_CERT, b"")],
        &[(LEAF_CERT, garbage)],
        &[(LEAF_KEY, b"garbage")],
        &[(LEAF_KEY, anothers.as_bytes())],
        &[
            (LEAF_CERT, foreign.cert_pem.as_bytes()),
            (LEAF_KEY, foreign.key_pem.as_bytes()),
        ],
    ];
    for damage in damages {
        let mut replica = Replica::settled();
        let authorities = replica.stored().authorities.clone();
        for (key, value) in damage {
            replica.holds(key, value);
        }
        assert!(replica.plan().serve.is_none(), "what is served stays");
        assert_eq!(
            replica.step(),
            Step::Renew { names: vec![] },
            "{:?}",
            replica.stored()
        );
        assert_eq!(replica.stored().authorities, authorities);
        let plan = replica.plan();
        assert!(plan.serve.is_some() && plan.step.is_none() && plan.inject.is_empty());
    }
}

#[test]
fn without_a_ca_it_begins_anew_and_without_its_key_another_is_prepared() {
    for key in [AUTHORITIES, LEAF_CERT] {
        let mut replica = Replica::settled();
        let old = replica.signer();
        replica.holds(ISSUER_KEY, b"");
        replica.holds(key, b"garbage");
        assert_eq!(replica.step(), Step::Anew { retained: vec![old] }, "{key}");
    }
    let mut replica = Replica::settled();
    replica.holds(ISSUER_KEY, b"garbage");
    assert_eq!(replica.step(), Step::Prepare);
    assert!(replica.plan().step.is_none());
    // A key for the next one that is nobody's: yet another.
    replica.holds(NEXT_KEY, b"garbage");
    assert_eq!(replica.step(), Step::Prepare);
}

#[test]
fn what_has_expired_is_replaced_also_where_the_ca_has() {
    let mut replica = Replica::settled();
    replica.pass(91 * DAY);
    assert_eq!(replica.step(), Step::Renew { names: vec![] });
    assert!(replica.plan().serve.is_some(), "what was served is of no use");
    let mut replica = Replica::settled();
    replica.pass(901 * DAY);
    assert_eq!(replica.step(), Step::Anew { retained: vec![] });
    assert!(replica.plan().serve.is_some());
}

#[test]
fn replicas_that_want_different_names_do_not_fight() {
    let mut replica = Replica::settled();
    let (mine, theirs) = (wanted(&["a.b.svc", "127.0.0.1"]), wanted(&["c.d.svc"]));
    replica.wanted = theirs.clone();
    assert!(matches!(replica.step(), Step::Renew { names } if names == mine.names));
    assert!(replica.plan().step.is_none());
    replica.wanted = mine;
    assert!(replica.plan().step.is_none(), "it is for both");
    // Without a key nobody can add names: from the beginning, and the certificate for other names is not served.
    replica.wanted = wanted(&["e.f.svc"]);
    replica.holds(ISSUER_KEY, b"");
    assert!(replica.plan().serve.is_none() && replica.plan().bundle.is_none());
    assert!(matches!(replica.plan().step, Some((Step::Anew { .. }, _))));
}

#[test]
fn names_that_nobody_wants_any_more_go_with_the_next_renewal() {
    let mut replica = Replica::settled();
    let (mine, theirs) = (replica.wanted.clone(), wanted(&["c.d.svc"]));
    replica.wanted = theirs.clone();
    replica.step();
    replica.wanted = mine;
    // With the next regular renewal those go that nobody wants.
    replica.pass(61 * DAY);
    replica.step();
    assert!(!replica.stored().leaf.as_ref().unwrap().is_for(&theirs.names));
}

#[test]
fn a_certificate_never_outlives_its_ca() {
    let mut replica = Replica::settled();
    // Nobody could rotate: no key of a next CA, and no caller to trust it.
    replica.pass(880 * DAY);
    replica.step();
    let stored = replica.stored();
    let leaf = stored.leaf.as_ref().unwrap();
    assert_eq!(leaf.pair.not_after(), leaf.authority.not_after());
    replica.follow();
    replica.pass(15 * DAY);
    assert!(
        !matches!(replica.plan().step, Some((Step::Renew { .. }, _))),
        "it could not be longer"
    );
}

#[test]
fn readiness_wants_a_caller_and_the_trust_of_each() {
    let mut replica = Replica::settled();
    let now = replica.now.steady;
    let bundle = replica.plan().bundle.unwrap();
    let mut foreign = configuration("");
    foreign.injector = Some("cert-manager.io/inject-ca-from".to_owned());
    for (mutating, validating, is_injected, inject) in [
        (None, None, false, vec![]),
        (Some(configuration(&bundle)), None, true, vec![]),
        (
            Some(configuration(&bundle)),
            Some(configuration("")),
            false,
            vec![Kind::Validating],
        ),
        (Some(foreign.clone()), None, false, vec![]),
        (Some(configuration(&bundle)), Some(foreign.clone()), false, vec![]),
        (
            Some(configuration(&format!("{bundle}# by hand\n"))),
            None,
            true,
            vec![Kind::Mutating],
        ),
    ] {
        replica.sight.configuration_is(Kind::Mutating, mutating, now);
        replica.sight.configuration_is(Kind::Validating, validating, now);
        let plan = replica.plan();
        assert_eq!((plan.is_injected, plan.inject), (is_injected, inject));
    }
}

#[test]
fn no_key_is_told() {
    let replica = Replica::settled();
    let told = format!("{:?}{:?}", replica.sight, replica.plan());
    for key in [LEAF_KEY, ISSUER_KEY] {
        let key = String::from_utf8(replica.data.get(key).unwrap().clone()).unwrap();
        assert!(!told.contains(key.lines().nth(1).unwrap()));
    }
}
