//! Tests of the plan and the changes, without I/O.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::bundle::{self, CaCertificate};
use super::changes::changes_for;
use super::lifetimes::Lifetimes;
use super::observed::{Configuration, ConfigurationKind, Now, Observed, Webhook};
use super::plan::{Desired, Plan, Step};
use super::stored::{AUTHORITIES, ISSUER_KEY, LEAF_CERT, LEAF_KEY, NEXT_KEY, SecretData, Stored};
use crate::issue::{issue_ca, issue_leaf};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// The settle time of the lifetimes below.
const SETTLE: Duration = HOUR;
/// One second less.
const ALMOST: Duration = Duration::from_secs(3599);

/// One replica. Its changes of the Secret and of `caBundle` take effect immediately.
struct Replica {
    observed: Observed,
    data: SecretData,
    now: Now,
    desired: Desired,
}

impl Replica {
    /// With its first certificate, after injection and the settle time.
    fn settled() -> Self {
        let mut replica = Self {
            observed: Observed::default(),
            data: SecretData::new(),
            now: Now {
                wall: SystemTime::UNIX_EPOCH + 20_000 * DAY,
                monotonic: Instant::now(),
            },
            desired: desired(&["a.b.svc", "127.0.0.1"]),
        };
        replica.inject("");
        replica.observed.set_secret(None, replica.now.monotonic);
        assert!(matches!(replica.step(), Step::IssueAll { retained } if retained.is_empty()));
        let plan = replica.plan();
        replica.observed.set_served(plan.serve.unwrap());
        assert_eq!(plan.inject, ConfigurationKind::ALL);
        assert!(!plan.is_injected);
        replica.inject(&plan.bundle.unwrap());
        assert!(replica.plan().is_injected);
        replica.advance(2 * SETTLE);
        replica
    }

    fn plan(&self) -> Plan {
        self.observed.plan(&self.desired, self.now)
    }

    /// Takes the planned step.
    fn step(&mut self) -> Step {
        let (step, _) = self.plan().step.unwrap();
        let stored = self.observed.secret().get().cloned();
        for (key, value) in changes_for(&step, stored.as_deref(), &self.desired, self.now.wall).unwrap() {
            match value {
                Some(value) => self.data.insert(key.to_owned(), value),
                None => self.data.remove(key),
            };
        }
        self.observe_secret();
        step
    }

    fn observe_secret(&mut self) {
        let stored = Arc::new(Stored::read(&self.data));
        self.observed.set_secret(Some(stored), self.now.monotonic);
    }

    fn store(&mut self, key: &str, value: &[u8]) {
        self.data.insert(key.to_owned(), value.to_vec());
        self.observe_secret();
    }

    fn inject(&mut self, bundle: &str) {
        for kind in ConfigurationKind::ALL {
            let configuration = configuration(bundle);
            self.observed
                .set_configuration(kind, Some(configuration), self.now.monotonic);
        }
    }

    /// Serves and injects as planned.
    fn apply_plan(&mut self) {
        let plan = self.plan();
        if let Some(leaf) = plan.serve {
            self.observed.set_served(leaf);
        }
        self.inject(&plan.bundle.unwrap());
    }

    fn advance(&mut self, time: Duration) {
        self.now.wall += time;
        self.now.monotonic += time;
    }

    fn stored(&self) -> &Stored {
        self.observed.secret().get().unwrap()
    }

    fn signer(&self) -> CaCertificate {
        self.stored().leaf.as_ref().unwrap().authority.clone()
    }
}

fn desired(names: &[&str]) -> Desired {
    Desired {
        names: names.iter().map(ToString::to_string).collect(),
        lifetimes: Lifetimes::new(90 * DAY, 900 * DAY, 0.0).unwrap(),
    }
}

fn configuration(bundle: &str) -> Configuration {
    Configuration {
        uid: None,
        resource_version: None,
        webhooks: vec![Webhook {
            name: "validate.helmops.fleet.cattle.io".to_owned(),
            bundle: bundle.as_bytes().to_vec(),
        }],
        injector: None,
    }
}

