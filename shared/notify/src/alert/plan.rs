//! Which messages an Alert has to send: the difference between the states of the objects and what it has reported.
//!
//! There is no queue of events. A message that was not delivered is still a difference after a restart, and one that was delivered is
//! recorded in the status, so that a crash between both repeats one message, or one batch of events, at most.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use helmops_api::{
    notifications::{AlertSpec, ReportedObject},
    timestamp::timestamp,
};
use helmops_model::reason::Reason;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{
    Filter,
    message::{After, Event, Message, Subject},
    rejected::{Rejected, Split, Subjects},
    reported::{self, MAX_BYTES, MAX_REASONS, Reported},
    state::{Failing, Notice, Observed, State},
};
use crate::{message_format::Format, severity::Severity, source::ObjectId};

/// The maximum number of objects that an Alert selects.
pub const MAX_OBJECTS: usize = 5_000;
/// How long changes are collected by default.
const DEFAULT_WAIT: SignedDuration = SignedDuration::from_secs(5);
/// The maximum number of messages for the same reason by default.
const DEFAULT_MAX_MESSAGES: usize = 10;
/// How often alerts that fire are sent to Alertmanager again: one that has lost them is without them for this time. Less than its
/// `resolve_timeout` of 5 minutes, after which it ends alerts whose end a relay has removed.
pub const REFRESH: SignedDuration = SignedDuration::from_mins(4);
/// The maximum number of alerts in a request to Alertmanager.
const BATCH: usize = 100;

/// What an Alert reports, and how.
#[derive(Clone, Debug)]
pub struct Rules {
    severity: Severity,
    /// Whether notices are sent.
    notices: bool,
    filter: Filter,
    wait: SignedDuration,
    grouping: Grouping,
}

/// How messages about several objects become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    /// More than this number for the same reason become one message.
    Above(usize),
    /// Each object has its own message.
    Never,
    /// Up to this number in one request, and alerts that fire are repeated.
    Batches(usize),
}

impl Rules {
    /// The rules of a spec, for messages in a format.
    pub fn of(spec: &AlertSpec, format: Format) -> Self {
        let grouping = spec.grouping.as_ref();
        let wait = grouping.and_then(|grouping| go_formats::duration::parse(grouping.wait.as_deref()?).ok());
        let max = grouping.and_then(|grouping| grouping.max_messages);
        let max = max.and_then(|max| usize::try_from(max).ok());
        let severity = Severity::parse(&spec.event_severity).unwrap_or_default();
        let (severity, grouping) = match (format, max.unwrap_or(DEFAULT_MAX_MESSAGES)) {
            // An alert that something works is none.
            (Format::Alertmanager, _) => (Severity::Error, Grouping::Batches(BATCH)),
            (Format::CdEvents, _) | (_, 0) => (severity, Grouping::Never),
            (_, max) => (severity, Grouping::Above(max)),
        };
        Self {
            severity,
            notices: severity == Severity::Info && format != Format::CdEvents,
            filter: Filter::new(&spec.inclusion_list, &spec.exclusion_list),
            wait: wait
                .and_then(|wait| SignedDuration::try_from(wait).ok())
                .unwrap_or(DEFAULT_WAIT),
            grouping,
        }
    }
}

/// What is remembered of an Alert in the process only: a restart may delay messages, and repeat those to Alertmanager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Since when there is something to report that belongs to no round.
    pub first_change: Option<Timestamp>,
    /// What is sent one after the other since the last window has ended. What happens meanwhile is collected for the next one. Dropped
    /// while nothing can be sent: all that waits is one round then.
    pub round: Option<Arc<Round>>,
    /// When alerts that fire were last planned to be sent again.
    pub refreshed: Option<Timestamp>,
    /// What an endpoint has rejected.
    pub rejected: Rejected,
}

/// The objects of the messages of a round.
pub type Round = BTreeMap<(Event, String), BTreeSet<ObjectId>>;

/// What an Alert has to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The messages, in this order.
    pub messages: Vec<Message>,
    /// Messages that were rejected, and are sent again after the others.
    pub retry: Vec<Message>,
    /// Messages that were rejected, and wait.
    pub rejected: Vec<Message>,
    /// Why the last of both was rejected.
    pub rejection: String,
    /// Messages that repeat others, for an Alertmanager.
    pub refresh: Vec<Message>,
    /// When to plan again, if nothing changes before.
    pub due: Option<Timestamp>,
    /// Whether there are failures that cannot be recorded, so that they are not reported.
    pub is_full: bool,
}

