use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn timing() -> Timing {
    Timing::new(15 * SECOND, 10 * SECOND, 2 * SECOND).unwrap()
}

fn elector(identity: &str) -> Elector {
    Elector::new(identity.to_owned(), timing())
}

fn wall(second: i64) -> MicroTime {
    MicroTime(Timestamp::from_second(second).unwrap())
}

/// A Lease as its holder wrote it at this second of the holder's clock.
fn lease(holder: &str, second: i64) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(20),
        acquire_time: Some(wall(0)),
        renew_time: Some(wall(second)),
        lease_transitions: Some(4),
        ..LeaseSpec::default()
    };
    Lease {
        metadata: ObjectMeta {
            resource_version: Some(second.to_string()),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
    }
}

fn replaced(next: Action) -> Lease {
    match next {
        Action::Replace(lease) => *lease,
        other => panic!("{other:?}"),
    }
}

/// A candidate that has held the Lease since `at`.
fn leader(at: Instant) -> Elector {
    let mut elector = elector("me");
    elector.observe(None, at);
    let Action::Create(spec) = elector.next(at, &wall(0)) else {
        panic!("there is no Lease");
    };
    let lease = Lease {
        spec: Some(spec),
        ..lease("me", 0)
    };
    elector.write_succeeded(lease, at);
    elector
}

