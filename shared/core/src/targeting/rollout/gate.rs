//! What a partition waits for before it begins.

use std::time::Duration;

use helmops_api::{
    Bundle,
    bundle::{APPROVAL, HALT, PartitionStatus, RolloutStatus, SOAK},
    rollout::RolloutStrategy,
    status::number,
    timestamp::timestamp,
};
use k8s_openapi::jiff::Timestamp;

use super::{
    approval::{self, Approval},
    completed::{self, NotRestorable, Restorable},
    error::{InvalidSoak, PlanError},
    failures::Failures,
    id::rollout_id,
    partition::{Partition, automatic_name},
};
use crate::{bundle::withheld_charts, targeting::target::Target};

/// What later partitions wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Closed {
    /// An earlier partition is not complete.
    Incomplete {
        name: String,
        soak: String,
        unfinished: usize,
        count: usize,
    },
    /// An earlier partition is complete, but not for long enough.
    Soaks { name: String, until: Timestamp },
    /// The next one needs an approval.
    Unapproved { command: String },
    /// It has failed on too many clusters.
    Halted { message: String },
}

impl Closed {
    fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Soaks { until, .. } => Some(*until),
            Self::Incomplete { .. } | Self::Unapproved { .. } | Self::Halted { .. } => None,
        }
    }

    /// The name in the status.
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Incomplete { .. } | Self::Soaks { .. } => SOAK,
            Self::Unapproved { .. } => APPROVAL,
            Self::Halted { .. } => HALT,
        }
    }

    fn message(&self, waiting: &str) -> String {
        match self {
            Self::Incomplete {
                name,
                soak,
                unfinished,
                count,
            } => format!(
                "partition {waiting:?} waits until partition {name:?} was complete for {soak}: {unfinished} of its {count} clusters are not up \
                 to date and ready"
            ),
            Self::Soaks { name, until } => {
                format!(
                    "partition {waiting:?} waits until {} (soak of {name:?})",
                    timestamp(*until)
                )
            }
            Self::Halted { message } => message.clone(),
            Self::Unapproved { command } => format!("partition {waiting:?} waits for approval: {command}"),
        }
    }
}

/// The gates of a rollout: all that one round knows of them. What they need from earlier rounds is in the status of the Bundle.
#[derive(Debug)]
pub struct Gates<'b> {
    bundle: &'b Bundle,
    id: String,
    /// Whether the clusters go back to what was completed before: then nothing waits.
    is_proven: bool,
    /// Whether it has failed on too many clusters, and goes back.
    goes_back: bool,
    approval: Approval,
    failures: Failures,
    /// What the round before knew of the same rollout.
    previous: Option<&'b RolloutStatus>,
    /// The partitions as they were in that round.
    partitions: &'b [PartitionStatus],
    /// Number of clusters.
    clusters: usize,
    now: Timestamp,
    closed: Option<Closed>,
    /// The first partition that waits, and what for.
    waiting: Option<(String, Closed)>,
}

