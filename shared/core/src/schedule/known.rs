//! What was computed of Schedules already: a Schedule is read once, and what several of them decide together is computed once, for all
//! clusters that they select and as long as it holds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_api::schedule::ScheduleSpec;
use helmops_fair::lock;
use k8s_openapi::jiff::Timestamp;

use super::window::{WindowState, Windows};

/// How many Schedules, and how many sets of them, are remembered. With more, all are computed again.
const MAX_KNOWN: usize = 1_024;
/// How many bytes the fields of a Schedule have that is remembered: more than the limits of the API allow.
const MAX_FIELDS: usize = 2_048;
/// Ends and starts of windows that are followed until the next change: windows of other Schedules may hide them.
pub const MAX_STEPS: usize = 200;

/// The windows of a Schedule, which are valid.
#[derive(Clone, Debug)]
pub struct ReadWindows {
    /// No other windows have it.
    id: u64,
    /// Whether they are remembered. Others are read again each time, so that nothing that is decided about them is found again.
    is_remembered: bool,
    windows: Arc<Windows>,
}

/// What Schedules decide together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the clusters that they select can be changed.
    pub is_open: bool,
    /// When that changes; `None` if it never does, or not within [`MAX_STEPS`].
    pub until: Option<Timestamp>,
    /// Before this time the decision stays as it is; `None` if it always does.
    pub again: Option<Timestamp>,
}

/// The windows of Schedules, and what sets of them decide.
///
/// All of it follows from what it is found by, so that it is never outdated: windows from the fields of a Schedule, and a decision from a
/// set of windows and the time.
///
/// Loops share it. It is not locked while something is computed: two that compute the same get the same.
#[derive(Debug, Default)]
pub struct KnownWindows(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    last_id: u64,
    windows: HashMap<[String; 4], ReadWindows>,
    decisions: HashMap<Vec<u64>, (Timestamp, Decision)>,
}

impl KnownWindows {
    /// The windows of a Schedule; `None` if they are invalid.
    pub fn read(&self, spec: &ScheduleSpec) -> Option<ReadWindows> {
        let fields = [&spec.schedule, &spec.duration, &spec.location, &spec.kind].map(String::clone);
        let known = lock(&self.0).windows.get(&fields).cloned();
        known.or_else(|| {
            // Before the lock.
            let windows = Windows::of(spec).ok()?;
            Some(lock(&self.0).remember(fields, windows))
        })
    }

    /// What Schedules decide together at a time.
    #[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
    pub fn decide<'w>(&self, windows: impl IntoIterator<Item = &'w ReadWindows>, now: Timestamp) -> Decision {
        let mut set: Vec<_> = windows.into_iter().collect();
        set.sort_by_key(|one| one.id);
        set.dedup_by_key(|one| one.id);
        let ids: Vec<_> = set.iter().map(|one| one.id).collect();
        let known = lock(&self.0).decisions.get(&ids).copied();
        if let Some((since, decision)) = known
            && since <= now
            && decision.again.is_none_or(|again| now < again)
        {
            return decision;
        }
        let decision = decide(&set, now);
        if set.iter().all(|one| one.is_remembered) {
            let decisions = &mut lock(&self.0).decisions;
            make_room(decisions);
            decisions.insert(ids, (now, decision));
        }
        decision
    }
}

impl Known {
    /// Remembers windows, unless their fields are too long, or they were read by another thread meanwhile.
    fn remember(&mut self, fields: [String; 4], windows: Windows) -> ReadWindows {
        if let Some(known) = self.windows.get(&fields) {
            return known.clone();
        }
        // It is never used again, even if all windows are forgotten.
        self.last_id += 1;
        let read = ReadWindows {
            id: self.last_id,
            is_remembered: fields.iter().map(String::len).sum::<usize>() <= MAX_FIELDS,
            windows: Arc::new(windows),
        };
        if read.is_remembered {
            make_room(&mut self.windows);
            self.windows.insert(fields, read.clone());
        }
        read
    }
}

/// Forgets all if nothing else has room.
fn make_room<K, V>(known: &mut HashMap<K, V>) {
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
}

fn decide(set: &[&ReadWindows], now: Timestamp) -> Decision {
    let windows: Vec<&Windows> = set.iter().map(|one| &*one.windows).collect();
    let (is_open, mut next) = at(&windows, now);
    for _ in 0..MAX_STEPS {
        let Some(time) = next else {
            break;
        };
        let (is_open_then, after) = at(&windows, time);
        if is_open_then != is_open {
            return Decision {
                is_open,
                until: Some(time),
                again: Some(time),
            };
        }
        next = after;
    }
    Decision {
        is_open,
        until: None,
        again: next,
    }
}

