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

/// A Lease as somebody wrote it when their clock said so.
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

fn replaced(next: Next) -> Lease {
    match next {
        Next::Replace(lease) => *lease,
        other => panic!("{other:?}"),
    }
}

/// One that holds the Lease since `at`.
fn leader(at: Instant) -> Elector {
    let mut elector = elector("me");
    elector.observed(None, at);
    let Next::Create(spec) = elector.next(at, &wall(0)) else {
        panic!("there is no Lease");
    };
    let lease = Lease {
        spec: Some(spec),
        ..lease("me", 0)
    };
    elector.written(lease, at);
    elector
}

#[test]
fn the_first_makes_the_lease_and_leads() {
    let start = Instant::now();
    let mut elector = elector("me");
    assert!(elector.must_read());
    assert_eq!(elector.standing(start), ElectionState::Standby(None));
    elector.observed(None, start);
    let Next::Create(spec) = elector.next(start, &wall(7)) else {
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
    assert!(!elector.leads(start), "not before the answer");
    elector.written(lease("me", 7), start);
    assert_eq!(elector.standing(start + 9 * SECOND), ElectionState::Leading);
    assert_eq!(elector.standing(start + 10 * SECOND), ElectionState::Lapsed);
}

#[test]
fn a_renewal_counts_from_when_it_was_sent_and_needs_no_reading() {
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
        "checked by the API server"
    );
    elector.written(renewed, sent);
    assert_eq!(elector.valid_until(), Some(sent + 10 * SECOND));
}

#[test]
fn a_lease_that_is_renewed_is_left_alone_whatever_its_clock_says() {
    let start = Instant::now();
    let mut elector = elector("me");
    // Their clock is decades behind, or ahead, and stays ours to ignore.
    for (round, second) in [0, 4_000_000_000, 1, 2, 3].into_iter().enumerate() {
        let now = start + u32::try_from(round).unwrap() * 19 * SECOND;
        elector.observed(Some(lease("other", second)), now);
        assert_eq!(
            elector.next(now, &wall(0)),
            Next::Wait(now + 20 * SECOND),
            "as long as it says itself"
        );
        assert_eq!(elector.standing(now), ElectionState::Standby(Some("other")));
    }
}

#[test]
fn a_lease_that_is_not_renewed_is_taken_when_it_has_been_seen_so_for_its_duration() {
    let start = Instant::now();
    let mut elector = elector("me");
    for second in [0, 5, 19] {
        let now = start + second * SECOND;
        let mut labelled = lease("other", 7);
        labelled.metadata.resource_version = Some(second.to_string());
        elector.observed(Some(labelled), now);
        assert_eq!(
            elector.next(now, &wall(0)),
            Next::Wait(start + 20 * SECOND),
            "a label is no renewal"
        );
    }
    let end = start + 20 * SECOND;
    let taken = replaced(elector.next(end, &wall(50)));
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("19"));
    let spec = taken.spec.clone().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("me"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(
        (spec.acquire_time, spec.lease_transitions),
        (Some(wall(50)), Some(5))
    );
    // Somebody was quicker.
    elector.failed();
    elector.observed(Some(lease("third", 60)), end);
    assert_eq!(elector.next(end, &wall(0)), Next::Wait(end + 20 * SECOND));
}

#[test]
fn a_lease_without_a_usable_duration_is_given_our_own() {
    let start = Instant::now();
    for seconds in [None, Some(0), Some(-5)] {
        let mut odd = lease("other", 0);
        odd.spec.as_mut().unwrap().lease_duration_seconds = seconds;
        let mut elector = elector("me");
        elector.observed(Some(odd), start);
        assert_eq!(elector.next(start, &wall(0)), Next::Wait(start + 15 * SECOND));
    }
}

#[test]
fn a_lease_that_nobody_holds_is_taken_at_once() {
    let start = Instant::now();
    let empty = Lease {
        spec: None,
        ..lease("", 0)
    };
    for free in [lease("", 0), empty] {
        let mut elector = elector("me");
        elector.observed(Some(lease("other", 0)), start);
        elector.observed(Some(free), start);
        assert!(matches!(elector.next(start, &wall(0)), Next::Replace(_)));
    }
}

#[test]
fn a_lease_taken_by_hand_is_lost_at_once() {
    let start = Instant::now();
    for now_of in ["other", ""] {
        let mut elector = leader(start);
        elector.failed();
        assert_eq!(
            elector.standing(start),
            ElectionState::Leading,
            "a failure alone is no loss"
        );
        assert!(elector.must_read());
        elector.observed(Some(lease(now_of, 1)), start);
        assert!(matches!(elector.standing(start), ElectionState::Standby(_)));
        assert_eq!(elector.valid_until(), None);
    }
}

