//! The revisions of a release, as its records show them.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    manifest, marks,
    record::{self, Acceptance, Attempt, AttemptAction, Cause, Failure, Record, RecordHead, Status},
};

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
    /// The attempt that made it, or for a rollback, the revision that it restores; `None` in records of other agents.
    pub attempt: Option<Attempt>,
}

/// The chart of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// The resolved version: that of its tag, or of its entry in the index.
    pub version: String,
    /// The version in its `Chart.yaml`, which Helm shows, if it is another one.
    pub own_version: Option<String>,
}

/// A revision of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
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
    /// It restores another revision.
    pub is_rollback: bool,
    /// Its Helm was stopped or killed.
    pub is_interrupted: bool,
    /// Whether it was ready and passed its tests; `None` if that is not known: Helm alone counts.
    pub acceptance: Option<Acceptance>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The generation of the downstream resources that it was deployed with, if it shows that.
    pub copies: Option<i64>,
    /// The request that forced it.
    pub forced_by: Option<String>,
    /// Whether it was deployed with `keepResources`: its objects stay when the release is removed.
    pub keeps_objects: bool,
    /// When it was made.
    pub made_at: Option<Timestamp>,
    /// When its record was changed last.
    pub changed_at: Option<Timestamp>,
    /// Its chart.
    pub chart: Chart,
}

impl Origin {
    /// The deployment ID of what the revision deploys.
    pub fn deployment_id(&self) -> Option<&str> {
        let attempt = self.attempt.as_ref()?;
        Some(record::deployment_id(&attempt.deployment_id))
    }

    /// Whether the revision shows which values of references it has.
    pub fn has_values(&self) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| record::has_values(&attempt.deployment_id))
    }

    /// The deployment ID with the digest of values, if the revision shows that.
    pub fn input(&self) -> Option<&str> {
        Some(&self.attempt.as_ref()?.deployment_id)
    }

    /// Whether the revision deploys this.
    pub fn has_input(&self, input: &str) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| record::is_same_input(&attempt.deployment_id, input))
    }
}

impl Revision {
    /// What the start of a record shows, unless it is that of an uninstalled release of this agent: then the manifest counts too.
    pub fn of_head(
        RecordHead(record): &RecordHead,
        agent_namespace: &str,
        changed_at: Option<Timestamp>,
    ) -> Option<Self> {
        let is_own = record.bundle_deployment(agent_namespace).is_some();
        let is_enough = record.info.status != Status::Uninstalled || !is_own;
        is_enough.then(|| Self::of(record, agent_namespace, changed_at))
    }

    /// What a record shows to an agent in this namespace. `changed_at` is when its Secret was changed last, if that is known.
    pub fn of(record: &Record, agent_namespace: &str, changed_at: Option<Timestamp>) -> Self {
        let made_at = record.info.last_deployed.as_ref();
        let made_at = made_at.and_then(|time| time.parse().ok());
        let owner = record
            .bundle_deployment(agent_namespace)
            .map_or(Owner::Other, |name| Owner::BundleDeployment(short(name)));
        // Helm takes it for uninstalled: it did not know of the objects that could not be read.
        let status = match record.info.status {
            Status::Uninstalled if manifest::is_incomplete(&record.manifest) => Status::Uninstalling,
            status => status,
        };
        Self {
            number: record.revision,
            status,
            origin: Origin {
                owner,
                attempt: record.attempt(),
            },
            is_replaced: record.info.status == Status::Superseded && record.info.description == REPLACED,
            is_rollback: record.is_rollback(),
            is_interrupted: record::is_interrupted(&record.info.description),
            acceptance: None,
            failure: Failure::of(record),
            copies: record
                .chart_annotation(marks::COPIES)
                .and_then(|text| text.parse().ok()),
            forced_by: record.chart_annotation(marks::FORCED_BY).map(short),
            keeps_objects: record.chart_annotation(marks::KEEP_RESOURCES) == Some("true"),
            made_at,
            changed_at: changed_at.or(made_at),
            chart: Chart::of(record),
        }
    }

    /// With the label of its record. That of a revision of another agent, or of a user, is the one of an earlier revision.
    #[must_use]
    pub fn labelled(mut self, acceptance: Option<Acceptance>) -> Self {
        self.acceptance = acceptance.filter(|_| self.origin.attempt.is_some());
        self
    }

    /// Whether Helm had deployed it until another revision followed, so that an upgrade can start from it.
    pub fn was_deployed(&self) -> bool {
        self.status == Status::Superseded && !self.is_replaced && !self.has_failed()
    }

