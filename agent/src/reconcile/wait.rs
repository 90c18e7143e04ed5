//! A release has succeeded when its objects are ready, if its policy waits for that. One that is not ready in time has failed.
//!
//! Helm is never asked to wait: that would occupy a process, and nothing would be known of what is late. The deadline counts from the
//! time in the record, so that it is the same after a restart of the agent.

use std::time::Duration;

use helmops_api::{BundleDeployment, timestamp::timestamp};
use helmops_release::{health::Readiness, object::ObjectId};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::deployed::Deployed;
use crate::monitor::Installed;

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

/// Whether a revision has to become ready before it counts as deployed. Once the status shows it as deployed, it has been ready.
pub fn is_awaited(deployment: &BundleDeployment, deployed: &Deployed) -> bool {
    let status = &deployment.status;
    status.applied_deployment_id != deployment.spec.deployment_id || status.release != deployed.to_string()
}

/// Whether the wait for the objects of a release is over. `readiness` has those that are observed; the others do not exist yet.
pub fn state<'o>(
    timeout: Duration,
    installed: &Installed,
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
    let since = installed.deployed_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let until = since.saturating_add(timeout).unwrap_or(Timestamp::MAX);
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

    fn release() -> ReleaseKey {
        ReleaseKey {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
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
            release: release(),
            revision: 1,
            deployed_at: Some(at(0)),
            desired: desired.into(),
            previous: [].into(),
            exceptions: Exceptions::default(),
            verdicts: HashMap::new(),
            corrections: HashMap::new(),
        }
    }

    /// A record that is deleted before the next attempt gives its number to it. The deadline of the first one is not that of the next.
    #[test]
    fn a_number_that_is_used_again_is_another_revision() {
        let installed = installed();
        assert!(installed.is(&release(), 1, Some(at(0))));
        assert!(!installed.is(&release(), 1, Some(at(300))));
        assert!(!installed.is(&release(), 2, Some(at(0))));
    }

    /// The state after these seconds of a wait of a minute, for `a`, `b` and the temporary `c`.
    fn after(seconds: i64, objects: &[(&str, Readiness)]) -> Wait {
        let installed = installed();
        let found = |wanted: &ObjectId| {
            let object = objects.iter().find(|(name, _)| *name == wanted.name);
            object.map(|(_, readiness)| readiness)
        };
        state(Duration::from_mins(1), &installed, found, at(seconds))
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