impl Plan {
    /// What is sent now, in this order.
    pub fn next(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().chain(&self.retry)
    }

    /// What was rejected, and is not delivered yet.
    pub fn all_rejected(&self) -> impl Iterator<Item = &Message> {
        self.retry.iter().chain(&self.rejected)
    }

    /// All messages that are not delivered yet.
    pub fn all(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().chain(self.all_rejected())
    }
}

/// Computes what is to be sent now.
pub fn plan(
    rules: &Rules,
    objects: &BTreeMap<ObjectId, Arc<Observed>>,
    reported: &Reported,
    memory: &mut Memory,
    now: Timestamp,
) -> Plan {
    let mut planner = Planner {
        rules,
        now,
        time: timestamp(now),
        subjects: BTreeMap::new(),
        bytes: reported.bytes(),
        plan: Plan::default(),
    };
    for (id, observed) in objects {
        planner.compare(id, observed, reported.get(id));
    }
    for (id, record) in reported.iter() {
        if !objects.contains_key(id) {
            planner.gone(id, record);
        }
    }
    let Planner {
        subjects, mut plan, ..
    } = planner;
    // What was rejected belongs to no round: the round would not end, and no other one begin.
    let Split {
        fresh,
        retry,
        waiting,
    } = memory.rejected.split(subjects, now);
    let fresh = of_round(rules.wait, fresh, memory, now, &mut plan.due);
    plan.messages = messages(rules.grouping, fresh);
    plan.retry = messages(rules.grouping, retry);
    plan.rejected = messages(rules.grouping, waiting);
    memory.rejected.error().clone_into(&mut plan.rejection);
    if let Some(next) = memory.rejected.next(now) {
        due_at(&mut plan.due, next);
    }
    if let Grouping::Batches(size) = rules.grouping {
        refresh(&mut plan, (objects, reported), size, memory, now);
    }
    plan
}

/// Compares objects with what was reported.
struct Planner<'r> {
    rules: &'r Rules,
    now: Timestamp,
    /// `now`, as in a status.
    time: String,
    subjects: Subjects,
    /// The size of the records if all messages are delivered.
    bytes: usize,
    plan: Plan,
}

