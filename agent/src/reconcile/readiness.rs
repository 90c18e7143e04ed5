//! A release has succeeded when its objects are ready, if its policy waits for that. One that is not ready in time has failed.
//!
//! Helm never waits: that would occupy a process, and nothing would be known of what is late. The deadline counts from the
//! time in the record, so that it is the same after a restart of the agent.

use std::time::Duration;

use helmops_api::{BundleDeployment, timestamp::timestamp};
use helmops_release::{
    deployed::Deployed,
    health::Readiness,
    object::ObjectId,
    record::{Acceptance, Failure},
};
use k8s_openapi::jiff::Timestamp;

use super::outcome::Outcome;
use crate::{
    memory::WatchedRevision,
    monitor::{DesiredObject, Installed},
    pods::STEADY_AFTER_CRASH,
};

/// What the objects of a revision show.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing is waited for, or everything is ready.
    Ready,
    /// It had failed because it was not ready in time, and is ready now.
    Recovered,
    /// Something is late.
    Waiting {
        /// How long the wait lasts at most.
        remaining: Duration,
        /// What is late, and why.
        late: String,
    },
    /// It failed.
    Failed(Failure),
}

/// Whether a revision has to become ready before it counts as deployed. Its record shows that, if an attempt of this agent has
/// made it. Of others only the status shows it, and a status may be lost: then nothing that is old has failed. What a rollback
/// restores was ready before.
fn is_awaited(
    deployment: &BundleDeployment,
    deployed: &Deployed,
    watched: &WatchedRevision,
    timeout: Duration,
) -> bool {
    match deployed.acceptance {
        _ if watched.was_ready || deployed.is_rollback => false,
        Some(acceptance) => acceptance == Acceptance::Awaited,
        None => {
            let status = &deployment.status;
            let is_reported = status.applied_deployment_id == deployment.spec.deployment_id
                && status.release == deployed.id.to_string();
            !is_reported && !watched.is_seen_late(timeout)
        }
    }
}

/// What the objects of the revision that runs mean for an outcome. `readiness` has those that are observed; the others do not exist yet.
pub fn verdict<'o>(
    (deployment, wait_policy): (&BundleDeployment, Option<Duration>),
    outcome: &Outcome,
    installed: &Installed,
    watched: &WatchedRevision,
    readiness: impl Fn(&ObjectId) -> Option<&'o Readiness>,
    now: Timestamp,
) -> Verdict {
    let wait = |timeout| wait(timeout, installed, watched, &readiness, now);
    match (outcome, wait_policy) {
        // What was taken over as it is was not deployed now, so that its state is no result of an attempt.
        (Outcome::Deployed(_), Some(_)) if !installed.is_marked() => Verdict::Ready,
        (Outcome::Deployed(deployed), Some(timeout))
            if is_awaited(deployment, deployed, watched, timeout) =>
        {
            wait(timeout)
        }
        (Outcome::Retry(next), timeout)
            if next.may_recover && wait(timeout.unwrap_or_default()) == Verdict::Ready =>
        {
            Verdict::Recovered
        }
        _ => Verdict::Ready,
    }
}

