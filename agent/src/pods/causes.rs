//! What is known of workloads that are not ready, and when they are looked at again.

use std::{
    collections::HashMap,
    mem::take,
    time::{Duration, Instant},
};

use helmops_release::{deployed::RevisionId, health::Health, object::ObjectId};

/// How long a workload may be not ready before its pods are looked at: each change of a workload takes a moment.
const GRACE: Duration = Duration::from_secs(5);
/// When a workload is looked at again: in a crash loop only the pods change, and they are not watched.
const INTERVAL: Duration = Duration::from_secs(30);
/// The longest interval: it doubles while the cause is the same.
const MAX_INTERVAL: Duration = Duration::from_mins(8);
/// Workloads of a release that are looked at: others fail for the same reason, or wait for these.
const MAX: usize = 3;

/// How long a workload without readiness probes has to stay ready. A container that crashes at its start is ready for less, at each of its
/// restarts.
const STEADY: Duration = Duration::from_secs(5);
/// The same for one that is known to crash. Between two of its restarts are 10 seconds and more.
pub const STEADY_AFTER_CRASH: Duration = Duration::from_secs(15);

/// What is known of the workloads of a revision that are not ready.
#[derive(Debug, Default)]
pub struct PodCauses {
    revision: Option<RevisionId>,
    workloads: HashMap<ObjectId, Workload>,
    /// Since when workloads without readiness probes look ready: those that are waited for, and those that are known to crash.
    started: HashMap<ObjectId, Instant>,
    /// When the first of them has looked so for long enough.
    steady_at: Option<Instant>,
}

#[derive(Debug)]
struct Workload {
    /// When it is looked at.
    next: Instant,
    /// How long after that it is looked at again.
    interval: Duration,
    /// What was found.
    cause: Option<Cause>,
    /// What the workload has shown when it was not ready.
    shown: Option<Health>,
}

/// A workload without readiness probes that looks ready.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// It has been so for long enough.
    Steady,
    /// It has just become so.
    Recent,
    /// The same, and it is known to crash: what it has shown before.
    Crashing(Health),
}

/// Why a workload is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The part that is the same as long as the cause is. The rest may change with each restart, and is not read again.
    pub head: String,
    /// The whole text.
    pub text: String,
    /// Whether there is more than the head: a message, a warning or a log.
    pub is_complete: bool,
    /// Whether a container ends again and again.
    pub is_crash: bool,
}

/// What a look has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// The cause that is known.
    Same,
    /// No cause.
    Nothing,
    /// A cause.
    Found(Cause),
}

impl PodCauses {
    /// Forgets workloads that are ready, and everything about another revision; returns those that are to be looked at now. `unready` are
    /// the workloads that are not ready, and whether they have failed: these come first, and are looked at immediately.
    /// If it `is_last`, the release is about to fail: then all are, of which no cause is known.
    pub fn due(
        &mut self,
        revision: &RevisionId,
        unready: &[(ObjectId, bool)],
        is_last: bool,
    ) -> Vec<ObjectId> {
        self.due_at(revision, unready, is_last, Instant::now())
    }

    /// Forgets everything about another revision.
    fn keep_only(&mut self, revision: &RevisionId) {
        if self.revision.as_ref() != Some(revision) {
            *self = Self {
                revision: Some(revision.clone()),
                ..Self::default()
            };
        }
    }

    /// What is known of workloads without readiness probes that look ready. `are_awaited` if the release waits for them.
    pub fn starts(
        &mut self,
        revision: &RevisionId,
        started: Vec<ObjectId>,
        are_awaited: bool,
    ) -> Vec<(ObjectId, Start)> {
        self.starts_at(revision, started, are_awaited, Instant::now())
    }

    fn starts_at(
        &mut self,
        revision: &RevisionId,
        started: Vec<ObjectId>,
        are_awaited: bool,
        now: Instant,
    ) -> Vec<(ObjectId, Start)> {
        self.keep_only(revision);
        let before = take(&mut self.started);
        self.steady_at = None;
        let mut starts = Vec::new();
        for id in started {
            let crashing = self.crashing(&id).cloned();
            if !are_awaited && crashing.is_none() {
                continue;
            }
            let since = before.get(&id).copied().unwrap_or(now);
            let steady = crashing.as_ref().map_or(STEADY, |_| STEADY_AFTER_CRASH);
            let start = if since + steady <= now {
                Start::Steady
            } else {
                self.steady_at = self.steady_at.into_iter().chain([since + steady]).min();
                crashing.map_or(Start::Recent, Start::Crashing)
            };
            self.started.insert(id.clone(), since);
            starts.push((id, start));
        }
        starts
    }

