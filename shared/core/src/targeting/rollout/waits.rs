//! What a partition waits for before it begins.

use std::{fmt, time::Duration};

use helmops_api::{
    Bundle,
    bundle::{APPROVAL, GATE, HALT, PartitionStatus, RolloutStatus, SOAK},
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
    partition_gate::{GateState, GateStates, Verdict},
};
use crate::{bundle::withheld_charts, targeting::target::Target};

/// A partition that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unfinished {
    name: String,
    /// Number of its clusters that are not up to date and ready.
    missing: usize,
    /// Number of all its clusters.
    count: usize,
}

/// What later partitions wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wait {
    /// An earlier partition is not complete.
    Incomplete { of: Unfinished, soak: String },
    /// An earlier partition is complete, but not for long enough.
    Soaks { name: String, until: Timestamp },
    /// The next one has a gate, and an earlier one without a soak is not complete.
    BeforeGate(Unfinished),
    /// The next one has a gate that is not open; `None` if that is not known yet.
    Gate(Option<GateState>),
    /// The next one needs an approval.
    Unapproved { command: String },
    /// It has failed on too many clusters.
    Halted { message: String },
}

impl Wait {
    /// When it ends by itself.
    fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Soaks { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// When the next round is due by itself.
    fn next_round(&self) -> Option<Timestamp> {
        match self {
            Self::Gate(state) => state.as_ref()?.again,
            _ => self.until(),
        }
    }

    /// The name in the status.
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Incomplete { .. } | Self::Soaks { .. } => SOAK,
            Self::BeforeGate(_) | Self::Gate(_) => GATE,
            Self::Unapproved { .. } => APPROVAL,
            Self::Halted { .. } => HALT,
        }
    }

    fn message(&self, waiting: &str) -> String {
        match self {
            Self::Incomplete { of, soak } => {
                format!(
                    "partition {waiting:?} waits until partition {:?} was complete for {soak}: {of}",
                    of.name
                )
            }
            Self::Soaks { name, until } => {
                format!(
                    "partition {waiting:?} waits until {} (soak of {name:?})",
                    timestamp(*until)
                )
            }
            Self::BeforeGate(of) => format!(
                "partition {waiting:?} waits until partition {:?} is complete, and then for its gate: {of}",
                of.name
            ),
            Self::Gate(state) => match state.as_ref().map(|state| &state.verdict) {
                Some(Verdict::Closed(cause)) => format!("partition {waiting:?} waits for its gate: {cause}"),
                Some(Verdict::Failed(cause)) => {
                    format!("partition {waiting:?} waits for its gate, which cannot be evaluated: {cause}")
                }
                Some(Verdict::Open) | None => format!("partition {waiting:?} waits for its gate"),
            },
            Self::Halted { message } => message.clone(),
            Self::Unapproved { command } => format!("partition {waiting:?} waits for approval: {command}"),
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { missing, count, .. } = self;
        write!(
            f,
            "{missing} of its {count} clusters are not up to date and ready"
        )
    }
}

/// What a partition has to remember for later rounds, in RFC 3339.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Since when it is complete, if a later one has to wait for that.
    pub completed_at: String,
    /// Since when it waits for its gate.
    pub gate_since: String,
    /// When it has passed its gate.
    pub gate_passed_at: String,
}

/// What the partitions of a rollout wait for: all that one round knows of them. What they need from earlier rounds is in the status of the
/// Bundle.
#[derive(Debug)]
pub struct Waits<'b> {
    bundle: &'b Bundle,
    id: String,
    /// Whether the clusters go back to what was completed before: then nothing waits.
    is_proven: bool,
    /// Whether it has failed on too many clusters, and goes back.
    goes_back: bool,
    approval: Approval,
    /// The states of gates that are known.
    gates: &'b GateStates,
    /// Whether a partition has a gate.
    has_gates: bool,
    /// The first partition that is not complete.
    unfinished: Option<Unfinished>,
    /// The times of the partition that was admitted last.
    times: Times,
    /// The partition whose gate has to be evaluated.
    required_gate: Option<usize>,
    failures: Failures,
    /// What the round before knew of the same rollout.
    previous: Option<&'b RolloutStatus>,
    /// The partitions as they were in that round.
    partitions: &'b [PartitionStatus],
    /// Number of clusters.
    clusters: usize,
    now: Timestamp,
    closed: Option<Wait>,
    /// The first partition that waits, and what for.
    waiting: Option<(String, Wait)>,
}

