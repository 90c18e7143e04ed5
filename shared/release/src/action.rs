//! The next step for a release.
//!
//! | state | wanted | not wanted | not wanted, objects are kept |
//! |---|---|---|---|
//! | absent | install | - | - |
//! | busy | wait | wait | wait |
//! | interrupted | unlock | uninstall | forget |
//! | current | - | uninstall | forget |
//! | outdated | upgrade | uninstall | forget |
//! | of a user's Helm, to be taken over | take over: adopt or upgrade | - | - |
//! | failed, nothing deployed before | install again | uninstall | forget |
//! | failed, with a deployed revision | upgrade again | uninstall | forget |
//! | uninstalling | uninstall, then install | uninstall | uninstall |
//! | uninstalled | install | forget | forget |
//! | of another owner | refuse | - | - |

use crate::state::{Failed, ForeignOwner, Pending, ReleaseState};

/// What is to be done with a release next. Afterwards the state is determined again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: the release is as it should be.
    None,
    /// Wait for the end of an operation that another client has started.
    Wait(Pending),
    /// Mark the revision of an interrupted operation as failed.
    Unlock {
        /// The revision.
        revision: u64,
    },
    /// Install.
    Install {
        /// The name has records: of a failed installation, or of an uninstalled release. A record of a failed installation is kept
        /// until the next one has its own: without any record nothing would remember the objects that it created.
        replaces: bool,
    },
    /// Upgrade.
    Upgrade {
        /// The revision of a failed attempt with the same input. Its record is deleted before the next one is made, so that
        /// attempts do not add revisions.
        discard: Option<u64>,
    },
    /// Take over the release of a user's Helm: adopt it as it is, or upgrade it if anything differs ([`crate::adoption`]).
    TakeOver {
        /// The deployed revision.
        revision: u64,
    },
    /// Uninstall.
    Uninstall,
    /// Delete the records and keep the objects.
    Forget,
    /// Leave the release of another owner alone, and report it.
    Refuse(ForeignOwner),
}

/// The next step for a release that is wanted.
pub fn to_deploy(state: ReleaseState) -> Action {
    match state {
        ReleaseState::Absent => Action::Install { replaces: false },
        ReleaseState::Uninstalled => Action::Install { replaces: true },
        ReleaseState::Busy(pending) => Action::Wait(pending),
        ReleaseState::Interrupted(Pending { revision, .. }) => Action::Unlock { revision },
        ReleaseState::Current { .. } => Action::None,
        ReleaseState::Outdated { .. } => Action::Upgrade { discard: None },
        ReleaseState::Unmanaged { revision } => Action::TakeOver { revision },
        ReleaseState::Failed(failed) => again(&failed),
        ReleaseState::Uninstalling => Action::Uninstall,
        ReleaseState::Foreign(owner) => Action::Refuse(owner),
    }
}

/// The next attempt after a failure.
fn again(failed: &Failed) -> Action {
    if failed.has_base {
        Action::Upgrade {
            discard: failed.is_same_input.then_some(failed.revision),
        }
    } else {
        Action::Install { replaces: true }
    }
}

/// The next step for a release that is not wanted any more.
pub fn to_remove(state: &ReleaseState, keep_objects: bool) -> Action {
    match state {
        // What was not taken over yet is still the user's.
        ReleaseState::Absent | ReleaseState::Foreign(_) | ReleaseState::Unmanaged { .. } => Action::None,
        ReleaseState::Busy(pending) => Action::Wait(pending.clone()),
        ReleaseState::Uninstalled => Action::Forget,
        ReleaseState::Uninstalling => Action::Uninstall,
        ReleaseState::Interrupted(_)
        | ReleaseState::Current { .. }
        | ReleaseState::Outdated { .. }
        | ReleaseState::Failed(_) => {
            if keep_objects {
                Action::Forget
            } else {
                Action::Uninstall
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Status;

    const PENDING: Pending = Pending {
        revision: 2,
        status: Status::PendingUpgrade,
    };

    fn failed(has_base: bool, is_same_input: bool) -> ReleaseState {
        ReleaseState::Failed(Failed {
            revision: 2,
            has_base,
            is_same_input,
        })
    }

    #[test]
    fn every_state_has_an_action() {
        let install = |replaces| Action::Install { replaces };
        let upgrade = |discard| Action::Upgrade { discard };
        let foreign = ReleaseState::Foreign(ForeignOwner::Unmanaged);
        // State, then the actions if the release is wanted, is not wanted, and is not wanted but its objects are.
        for (state, deploy, remove, keep) in [
            (ReleaseState::Absent, install(false), Action::None, Action::None),
            (
                ReleaseState::Busy(PENDING),
                Action::Wait(PENDING),
                Action::Wait(PENDING),
                Action::Wait(PENDING),
            ),
            (
                ReleaseState::Interrupted(PENDING),
                Action::Unlock { revision: 2 },
                Action::Uninstall,
                Action::Forget,
            ),
            (
                ReleaseState::Current { revision: 2 },
                Action::None,
                Action::Uninstall,
                Action::Forget,
            ),
            (
                ReleaseState::Outdated { revision: 2 },
                upgrade(None),
                Action::Uninstall,
                Action::Forget,
            ),
            (
                ReleaseState::Unmanaged { revision: 2 },
                Action::TakeOver { revision: 2 },
                Action::None,
                Action::None,
            ),
            (
                failed(false, true),
                install(true),
                Action::Uninstall,
                Action::Forget,
            ),
            (
                failed(false, false),
                install(true),
                Action::Uninstall,
                Action::Forget,
            ),
            (
                failed(true, true),
                upgrade(Some(2)),
                Action::Uninstall,
                Action::Forget,
            ),
            (
                failed(true, false),
                upgrade(None),
                Action::Uninstall,
                Action::Forget,
            ),
            (
                ReleaseState::Uninstalling,
                Action::Uninstall,
                Action::Uninstall,
                Action::Uninstall,
            ),
            (
                ReleaseState::Uninstalled,
                install(true),
                Action::Forget,
                Action::Forget,
            ),
            (
                foreign,
                Action::Refuse(ForeignOwner::Unmanaged),
                Action::None,
                Action::None,
            ),
        ] {
            assert_eq!(to_remove(&state, false), remove, "{state:?}");
            assert_eq!(to_remove(&state, true), keep, "{state:?}");
            assert_eq!(to_deploy(state.clone()), deploy, "{state:?}");
        }
    }
}