/// Whether the wait for the objects of a release is over.
fn wait<'o>(
    timeout: Duration,
    installed: &Installed,
    watched: &WatchedRevision,
    readiness: impl Fn(&ObjectId) -> Option<&'o Readiness>,
    now: Timestamp,
) -> Verdict {
    let is_steady = |object: &DesiredObject| readiness(&object.id) != Some(&Readiness::Started);
    let until = watched.deadline(timeout);
    let remaining = Duration::try_from(until.duration_since(now)).unwrap_or_default();
    let unready = || {
        installed.desired.iter().filter_map(|object| {
            let readiness = readiness(&object.id);
            let is_ready = matches!(readiness, Some(Readiness::Ready | Readiness::Started));
            let may_be_gone = readiness.is_none() && object.is_temporary;
            (!is_ready && !may_be_gone).then_some((&object.id, readiness))
        })
    };
    // What failed is the cause; what is late may only be waiting for it.
    let failed = unready().find_map(|(id, readiness)| match readiness {
        Some(Readiness::Failed(reason)) => Some(format!("{id} failed: {reason}")),
        _ => None,
    });
    if let Some(failed) = failed {
        return Verdict::Failed(Failure::NotReady(failed));
    }
    let Some((id, readiness)) = unready().next() else {
        // It ends the wait neither way, also after its time.
        return match installed.desired.iter().find(|object| !is_steady(object)) {
            None => Verdict::Ready,
            Some(DesiredObject { id, .. }) => Verdict::Waiting {
                remaining: remaining.max(STEADY_AFTER_CRASH),
                late: format!("{id} is ready without a readiness probe, and has to stay so for a moment"),
            },
        };
    };
    let late = match readiness {
        Some(Readiness::Waiting(reason)) => format!("{id} is not ready: {reason}"),
        _ => format!("{id} does not exist"),
    };
    if remaining.is_zero() {
        let failure = format!("{late} (after {} s)", timeout.as_secs());
        return Verdict::Failed(Failure::NotReady(failure));
    }
    let since = installed.id.made_at.unwrap_or(Timestamp::UNIX_EPOCH);
    Verdict::Waiting {
        remaining,
        late: format!(
            "{late} (waiting since {}, until {})",
            timestamp(since),
            timestamp(until)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use helmops_release::{
        deployed::RevisionId, names::ReleaseKey, plan::NextAttempt, record::AttemptAction,
    };

    use super::*;
    use crate::monitor::Exceptions;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + seconds).unwrap()
    }

    fn late(reason: &str) -> Readiness {
        Readiness::Waiting(reason.to_owned())
    }

    fn revision() -> RevisionId {
        RevisionId {
            release: ReleaseKey::new("shop", "web"),
            number: 1,
            made_at: Some(at(0)),
        }
    }

    fn installed() -> Installed {
        let desired = ["a", "b", "c"].map(|name| DesiredObject {
            id: id(name),
            kind: None,
            is_temporary: name == "c",
            is_marked: true,
        });
        Installed {
            id: revision(),
            desired: desired.into(),
            previous: [].into(),
            exceptions: Exceptions::default(),
            verdicts: HashMap::new(),
            corrections: HashMap::new(),
        }
    }

    fn deployed(acceptance: Option<Acceptance>) -> Deployed {
        Deployed {
            id: revision(),
            acceptance,
            action: AttemptAction::Install,
            is_rollback: false,
            previous: None,
        }
    }

    /// The agent was away, or hooks took longer than the time: nothing is known of it.
    #[test]
    fn a_revision_that_is_seen_after_its_time_gets_its_time_from_then() {
        let objects = [("a", Readiness::Ready), ("b", late("0 of 1"))];
        let remaining = |verdict| match verdict {
            Verdict::Waiting { remaining, .. } => remaining.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(remaining(after_seen(59, 59, &objects)), 1);
        assert_eq!(remaining(after_seen(3_600, 3_600, &objects)), 60);
        assert_eq!(remaining(after_seen(3_600, 3_659, &objects)), 1);
        assert!(matches!(after_seen(3_600, 3_660, &objects), Verdict::Failed(_)));
    }

    /// A status is lost with its BundleDeployment, or is not in a backup.
    #[test]
    fn the_record_decides_what_is_awaited_and_not_a_status_that_was_lost() {
        let minute = Duration::from_mins(1);
        let lost = BundleDeployment::default();
        let mut kept = BundleDeployment::default();
        kept.spec.deployment_id = ":1".to_owned();
        kept.status.applied_deployment_id = ":1".to_owned();
        kept.status.release = "shop/web:1".to_owned();
        for (acceptance, status, first, expected) in [
            (Some(Acceptance::Awaited), &lost, 1, true),
            (Some(Acceptance::Awaited), &kept, 1, true),
            (Some(Acceptance::Awaited), &lost, 3_600, true),
            (Some(Acceptance::Accepted), &lost, 1, false),
            (Some(Acceptance::Accepted), &lost, 3_600, false),
            // Of older versions, and of other agents.
            (None, &lost, 1, true),
            (None, &kept, 1, false),
            (None, &lost, 3_600, false),
        ] {
            let deployed = deployed(acceptance);
            let mut watched = WatchedRevision::new(revision(), at(first));
            assert_eq!(
                is_awaited(status, &deployed, &watched, minute),
                expected,
                "{acceptance:?} {first}"
            );
            let rollback = Deployed {
                action: AttemptAction::Install,
                is_rollback: true,
                ..deployed.clone()
            };
            assert!(!is_awaited(status, &rollback, &watched, minute));
            watched.was_ready = true;
            assert!(!is_awaited(status, &deployed, &watched, minute));
        }
    }

    /// Of a policy that waits for a minute, for an object that is late: what was taken over, is awaited, and may recover.
    #[test]
    fn only_what_an_attempt_has_deployed_is_awaited_and_only_what_may_recovers() {
        let minute = Some(Duration::from_mins(1));
        let next = |may_recover| {
            let next = NextAttempt {
                text: String::new(),
                at: at(600),
                running: Some(deployed(None)),
                deployment_id: None,
                is_rolled_back: false,
                exhausted: None,
                may_recover,
            };
            Outcome::Retry(Box::new(next))
        };
        let awaited = || Outcome::Deployed(deployed(Some(Acceptance::Awaited)));
        let accepted = || Outcome::Deployed(deployed(Some(Acceptance::Accepted)));
        let not_ready = || late("0 of 1");
        for (outcome, policy, is_marked, readiness, seconds, expected) in [
            (awaited(), minute, true, not_ready(), 1, "waiting"),
            (awaited(), minute, true, not_ready(), 61, "failed"),
            (awaited(), minute, true, Readiness::Ready, 61, "ready"),
            // It was taken over as it is.
            (awaited(), minute, false, not_ready(), 61, "ready"),
            (awaited(), None, true, not_ready(), 61, "ready"),
            (accepted(), minute, true, not_ready(), 61, "ready"),
            (next(true), minute, true, Readiness::Ready, 300, "recovered"),
            (next(true), None, true, Readiness::Ready, 300, "recovered"),
            // At a restart of a crash loop.
            (next(true), minute, true, Readiness::Started, 300, "ready"),
            (next(true), minute, true, not_ready(), 300, "ready"),
            (next(false), minute, true, Readiness::Ready, 300, "ready"),
        ] {
            let mut installed = installed();
            installed.desired[0].is_marked = is_marked;
            let watched = WatchedRevision::new(revision(), at(0));
            let wanted = (&BundleDeployment::default(), policy);
            let found = |_: &ObjectId| Some(&readiness);
            let verdict = verdict(wanted, &outcome, &installed, &watched, found, at(seconds));
            let shown = match verdict {
                Verdict::Ready => "ready",
                Verdict::Recovered => "recovered",
                Verdict::Waiting { .. } => "waiting",
                Verdict::Failed(_) => "failed",
            };
            assert_eq!(shown, expected, "{outcome:?} {policy:?} {is_marked} {seconds}");
        }
    }

    /// The state after these seconds of a wait of a minute, for `a`, `b` and the temporary `c`.
    fn after(seconds: i64, objects: &[(&str, Readiness)]) -> Verdict {
        after_seen(0, seconds, objects)
    }

    /// The same, if the revision was seen first after `first` seconds.
    fn after_seen(first: i64, seconds: i64, objects: &[(&str, Readiness)]) -> Verdict {
        let installed = installed();
        let watched = WatchedRevision::new(revision(), at(first));
        let found = |wanted: &ObjectId| {
            let object = objects.iter().find(|(name, _)| *name == wanted.name);
            object.map(|(_, readiness)| readiness)
        };
        wait(Duration::from_mins(1), &installed, &watched, found, at(seconds))
    }

    #[test]
    fn what_is_late_is_named_with_its_reason_and_its_times() {
        let waiting = Verdict::Waiting {
            remaining: Duration::from_secs(50),
            late: "deployment.apps shop/b is not ready: 0 of 1 (waiting since 2026-01-01T00:00:00Z, until 2026-01-01T00:01:00Z)".to_owned(),
        };
        let objects = [("a", Readiness::Ready), ("b", late("0 of 1"))];
        assert_eq!(after(10, &objects), waiting);
        let failed = "deployment.apps shop/b is not ready: 0 of 1 (after 60 s)".to_owned();
        assert_eq!(after(60, &objects), Verdict::Failed(Failure::NotReady(failed)));
        let missing = "deployment.apps shop/b does not exist (after 60 s)".to_owned();
        assert_eq!(
            after(61, &objects[..1]),
            Verdict::Failed(Failure::NotReady(missing))
        );
    }

    #[test]
    fn a_workload_that_has_to_stay_ready_ends_the_wait_neither_way() {
        let started = [("a", Readiness::Ready), ("b", Readiness::Started)];
        for seconds in [10, 60, 70] {
            let Verdict::Waiting { late, remaining } = after(seconds, &started) else {
                panic!("the wait is over after {seconds} s");
            };
            assert!(
                late.starts_with("deployment.apps shop/b is ready without"),
                "{late}"
            );
            assert!(remaining >= STEADY_AFTER_CRASH);
        }
        let unready = [("a", late("0 of 1")), ("b", Readiness::Started)];
        assert!(matches!(after(60, &unready), Verdict::Failed(_)));
    }

    #[test]
    fn what_has_failed_is_the_cause_and_not_what_is_late() {
        let failed = Readiness::Failed("no image".to_owned());
        let objects = [("a", late("0 of 1")), ("b", failed)];
        let cause = "deployment.apps shop/b failed: no image".to_owned();
        assert_eq!(after(10, &objects), Verdict::Failed(Failure::NotReady(cause)));
    }

    #[test]
    fn the_wait_ends_when_all_are_ready_also_after_its_time() {
        let ready = [("a", Readiness::Ready), ("b", Readiness::Ready)];
        assert_eq!(after(1, &ready), Verdict::Ready);
        assert_eq!(after(3_600, &ready), Verdict::Ready);
        let temporary = [&ready[..], &[("c", late("it runs"))]].concat();
        assert!(matches!(after(1, &temporary), Verdict::Waiting { .. }));
    }
}