    /// What a workload has shown that is known to crash.
    fn crashing(&self, id: &ObjectId) -> Option<&Health> {
        let workload = self.workloads.get(id)?;
        workload.cause.as_ref().filter(|cause| cause.is_crash)?;
        workload.shown.as_ref()
    }

    /// Remembers what a workload shows that is not ready.
    pub fn shows(&mut self, id: &ObjectId, health: &Health) {
        if let Some(workload) = self.workloads.get_mut(id) {
            workload.shown = Some(health.clone());
        }
    }

    fn due_at(
        &mut self,
        revision: &RevisionId,
        unready: &[(ObjectId, bool)],
        is_last: bool,
        now: Instant,
    ) -> Vec<ObjectId> {
        self.keep_only(revision);
        let (failed, waiting): (Vec<_>, Vec<_>) = unready.iter().partition(|(_, is_failed)| *is_failed);
        let first: Vec<_> = failed.into_iter().chain(waiting).take(MAX).collect();
        self.workloads
            .retain(|id, _| first.iter().any(|(first, _)| first == id));
        let mut due = Vec::new();
        for (id, is_failed) in first {
            let workload = self.workloads.entry(id.clone()).or_insert(Workload {
                next: now + GRACE,
                interval: INTERVAL,
                cause: None,
                shown: None,
            });
            let is_urgent = is_last || *is_failed && workload.interval == INTERVAL;
            if is_urgent && workload.cause.is_none() {
                workload.next = now;
            }
            // Between two crashes its pod shows nothing.
            if workload.next <= now && !self.started.contains_key(id) {
                due.push(id.clone());
            }
        }
        due
    }

    /// The cause that is known of a workload.
    pub fn get(&self, id: &ObjectId) -> Option<&Cause> {
        self.workloads.get(id)?.cause.as_ref()
    }

    /// Records what a look has shown.
    pub fn found(&mut self, id: &ObjectId, look: Look) {
        let Some(workload) = self.workloads.get_mut(id) else {
            return;
        };
        let head = |cause: &Option<Cause>| cause.as_ref().map(|cause| cause.head.clone());
        let before = head(&workload.cause);
        match look {
            Look::Same => {}
            Look::Nothing => workload.cause = None,
            Look::Found(cause) => workload.cause = Some(cause),
        }
        if before != head(&workload.cause) {
            workload.interval = INTERVAL;
        }
    }

    /// Schedules the next look, whether this one has shown something or not.
    pub fn looked_at(&mut self, ids: &[ObjectId]) {
        self.looked_at_time(ids, Instant::now());
    }

    fn looked_at_time(&mut self, ids: &[ObjectId], now: Instant) {
        for id in ids {
            if let Some(workload) = self.workloads.get_mut(id) {
                workload.next = now + workload.interval;
                workload.interval = (workload.interval * 2).min(MAX_INTERVAL);
            }
        }
    }

    /// The causes that are known.
    pub fn known(&self) -> impl Iterator<Item = (&ObjectId, &str)> {
        let known = self.workloads.iter();
        known.filter_map(|(id, workload)| Some((id, &*workload.cause.as_ref()?.text)))
    }

    /// When a workload is to be looked at again: in a second at least.
    pub fn next(&self) -> Option<Duration> {
        let looks = self.workloads.iter();
        let looks = looks.filter(|(id, _)| !self.started.contains_key(*id));
        let looks = looks.map(|(_, workload)| workload.next);
        let next = looks.chain(self.steady_at).min()?;
        let remaining = next.saturating_duration_since(Instant::now());
        Some(remaining.max(Duration::from_secs(1)))
    }
}

#[cfg(test)]
mod tests {
    use helmops_release::names::ReleaseKey;

    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    fn revision(number: u64) -> RevisionId {
        RevisionId {
            release: ReleaseKey::parse("shop/web").unwrap(),
            number,
            made_at: None,
        }
    }

    fn crash(text: &str) -> Look {
        Look::Found(Cause {
            head: "Pod web: exit code 1".to_owned(),
            text: text.to_owned(),
            is_complete: true,
            is_crash: true,
        })
    }

    #[test]
    fn a_workload_is_looked_at_after_a_moment_and_then_less_and_less_often() {
        let mut causes = PodCauses::default();
        let start = Instant::now();
        let web = [(id("web"), false)];
        let mut due = |seconds| {
            let now = start + Duration::from_secs(seconds);
            let due = causes.due_at(&revision(1), &web, false, now);
            for id in &due {
                causes.found(id, crash("one"));
            }
            causes.looked_at_time(&due, now);
            !due.is_empty()
        };
        let looks: Vec<_> = (0..2_000).filter(|second| due(*second)).collect();
        assert_eq!(looks, [5, 35, 95, 215, 455, 935, 1415, 1895]);
    }

