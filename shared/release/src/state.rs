//! The state of a release: what its records mean for what is wanted.

use crate::{
    history::{History, Owner, Revision},
    record::{self, Status},
};

/// What the BundleDeployment wants, and what its status shows as done.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Name of the BundleDeployment.
    pub bundle_deployment: &'a str,
    /// Identifies what to deploy, with the digest of values that are no part of the ID.
    pub deployment_id: &'a str,
    /// The status: identifies what was deployed, with the revision. Records of other agents do not have the deployment ID.
    pub applied: Option<Applied<'a>>,
    /// Whether a release of another owner may be taken over.
    pub takes_ownership: bool,
}

/// What a status shows as deployed.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    /// The deployment ID.
    pub deployment_id: &'a str,
    /// The revision of the release, in the same namespace and with the same name as the wanted one.
    pub revision: u64,
}

/// The state of a release. Every combination of records has exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// There is no record.
    Absent,
    /// The newest record shows a Helm operation in progress that this agent has not started: of a user, or of another tool.
    Busy(Pending),
    /// The newest record shows an operation of an agent of this namespace. None is running, so its process was killed.
    Interrupted(Pending),
    /// The desired state is deployed.
    Current {
        /// The deployed revision.
        revision: u64,
    },
    /// Another state than the desired one is deployed.
    Outdated {
        /// The base of the upgrade.
        revision: u64,
    },
    /// A release of a user's Helm is deployed, and may be taken over.
    Unmanaged {
        /// The deployed revision.
        revision: u64,
    },
    /// The last operation failed.
    Failed(Failed),
    /// An uninstallation started and has not ended.
    Uninstalling,
    /// It is uninstalled, and its records are kept.
    Uninstalled,
    /// The release belongs to another owner.
    Foreign(ForeignOwner),
}

/// An operation in progress, as a record shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The revision that it makes.
    pub revision: u64,
    /// What it does.
    pub status: Status,
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The revision that failed.
    pub revision: u64,
    /// Whether a revision was deployed before. If not, the installation has to be repeated, with its hooks.
    pub has_base: bool,
    /// Whether it failed with what is wanted now. Then its record is of no use for the next attempt.
    pub is_same_input: bool,
}

/// The owner of a release that is not of this BundleDeployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignOwner {
    /// No agent of this namespace: a user's Helm, or another tool.
    Unmanaged,
    /// Another BundleDeployment of this agent.
    BundleDeployment(String),
}

impl ReleaseState {
    /// Determines the state.
    pub fn of(wanted: &Wanted<'_>, history: &History) -> Self {
        let Some(newest) = history.newest() else {
            return Self::Absent;
        };
        if let Some(owner) = foreign_owner(wanted, newest) {
            // Its operation must end before another client may start one.
            return match pending(newest) {
                Some(pending) => Self::Busy(pending),
                None if newest.status == Status::Uninstalled => Self::Uninstalled,
                None => Self::Foreign(owner),
            };
        }
        match newest.status {
            Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback => {
                Self::Interrupted(Pending {
                    revision: newest.number,
                    status: newest.status,
                })
            }
            Status::Uninstalling => Self::Uninstalling,
            Status::Uninstalled => Self::Uninstalled,
            Status::Deployed if newest.origin.owner == Owner::Other => Self::Unmanaged {
                revision: newest.number,
            },
            Status::Deployed if is_wanted(wanted, newest) => Self::Current {
                revision: newest.number,
            },
            // A rollback of it has failed, and its record was deleted.
            Status::Superseded if newest.has_failed() => Self::Failed(failed(wanted, newest, history)),
            // Helm upgrades from a superseded revision as well.
            Status::Deployed | Status::Superseded => Self::Outdated {
                revision: newest.number,
            },
            Status::Failed | Status::Unknown => Self::Failed(failed(wanted, newest, history)),
        }
    }
}

fn failed(wanted: &Wanted<'_>, newest: &Revision, history: &History) -> Failed {
    Failed {
        revision: newest.number,
        has_base: history.base().is_some(),
        is_same_input: newest.origin.has_input(wanted.deployment_id),
    }
}

fn pending(revision: &Revision) -> Option<Pending> {
    let is_pending = matches!(
        revision.status,
        Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback | Status::Uninstalling
    );
    is_pending.then_some(Pending {
        revision: revision.number,
        status: revision.status,
    })
}

/// The owner, unless the release is of this BundleDeployment or may be taken over.
fn foreign_owner(wanted: &Wanted<'_>, newest: &Revision) -> Option<ForeignOwner> {
    match &newest.origin.owner {
        Owner::BundleDeployment(name) if name == wanted.bundle_deployment => None,
        Owner::BundleDeployment(name) => Some(ForeignOwner::BundleDeployment(name.clone())),
        // A release that is being changed is not taken over before the operation has ended.
        Owner::Other if wanted.takes_ownership && pending(newest).is_none() => None,
        Owner::Other => Some(ForeignOwner::Unmanaged),
    }
}