#[test]
fn who_could_not_renew_goes_on_if_nobody_took_the_lease() {
    let start = Instant::now();
    let mut elector = leader(start);
    elector.failed();
    let late = start + 3600 * SECOND;
    assert_eq!(elector.standing(late), ElectionState::Lapsed);
    elector.observed(Some(lease("me", 0)), late);
    assert_eq!(
        elector.standing(late),
        ElectionState::Lapsed,
        "not before it is renewed"
    );
    let renewed = replaced(elector.next(late, &wall(3600)));
    assert_eq!(
        renewed.spec.as_ref().unwrap().lease_transitions,
        Some(4),
        "it has not changed hands"
    );
    elector.written(renewed, late);
    assert_eq!(elector.standing(late), ElectionState::Leading);
}

#[test]
fn a_deleted_lease_is_made_anew_by_its_holder_and_others_wait_for_it() {
    let start = Instant::now();
    let mut holder = leader(start);
    holder.failed();
    holder.observed(None, start + SECOND);
    assert!(holder.leads(start + SECOND), "nobody else can have it yet");
    assert!(matches!(holder.next(start + SECOND, &wall(0)), Next::Create(_)));

    let mut other = elector("other");
    other.observed(Some(lease("me", 0)), start);
    for second in [100, 110, 119] {
        // Nobody knows when the holder renewed it last.
        other.observed(None, start + second * SECOND);
        let next = other.next(start + second * SECOND, &wall(0));
        assert_eq!(next, Next::Wait(start + 120 * SECOND));
    }
    assert!(matches!(
        other.next(start + 120 * SECOND, &wall(0)),
        Next::Create(_)
    ));

    // Who has lapsed cannot know who held it when it was deleted.
    let mut lapsed = leader(start);
    lapsed.failed();
    let late = start + 60 * SECOND;
    lapsed.observed(None, late);
    assert_eq!(lapsed.next(late, &wall(0)), Next::Wait(late + 15 * SECOND));
}

#[test]
fn a_released_lease_that_is_deleted_binds_nobody() {
    let start = Instant::now();
    let mut elector = elector("me");
    elector.observed(Some(lease("", 0)), start);
    elector.observed(None, start);
    assert!(matches!(elector.next(start, &wall(0)), Next::Create(_)));
}

#[test]
fn release_gives_back_what_is_its_own_alone() {
    let start = Instant::now();
    let mut elector = leader(start);
    assert!(elector.may_hold());
    elector.step_down();
    assert!(!elector.leads(start));
    let spec = elector.release(&wall(9)).unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!(spec.lease_duration_seconds, Some(1));
    assert_eq!(spec.lease_transitions, Some(0));
    elector.observed(Some(lease("other", 1)), start);
    assert_eq!(elector.release(&wall(9)), None);
    let new = Elector::new("new".to_owned(), timing());
    assert!(!new.may_hold());
}

#[test]
fn what_came_of_a_write_that_was_not_answered_is_found_out() {
    let start = Instant::now();
    let mut elector = elector("me");
    elector.observed(None, start);
    elector.failed();
    assert!(elector.may_hold() && elector.must_read());
    elector.observed(Some(lease("me", 0)), start + SECOND);
    assert!(!elector.leads(start + SECOND), "when it was written is not known");
    // It may have arrived after the Lease of another, which was deleted since.
    let safe = start + SECOND + timing().lease;
    assert_eq!(elector.next(start + SECOND, &wall(0)), Next::Wait(safe));
    assert!(matches!(elector.next(safe, &wall(0)), Next::Replace(_)));
}

#[test]
fn a_write_that_was_held_against_its_version_needs_no_wait() {
    let start = Instant::now();
    let mut elector = elector("me");
    elector.observed(Some(lease("", 0)), start);
    assert!(matches!(elector.next(start, &wall(1)), Next::Replace(_)));
    elector.failed();
    elector.observed(Some(lease("me", 1)), start + SECOND);
    assert!(matches!(elector.next(start + SECOND, &wall(2)), Next::Replace(_)));
    let mut anew = lease("me", 2);
    anew.metadata.uid = Some("another".to_owned());
    elector.observed(Some(anew), start + 2 * SECOND);
    assert!(matches!(
        elector.next(start + 2 * SECOND, &wall(3)),
        Next::Wait(_)
    ));
}

#[test]
fn the_duration_is_told_in_whole_seconds_and_never_too_short() {
    let timing = Timing::new(Duration::from_millis(1500), SECOND, Duration::from_millis(500)).unwrap();
    let mut elector = Elector::new("me".to_owned(), timing);
    elector.observed(None, Instant::now());
    let Next::Create(spec) = elector.next(Instant::now(), &wall(0)) else {
        panic!("there is no Lease");
    };
    assert_eq!(spec.lease_duration_seconds, Some(2));
}