impl<'b> Gates<'b> {
    /// The gates; `None` if the strategy has none.
    ///
    /// # Errors
    /// If the strategy has an amount that is neither a number nor a percentage.
    pub fn of(
        bundle: &'b Bundle,
        strategy: &RolloutStrategy,
        targets: &[Target<'_>],
        now: Timestamp,
    ) -> Result<Option<Self>, PlanError> {
        let mut partitions = strategy.partitions.iter();
        let has_gates = strategy.soak.is_some()
            || strategy.on_failure.is_some()
            || partitions.any(|partition| partition.soak.is_some() || partition.needs_approval());
        if !has_gates {
            return Ok(None);
        }
        let id = rollout_id(bundle);
        let last = bundle.status.as_deref().filter(|_| strategy.rolls_back());
        let is_proven = last
            .and_then(|status| status.completed.as_ref())
            .is_some_and(|completed| completed.id == id && withheld_charts(bundle).is_some());
        // What was complete or has failed with something else does not count. Its status may be all that is left of that: the controller
        // may have been killed before it wrote another one.
        let status = bundle
            .status
            .as_deref()
            .and_then(|status| Some((status, status.rollout.as_ref()?)))
            .filter(|(_, rollout)| rollout.id == id);
        let known = status.map_or(0, |(_, rollout)| rollout.failed);
        let failures = match &strategy.on_failure {
            Some(policy) if !is_proven => {
                let known = usize::try_from(known).unwrap_or_default();
                Failures::of(bundle, &id, policy, targets, known)?
            }
            _ => Failures::default(),
        };
        let before = last
            .filter(|_| failures.are_too_many())
            .map(|status| completed::restorable(bundle, &id, status));
        let closed = failures.are_too_many().then(|| Closed::Halted {
            message: failures.message(bundle, &id, &consequence(before.as_ref())),
        });
        Ok(Some(Self {
            bundle,
            is_proven,
            goes_back: matches!(before, Some(Ok(_))),
            approval: Approval::of(bundle, strategy, &id),
            failures,
            previous: status.map(|(_, rollout)| rollout),
            partitions: status.map_or(&[], |(status, _)| &status.partitions),
            clusters: targets.len(),
            id,
            now,
            closed,
            waiting: None,
        }))
    }

    /// Whether the next partition may begin. `has_changes` is whether it has anything to do, and `may_proceed` whether nothing but a gate
    /// keeps it from that: no approval is requested for what would not begin then.
    pub fn admit(
        &mut self,
        index: usize,
        partition: &Partition,
        has_changes: bool,
        may_proceed: bool,
    ) -> bool {
        if self.is_proven {
            return true;
        }
        let is_unapproved = partition.needs_approval && has_changes && !self.approval.includes(index);
        if self.closed.is_none() && is_unapproved {
            let command = approval::command(self.bundle, &self.id, &partition.name);
            self.closed = Some(Closed::Unapproved { command });
        }
        let Some(closed) = &self.closed else { return true };
        let is_requested = may_proceed || !matches!(closed, Closed::Unapproved { .. });
        if has_changes && is_requested && self.waiting.is_none() {
            self.waiting = Some((partition.name.clone(), closed.clone()));
        }
        false
    }

    /// Learns the state of a partition after it has had its turn: `unfinished` of its clusters are not up to date and ready, and more than
    /// allowed if it is not `is_complete`. Returns since when it is complete, if later ones have to wait for that.
    pub fn finish(
        &mut self,
        index: usize,
        partition: &Partition,
        unfinished: usize,
        is_complete: bool,
    ) -> String {
        let Some(soak) = &partition.soak else {
            return String::new();
        };
        if partition.members.is_empty() {
            return String::new();
        }
        let since = self.completed_at(index, partition, soak, is_complete);
        let closed = match since {
            None => Some(Closed::Incomplete {
                name: partition.name.clone(),
                soak: soak.text.clone(),
                unfinished,
                count: partition.members.len(),
            }),
            Some(since) => Some(soak.end(since))
                .filter(|until| *until > self.now)
                .map(|until| Closed::Soaks {
                    name: partition.name.clone(),
                    until,
                }),
        };
        if !self.is_proven {
            self.closed = self.closed.take().or(closed);
        }
        since.map(timestamp).unwrap_or_default()
    }

    /// Since when a partition is complete; `None` if it is not. A soak that is over stays over for the same rollout: a cluster that joins, or
    /// is not ready later, says nothing about the clusters of the next partition, which may have started.
    fn completed_at(
        &self,
        index: usize,
        partition: &Partition,
        soak: &Soak,
        is_complete: bool,
    ) -> Option<Timestamp> {
        let known = self
            .known(index, partition)
            .and_then(|known| known.completed_at.parse::<Timestamp>().ok())
            // A time in the future is one of another clock.
            .map(|since| since.min(self.now));
        match known {
            Some(since) if is_complete || soak.end(since) <= self.now => Some(since),
            _ => is_complete.then_some(self.now),
        }
    }

    /// What the round before knew of a partition. That is the one with its number and name.
    ///
    /// An automatic partition has the name of its range, which moves when clusters join or leave. It is the same one as long as its end moves
    /// no further than the number of these clusters explains, with one for each size that is rounded: another size makes other partitions.
    fn known(&self, index: usize, partition: &Partition) -> Option<&'b PartitionStatus> {
        let known = self.partitions.get(index)?;
        if known.name == partition.name {
            return Some(known);
        }
        let count = |partition: &PartitionStatus| usize::try_from(partition.count).unwrap_or_default();
        let end_before: usize = self.partitions.iter().take(index + 1).map(count).sum();
        let all_before: usize = self.partitions.iter().map(count).sum();
        let (start, end) = (*partition.members.first()?, partition.members.last()? + 1);
        let is_automatic = partition.name == automatic_name(start, end)
            && known.name == automatic_name(end_before.saturating_sub(count(known)), end_before);
        let moves = all_before.abs_diff(self.clusters).saturating_add(index + 1);
        (is_automatic && end_before.abs_diff(end) <= moves).then_some(known)
    }

