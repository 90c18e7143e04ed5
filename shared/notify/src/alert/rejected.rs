//! Messages that an endpoint has rejected for their content: they go last, so that they keep no other one back.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::message::{Event, Message, Subject};
use crate::source::ObjectId;

/// The objects that there is something to report about.
pub(super) type Subjects = BTreeMap<(Event, String), Vec<Subject>>;

/// What was rejected, by what it reports about each object, and until when it waits. Not more than there is to report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    until: BTreeMap<(Event, String, ObjectId), Timestamp>,
    /// Why the last one was rejected.
    error: String,
}

/// What there is to report, by whether it was rejected.
#[derive(Debug, Default)]
pub(super) struct Split {
    /// Objects of which no message was rejected.
    pub fresh: Subjects,
    /// It was rejected, and is sent again now.
    pub retry: Subjects,
    /// Objects whose message was rejected and waits.
    pub waiting: Subjects,
}

impl Rejected {
    /// A message waits until this time.
    pub fn add(&mut self, message: &Message, until: Timestamp, error: &str) {
        let keys = message.subjects.iter().map(|subject| subject.id.clone());
        let keys = keys.map(|id| ((message.event, message.reason.clone(), id), until));
        self.until.extend(keys);
        error.clone_into(&mut self.error);
    }

    /// Nothing waits any more: something has changed that may be the cause.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Why the last message was rejected.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// Whether a message waits.
    pub fn holds(&self, message: &Message, now: Timestamp) -> bool {
        let until = |id: &ObjectId| {
            let key = (message.event, message.reason.clone(), id.clone());
            self.until.get(&key)
        };
        let mut subjects = message.subjects.iter();
        subjects.any(|subject| until(&subject.id).is_some_and(|until| *until > now))
    }

    /// When the first of those that wait is sent again.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.values().filter(|until| **until > now).min().copied()
    }

    /// Forgets what is not in these messages: it needs not be reported any more.
    pub fn retain_in(&mut self, messages: &[&Message]) {
        if self.until.is_empty() {
            return;
        }
        let mut planned = BTreeMap::<_, BTreeSet<&ObjectId>>::new();
        for message in messages {
            let ids = message.subjects.iter().map(|subject| &subject.id);
            planned
                .entry((message.event, &*message.reason))
                .or_default()
                .extend(ids);
        }
        self.until.retain(|(event, reason, id), _| {
            let ids = planned.get(&(*event, &**reason));
            ids.is_some_and(|ids| ids.contains(id))
        });
    }

    pub(super) fn split(&self, subjects: Subjects, now: Timestamp) -> Split {
        let mut split = Split::default();
        if self.until.is_empty() {
            split.fresh = subjects;
            return split;
        }
        for ((event, reason), subjects) in subjects {
            for subject in subjects {
                let until = self.until.get(&(event, reason.clone(), subject.id.clone()));
                let part = match until {
                    None => &mut split.fresh,
                    Some(until) if *until <= now => &mut split.retry,
                    Some(_) => &mut split.waiting,
                };
                part.entry((event, reason.clone())).or_default().push(subject);
            }
        }
        split
    }
}