    /// Whether Helm did not complete it, or it was marked as failed, whatever Helm has made of its status since.
    pub const fn has_failed(&self) -> bool {
        self.failure.is_some() || self.is_interrupted
    }

    /// Whether it is an installation that failed, or was uninstalled: another installation replaces it, and Helm never deletes its record.
    pub fn is_replaceable(&self) -> bool {
        let attempt = self.origin.attempt.as_ref();
        let is_installation = attempt.is_some_and(|attempt| attempt.action == AttemptAction::Install);
        self.is_replaced || (is_installation && self.has_failed())
    }

    /// Whether a rollback can restore it: Helm has deployed it, and it was not superseded before it was ready.
    fn is_good(&self) -> bool {
        (self.status == Status::Deployed || self.was_deployed())
            && self.acceptance != Some(Acceptance::Awaited)
    }
}

impl Chart {
    fn of(record: &Record) -> Self {
        let text = |key| record.chart_metadata().get(key).and_then(Value::as_str);
        let own = short(text("version").unwrap_or_default());
        let (version, own_version) = match record.chart_annotation(marks::RESOLVED_VERSION) {
            Some(resolved) => (short(resolved), Some(own)),
            None => (own, None),
        };
        Self {
            name: short(text("name").unwrap_or_default()),
            version,
            own_version,
        }
    }
}

/// A name, a version or a token, all of which are short. What is longer is the work of another client, and would be kept.
fn short(text: &str) -> String {
    const MAX: usize = 1 << 10;
    bounded_text::cut(text.to_owned(), MAX)
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)?;
        match &self.own_version {
            Some(own) => write!(f, " ({own} in Chart.yaml)"),
            None => Ok(()),
        }
    }
}

