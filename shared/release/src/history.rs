//! The revisions of a release, as its records show them.

use crate::record::{Attempt, Cause, Record, Status};

/// What Helm writes into a record that an installation has replaced.
const REPLACED: &str = "superseded by new release";

/// Who made a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An agent in the namespace of this one, for the BundleDeployment of this name.
    BundleDeployment(String),
    /// Another owner: a user's Helm, another tool, or an agent in another namespace.
    Other,
}

/// Who made a revision, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Who made it.
    pub owner: Owner,
    /// The attempt that made it; `None` in records of other agents, and of rollbacks.
    pub attempt: Option<Attempt>,
}

/// A revision of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its number; the next one is higher.
    pub number: u64,
    /// The status in its record.
    pub status: Status,
    /// Who made it.
    pub origin: Origin,
    /// An installation replaced it: it was uninstalled, or its installation had failed. It was not deployed when that happened,
    /// although Helm shows it as superseded.
    pub is_replaced: bool,
}

impl Origin {
    /// What the revision deploys.
    pub fn deployment_id(&self) -> Option<&str> {
        self.attempt
            .as_ref()
            .map(|attempt| attempt.deployment_id.as_str())
    }
}

impl Revision {
    /// What a record shows to an agent in this namespace.
    pub fn of(record: &Record, agent_namespace: &str) -> Self {
        let owner = record
            .bundle_deployment(agent_namespace)
            .map_or(Owner::Other, |name| Owner::BundleDeployment(name.to_owned()));
        Self {
            number: record.revision,
            status: record.info.status,
            origin: Origin {
                owner,
                attempt: record.attempt(),
            },
            is_replaced: record.info.status == Status::Superseded && record.info.description == REPLACED,
        }
    }
}

/// The revisions that a release has records of, newest first. Helm deletes older records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Vec<Revision>);

impl History {
    /// The revisions, in any order.
    pub fn new(mut revisions: Vec<Revision>) -> Self {
        revisions.sort_by_key(|revision| std::cmp::Reverse(revision.number));
        Self(revisions)
    }

    /// The newest revision.
    pub fn newest(&self) -> Option<&Revision> {
        self.0.first()
    }

    /// The revision that is deployed: the base of the next upgrade. Helm has at most one; of several, the newest counts.
    pub fn deployed(&self) -> Option<&Revision> {
        self.0.iter().find(|revision| revision.status == Status::Deployed)
    }

    /// A revision by its number.
    pub fn get(&self, number: u64) -> Option<&Revision> {
        self.0.iter().find(|revision| revision.number == number)
    }

    /// All revisions, newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Revision> {
        self.0.iter()
    }

    /// The newest revision that an upgrade can start from: it is deployed, or was until an upgrade replaced it.
    pub fn base(&self) -> Option<&Revision> {
        let was_deployed =
            |revision: &&Revision| revision.status == Status::Superseded && !revision.is_replaced;
        self.deployed().or_else(|| self.0.iter().find(was_deployed))
    }

    /// The next attempt to deploy something, because of `cause`. It is counted as long as the last attempt is of the same deployment;
    /// a rollback after it is none.
    pub fn next_attempt(&self, deployment_id: &str, cause: Cause) -> Attempt {
        let last = self
            .0
            .iter()
            .find_map(|revision| revision.origin.attempt.as_ref());
        let last = last.filter(|last| last.deployment_id == deployment_id);
        Attempt {
            deployment_id: deployment_id.to_owned(),
            cause,
            number: last.map_or(1, |last| last.number.saturating_add(1)),
        }
    }

    /// The newest revision before another one that was deployed: what a rollback restores.
    pub fn before(&self, number: u64) -> Option<&Revision> {
        let was_deployed =
            |revision: &&Revision| revision.status == Status::Superseded && !revision.is_replaced;
        self.0
            .iter()
            .filter(|revision| revision.number < number)
            .find(was_deployed)
    }

    /// The records that nothing needs: those of replaced revisions. Helm does not limit their number.
    pub fn unneeded(&self) -> impl Iterator<Item = &Revision> {
        self.0.iter().skip(1).filter(|revision| revision.is_replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_for_one_deployment_also_over_rollbacks() {
        let by = |id: &str, number| {
            let deployment_id = id.to_owned();
            Some(Attempt {
                deployment_id,
                cause: Cause::Change,
                number,
            })
        };
        // The attempts of the revisions, oldest first; a rollback has none.
        for (attempts, expected) in [
            (vec![], 1),
            (vec![None], 1),
            (vec![by("old", 3)], 1),
            (vec![by("old", 1), by("new", 1)], 2),
            (vec![by("old", 1), by("new", 1), None], 2),
            (vec![by("old", 1), by("new", 2), None, None], 3),
            (vec![by("new", 2), by("old", 1), None], 1),
        ] {
            let revision = |(index, attempt)| Revision {
                number: 1 + index as u64,
                status: Status::Superseded,
                origin: Origin {
                    owner: Owner::Other,
                    attempt,
                },
                is_replaced: false,
            };
            let history = History::new(attempts.clone().into_iter().enumerate().map(revision).collect());
            let next = history.next_attempt("new", Cause::Change);
            assert_eq!(next, by("new", expected).unwrap(), "{attempts:?}");
        }
    }
}