#[test]
fn the_first_candidate_creates_the_lease_and_is_the_leader() {
    let start = Instant::now();
    let mut elector = elector("me");
    assert!(elector.must_read());
    assert_eq!(elector.state(start), ElectionState::Standby(None));
    elector.observe(None, start);
    let Action::Create(spec) = elector.next(start, &wall(7)) else {
        panic!("there is no Lease");
    };
    let expected = LeaseSpec {
        holder_identity: Some("me".to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(wall(7)),
        renew_time: Some(wall(7)),
        lease_transitions: Some(0),
        ..LeaseSpec::default()
    };
    assert_eq!(spec, expected);
    assert!(!elector.leads(start), "not before the response");
    elector.write_succeeded(lease("me", 7), start);
    assert_eq!(elector.state(start + 9 * SECOND), ElectionState::Leading);
    assert_eq!(elector.state(start + 10 * SECOND), ElectionState::Lapsed);
}

#[test]
fn a_renewal_counts_from_when_it_was_sent_and_needs_no_read() {
    let start = Instant::now();
    let mut elector = leader(start);
    assert!(!elector.must_read());
    let sent = start + 2 * SECOND;
    let renewed = replaced(elector.next(sent, &wall(2)));
    let spec = renewed.spec.clone().unwrap();
    assert_eq!(
        (spec.acquire_time, spec.renew_time),
        (Some(wall(0)), Some(wall(2)))
    );
    assert_eq!(spec.lease_transitions, Some(0));
    assert_eq!(
        renewed.metadata.resource_version.as_deref(),
        Some("0"),
        "the API server checks it"
    );
    elector.write_succeeded(renewed, sent);
    assert_eq!(elector.valid_until(), Some(sent + 10 * SECOND));
}

#[test]
fn a_renewed_lease_is_not_acquired_whatever_its_clock_shows() {
    let start = Instant::now();
    let mut elector = elector("me");
    // The clock of the holder may be decades behind or ahead, and is ignored.
    for (round, second) in [0, 4_000_000_000, 1, 2, 3].into_iter().enumerate() {
        let now = start + u32::try_from(round).unwrap() * 19 * SECOND;
        elector.observe(Some(lease("other", second)), now);
        assert_eq!(
            elector.next(now, &wall(0)),
            Action::Wait(now + 20 * SECOND),
            "for its own lease duration"
        );
        assert_eq!(elector.state(now), ElectionState::Standby(Some("other")));
    }
}

#[test]
fn a_lease_is_acquired_when_it_was_not_renewed_for_its_duration() {
    let start = Instant::now();
    let mut elector = elector("me");
    for second in [0, 5, 19] {
        let now = start + second * SECOND;
        let mut labelled = lease("other", 7);
        labelled.metadata.resource_version = Some(second.to_string());
        elector.observe(Some(labelled), now);
        assert_eq!(
            elector.next(now, &wall(0)),
            Action::Wait(start + 20 * SECOND),
            "a new label is no renewal"
        );
    }
    let end = start + 20 * SECOND;
    let acquired = replaced(elector.next(end, &wall(50)));
    assert_eq!(acquired.metadata.resource_version.as_deref(), Some("19"));
    let spec = acquired.spec.clone().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("me"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(
        (spec.acquire_time, spec.lease_transitions),
        (Some(wall(50)), Some(5))
    );
    // Another candidate was faster.
    elector.write_failed();
    elector.observe(Some(lease("third", 60)), end);
    assert_eq!(elector.next(end, &wall(0)), Action::Wait(end + 20 * SECOND));
}

#[test]
fn a_lease_without_a_valid_duration_uses_the_own_duration() {
    let start = Instant::now();
    for seconds in [None, Some(0), Some(-5)] {
        let mut invalid = lease("other", 0);
        invalid.spec.as_mut().unwrap().lease_duration_seconds = seconds;
        let mut elector = elector("me");
        elector.observe(Some(invalid), start);
        assert_eq!(elector.next(start, &wall(0)), Action::Wait(start + 15 * SECOND));
    }
}

#[test]
fn a_lease_without_holder_is_acquired_immediately() {
    let start = Instant::now();
    let empty = Lease {
        spec: None,
        ..lease("", 0)
    };
    for free in [lease("", 0), empty] {
        let mut elector = elector("me");
        elector.observe(Some(lease("other", 0)), start);
        elector.observe(Some(free), start);
        assert!(matches!(elector.next(start, &wall(0)), Action::Replace(_)));
    }
}

#[test]
fn leadership_ends_immediately_if_the_holder_is_changed_by_hand() {
    let start = Instant::now();
    for holder in ["other", ""] {
        let mut elector = leader(start);
        elector.write_failed();
        assert_eq!(
            elector.state(start),
            ElectionState::Leading,
            "a failure alone is no loss"
        );
        assert!(elector.must_read());
        elector.observe(Some(lease(holder, 1)), start);
        assert!(matches!(elector.state(start), ElectionState::Standby(_)));
        assert_eq!(elector.valid_until(), None);
    }
}

#[test]
fn a_lapsed_leader_leads_again_if_no_other_acquired_the_lease() {
    let start = Instant::now();
    let mut elector = leader(start);
    elector.write_failed();
    let late = start + 3600 * SECOND;
    assert_eq!(elector.state(late), ElectionState::Lapsed);
    elector.observe(Some(lease("me", 0)), late);
    assert_eq!(
        elector.state(late),
        ElectionState::Lapsed,
        "not before it is renewed"
    );
    let renewed = replaced(elector.next(late, &wall(3600)));
    assert_eq!(
        renewed.spec.as_ref().unwrap().lease_transitions,
        Some(4),
        "the holder has not changed"
    );
    elector.write_succeeded(renewed, late);
    assert_eq!(elector.state(late), ElectionState::Leading);
}

#[test]
fn a_deleted_lease_is_created_again_by_its_holder_while_others_wait() {
    let start = Instant::now();
    let mut holder = leader(start);
    holder.write_failed();
    holder.observe(None, start + SECOND);
    assert!(holder.leads(start + SECOND), "no other candidate can hold it yet");
    assert!(matches!(holder.next(start + SECOND, &wall(0)), Action::Create(_)));

    let mut other = elector("other");
    other.observe(Some(lease("me", 0)), start);
    for second in [100, 110, 119] {
        // It is not known when the holder renewed it last.
        other.observe(None, start + second * SECOND);
        let next = other.next(start + second * SECOND, &wall(0));
        assert_eq!(next, Action::Wait(start + 120 * SECOND));
    }
    assert!(matches!(
        other.next(start + 120 * SECOND, &wall(0)),
        Action::Create(_)
    ));

    // A lapsed leader cannot know which candidate held it when it was deleted.
    let mut lapsed = leader(start);
    lapsed.write_failed();
    let late = start + 60 * SECOND;
    lapsed.observe(None, late);
    assert_eq!(lapsed.next(late, &wall(0)), Action::Wait(late + 15 * SECOND));
}

#[test]
fn a_released_and_deleted_lease_is_created_immediately() {
    let start = Instant::now();
    let mut elector = elector("me");
    elector.observe(Some(lease("", 0)), start);
    elector.observe(None, start);
    assert!(matches!(elector.next(start, &wall(0)), Action::Create(_)));
}

#[test]
fn only_an_own_lease_is_released() {
    let start = Instant::now();
    let mut elector = leader(start);
    assert!(elector.may_hold());
    elector.step_down();
    assert!(!elector.leads(start));
    let spec = elector.release(&wall(9)).unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!(spec.lease_duration_seconds, Some(1));
    assert_eq!(spec.lease_transitions, Some(0));
    elector.observe(Some(lease("other", 1)), start);
    assert_eq!(elector.release(&wall(9)), None);
    let new = Elector::new("new".to_owned(), timing());
    assert!(!new.may_hold());
}

#[test]
fn after_a_write_without_response_the_lease_is_read() {
    let start = Instant::now();
    let mut elector = elector("me");
    elector.observe(None, start);
    elector.write_failed();
    assert!(elector.may_hold() && elector.must_read());
    elector.observe(Some(lease("me", 0)), start + SECOND);
    assert!(
        !elector.leads(start + SECOND),
        "it is not known when it was written"
    );
    // The write may have arrived after another candidate created the Lease, and the Lease was deleted since.
    let safe = start + SECOND + timing().lease;
    assert_eq!(elector.next(start + SECOND, &wall(0)), Action::Wait(safe));
    assert!(matches!(elector.next(safe, &wall(0)), Action::Replace(_)));
}

#[test]
fn a_write_with_a_resource_version_needs_no_wait() {
    let start = Instant::now();
    let mut elector = elector("me");
    elector.observe(Some(lease("", 0)), start);
    assert!(matches!(elector.next(start, &wall(1)), Action::Replace(_)));
    elector.write_failed();
    elector.observe(Some(lease("me", 1)), start + SECOND);
    assert!(matches!(
        elector.next(start + SECOND, &wall(2)),
        Action::Replace(_)
    ));
    let mut recreated = lease("me", 2);
    recreated.metadata.uid = Some("another".to_owned());
    elector.observe(Some(recreated), start + 2 * SECOND);
    assert!(matches!(
        elector.next(start + 2 * SECOND, &wall(3)),
        Action::Wait(_)
    ));
}

#[test]
fn the_lease_duration_is_rounded_up_to_whole_seconds() {
    let timing = Timing::new(Duration::from_millis(1500), SECOND, Duration::from_millis(500)).unwrap();
    let mut elector = Elector::new("me".to_owned(), timing);
    elector.observe(None, Instant::now());
    let Action::Create(spec) = elector.next(Instant::now(), &wall(0)) else {
        panic!("there is no Lease");
    };
    assert_eq!(spec.lease_duration_seconds, Some(2));
}