/// An attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAttempt<'h> {
    /// Its revision.
    pub revision: &'h Revision,
    /// Which one it is.
    pub attempt: &'h Attempt,
    /// Why it failed.
    pub failure: &'h Failure,
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

    /// The newest revision, if it is one of this BundleDeployment.
    pub fn newest_of(&self, bundle_deployment: &str) -> Option<&Revision> {
        let is_its =
            |owner: &Owner| matches!(owner, Owner::BundleDeployment(name) if name == bundle_deployment);
        self.newest().filter(|newest| is_its(&newest.origin.owner))
    }

    /// The revision that is deployed: the base of the next upgrade. Helm has at most one; of several, the newest counts.
    pub fn deployed(&self) -> Option<&Revision> {
        self.0.iter().find(|revision| revision.status == Status::Deployed)
    }

    /// The newest revision if it is one of a BundleDeployment, deployed, and neither awaited nor untested: nothing of what was there before
    /// is needed any more.
    pub fn settled(&self, bundle_deployment: &str) -> Option<&Revision> {
        let is_of =
            |owner: &Owner| matches!(owner, Owner::BundleDeployment(name) if name == bundle_deployment);
        self.newest().filter(|newest| {
            newest.status == Status::Deployed
                && newest.acceptance != Some(Acceptance::Awaited)
                && is_of(&newest.origin.owner)
        })
    }

    /// A revision by its number.
    pub fn get(&self, number: u64) -> Option<&Revision> {
        self.0.iter().find(|revision| revision.number == number)
    }

    /// All revisions, newest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Revision> {
        self.0.iter()
    }

    /// The newest revision that an upgrade can start from: it is deployed, or was until an upgrade replaced it.
    pub fn base(&self) -> Option<&Revision> {
        let superseded = || self.since_installation().find(|revision| revision.was_deployed());
        self.deployed().or_else(superseded)
    }

    /// The revision that Helm compares an upgrade with: what that has, and the new one has not, is deleted.
    pub fn replaced_by_upgrade(&self) -> Option<&Revision> {
        self.deployed().or_else(|| self.newest())
    }

    /// The newest installation, and what followed, newest first. What was before is uninstalled, although Helm marks only the last
    /// record as such.
    fn since_installation(&self) -> impl Iterator<Item = &Revision> {
        let is_installation = |revision: &Revision| {
            let attempt = revision.origin.attempt.as_ref();
            !revision.is_rollback && attempt.is_some_and(|attempt| attempt.action == AttemptAction::Install)
        };
        let installation = self.0.iter().position(is_installation);
        let number = installation.map_or(self.0.len(), |index| index.saturating_add(1));
        self.0.iter().take(number)
    }

    /// The last attempt to deploy something, if the release has not been changed since, except by its remediation.
    pub fn last_attempt(&self, deployment_id: &str) -> Option<&Revision> {
        let last = self.0.iter().find(|revision| !revision.is_rollback)?;
        last.origin.has_input(deployment_id).then_some(last)
    }

    /// The last attempt to deploy something, if it failed.
    pub fn failed_attempt(&self, deployment_id: &str) -> Option<FailedAttempt<'_>> {
        let revision = self.last_attempt(deployment_id)?;
        Some(FailedAttempt {
            revision,
            attempt: revision.origin.attempt.as_ref()?,
            failure: revision.failure.as_ref()?,
        })
    }

    /// The next attempt to deploy something with `action`, because of `cause`. `counts` is whether earlier failures count. After an
    /// installation over objects of lost records, further ones are the same until one succeeds.
    pub fn next_attempt(
        &self,
        deployment_id: &str,
        action: AttemptAction,
        cause: Cause,
        counts: bool,
    ) -> Attempt {
        let failed = self.failed_attempt(deployment_id).map(|failed| failed.attempt);
        let failed = failed.filter(|failed| counts && failed.action == action);
        let has_older_objects = action == AttemptAction::Install
            && self.unfinished_before(u64::MAX).any(|revision| {
                let attempt = revision.origin.attempt.as_ref();
                attempt.is_some_and(|attempt| attempt.cause == Cause::Missing)
            });
        Attempt {
            action,
            deployment_id: deployment_id.to_owned(),
            cause: if has_older_objects { Cause::Missing } else { cause },
            number: failed.map_or(1, |failed| failed.number.saturating_add(1)),
        }
    }

    /// The newest revision before another one that was deployed, or still is, and did not fail: what a rollback restores. After an
    /// upgrade that failed early, Helm leaves the revision before in status `deployed`.
    pub fn before(&self, number: u64) -> Option<&Revision> {
        self.since_installation()
            .find(|revision| revision.number < number && revision.is_good())
    }

    /// Whether a request has forced an attempt, whatever became of that.
    pub fn was_forced_by(&self, request: &str) -> bool {
        self.iter()
            .any(|revision| revision.forced_by.as_deref() == Some(request))
    }

    /// The attempts before a revision that did not end with a deployed revision, newest first, until one that did. What only they have created
    /// is in no manifest that Helm compares with: Helm upgrades from the revision that was deployed last, and installs without any. Those of a
    /// user's Helm are not among them.
    pub fn unfinished_before(&self, number: u64) -> impl Iterator<Item = &Revision> {
        let before = self.0.iter().filter(move |revision| revision.number < number);
        let unfinished = before.take_while(|revision| !revision.is_good());
        unfinished.filter(|revision| revision.origin.attempt.is_some())
    }

    /// The record of a rollback that failed last. It is deleted before the next revision is made: Helm would compare with the revision
    /// that the rollback was to restore, so that nothing would delete what the failed revision has added. Without a revision to upgrade
    /// it stays: Helm installs again after a failed revision, but not after the superseded one before it.
    fn failed_rollback(&self) -> Option<&Revision> {
        self.newest()
            .filter(|newest| newest.is_rollback && newest.status == Status::Failed)
            .filter(|_| self.base().is_some())
    }

    /// The records to delete before the next revision is made, so that at most `kept` stay if failed ones are enough for that: replaced
    /// revisions, and the oldest ones that failed. Helm keeps all of an installation, and for others deletes the oldest records,
    /// among them the one that a rollback restores. The last attempt is kept, since it counts the attempts.
    pub fn unneeded(&self, kept: usize) -> Vec<&Revision> {
        let failed_rollback = self.failed_rollback().map(|revision| revision.number);
        let newest = self.newest().map(|revision| revision.number);
        let last = self.0.iter().find(|revision| !revision.is_rollback);
        let needed = [newest, last.map(|revision| revision.number)];
        let is_useless = |revision: &&Revision| {
            let number = Some(revision.number);
            number == failed_rollback || (revision.is_replaced && number != newest)
        };
        let (mut unneeded, rest) = self.0.iter().partition::<Vec<_>, _>(is_useless);
        let surplus = rest.len().saturating_sub(kept);
        let failed = rest
            .into_iter()
            .rev()
            .filter(|revision| revision.has_failed() && !needed.contains(&Some(revision.number)));
        unneeded.extend(failed.take(surplus));
        unneeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn revision(number: u64, status: Status, deployment_id: &str, attempt: u32) -> Revision {
        let attempt = fixture::attempt(AttemptAction::Upgrade, deployment_id, attempt);
        Revision {
            failure: (status == Status::Failed).then(|| Failure::Helm("x".to_owned())),
            ..fixture::revision(number, status, Some(attempt))
        }
    }

    fn rollback(number: u64) -> Revision {
        Revision {
            is_rollback: true,
            ..revision(number, Status::Deployed, "old", 1)
        }
    }

    #[test]
    fn the_version_of_a_revision_is_the_resolved_one() {
        for (resolved, version, text) in [
            (None, "1.2.3-rc.4", "web 1.2.3-rc.4"),
            (Some("1.2.3"), "1.2.3", "web 1.2.3 (1.2.3-rc.4 in Chart.yaml)"),
        ] {
            let mut metadata = serde_json::json!({ "name": "web", "version": "1.2.3-rc.4" });
            if let Some(resolved) = resolved {
                metadata["annotations"] = serde_json::json!({ marks::RESOLVED_VERSION: resolved });
            }
            let record = Record {
                chart: serde_json::json!({ "metadata": metadata }),
                ..Record::default()
            };
            let chart = Revision::of(&record, "agent", None).chart;
            assert_eq!((&*chart.version, &*chart.to_string()), (version, text));
        }
    }

    #[test]
    fn a_release_is_settled_when_its_newest_revision_is_accepted_and_its_own() {
        let deployed = || revision(2, Status::Deployed, "x", 1);
        let labelled = |acceptance| deployed().labelled(Some(acceptance));
        let other = Revision {
            origin: Origin {
                owner: Owner::Other,
                attempt: None,
            },
            ..deployed()
        };
        let failed = revision(3, Status::Failed, "x", 1);
        for (revisions, expected) in [
            (vec![], None),
            (vec![deployed()], Some(2)),
            (vec![labelled(Acceptance::Accepted)], Some(2)),
            (vec![labelled(Acceptance::Awaited)], None),
            (vec![other], None),
            (vec![deployed(), failed], None),
        ] {
            let history = History::new(revisions);
            let settled = history.settled("web").map(|revision| revision.number);
            assert_eq!(settled, expected, "{history:?}");
            assert_eq!(history.settled("other"), None);
        }
    }

    #[test]
    fn attempts_are_counted_while_they_fail_also_over_rollbacks() {
        let old = || revision(1, Status::Superseded, "old", 3);
        for (revisions, expected) in [
            (vec![], 1),
            (vec![old()], 1),
            (vec![old(), revision(2, Status::Failed, "new", 1)], 2),
            (vec![old(), revision(2, Status::Failed, "new", 1), rollback(3)], 2),
            (
                vec![
                    old(),
                    revision(2, Status::Failed, "new", 2),
                    rollback(3),
                    rollback(4),
                ],
                3,
            ),
            // It succeeded: what follows is a new series.
            (vec![old(), revision(2, Status::Deployed, "new", 2)], 1),
            (
                vec![
                    revision(1, Status::Failed, "new", 2),
                    revision(2, Status::Deployed, "old", 1),
                    rollback(3),
                ],
                1,
            ),
        ] {
            let history = History::new(revisions.clone());
            let next = |action, counts| history.next_attempt("new", action, Cause::Change, counts).number;
            assert_eq!(next(AttemptAction::Upgrade, true), expected, "{revisions:?}");
            assert_eq!(next(AttemptAction::Install, true), 1, "{revisions:?}");
            assert_eq!(next(AttemptAction::Upgrade, false), 1, "{revisions:?}");
        }
    }

    /// Helm supersedes whatever was before: what was broken, and what a new version came for while it was awaited.
    #[test]
    fn only_what_was_good_is_restored() {
        let good = || revision(1, Status::Superseded, "old", 1);
        let awaited = |status| revision(2, status, "x", 1).labelled(Some(Acceptance::Awaited));
        let accepted = |status| revision(2, status, "x", 1).labelled(Some(Acceptance::Accepted));
        let broken = Revision {
            failure: Some(Failure::NotReady("x".to_owned())),
            ..revision(2, Status::Superseded, "x", 1)
        };
        let interrupted = Revision {
            is_interrupted: true,
            ..revision(2, Status::Superseded, "x", 1)
        };
        for (second, expected) in [
            (accepted(Status::Superseded), 2),
            (accepted(Status::Deployed), 2),
            // Of an older version, or without a wait.
            (revision(2, Status::Superseded, "x", 1), 2),
            (awaited(Status::Superseded), 1),
            (awaited(Status::Deployed), 1),
            (broken, 1),
            (interrupted, 1),
        ] {
            let history = History::new(vec![
                good(),
                second.clone(),
                revision(3, Status::Failed, "new", 1),
            ]);
            let found = history.before(3).map(|revision| revision.number);
            assert_eq!(found, Some(expected), "{second:?}");
        }
    }

    #[test]
    fn the_label_of_a_revision_of_others_is_one_of_an_earlier_revision() {
        let other = fixture::revision(2, Status::Deployed, None);
        assert_eq!(other.labelled(Some(Acceptance::Awaited)).acceptance, None);
    }

    #[test]
    fn failures_count_when_helm_has_superseded_them() {
        let superseded = Revision {
            failure: Some(Failure::NotReady("x".to_owned())),
            ..revision(2, Status::Superseded, "new", 2)
        };
        let failed = Revision {
            is_rollback: true,
            ..revision(3, Status::Failed, "old", 1)
        };
        let history = History::new(vec![
            revision(1, Status::Superseded, "old", 1),
            superseded,
            failed,
        ]);
        let next = history.next_attempt("new", AttemptAction::Upgrade, Cause::Change, true);
        assert_eq!(next.number, 3);
    }

    /// An upgrade would have to be uninstalled again, and each attempt would be two.
    #[test]
    fn nothing_from_before_an_installation_is_a_base() {
        let attempt = fixture::attempt(AttemptAction::Install, "new", 1);
        let installation = |status| fixture::revision(3, status, Some(attempt.clone()));
        let old = || revision(1, Status::Superseded, "old", 1);
        for (status, expected) in [(Status::Failed, None), (Status::Superseded, Some(3))] {
            let history = History::new(vec![old(), installation(status)]);
            assert_eq!(history.base().map(|base| base.number), expected, "{status:?}");
            assert_eq!(history.before(4).map(|good| good.number), expected, "{status:?}");
        }
    }

    #[test]
    fn what_did_not_end_with_a_deployed_revision_is_unfinished() {
        let failed = |number| revision(number, Status::Failed, "new", 1);
        let good = |number| revision(number, Status::Superseded, "old", 1);
        let numbers = |revisions: Vec<Revision>, number| {
            let history = History::new(revisions);
            let unfinished = history.unfinished_before(number);
            unfinished.map(|one| one.number).collect::<Vec<u64>>()
        };
        assert_eq!(numbers(vec![good(1), failed(2), failed(3), good(4)], 4), [3, 2]);
        assert_eq!(numbers(vec![failed(1), good(2), good(3)], 3), [0; 0]);
        assert_eq!(numbers(vec![failed(1), failed(2)], 2), [1]);
        let of_user = fixture::revision(2, Status::Failed, None);
        assert_eq!(numbers(vec![good(1), of_user, failed(3)], 4), [3]);
    }

    #[test]
    fn room_is_made_by_failed_revisions_and_not_by_good_ones() {
        let failed = |number| revision(number, Status::Failed, "new", 1);
        let replaced = |number| Revision {
            is_replaced: true,
            ..revision(number, Status::Superseded, "new", 1)
        };
        let failed_rollback = |number| Revision {
            is_rollback: true,
            ..revision(number, Status::Failed, "old", 1)
        };
        let good = || revision(1, Status::Superseded, "old", 1);
        let numbers = |revisions: Vec<Revision>, kept| {
            let history = History::new(revisions);
            let unneeded = history.unneeded(kept);
            unneeded.iter().map(|one| one.number).collect::<Vec<_>>()
        };
        for (revisions, kept, expected) in [
            (vec![], 0, vec![]),
            (vec![good(), failed(2), failed(3), failed(4)], 4, vec![]),
            (vec![good(), failed(2), failed(3), failed(4)], 3, vec![2]),
            (vec![good(), failed(2), failed(3), failed(4)], 1, vec![2, 3]),
            (vec![replaced(1), replaced(2)], 5, vec![1]),
            // It counts the attempts.
            (vec![good(), failed(2), rollback(3)], 1, vec![]),
            (vec![good(), failed(2), failed_rollback(3)], 5, vec![3]),
            (
                vec![good(), failed(2), failed(3), failed_rollback(4)],
                2,
                vec![4, 2],
            ),
        ] {
            assert_eq!(numbers(revisions.clone(), kept), expected, "{revisions:?} {kept}");
        }
    }
}