    /// Since when a person has to do something about what the rollout waits for. `is_updating` is whether clusters are being updated: before
    /// an approval, a person looks at those. Once that is so it stays so, whatever these clusters do.
    fn since(&self, partition: &str, closed: &Closed, is_updating: bool) -> String {
        let known = self
            .previous
            .filter(|known| (&*known.waits_for, &*known.partition) == (closed.as_str(), partition))
            .map(|known| &*known.since)
            .filter(|since| !since.is_empty());
        match (known, closed) {
            (_, Closed::Incomplete { .. } | Closed::Soaks { .. }) => String::new(),
            (Some(since), _) => since.to_owned(),
            (None, Closed::Unapproved { .. }) if is_updating => String::new(),
            (None, Closed::Unapproved { .. } | Closed::Halted { .. }) => timestamp(self.now),
        }
    }

    /// Whether it has failed on too many clusters, and is not complete even if every one is up to date and ready.
    pub const fn prevents_completion(&self) -> bool {
        self.is_halted() && (self.goes_back || self.waiting.is_some())
    }

    const fn is_halted(&self) -> bool {
        matches!(self.closed, Some(Closed::Halted { .. }))
    }

    /// The status, and when the next round is due by itself. `is_updating` is whether clusters are being updated.
    pub fn status(mut self, is_updating: bool) -> (RolloutStatus, Option<Timestamp>) {
        if self.goes_back && self.waiting.is_none() {
            // Also if every cluster has it already.
            self.waiting = self.closed.take().map(|closed| (String::new(), closed));
        }
        let since = self
            .waiting
            .as_ref()
            .map(|(partition, closed)| self.since(partition, closed, is_updating));
        let mut status = RolloutStatus {
            id: self.id,
            failed: number(self.failures.failed),
            since: since.unwrap_or_default(),
            ..RolloutStatus::default()
        };
        let Some((partition, closed)) = self.waiting else {
            return (status, None);
        };
        let until = closed.until();
        closed.as_str().clone_into(&mut status.waits_for);
        status.message = closed.message(&partition);
        status.partition = partition;
        status.until = until.map(timestamp).unwrap_or_default();
        (status, until)
    }
}

/// What follows from a rollout that has failed, for its message.
fn consequence(before: Option<&Result<Restorable, NotRestorable>>) -> String {
    match before {
        None => String::new(),
        Some(Ok(_)) => "; its clusters go back to what was completed before".to_owned(),
        Some(Err(error)) => format!("; nothing is rolled back: {error}"),
    }
}

/// How long a partition soaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soak {
    /// As the user has written it.
    text: String,
    duration: Duration,
}

impl Soak {
    /// When it is over.
    fn end(&self, since: Timestamp) -> Timestamp {
        since.saturating_add(self.duration).unwrap_or(Timestamp::MAX)
    }

    /// Parses a soak; `None` if it is missing or zero.
    pub fn parse(text: Option<&str>) -> Result<Option<Self>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        let duration = go_formats::duration::parse(text).map_err(|error| InvalidSoak {
            text: text.to_owned(),
            error,
        })?;
        Ok((!duration.is_zero()).then(|| Self {
            text: text.to_owned(),
            duration,
        }))
    }
}