/// Whether clusters can be changed at a time, and when a window begins or ends next.
fn at(windows: &[&Windows], time: Timestamp) -> (bool, Option<Timestamp>) {
    let (mut allowing, mut allowed, mut denied, mut next) = (false, false, false, None);
    for windows in windows {
        let WindowState { is_active, until, .. } = windows.at(time);
        denied |= windows.is_deny && is_active;
        allowing |= !windows.is_deny;
        allowed |= !windows.is_deny && is_active;
        next = next.into_iter().chain(until).min();
    }
    (!denied && (allowed || !allowing), next)
}

#[cfg(test)]
mod tests {
    use helmops_api::schedule::LIMITS;
    use serde_json::{Value, json};

    use super::*;

    fn spec(spec: &Value) -> ScheduleSpec {
        serde_json::from_value(spec.clone()).unwrap()
    }

    fn night(kind: &str) -> ScheduleSpec {
        spec(&json!({ "kind": kind, "schedule": "0 0 2 * * ?", "duration": "2h" }))
    }

    #[test]
    fn windows_are_read_once_and_never_mistaken_for_others() {
        let known = KnownWindows::default();
        let first = known.read(&night("")).unwrap();
        let again = known
            .read(&spec(
                &json!({ "schedule": "0 0 2 * * ?", "duration": "2h", "targets": { "clusters": [{}] } }),
            ))
            .unwrap();
        assert!(Arc::ptr_eq(&first.windows, &again.windows));
        let fields = [
            ("schedule", "0 0 3 * * ?"),
            ("duration", "3h"),
            ("location", "Europe/Berlin"),
            ("kind", "Deny"),
        ];
        for (field, value) in fields {
            let mut other = json!({ "schedule": "0 0 2 * * ?", "duration": "2h" });
            other[field] = json!(value);
            assert_ne!(known.read(&spec(&other)).unwrap().id, first.id, "{other}");
        }
        for second in 0..MAX_KNOWN {
            let other = json!({ "schedule": "0 0 2 * * ?", "duration": format!("{}s", second + 1) });
            known.read(&spec(&other));
            assert!(lock(&known.0).windows.len() <= MAX_KNOWN);
        }
        assert_ne!(known.read(&night("")).unwrap().id, first.id, "it was forgotten");
        let long = " ".repeat(MAX_FIELDS);
        let long = spec(&json!({ "schedule": format!("0 0 2 * * ?{long}"), "duration": "2h" }));
        let [one, other] = [(); 2].map(|()| known.read(&long).unwrap());
        assert_ne!(one.id, other.id, "it is not remembered");
        let night = known.read(&night("")).unwrap();
        known.decide([&one, &night], "2026-01-01T03:00:00Z".parse().unwrap());
        assert!(lock(&known.0).decisions.is_empty(), "it is never found again");
        assert!(known.read(&spec(&json!({ "schedule": "0 0 2 * * ?" }))).is_none());
    }

    #[test]
    fn the_windows_of_each_schedule_within_the_limits_are_remembered() {
        let fields = ["schedule", "duration", "location", "kind"];
        let limits = LIMITS.iter().filter(|(field, ..)| fields.contains(field));
        let limits: Vec<_> = limits.map(|(_, _, limit)| limit).collect();
        assert_eq!(limits.len(), fields.len());
        assert!(limits.into_iter().sum::<usize>() <= MAX_FIELDS);
    }

    #[test]
    fn a_decision_holds_until_its_time_and_not_before_it_was_made() {
        let known = KnownWindows::default();
        let night = known.read(&night("")).unwrap();
        for (time, is_open, until) in [
            ("2026-01-01T03:00:00Z", true, "2026-01-01T04:00:00Z"),
            ("2026-01-01T03:59:59Z", true, "2026-01-01T04:00:00Z"),
            ("2026-01-01T04:00:00Z", false, "2026-01-02T02:00:00Z"),
            ("2026-01-01T05:00:00Z", false, "2026-01-02T02:00:00Z"),
            // The clock was set back.
            ("2026-01-01T03:30:00Z", true, "2026-01-01T04:00:00Z"),
        ] {
            let decision = known.decide([&night, &night], time.parse().unwrap());
            let until = Some(until.parse().unwrap());
            assert_eq!((decision.is_open, decision.until), (is_open, until), "{time}");
            assert_eq!(decision.again, until);
            assert_eq!(lock(&known.0).decisions.len(), 1);
        }
    }

    #[test]
    fn clusters_with_the_same_schedules_share_a_decision() {
        let known = KnownWindows::default();
        let [allow, deny] = ["", "Deny"].map(|kind| known.read(&night(kind)).unwrap());
        let now = "2026-01-01T03:00:00Z".parse().unwrap();
        let decided: Vec<_> = [[&allow, &deny], [&deny, &allow], [&allow, &allow]]
            .map(|set| known.decide(set, now).is_open)
            .into();
        assert_eq!(decided, [false, false, true]);
        assert_eq!(lock(&known.0).decisions.len(), 2);
    }
}