impl Planner<'_> {
    fn compare(&mut self, id: &ObjectId, observed: &Observed, record: Option<&ReportedObject>) {
        match &observed.state {
            State::Unknown | State::NotStored | State::Progressing => {}
            State::Ready { version, notices } => {
                if !self.ready(id, observed, version, record) && self.rules.notices {
                    self.notice(id, observed, (version, notices), record);
                }
            }
            State::Failing(failing) => match failing.from.filter(|from| *from > self.now) {
                Some(from) => due_at(&mut self.plan.due, from),
                None => self.failing(id, observed, failing, record),
            },
        }
    }

    /// One message for each reason and version. A version that failed is not resolved by another one that fails.
    fn failing(
        &mut self,
        id: &ObjectId,
        observed: &Observed,
        failing: &Failing,
        record: Option<&ReportedObject>,
    ) {
        let before = record;
        let record = record.filter(|record| !record.reasons.is_empty());
        let is_same_version = record.is_some_and(|record| *record.version == *failing.version);
        let known = record.map(|record| &*record.reasons).unwrap_or_default();
        let is_known = known.iter().any(|reason| **reason == *failing.reason);
        if is_same_version && (is_known || known.len() >= MAX_REASONS) {
            return;
        }
        if !self.rules.filter.passes(&failing.message) {
            return;
        }
        let mut reasons = if is_same_version {
            known.to_vec()
        } else {
            Vec::new()
        };
        reasons.push(failing.reason.to_string());
        let ended = known.iter().filter(|reason| !reasons.contains(reason));
        let ended = ended.cloned().collect();
        let since = record.map(|record| record.since.clone());
        let since = since.unwrap_or_else(|| failing.since.map_or_else(|| self.time.clone(), timestamp));
        let after = ReportedObject {
            object: id.to_string(),
            reasons,
            version: failing.version.to_string(),
            since: since.clone(),
            notices: before.map(|before| before.notices.clone()).unwrap_or_default(),
        };
        let subject = Subject {
            version: failing.version.to_string(),
            text: failing.message.to_string(),
            since,
            ended,
            ..subject(id, Some(observed))
        };
        self.record((Event::Failure, &failing.reason), subject, before, after);
    }

    /// Whether there is something to report.
    fn ready(
        &mut self,
        id: &ObjectId,
        observed: &Observed,
        version: &str,
        record: Option<&ReportedObject>,
    ) -> bool {
        let ended = record.map(|record| record.reasons.clone()).unwrap_or_default();
        let has_failed = !ended.is_empty();
        let is_info = self.rules.severity == Severity::Info;
        let is_new = record.is_none_or(|record| record.version != version);
        if !(has_failed || is_info && is_new) {
            return false;
        }
        let what = if has_failed { "ready again" } else { "ready" };
        let text = if version.is_empty() {
            what.to_owned()
        } else {
            format!("{what} in version {version}")
        };
        // The end of a failure is reported if its start was.
        if !has_failed && !self.rules.filter.passes(&text) {
            return false;
        }
        let since = record.filter(|_| has_failed).map(|record| record.since.clone());
        let subject = Subject {
            version: version.to_owned(),
            text,
            since: since.unwrap_or_else(|| self.time.clone()),
            ended,
            is_upgrade: record.is_some_and(|record| !record.version.is_empty()),
            ..subject(id, Some(observed))
        };
        let event = if has_failed {
            Event::Resolution
        } else {
            Event::Ready
        };
        if is_info {
            let after = ReportedObject {
                object: id.to_string(),
                reasons: Vec::new(),
                version: version.to_owned(),
                since: self.time.clone(),
                notices: record.map(|record| record.notices.clone()).unwrap_or_default(),
            };
            self.record((event, Reason::Ready.as_str()), subject, record, after);
        } else {
            self.add(event, Reason::Ready.as_str(), subject);
        }
        true
    }

    /// One message for each notice, one after the other: each has its own record, as it may be filtered or rejected alone.
    fn notice(
        &mut self,
        id: &ObjectId,
        observed: &Observed,
        (version, notices): (&str, &[Notice]),
        record: Option<&ReportedObject>,
    ) {
        let known = record.map(|record| &*record.notices).unwrap_or_default();
        let is_new =
            |notice: &&Notice| !known.contains(&notice.key()) && self.rules.filter.passes(&notice.message);
        let Some(new) = notices.iter().find(is_new) else {
            return;
        };
        let current: Vec<_> = notices.iter().map(Notice::key).collect();
        let kept = known.iter().filter(|key| current.contains(key)).cloned();
        let after = ReportedObject {
            notices: kept.chain([new.key()]).collect(),
            ..record.cloned().unwrap_or_else(|| ReportedObject {
                object: id.to_string(),
                version: version.to_owned(),
                since: self.time.clone(),
                ..ReportedObject::default()
            })
        };
        let subject = Subject {
            version: version.to_owned(),
            text: new.message.to_string(),
            since: self.time.clone(),
            ..subject(id, Some(observed))
        };
        self.record((Event::Notice, new.reason), subject, record, after);
    }

    fn gone(&mut self, id: &ObjectId, record: &ReportedObject) {
        let subject = Subject {
            version: record.version.clone(),
            text: format!(
                "deleted, or not selected any more, while it failed: {}",
                record.reasons.join(", ")
            ),
            since: record.since.clone(),
            ended: record.reasons.clone(),
            ..subject(id, None)
        };
        // A record without a failure needs no message: it is dropped with the next one.
        if !record.reasons.is_empty() {
            self.add(Event::Resolution, Reason::Deleted.as_str(), subject);
        }
    }

    /// Adds a subject with a record that replaces the one before, if there is room for it. The end of a failure needs none.
    fn record(
        &mut self,
        (event, reason): (Event, &str),
        subject: Subject,
        before: Option<&ReportedObject>,
        after: ReportedObject,
    ) {
        let without = self.bytes.saturating_sub(before.map_or(0, reported::bytes));
        let bytes = without + reported::bytes(&after);
        let after = if bytes <= MAX_BYTES.max(self.bytes) {
            self.bytes = bytes;
            After::Recorded(after)
        } else if event == Event::Resolution {
            self.bytes = without;
            After::Forgotten
        } else {
            self.plan.is_full = true;
            return;
        };
        self.add(event, reason, Subject { after, ..subject });
    }

    fn add(&mut self, event: Event, reason: &str, subject: Subject) {
        self.subjects
            .entry((event, reason.to_owned()))
            .or_default()
            .push(subject);
    }
}