#[test]
fn a_settled_replica_has_no_step() {
    let replica = Replica::settled();
    let plan = replica.plan();
    assert!(plan.step.is_none() && plan.serve.is_none() && plan.inject.is_empty());
    assert!(plan.is_injected);
    assert!(plan.recheck_at > replica.now.monotonic);
}

#[test]
fn nothing_is_issued_until_all_objects_are_observed() {
    let desired = desired(&["a.b.svc"]);
    let now = Now {
        wall: SystemTime::now(),
        monotonic: Instant::now(),
    };
    let mut observed = Observed::default();
    assert!(observed.plan(&desired, now).step.is_none());
    observed.set_secret(None, now.monotonic);
    assert!(
        observed.plan(&desired, now).step.is_none(),
        "the caBundles are unknown"
    );
    observed.set_configuration(ConfigurationKind::Mutating, None, now.monotonic);
    assert!(observed.plan(&desired, now).step.is_none());
    observed.set_configuration(ConfigurationKind::Validating, None, now.monotonic);
    assert!(observed.plan(&desired, now).step.is_some());
}

#[test]
fn a_certificate_is_renewed_after_two_thirds_of_its_validity_and_served_immediately() {
    let mut replica = Replica::settled();
    replica.advance((60 * 24 - 3) * HOUR);
    assert!(replica.plan().step.is_none());
    replica.advance(HOUR);
    let signer = replica.signer();
    assert_eq!(replica.step(), Step::Renew { names: vec![] });
    assert_eq!(replica.signer(), signer, "from the same CA");
    let plan = replica.plan();
    assert!(plan.serve.is_some() && plan.inject.is_empty() && plan.step.is_none());
}

#[test]
fn the_next_ca_is_trusted_before_it_is_used() {
    let mut replica = Replica::settled();
    let old = replica.signer();
    // The renewal of the certificate is overdue too, and comes first.
    replica.advance(600 * DAY);
    replica.step();
    replica.apply_plan();
    assert_eq!(replica.step(), Step::Prepare);
    let next = replica.stored().next.as_ref().unwrap().authority.clone();
    assert_eq!(replica.stored().authorities, [old.clone(), next.clone()]);
    assert_eq!(replica.signer(), old);

    replica.advance(SETTLE);
    assert!(replica.plan().step.is_none(), "no caBundle contains it yet");
    replica.apply_plan();
    replica.advance(ALMOST);
    assert!(replica.plan().step.is_none());
    let wait = replica.plan().recheck_at - replica.now.monotonic;
    assert_eq!(wait, Duration::from_secs(1), "the next plan is on time");
    replica.advance(Duration::from_secs(1));
    assert_eq!(replica.step(), Step::Switch);
    assert_eq!(replica.signer(), next);
    assert_eq!(replica.stored().authorities, [next.clone(), old.clone()]);
    assert!(!replica.data.contains_key(NEXT_KEY));
    assert_eq!(replica.plan().serve.unwrap().authority, next);

    replica.apply_plan();
    replica.advance(2 * ALMOST + Duration::from_secs(1));
    assert!(replica.plan().step.is_none());
    replica.advance(Duration::from_secs(1));
    assert_eq!(replica.step(), Step::Retire);
    assert_eq!(replica.stored().authorities, [next]);
    replica.apply_plan();
    assert!(replica.plan().step.is_none() && replica.plan().is_injected);
}

#[test]
fn a_rotation_waits_until_every_ca_bundle_has_the_next_ca_without_interruption() {
    let mut replica = Replica::settled();
    let old = bundle::pem(&replica.stored().authorities);
    replica.advance(600 * DAY);
    replica.step();
    replica.apply_plan();
    assert_eq!(replica.step(), Step::Prepare);
    replica.apply_plan();
    replica.advance(SETTLE / 2);
    // A user restores the old bundle, and the new one is injected again.
    replica.observed.set_configuration(
        ConfigurationKind::Mutating,
        Some(configuration(&old)),
        replica.now.monotonic,
    );
    assert_eq!(replica.plan().inject, [ConfigurationKind::Mutating]);
    replica.advance(SETTLE);
    assert!(replica.plan().step.is_none());
    replica.apply_plan();
    replica.advance(SETTLE / 2);
    assert!(replica.plan().step.is_none(), "the settle time starts again");
    replica.advance(SETTLE / 2);
    assert_eq!(replica.step(), Step::Switch);
}