impl<'b> Waits<'b> {
    /// What they wait for; `None` if the strategy makes no partition wait.
    ///
    /// # Errors
    /// If the strategy has an amount that is neither a number nor a percentage.
    pub fn of(
        bundle: &'b Bundle,
        strategy: &RolloutStrategy,
        targets: &[Target<'_>],
        gates: &'b GateStates,
        now: Timestamp,
    ) -> Result<Option<Self>, PlanError> {
        let mut partitions = strategy.partitions.iter();
        let has_gates = partitions.clone().any(|partition| partition.gate.is_some());
        let has_waits = has_gates
            || strategy.soak.is_some()
            || strategy.on_failure.is_some()
            || partitions.any(|partition| partition.soak.is_some() || partition.needs_approval());
        if !has_waits {
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
        let closed = failures.are_too_many().then(|| Wait::Halted {
            message: failures.message(bundle, &id, &consequence(before.as_ref())),
        });
        Ok(Some(Self {
            bundle,
            is_proven,
            goes_back: matches!(before, Some(Ok(_))),
            approval: Approval::of(bundle, strategy, &id),
            gates,
            has_gates,
            unfinished: None,
            times: Times::default(),
            required_gate: None,
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

    /// Whether the next partition may begin. `has_changes` is whether it has anything to do, and `may_proceed` whether nothing but what it
    /// waits for here keeps it from that: no gate is evaluated and no approval is requested for what would not begin then.
    pub fn admit(
        &mut self,
        index: usize,
        partition: &Partition,
        has_changes: bool,
        may_proceed: bool,
    ) -> bool {
        self.times = Times {
            gate_passed_at: self
                .known(index, partition)
                .map_or_else(String::new, |known| known.gate_passed_at.clone()),
            ..Times::default()
        };
        if self.is_proven {
            return true;
        }
        if self.closed.is_none() && has_changes {
            self.closed = self
                .gate(index, partition, may_proceed)
                .or_else(|| self.missing_approval(index, partition));
        }
        let Some(closed) = &self.closed else {
            if partition.gate.is_some() && has_changes && self.times.gate_passed_at.is_empty() {
                self.times.gate_passed_at = timestamp(self.now);
            }
            return true;
        };
        let is_requested = may_proceed || !matches!(closed, Wait::Gate(_) | Wait::Unapproved { .. });
        if has_changes && is_requested && self.waiting.is_none() {
            self.waiting = Some((partition.name.clone(), closed.clone()));
        }
        false
    }

    /// What its gate makes a partition wait for. Once it has passed it, that is nothing.
    fn gate(&mut self, index: usize, partition: &Partition, may_proceed: bool) -> Option<Wait> {
        if partition.gate.is_none() || !self.times.gate_passed_at.is_empty() {
            return None;
        }
        if let Some(unfinished) = &self.unfinished {
            return Some(Wait::BeforeGate(unfinished.clone()));
        }
        if !may_proceed {
            return Some(Wait::Gate(None));
        }
        let known = self.known(index, partition).map(|known| &known.gate_since);
        let since = known.filter(|since| !since.is_empty()).cloned();
        self.times.gate_since = since.unwrap_or_else(|| timestamp(self.now));
        match self.gates.get(index) {
            Some(GateState {
                verdict: Verdict::Open,
                ..
            }) => None,
            Some(state) => Some(Wait::Gate(Some(state.clone()))),
            None => {
                self.required_gate = Some(index);
                Some(Wait::Gate(None))
            }
        }
    }

    fn missing_approval(&self, index: usize, partition: &Partition) -> Option<Wait> {
        let is_unapproved = partition.needs_approval && !self.approval.includes(index);
        is_unapproved.then(|| Wait::Unapproved {
            command: approval::command(self.bundle, &self.id, &partition.name),
        })
    }

    /// The partition whose gate has to be evaluated, with the ID of the rollout: its state decides how it goes on.
    pub fn required_gate(&self) -> Option<(usize, &str)> {
        self.required_gate.map(|index| (index, &*self.id))
    }

    /// Learns the state of a partition after it has had its turn: `unfinished` of its clusters are not up to date and ready, and more than
    /// allowed if it is not `is_complete`. Returns what later rounds have to know of it.
    pub fn finish(
        &mut self,
        index: usize,
        partition: &Partition,
        unfinished: usize,
        is_complete: bool,
    ) -> Times {
        let mut times = std::mem::take(&mut self.times);
        if !partition.members.is_empty() && (partition.soak.is_some() || self.has_gates) {
            let since = self.completed_at(index, partition, is_complete);
            if !self.is_proven {
                self.keep_waiting(partition, unfinished, since);
            }
            times.completed_at = since.map(timestamp).unwrap_or_default();
        }
        times
    }

    /// Makes later partitions wait for one that is complete since this time.
    fn keep_waiting(&mut self, partition: &Partition, missing: usize, since: Option<Timestamp>) {
        let unfinished = || Unfinished {
            name: partition.name.clone(),
            missing,
            count: partition.members.len(),
        };
        if since.is_none() && self.unfinished.is_none() {
            self.unfinished = Some(unfinished());
        }
        let Some(soak) = &partition.soak else { return };
        let wait = match since.map(|since| soak.end(since)) {
            None => Wait::Incomplete {
                of: unfinished(),
                soak: soak.text.clone(),
            },
            Some(until) if until > self.now => Wait::Soaks {
                name: partition.name.clone(),
                until,
            },
            Some(_) => return,
        };
        self.closed.get_or_insert(wait);
    }

    /// Since when a partition is complete; `None` if it is not. A soak that is over stays over for the same rollout: a cluster that joins, or
    /// is not ready later, says nothing about the clusters of the next partition, which may have started.
    fn completed_at(&self, index: usize, partition: &Partition, is_complete: bool) -> Option<Timestamp> {
        let soak = partition.soak.as_ref();
        let known = self
            .known(index, partition)
            .and_then(|known| known.completed_at.parse::<Timestamp>().ok())
            // A time in the future is one of another clock.
            .map(|since| since.min(self.now));
        match known {
            Some(since) if is_complete || soak.is_some_and(|soak| soak.end(since) <= self.now) => Some(since),
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
    fn since(&self, partition: &str, closed: &Wait, is_updating: bool) -> String {
        let known = self
            .previous
            .filter(|known| (&*known.waits_for, &*known.partition) == (closed.as_str(), partition))
            .map(|known| &*known.since)
            .filter(|since| !since.is_empty());
        match (known, closed) {
            (_, Wait::Incomplete { .. } | Wait::Soaks { .. } | Wait::BeforeGate(_)) => String::new(),
            (_, Wait::Gate(state)) if !state.as_ref().is_some_and(GateState::has_failed) => String::new(),
            (Some(since), _) => since.to_owned(),
            (None, Wait::Unapproved { .. }) if is_updating => String::new(),
            (None, _) => timestamp(self.now),
        }
    }

    /// Whether it has failed on too many clusters, and is not complete even if every one is up to date and ready.
    pub const fn prevents_completion(&self) -> bool {
        self.is_halted() && (self.goes_back || self.waiting.is_some())
    }

    const fn is_halted(&self) -> bool {
        matches!(self.closed, Some(Wait::Halted { .. }))
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
        let (until, next_round) = (closed.until(), closed.next_round());
        closed.as_str().clone_into(&mut status.waits_for);
        status.message = closed.message(&partition);
        status.partition = partition;
        status.until = until.map(timestamp).unwrap_or_default();
        (status, next_round)
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