    #[test]
    fn failed_workloads_come_first_and_immediately() {
        let mut causes = PodCauses::default();
        let now = Instant::now();
        let all = ["a", "b", "c", "d"].map(|name| (id(name), name == "d"));
        assert_eq!(causes.due_at(&revision(1), &all, false, now), [id("d")]);
        causes.looked_at_time(&[id("d")], now);
        assert!(causes.due_at(&revision(1), &all, false, now).is_empty());
        let due = causes.due_at(&revision(1), &all, false, now + GRACE);
        assert_eq!(due, [id("a"), id("b")], "three at most");
    }

    #[test]
    fn before_the_release_fails_all_are_looked_at_without_a_cause() {
        let mut causes = PodCauses::default();
        let now = Instant::now();
        let all = ["a", "b"].map(|name| (id(name), false));
        assert!(causes.due_at(&revision(1), &all, false, now).is_empty());
        causes.found(&id("a"), crash("one"));
        assert_eq!(causes.due_at(&revision(1), &all, true, now), [id("b")]);
    }

    /// Its pods are others.
    #[test]
    fn what_is_known_of_a_revision_is_not_shown_for_the_next_one() {
        let mut causes = PodCauses::default();
        let failed = [(id("web"), true)];
        causes.due(&revision(1), &failed, false);
        causes.found(&id("web"), crash("one"));
        assert_eq!(causes.known().count(), 1);
        assert_eq!(causes.due(&revision(2), &failed, false), [id("web")]);
        assert_eq!(causes.known().count(), 0);
        // It is ready.
        causes.found(&id("web"), crash("two"));
        causes.due(&revision(2), &[], false);
        assert_eq!((causes.known().count(), causes.next()), (0, None));
    }

    fn shown() -> Health {
        Health {
            transitioning: true,
            ..Health::default()
        }
    }

    #[test]
    fn a_workload_without_readiness_probes_is_ready_when_it_has_been_so_for_a_while() {
        let mut causes = PodCauses::default();
        let now = Instant::now();
        let mut start = |seconds, is_started: bool, are_awaited| {
            let now = now + Duration::from_secs(seconds);
            let started = is_started.then(|| id("web")).into_iter().collect();
            let starts = causes.starts_at(&revision(1), started, are_awaited, now);
            let start = starts.into_iter().next().map(|(_, start)| start);
            (start, causes.steady_at.map(|at| (at - now).as_secs()))
        };
        assert_eq!(start(0, true, true), (Some(Start::Recent), Some(5)));
        assert_eq!(start(4, true, true), (Some(Start::Recent), Some(1)));
        assert_eq!(start(5, true, true), (Some(Start::Steady), None));
        // It was not ready meanwhile.
        assert_eq!(start(6, false, true), (None, None));
        assert_eq!(start(7, true, true), (Some(Start::Recent), Some(5)));
        assert_eq!(start(8, true, false), (None, None), "the release does not wait");
    }

    /// In a crash loop, at each restart.
    #[test]
    fn a_workload_that_crashes_shows_the_same_until_it_is_steady() {
        let mut causes = PodCauses::default();
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let web = [(id("web"), true)];
        let start = |causes: &mut PodCauses, number, seconds| {
            let starts = causes.starts_at(&revision(number), vec![id("web")], false, at(seconds));
            starts.into_iter().next().map(|(_, start)| start)
        };
        causes.due_at(&revision(1), &web, false, now);
        causes.shows(&id("web"), &shown());
        assert_eq!(start(&mut causes, 1, 0), None, "no cause is known");
        causes.found(&id("web"), crash("one"));
        causes.looked_at_time(&[id("web")], now);
        assert_eq!(start(&mut causes, 1, 60), Some(Start::Crashing(shown())));
        assert_eq!(causes.steady_at, Some(at(75)));
        let due = causes.due_at(&revision(1), &web, false, at(60));
        assert!(due.is_empty(), "its pod shows nothing now");
        assert_eq!(start(&mut causes, 1, 74), Some(Start::Crashing(shown())));
        assert_eq!(start(&mut causes, 1, 75), Some(Start::Steady));
        assert_eq!(start(&mut causes, 2, 76), None, "another revision");
    }

    /// Without access, for example.
    #[test]
    fn a_look_that_fails_is_repeated_after_the_interval() {
        let mut causes = PodCauses::default();
        let failed = [(id("web"), true)];
        let due = causes.due(&revision(1), &failed, false);
        causes.looked_at(&due);
        assert!(causes.due(&revision(1), &failed, false).is_empty());
        assert!(causes.next().unwrap() > Duration::from_secs(20));
    }
}
