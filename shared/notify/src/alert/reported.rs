//! What an Alert has reported: the part of its status that messages are compared with.

use std::collections::BTreeMap;

use helmops_api::notifications::ReportedObject;

use crate::source::ObjectId;

/// The maximum number of reasons that are recorded for an object. Further ones are not reported until it is ready.
pub const MAX_REASONS: usize = 8;
/// The maximum size of all records, in bytes: an API server stores at most 1.5 MiB of an object.
pub const MAX_BYTES: usize = 1 << 20;
/// The JSON of a record without its texts, in bytes.
const FRAME: usize = 80;

/// What was reported about each object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reported {
    objects: BTreeMap<ObjectId, ReportedObject>,
    bytes: usize,
}

impl Reported {
    /// The records of a status. One that names no object is dropped.
    pub fn of(status: &[ReportedObject]) -> Self {
        let mut reported = Self::default();
        for record in status {
            if let Some(id) = ObjectId::parse(&record.object) {
                reported.set(id, Some(record.clone()));
            }
        }
        reported
    }

    /// The records as in a status, in the order of the objects.
    pub fn to_status(&self) -> Vec<ReportedObject> {
        self.objects.values().cloned().collect()
    }

    /// The record of an object.
    pub fn get(&self, id: &ObjectId) -> Option<&ReportedObject> {
        self.objects.get(id)
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &ReportedObject)> {
        self.objects.iter()
    }

    /// The number of objects that fail.
    pub fn failing(&self) -> usize {
        let fails = |record: &&ReportedObject| !record.reasons.is_empty();
        self.objects.values().filter(fails).count()
    }

    /// The size of the records in a status, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets objects that did not fail and are not selected any more.
    pub fn forget_gone(&mut self, is_selected: impl Fn(&ObjectId) -> bool) {
        let is_gone =
            |(id, record): &(&ObjectId, &ReportedObject)| record.reasons.is_empty() && !is_selected(id);
        let gone: Vec<_> = self.iter().filter(is_gone).map(|(id, _)| id.clone()).collect();
        for id in gone {
            self.set(id, None);
        }
    }

    /// Sets or removes the record of an object.
    pub fn set(&mut self, id: ObjectId, record: Option<ReportedObject>) {
        let before = match record {
            Some(record) => {
                self.bytes += bytes(&record);
                self.objects.insert(id, record)
            }
            None => self.objects.remove(&id),
        };
        self.bytes -= before.as_ref().map_or(0, bytes);
    }
}

/// The size of a record in a status, in bytes.
pub fn bytes(record: &ReportedObject) -> usize {
    let texts = record.reasons.iter().chain(&record.notices);
    let reasons: usize = texts.map(|text| text.len() + 3).sum();
    FRAME + record.object.len() + record.version.len() + record.since.len() + reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(object: &str, reasons: &[&str]) -> ReportedObject {
        ReportedObject {
            object: object.to_owned(),
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            ..ReportedObject::default()
        }
    }

    #[test]
    fn the_records_of_a_status_stay_as_they_are() {
        let status = [record("HelmOp/a/one", &["NotReady"]), record("HelmOp/a/two", &[])];
        let mut reported = Reported::of(&[&status[..], &[record("broken", &["X"])]].concat());
        assert_eq!((reported.to_status(), reported.failing()), (status.to_vec(), 1));
        let before = reported.bytes();
        assert!(before > 2 * FRAME);
        let id = ObjectId::parse("HelmOp/a/one").unwrap();
        reported.set(id.clone(), Some(status[0].clone()));
        assert_eq!(reported.bytes(), before);
        let mut selected = reported.clone();
        selected.forget_gone(|_| true);
        assert_eq!(selected, reported);
        selected.forget_gone(|_| false);
        assert_eq!(selected.to_status(), status[..1], "what failed is resolved first");
        for (id, _) in Reported::of(&status).iter() {
            reported.set(id.clone(), None);
        }
        assert_eq!((reported.bytes(), reported.get(&id)), (0, None));
    }
}
