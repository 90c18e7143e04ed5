//! A message: what happened, to which objects, and what is recorded when it is delivered.

use bounded_text::cut;
use helmops_api::notifications::ReportedObject;
use helmops_model::reason::Reason;

use super::reported::Reported;
use crate::source::{Kind, ObjectId};

/// The number of objects that a message about several names.
const MAX_NAMES: usize = 20;
/// Maximum length of a message, in bytes: the shortest limit of all services is that of Discord, 4,096 characters.
const MAX_TEXT: usize = 3_072;

/// What a message reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Objects fail.
    Failure,
    /// Objects that failed are ready, or exist no more.
    Resolution,
    /// A version is ready.
    Ready,
    /// A poll has found something about a chart, such as a newer version outside of the range.
    Notice,
}

impl Event {
    /// Its severity, as Flux names it.
    pub const fn severity(self) -> &'static str {
        match self {
            Self::Failure => "error",
            Self::Resolution | Self::Ready | Self::Notice => "info",
        }
    }
}

/// A message about one object, or about several for the same reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What it reports.
    pub event: Event,
    /// The reason; of a resolution `Ready` or `Deleted`.
    pub reason: String,
    /// The objects; at least one.
    pub subjects: Vec<Subject>,
}

/// An object of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The object.
    pub id: ObjectId,
    /// Its UID; empty if it does not exist.
    pub uid: Box<str>,
    /// Its resource version; empty if it does not exist.
    pub resource_version: Box<str>,
    /// The version of its chart; empty if there is none.
    pub version: String,
    /// What happened to it.
    pub text: String,
    /// Since when it fails or has failed; of a version that is ready, the current time.
    pub since: String,
    /// The reasons of failures that end with this message.
    pub ended: Vec<String>,
    /// Whether another version of it was ready before.
    pub is_upgrade: bool,
    /// What is recorded when the message is delivered.
    pub after: After,
}

/// What is recorded of an object when a message about it is delivered.
#[derive(Clone, Debug, PartialEq)]
pub enum After {
    /// Nothing changes: the message repeats another one.
    Unchanged,
    /// There is no record of it any more.
    Forgotten,
    /// The record becomes this one.
    Recorded(ReportedObject),
}

impl Message {
    /// Records that it was delivered.
    pub fn delivered(&self, reported: &mut Reported) {
        for subject in &self.subjects {
            match &subject.after {
                After::Unchanged => {}
                After::Forgotten => reported.set(subject.id.clone(), None),
                After::Recorded(record) => reported.set(subject.id.clone(), Some(record.clone())),
            }
        }
    }

    /// Removes the objects whose failure is not recorded any more, from a message that repeats another one. Returns whether any is left.
    pub fn retain_current(&mut self, reported: &Reported) -> bool {
        let reason = &self.reason;
        self.subjects.retain(|subject| {
            let record = reported.get(&subject.id);
            record.is_some_and(|record| record.reasons.contains(reason))
        });
        !self.subjects.is_empty()
    }

    /// Whether it reports the same about all objects of another message. That one may have lost some of them meanwhile.
    pub fn is_about_all_of(&self, other: &Self) -> bool {
        let is_reported = |id: &ObjectId| self.subjects.iter().any(|subject| subject.id == *id);
        (self.event, &self.reason) == (other.event, &other.reason)
            && other.subjects.iter().all(|subject| is_reported(&subject.id))
    }

    /// Whether it repeats other messages.
    pub fn is_refresh(&self) -> bool {
        self.subjects
            .iter()
            .all(|subject| subject.after == After::Unchanged)
    }

    /// Its text.
    pub fn text(&self) -> String {
        let [subject] = &self.subjects[..] else {
            return cut(self.text_of_all(), MAX_TEXT);
        };
        cut(subject.text.clone(), MAX_TEXT)
    }

    /// `1000 HelmOps fail: ConnectionFailed: a/one, a/two, …; and 980 more`.
    pub(super) fn text_of_all(&self) -> String {
        let number = self.subjects.len();
        let mut kinds = self.subjects.iter().map(|subject| subject.id.kind);
        let first = kinds.next();
        let noun = match first.filter(|first| kinds.all(|kind| kind == *first)) {
            Some(Kind::HelmOp) => "HelmOps",
            Some(Kind::Bundle) => "Bundles",
            Some(Kind::Cluster) => "Clusters",
            None => "objects",
        };
        let what = match self.event {
            Event::Failure => format!("fail: {}", self.reason),
            Event::Resolution if self.reason == Reason::Deleted.as_str() => {
                "that failed were deleted, or are not selected any more".to_owned()
            }
            Event::Resolution => "are ready again".to_owned(),
            Event::Ready => "are ready".to_owned(),
            Event::Notice => format!("have a notice: {}", self.reason),
        };
        let names = self.subjects.iter().take(MAX_NAMES);
        let names: Vec<_> = names.map(|subject| subject.id.name.to_string()).collect();
        let more = match number.saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("{number} {noun} {what}: {}{more}", names.join(", "))
    }
}