#[test]
fn another_replica_continues_the_rotation_of_a_killed_one() {
    let mut replica = Replica::settled();
    replica.advance(600 * DAY);
    replica.step();
    replica.apply_plan();
    replica.step();
    let bundle = replica.plan().bundle.unwrap();
    let mut other = Replica {
        observed: Observed::default(),
        ..replica
    };
    other.inject(&bundle);
    other.observe_secret();
    assert!(other.plan().serve.is_some());
    other.advance(SETTLE);
    assert_eq!(other.step(), Step::Switch);
}

#[test]
fn a_deleted_secret_is_created_again_and_the_trusted_certificate_is_served_meanwhile() {
    let mut replica = Replica::settled();
    let old = replica.signer();
    replica.observed.set_secret(None, replica.now.monotonic);
    replica.data.clear();
    assert_eq!(
        replica.step(),
        Step::IssueAll {
            retained: vec![old.clone()]
        }
    );
    let new = replica.signer();
    assert_eq!(replica.stored().authorities, [new.clone(), old.clone()]);
    assert!(replica.plan().serve.is_none(), "no caBundle contains its CA yet");
    replica.apply_plan();
    assert!(
        replica.plan().serve.is_none(),
        "the API servers may not have the caBundle yet"
    );
    replica.advance(SETTLE);
    assert!(replica.plan().serve.is_some());
    replica.apply_plan();
    replica.advance(SETTLE);
    assert_eq!(replica.step(), Step::Retire);
    assert_eq!(replica.stored().authorities, [new]);
}

#[test]
fn an_untrusted_served_certificate_is_replaced_immediately() {
    let mut replica = Replica::settled();
    replica.observed.set_secret(None, replica.now.monotonic);
    replica.data.clear();
    replica.step();
    let only = replica.signer().pem();
    replica.inject(&only);
    assert!(replica.plan().serve.is_some());
}

