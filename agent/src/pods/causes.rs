//! What is known of workloads that are not ready, and when they are looked at again.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use helmops_release::{deployed::RevisionId, object::ObjectId};

/// How long a workload may be not ready before its pods are looked at: each change of a workload takes a moment.
const GRACE: Duration = Duration::from_secs(5);
/// When a workload is looked at again: in a crash loop only the pods change, and they are not watched.
const INTERVAL: Duration = Duration::from_secs(30);
/// The longest interval: it doubles while the cause is the same.
const MAX_INTERVAL: Duration = Duration::from_mins(8);
/// Workloads of a release that are looked at: others fail for the same reason, or wait for these.
const MAX: usize = 3;

/// What is known of the workloads of a revision that are not ready.
#[derive(Debug, Default)]
pub struct PodCauses {
    revision: Option<RevisionId>,
    workloads: HashMap<ObjectId, Workload>,
}

#[derive(Debug)]
struct Workload {
    /// When it is looked at.
    next: Instant,
    /// How long after that it is looked at again.
    interval: Duration,
    /// What was found.
    cause: Option<Cause>,
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
    pub fn due(&mut self, revision: &RevisionId, unready: &[(ObjectId, bool)]) -> Vec<ObjectId> {
        self.due_at(revision, unready, Instant::now())
    }

    fn due_at(&mut self, revision: &RevisionId, unready: &[(ObjectId, bool)], now: Instant) -> Vec<ObjectId> {
        if self.revision.as_ref() != Some(revision) {
            self.workloads.clear();
            self.revision = Some(revision.clone());
        }
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
            });
            if *is_failed && workload.cause.is_none() && workload.interval == INTERVAL {
                workload.next = now;
            }
            if workload.next <= now {
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
        let next = self.workloads.values().map(|workload| workload.next).min()?;
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
        })
    }

    #[test]
    fn a_workload_is_looked_at_after_a_moment_and_then_less_and_less_often() {
        let mut causes = PodCauses::default();
        let start = Instant::now();
        let web = [(id("web"), false)];
        let mut due = |seconds| {
            let now = start + Duration::from_secs(seconds);
            let due = causes.due_at(&revision(1), &web, now);
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
        assert_eq!(causes.due_at(&revision(1), &all, now), [id("d")]);
        causes.looked_at_time(&[id("d")], now);
        assert!(causes.due_at(&revision(1), &all, now).is_empty());
        let due = causes.due_at(&revision(1), &all, now + GRACE);
        assert_eq!(due, [id("a"), id("b")], "three at most");
    }

    /// Its pods are others.
    #[test]
    fn what_is_known_of_a_revision_is_not_shown_for_the_next_one() {
        let mut causes = PodCauses::default();
        let failed = [(id("web"), true)];
        causes.due(&revision(1), &failed);
        causes.found(&id("web"), crash("one"));
        assert_eq!(causes.known().count(), 1);
        assert_eq!(causes.due(&revision(2), &failed), [id("web")]);
        assert_eq!(causes.known().count(), 0);
        // It is ready.
        causes.found(&id("web"), crash("two"));
        causes.due(&revision(2), &[]);
        assert_eq!((causes.known().count(), causes.next()), (0, None));
    }

    /// Without access, for example.
    #[test]
    fn a_look_that_fails_is_repeated_after_the_interval() {
        let mut causes = PodCauses::default();
        let failed = [(id("web"), true)];
        let due = causes.due(&revision(1), &failed);
        causes.looked_at(&due);
        assert!(causes.due(&revision(1), &failed).is_empty());
        assert!(causes.next().unwrap() > Duration::from_secs(20));
    }
}
