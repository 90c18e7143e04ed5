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
    error::{InvalidSoak, PlanError},
    failures::Failures,
    id::rollout_id,
    partition::Partition,
};
use crate::targeting::target::Target;

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
    approval: Approval,
    failures: Failures,
    /// The partitions as they were when the same was rolled out.
    previous: &'b [PartitionStatus],
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
        // What was complete or has failed with something else does not count. Its status may be all that is left of that: the controller
        // may have been killed before it wrote another one.
        let status = bundle
            .status
            .as_deref()
            .and_then(|status| Some((status, status.rollout.as_ref()?)))
            .filter(|(_, rollout)| rollout.id == id);
        let known = status.map_or(0, |(_, rollout)| rollout.failed);
        let failures = match &strategy.on_failure {
            Some(policy) => {
                let known = usize::try_from(known).unwrap_or_default();
                Failures::of(bundle, &id, policy, targets, known)?
            }
            None => Failures::default(),
        };
        let closed = failures.are_too_many().then(|| Closed::Halted {
            message: failures.message(bundle, &id),
        });
        Ok(Some(Self {
            bundle,
            approval: Approval::of(bundle, strategy, &id),
            failures,
            previous: status.map_or(&[], |(status, _)| &status.partitions),
            id,
            now,
            closed,
            waiting: None,
        }))
    }

    /// Whether the next partition may begin. `has_changes` is whether it has anything to do.
    pub fn admit(&mut self, index: usize, partition: &Partition, has_changes: bool) -> bool {
        let is_unapproved = partition.needs_approval && has_changes && !self.approval.includes(index);
        if self.closed.is_none() && is_unapproved {
            let command = approval::command(self.bundle, &self.id, &partition.name);
            self.closed = Some(Closed::Unapproved { command });
        }
        let Some(closed) = &self.closed else { return true };
        if has_changes && self.waiting.is_none() {
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
        let since = is_complete.then(|| self.completed_at(index, &partition.name));
        let closed = match since {
            None => Some(Closed::Incomplete {
                name: partition.name.clone(),
                soak: soak.text.clone(),
                unfinished,
                count: partition.members.len(),
            }),
            Some(since) => Some(since.saturating_add(soak.duration).unwrap_or(Timestamp::MAX))
                .filter(|until| *until > self.now)
                .map(|until| Closed::Soaks {
                    name: partition.name.clone(),
                    until,
                }),
        };
        self.closed = self.closed.take().or(closed);
        since.map(timestamp).unwrap_or_default()
    }

    /// Since when a partition is complete that is complete now. Automatic partitions have the name that their number gives them.
    fn completed_at(&self, index: usize, name: &str) -> Timestamp {
        let known = self
            .previous
            .get(index)
            .filter(|known| known.name == name)
            .and_then(|known| known.completed_at.parse().ok());
        // A time in the future is one of another clock.
        known.unwrap_or(self.now).min(self.now)
    }

    /// The status, and when the next round is due by itself.
    pub fn status(self) -> (RolloutStatus, Option<Timestamp>) {
        let mut status = RolloutStatus {
            id: self.id,
            failed: number(self.failures.failed),
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

/// How long a partition soaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soak {
    /// As the user has written it.
    text: String,
    duration: Duration,
}

impl Soak {
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