/// A subject that is forgotten when its message is delivered.
fn subject(id: &ObjectId, observed: Option<&Observed>) -> Subject {
    Subject {
        id: id.clone(),
        uid: observed.map(|observed| observed.uid.clone()).unwrap_or_default(),
        resource_version: observed
            .map(|observed| observed.resource_version.clone())
            .unwrap_or_default(),
        version: String::new(),
        text: String::new(),
        since: String::new(),
        ended: Vec::new(),
        is_upgrade: false,
        after: After::Forgotten,
    }
}

/// The subjects that are sent now: the rest of the round, or a new round of all of them when the window has ended.
fn of_round(
    wait: SignedDuration,
    subjects: Subjects,
    memory: &mut Memory,
    now: Timestamp,
    due: &mut Option<Timestamp>,
) -> Subjects {
    if let Some(round) = memory.round.take() {
        let is_left = |key, subject: &Subject| round.get(key).is_some_and(|ids| ids.contains(&subject.id));
        let left = subjects.iter().filter_map(|(key, subjects)| {
            let left: Vec<_> = subjects
                .iter()
                .filter(|subject| is_left(key, subject))
                .cloned()
                .collect();
            (!left.is_empty()).then(|| (key.clone(), left))
        });
        let left: Subjects = left.collect();
        if !left.is_empty() {
            memory.round = Some(round);
            return left;
        }
        memory.first_change = None;
    }
    if subjects.is_empty() {
        memory.first_change = None;
        return subjects;
    }
    let first_change = *memory.first_change.get_or_insert(now);
    let open = first_change.saturating_add(wait).unwrap_or(now);
    if open > now {
        due_at(due, open);
        return Subjects::new();
    }
    let ids = |subjects: &Vec<Subject>| subjects.iter().map(|subject| subject.id.clone()).collect();
    let round = subjects
        .iter()
        .map(|(key, subjects)| (key.clone(), ids(subjects)));
    memory.round = Some(Arc::new(round.collect()));
    subjects
}

/// The messages about subjects, by event and reason.
fn messages(grouping: Grouping, subjects: Subjects) -> Vec<Message> {
    let mut messages = Vec::new();
    for ((event, reason), subjects) in subjects {
        let size = match grouping {
            Grouping::Above(max) if subjects.len() > max => subjects.len(),
            Grouping::Above(_) | Grouping::Never => 1,
            Grouping::Batches(size) => size,
        };
        messages.extend(subjects.chunks(size).map(|subjects| Message {
            event,
            reason: reason.clone(),
            subjects: subjects.to_vec(),
        }));
    }
    messages
}

/// Adds the alerts that fire, if they were not sent for a while: an Alertmanager forgets them otherwise.
fn refresh(
    plan: &mut Plan,
    (objects, reported): (&BTreeMap<ObjectId, Arc<Observed>>, &Reported),
    size: usize,
    memory: &mut Memory,
    now: Timestamp,
) {
    if reported.failing() == 0 {
        // The first alert that fires is fresh.
        memory.refreshed = Some(now);
        return;
    }
    let next = memory.refreshed.and_then(|last| last.checked_add(REFRESH).ok());
    if let Some(next) = next.filter(|next| *next > now) {
        due_at(&mut plan.due, next);
        return;
    }
    let mut firing = BTreeMap::<_, Vec<_>>::new();
    for (id, record) in reported.iter() {
        let Some(observed) = objects.get(id) else {
            continue;
        };
        for reason in &record.reasons {
            let text = match &observed.state {
                State::Failing(failing) if *failing.reason == **reason => failing.message.to_string(),
                State::Ready { .. } => continue,
                State::Unknown | State::NotStored | State::Progressing | State::Failing(_) => reason.clone(),
            };
            let subject = Subject {
                version: record.version.clone(),
                text,
                since: record.since.clone(),
                after: After::Unchanged,
                ..subject(id, Some(observed))
            };
            firing
                .entry((Event::Failure, reason.clone()))
                .or_default()
                .push(subject);
        }
    }
    plan.refresh = messages(Grouping::Batches(size), firing);
    memory.refreshed = Some(now);
    due_at(&mut plan.due, now.saturating_add(REFRESH).unwrap_or(now));
}

/// Plans again at this time at the latest.
fn due_at(due: &mut Option<Timestamp>, time: Timestamp) {
    *due = Some(due.map_or(time, |due| due.min(time)));
}

#[cfg(test)]
mod tests;
