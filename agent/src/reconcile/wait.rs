//! A release has succeeded when its objects are ready, if its policy waits for that. One that is not ready in time has failed.
//!
//! Helm never waits: that would occupy a process, and nothing would be known of what is late. The deadline counts from the
//! time in the record, so that it is the same after a restart of the agent.

use std::time::Duration;

use helmops_api::{BundleDeployment, timestamp::timestamp};
use helmops_release::{health::Readiness, object::ObjectId, record::Acceptance};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::deployed::Deployed;
use crate::{monitor::Installed, revision::RevisionId};

/// What a wait has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing is waited for, or everything is ready.
    Over,
    /// Something is late.
    Waiting {
        /// How long the wait lasts at most.
        remaining: Duration,
        /// What is late, and why.
        late: String,
    },
    /// The release failed, with the reason.
    Failed(String),
}

/// What this process has seen of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Which one.
    pub id: RevisionId,
    /// When it was seen first.
    first: Timestamp,
    /// It was ready once.
    pub was_ready: bool,
    /// Its record shows that it was accepted; the cache may be behind.
    pub is_accepted: bool,
    /// What only failed attempts before it had is deleted.
    pub is_cleared: bool,
}

impl Watched {
    /// A revision that is seen now.
    pub const fn new(id: RevisionId, now: Timestamp) -> Self {
        Self {
            id,
            first: now,
            was_ready: false,
            is_accepted: false,
            is_cleared: false,
        }
    }

    /// When the wait for it ends. If the time was over when the revision was seen first, then nothing is known of that time: hooks took
    /// long, or the agent was away. So the time starts then.
    fn deadline(&self, timeout: Duration) -> Timestamp {
        let timeout = timeout_of(timeout);
        let after = |time: Timestamp| time.saturating_add(timeout).unwrap_or(Timestamp::MAX);
        let until = after(self.id.made_at.unwrap_or(Timestamp::UNIX_EPOCH));
        if self.first < until {
            until
        } else {
            after(self.first)
        }
    }

    fn is_seen_late(&self, timeout: Duration) -> bool {
        self.id
            .made_at
            .is_none_or(|made_at| self.deadline(timeout).duration_since(made_at) > timeout_of(timeout))
    }
}

fn timeout_of(timeout: Duration) -> SignedDuration {
    SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX)
}

/// Whether a revision has to become ready before it counts as deployed. Its record shows that, if an attempt of this agent has
/// made it. Of others only the status shows it, and a status may be lost: then nothing that is old has failed. What a rollback
/// restores was ready before.
pub fn is_awaited(
    deployment: &BundleDeployment,
    deployed: &Deployed,
    watched: &Watched,
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

/// Whether the wait for the objects of a release is over. `readiness` has those that are observed; the others do not exist yet.
pub fn state<'o>(
    timeout: Duration,
    installed: &Installed,
    watched: &Watched,
    readiness: impl Fn(&ObjectId) -> Option<&'o Readiness>,
    now: Timestamp,
) -> Wait {
    let unready = || {
        installed.desired.iter().filter_map(|object| {
            let readiness = readiness(&object.id);
            let is_ready = matches!(readiness, Some(Readiness::Ready));
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
        return Wait::Failed(failed);
    }
    let Some((id, readiness)) = unready().next() else {
        return Wait::Over;
    };
    let late = match readiness {
        Some(Readiness::Waiting(reason)) => format!("{id} is not ready: {reason}"),
        _ => format!("{id} does not exist"),
    };
    let since = installed.id.made_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let until = watched.deadline(timeout);
    match Duration::try_from(until.duration_since(now)) {
        Ok(remaining) if !remaining.is_zero() => Wait::Waiting {
            remaining,
            late: format!("{late} (since {}, until {})", timestamp(since), timestamp(until)),
        },
        _ => Wait::Failed(format!("{late} (after {} s)", timeout.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use helmops_release::names::ReleaseKey;

    use super::*;
    use crate::monitor::{DesiredObject, Exceptions};

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
            release: ReleaseKey {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
            },
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
            is_rollback: false,
            previous: None,
        }
    }

    /// The agent was away, or hooks took longer than the time: nothing is known of it.
    #[test]
    fn a_revision_that_is_seen_after_its_time_gets_its_time_from_then() {
        let objects = [("a", Readiness::Ready), ("b", late("0 of 1"))];
        let remaining = |wait| match wait {
            Wait::Waiting { remaining, .. } => remaining.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(remaining(after_seen(59, 59, &objects)), 1);
        assert_eq!(remaining(after_seen(3_600, 3_600, &objects)), 60);
        assert_eq!(remaining(after_seen(3_600, 3_659, &objects)), 1);
        assert!(matches!(after_seen(3_600, 3_660, &objects), Wait::Failed(_)));
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
            let mut watched = Watched::new(revision(), at(first));
            assert_eq!(
                is_awaited(status, &deployed, &watched, minute),
                expected,
                "{acceptance:?} {first}"
            );
            let rollback = Deployed {
                is_rollback: true,
                ..deployed.clone()
            };
            assert!(!is_awaited(status, &rollback, &watched, minute));
            watched.was_ready = true;
            assert!(!is_awaited(status, &deployed, &watched, minute));
        }
    }

    /// The state after these seconds of a wait of a minute, for `a`, `b` and the temporary `c`.
    fn after(seconds: i64, objects: &[(&str, Readiness)]) -> Wait {
        after_seen(0, seconds, objects)
    }

    /// The same, if the revision was seen first after `first` seconds.
    fn after_seen(first: i64, seconds: i64, objects: &[(&str, Readiness)]) -> Wait {
        let installed = installed();
        let watched = Watched::new(revision(), at(first));
        let found = |wanted: &ObjectId| {
            let object = objects.iter().find(|(name, _)| *name == wanted.name);
            object.map(|(_, readiness)| readiness)
        };
        state(Duration::from_mins(1), &installed, &watched, found, at(seconds))
    }

    #[test]
    fn what_is_late_is_named_with_its_reason_and_its_times() {
        let waiting = Wait::Waiting {
            remaining: Duration::from_secs(50),
            late: "deployment.apps shop/b is not ready: 0 of 1 (since 2026-01-01T00:00:00Z, until 2026-01-01T00:01:00Z)".to_owned(),
        };
        let objects = [("a", Readiness::Ready), ("b", late("0 of 1"))];
        assert_eq!(after(10, &objects), waiting);
        let failed = "deployment.apps shop/b is not ready: 0 of 1 (after 60 s)".to_owned();
        assert_eq!(after(60, &objects), Wait::Failed(failed));
        let missing = "deployment.apps shop/b does not exist (after 60 s)".to_owned();
        assert_eq!(after(61, &objects[..1]), Wait::Failed(missing));
    }

    #[test]
    fn what_has_failed_is_the_cause_and_not_what_is_late() {
        let failed = Readiness::Failed("no image".to_owned());
        let objects = [("a", late("0 of 1")), ("b", failed)];
        let cause = "deployment.apps shop/b failed: no image".to_owned();
        assert_eq!(after(10, &objects), Wait::Failed(cause));
    }

    #[test]
    fn the_wait_ends_when_all_are_ready_also_after_its_time() {
        let ready = [("a", Readiness::Ready), ("b", Readiness::Ready)];
        assert_eq!(after(1, &ready), Wait::Over);
        assert_eq!(after(3_600, &ready), Wait::Over);
        let temporary = [&ready[..], &[("c", late("it runs"))]].concat();
        assert!(matches!(after(1, &temporary), Wait::Waiting { .. }));
    }
}