#[test]
fn a_damaged_certificate_is_issued_again_from_the_same_ca() {
    let other_ca = issue_ca("other CA", SystemTime::UNIX_EPOCH + 19_999 * DAY, 90 * DAY).unwrap();
    let issued = SystemTime::UNIX_EPOCH + 20_000 * DAY;
    let foreign = issue_leaf(&other_ca, &["a.b.svc".to_owned()], &[], issued, DAY).unwrap();
    let other_key = other_ca.key_pem();
    let garbage: &[u8] = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let damages: [&[(&str, &[u8])]; 5] = [
        &[(LEAF_CERT, b"")],
        &[(LEAF_CERT, garbage)],
        &[(LEAF_KEY, b"garbage")],
        &[(LEAF_KEY, other_key.as_bytes())],
        &[
            (LEAF_CERT, foreign.cert_pem.as_bytes()),
            (LEAF_KEY, foreign.key_pem.as_bytes()),
        ],
    ];
    for damage in damages {
        let mut replica = Replica::settled();
        let authorities = replica.stored().authorities.clone();
        for (key, value) in damage {
            replica.store(key, value);
        }
        assert!(replica.plan().serve.is_none(), "the served certificate stays");
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
fn without_a_ca_everything_is_issued_and_without_its_key_the_next_ca_is_prepared() {
    for key in [AUTHORITIES, LEAF_CERT] {
        let mut replica = Replica::settled();
        let old = replica.signer();
        replica.store(ISSUER_KEY, b"");
        replica.store(key, b"garbage");
        assert_eq!(replica.step(), Step::IssueAll { retained: vec![old] }, "{key}");
    }
    let mut replica = Replica::settled();
    replica.store(ISSUER_KEY, b"garbage");
    assert_eq!(replica.step(), Step::Prepare);
    assert!(replica.plan().step.is_none());
    // The key of the next CA is damaged: prepared again.
    replica.store(NEXT_KEY, b"garbage");
    assert_eq!(replica.step(), Step::Prepare);
}

#[test]
fn an_expired_certificate_or_ca_is_replaced() {
    let mut replica = Replica::settled();
    replica.advance(91 * DAY);
    assert_eq!(replica.step(), Step::Renew { names: vec![] });
    assert!(
        replica.plan().serve.is_some(),
        "the served certificate has expired"
    );
    let mut replica = Replica::settled();
    replica.advance(901 * DAY);
    assert_eq!(replica.step(), Step::IssueAll { retained: vec![] });
    assert!(replica.plan().serve.is_some());
}

#[test]
fn replicas_with_different_names_agree_on_one_certificate() {
    let mut replica = Replica::settled();
    let (ours, others) = (desired(&["a.b.svc", "127.0.0.1"]), desired(&["c.d.svc"]));
    replica.desired = others.clone();
    assert!(matches!(replica.step(), Step::Renew { names } if names == ours.names));
    assert!(replica.plan().step.is_none());
    replica.desired = ours;
    assert!(replica.plan().step.is_none(), "it has the names of both");
    // Without the key of the CA no name can be added: everything is issued again, and the certificate for other names is not
    // served.
    replica.desired = desired(&["e.f.svc"]);
    replica.store(ISSUER_KEY, b"");
    assert!(replica.plan().serve.is_none() && replica.plan().bundle.is_none());
    assert!(matches!(replica.plan().step, Some((Step::IssueAll { .. }, _))));
}

#[test]
fn unused_names_are_dropped_at_the_next_renewal() {
    let mut replica = Replica::settled();
    let (ours, others) = (replica.desired.clone(), desired(&["c.d.svc"]));
    replica.desired = others.clone();
    replica.step();
    replica.desired = ours;
    // The next regular renewal drops the unused names.
    replica.advance(61 * DAY);
    replica.step();
    assert!(!replica.stored().leaf.as_ref().unwrap().is_for(&others.names));
}

#[test]
fn a_certificate_never_outlives_its_ca() {
    let mut replica = Replica::settled();
    // No rotation happened: there is no key of a next CA, and no caBundle contains one.
    replica.advance(880 * DAY);
    replica.step();
    let stored = replica.stored();
    let leaf = stored.leaf.as_ref().unwrap();
    assert_eq!(leaf.pair.not_after(), leaf.authority.not_after());
    replica.apply_plan();
    replica.advance(15 * DAY);
    assert!(
        !matches!(replica.plan().step, Some((Step::Renew { .. }, _))),
        "it would not be valid for longer"
    );
}

#[test]
fn readiness_requires_a_configuration_and_trust_in_each() {
    let mut replica = Replica::settled();
    let now = replica.now.monotonic;
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
            vec![ConfigurationKind::Validating],
        ),
        (Some(foreign.clone()), None, false, vec![]),
        (Some(configuration(&bundle)), Some(foreign.clone()), false, vec![]),
        (
            Some(configuration(&format!("{bundle}# by hand\n"))),
            None,
            true,
            vec![ConfigurationKind::Mutating],
        ),
    ] {
        replica
            .observed
            .set_configuration(ConfigurationKind::Mutating, mutating, now);
        replica
            .observed
            .set_configuration(ConfigurationKind::Validating, validating, now);
        let plan = replica.plan();
        assert_eq!((plan.is_injected, plan.inject), (is_injected, inject));
    }
}

#[test]
fn no_key_is_in_debug_output() {
    let replica = Replica::settled();
    let output = format!("{:?}{:?}", replica.observed, replica.plan());
    for key in [LEAF_KEY, ISSUER_KEY] {
        let key = String::from_utf8(replica.data.get(key).unwrap().clone()).unwrap();
        assert!(!output.contains(key.lines().nth(1).unwrap()));
    }
}
