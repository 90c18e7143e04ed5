//! Which runs are slow: those whose last attempt did not end in time.
//!
//! A hook that never ends, or a template that never ends, takes its whole time with each attempt. After the first one, such runs leave
//! a permit to the others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_helm::{
    FailureReason,
    request::{Action, Deploy, Request},
};
use helmops_process::lock;
use helmops_release::{names::ReleaseKey, record};

/// How many runs are remembered. More of them than releases on a cluster are not slow.
const MAX: usize = 10_000;
/// Installations and upgrades have the same hooks, more or less, and the same templates.
const DEPLOY: &str = "deploy";

/// The runs that are slow, as this process has observed it: it learns that again after a restart.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowRuns(Arc<Mutex<HashMap<Kind, String>>>);

/// Runs of which the next one is probably as slow as the last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    release: ReleaseKey,
    action: &'static str,
}

/// What a run does. The same work is as slow as before; another deployment ID is other work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    kind: Kind,
    deployment_id: String,
}

impl Work {
    /// The work of a request.
    pub(super) fn of(request: &Request) -> Self {
        let attempt = match &request.action {
            Action::Install(install) => attempt_of(&install.deploy),
            Action::Upgrade(upgrade) => attempt_of(&upgrade.deploy),
            // To render a chart runs no hooks: it says nothing of how long a deployment takes.
            _ => None,
        };
        match attempt {
            Some(deployment_id) => Self::deployment(&request.release, deployment_id),
            None => Self::new(&request.release, request.action.name(), ""),
        }
    }

    /// The deployment of this ID.
    pub(super) fn deployment(release: &ReleaseKey, deployment_id: &str) -> Self {
        Self::new(release, DEPLOY, deployment_id)
    }

    fn new(release: &ReleaseKey, action: &'static str, deployment_id: &str) -> Self {
        Self {
            kind: Kind {
                release: release.clone(),
                action,
            },
            deployment_id: deployment_id.to_owned(),
        }
    }
}

fn attempt_of(deploy: &Deploy) -> Option<&str> {
    let attempt = deploy.origin.attempt.as_ref()?;
    Some(record::deployment_id(&attempt.deployment_id))
}

impl SlowRuns {
    /// Whether the last run with this work was slow.
    pub(super) fn has(&self, work: &Work) -> bool {
        lock(&self.0).get(&work.kind) == Some(&work.deployment_id)
    }

    /// A run has ended.
    pub(super) fn ended(&self, work: Work, failure: Option<FailureReason>) {
        let mut slow = lock(&self.0);
        match failure {
            Some(FailureReason::HookTimeout | FailureReason::Deadline) => {
                if slow.len() < MAX || slow.contains_key(&work.kind) {
                    slow.insert(work.kind, work.deployment_id);
                }
            }
            // How long it would have taken is not known.
            Some(reason) if reason.is_interruption() => {}
            _ => {
                if slow.get(&work.kind) == Some(&work.deployment_id) {
                    slow.remove(&work.kind);
                }
            }
        }
    }

    /// Forgets a release.
    pub(super) fn forget(&self, release: &ReleaseKey) {
        lock(&self.0).retain(|kind, _| kind.release != *release);
    }
}

/// Whether a run may take long: tests do, and what was slow the last time.
pub(super) fn is_slow(action: &Action, was_slow: bool) -> bool {
    was_slow || matches!(action, Action::Test(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> ReleaseKey {
        ReleaseKey::parse("shop/web").unwrap()
    }

    fn work(deployment_id: &str) -> Work {
        Work::deployment(&web(), deployment_id)
    }

    #[test]
    fn the_work_that_was_slow_is_slow_until_it_ends_in_time() {
        let slow = SlowRuns::default();
        for (reason, is_slow) in [
            (Some(FailureReason::HookFailed), false),
            (Some(FailureReason::HookTimeout), true),
            (Some(FailureReason::Stopped), true),
            (Some(FailureReason::Superseded), true),
            (None, false),
            (Some(FailureReason::Deadline), true),
            (Some(FailureReason::Forbidden), false),
        ] {
            slow.ended(work(":a"), reason);
            assert_eq!(slow.has(&work(":a")), is_slow, "{reason:?}");
        }
    }

    #[test]
    fn other_work_of_the_release_is_not_slow() {
        let slow = SlowRuns::default();
        let uninstall = || Work::new(&web(), "uninstall", "");
        slow.ended(work(":a"), Some(FailureReason::HookTimeout));
        assert!(!slow.has(&work(":b")) && !slow.has(&uninstall()));
        // The remediation of an attempt is no reason to repeat it as if it were fast.
        slow.ended(uninstall(), None);
        assert!(slow.has(&work(":a")));
        slow.ended(work(":b"), None);
        assert!(slow.has(&work(":a")));
        slow.ended(work(":b"), Some(FailureReason::Deadline));
        assert!(slow.has(&work(":b")) && !slow.has(&work(":a")));
        slow.forget(&web());
        assert!(!slow.has(&work(":b")));
    }
}