/// Whether a deployed revision is what is wanted. Records of other agents do not have the deployment ID: there the status counts,
/// and a later revision of an agent is a correction of the same deployment.
fn is_wanted(wanted: &Wanted<'_>, deployed: &Revision) -> bool {
    match deployed.origin.deployment_id() {
        Some(_) => deployed.origin.has_input(wanted.deployment_id),
        None => wanted.applied.is_some_and(|applied| {
            applied.deployment_id == record::deployment_id(wanted.deployment_id)
                && applied.revision <= deployed.number
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, history::Origin, record::AttemptAction};

    const ID: &str = ":wanted";

    fn revision(number: u64, status: Status, deployment_id: Option<&str>) -> Revision {
        let attempt = |id| fixture::attempt(AttemptAction::Upgrade, id, 1);
        fixture::revision(number, status, deployment_id.map(attempt))
    }

    fn of(owner: Owner, revision: Revision) -> Revision {
        Revision {
            origin: Origin {
                owner,
                ..revision.origin
            },
            ..revision
        }
    }

    fn wanted(applied: Option<Applied<'_>>) -> Wanted<'_> {
        Wanted {
            bundle_deployment: "web",
            deployment_id: ID,
            applied,
            takes_ownership: false,
        }
    }

    fn state(revisions: &[Revision]) -> ReleaseState {
        ReleaseState::of(&wanted(None), &History::new(revisions.to_vec()))
    }

    #[test]
    fn every_status_of_the_newest_record_has_a_state() {
        let interrupted = |status| ReleaseState::Interrupted(Pending { revision: 2, status });
        let failed = |is_same_input| {
            ReleaseState::Failed(Failed {
                revision: 2,
                has_base: false,
                is_same_input,
            })
        };
        for status in Status::ALL {
            for id in [Some(ID), Some(":other")] {
                let is_wanted = id == Some(ID);
                let expected = match status {
                    Status::Deployed if is_wanted => ReleaseState::Current { revision: 2 },
                    Status::Deployed | Status::Superseded => ReleaseState::Outdated { revision: 2 },
                    Status::Failed | Status::Unknown => failed(is_wanted),
                    Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback => {
                        interrupted(status)
                    }
                    Status::Uninstalling => ReleaseState::Uninstalling,
                    Status::Uninstalled => ReleaseState::Uninstalled,
                };
                assert_eq!(state(&[revision(2, status, id)]), expected, "{status:?} {id:?}");
            }
        }
        assert_eq!(state(&[]), ReleaseState::Absent);
    }

    #[test]
    fn a_failed_upgrade_has_a_base_and_a_failed_installation_has_none() {
        let failed = revision(3, Status::Failed, Some(ID));
        let replaced = Revision {
            is_replaced: true,
            ..revision(2, Status::Superseded, Some(ID))
        };
        for (before, has_base) in [
            (vec![], false),
            (vec![revision(2, Status::Deployed, None)], true),
            (vec![revision(2, Status::Superseded, None)], true),
            (vec![replaced], false),
            (vec![revision(2, Status::Failed, None)], false),
            (
                vec![
                    revision(2, Status::Failed, None),
                    revision(1, Status::Deployed, None),
                ],
                true,
            ),
        ] {
            let expected = ReleaseState::Failed(Failed {
                revision: 3,
                has_base,
                is_same_input: true,
            });
            let revisions = [vec![failed.clone()], before].concat();
            assert_eq!(state(&revisions), expected, "{revisions:?}");
        }
    }

    #[test]
    fn the_status_counts_for_records_of_other_agents_only() {
        let applied = |deployment_id, revision| Applied {
            deployment_id,
            revision,
        };
        for (record, applied, is_current) in [
            (None, Some(applied(ID, 2)), true),
            // A correction of drift is a revision of its own.
            (None, Some(applied(ID, 1)), true),
            (None, Some(applied(ID, 3)), false),
            (None, Some(applied(":other", 2)), false),
            (None, None, false),
            // The status may be old: the record counts.
            (Some(ID), Some(applied(":other", 1)), true),
            (Some(":other"), Some(applied(ID, 2)), false),
        ] {
            let history = History::new(vec![revision(2, Status::Deployed, record)]);
            let state = ReleaseState::of(&wanted(applied), &history);
            assert_eq!(
                state == ReleaseState::Current { revision: 2 },
                is_current,
                "{record:?} {applied:?}"
            );
        }
    }

    #[test]
    fn a_foreign_release_is_taken_over_only_if_that_is_wanted() {
        let deployed = of(Owner::Other, revision(2, Status::Deployed, None));
        let history = History::new(vec![deployed]);
        let take_over = Wanted {
            takes_ownership: true,
            ..wanted(None)
        };
        assert_eq!(
            ReleaseState::of(&wanted(None), &history),
            ReleaseState::Foreign(ForeignOwner::Unmanaged)
        );
        assert_eq!(
            ReleaseState::of(&take_over, &history),
            ReleaseState::Unmanaged { revision: 2 }
        );
    }

    #[test]
    fn a_release_of_another_bundle_deployment_is_never_taken_over() {
        let other = Owner::BundleDeployment("other".to_owned());
        let history = History::new(vec![of(other.clone(), revision(2, Status::Deployed, Some(ID)))]);
        for takes_ownership in [false, true] {
            let wanted = Wanted {
                takes_ownership,
                ..wanted(None)
            };
            assert_eq!(
                ReleaseState::of(&wanted, &history),
                ReleaseState::Foreign(ForeignOwner::BundleDeployment("other".to_owned()))
            );
        }
    }

    #[test]
    fn a_foreign_operation_is_never_interrupted() {
        for status in [
            Status::PendingInstall,
            Status::PendingUpgrade,
            Status::PendingRollback,
            Status::Uninstalling,
        ] {
            for takes_ownership in [false, true] {
                let wanted = Wanted {
                    takes_ownership,
                    ..wanted(None)
                };
                let history = History::new(vec![of(Owner::Other, revision(2, status, None))]);
                let expected = ReleaseState::Busy(Pending { revision: 2, status });
                assert_eq!(ReleaseState::of(&wanted, &history), expected);
            }
        }
    }
}
