//! The messages on their way: of each Alert one batch at most.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use helmops_kube::lease::{Leadership, Term};
use helmops_notify::{alert::Message, message_format::Format};
use helmops_process::lock;
use tokio::sync::mpsc;

use crate::work::{AlertKey, ProviderKey};

/// The maximum number of messages that wait for the sender. More Alerts try again later.
pub const CAPACITY: usize = 1_000;

/// Messages on their way.
#[derive(Clone, Debug)]
pub struct Job {
    pub alert: AlertKey,
    pub provider: ProviderKey,
    /// The format that they were planned for.
    pub format: Format,
    /// The messages, in this order; at least one.
    pub messages: Arc<[Message]>,
}

/// What was delivered of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The number of messages, from the first.
    pub number: usize,
    /// The term of leadership in which all of them were accepted.
    pub term: Term,
}

/// What has become of the messages of an Alert.
#[derive(Clone, Debug)]
enum Progress {
    /// The messages are being sent.
    Sending,
    /// So many of them are delivered, and not recorded yet.
    Delivered(Arc<[Message]>, Delivered),
}

/// The messages on their way, by Alert.
#[derive(Debug)]
pub struct Outbox {
    progress: Mutex<HashMap<AlertKey, Progress>>,
    jobs: mpsc::Sender<Job>,
}

/// The messages of an Alert.
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// The Alert has no messages.
    Free,
    /// The messages are being sent.
    Busy,
    /// These are delivered, and to be recorded.
    Delivered(Arc<[Message]>),
}

impl Outbox {
    /// An outbox, and the messages that are handed over to it.
    pub fn new() -> (Self, mpsc::Receiver<Job>) {
        let (jobs, receiver) = mpsc::channel(CAPACITY);
        let outbox = Self {
            progress: Mutex::default(),
            jobs,
        };
        (outbox, receiver)
    }

    /// The message of an Alert. One that was delivered in an earlier term counts no more: another replica has been the leader since.
    pub fn slot(&self, alert: &AlertKey, leadership: &Leadership) -> Slot {
        let mut progress = lock(&self.progress);
        match progress.get(alert) {
            None => Slot::Free,
            Some(Progress::Sending) => Slot::Busy,
            Some(Progress::Delivered(messages, delivered)) if leadership.check(delivered.term).is_ok() => {
                let messages = if delivered.number >= messages.len() {
                    Arc::clone(messages)
                } else {
                    messages.iter().take(delivered.number).cloned().collect()
                };
                Slot::Delivered(messages)
            }
            Some(Progress::Delivered(..)) => {
                progress.remove(alert);
                Slot::Free
            }
        }
    }

    /// The Alerts with messages that are delivered and not recorded yet.
    pub fn delivered(&self) -> Vec<AlertKey> {
        let progress = lock(&self.progress);
        let delivered = progress
            .iter()
            .filter(|(_, progress)| matches!(progress, Progress::Delivered(..)));
        delivered.map(|(alert, _)| alert.clone()).collect()
    }

    /// Hands messages over. Returns whether there was room for them.
    pub fn send(&self, job: Job) -> bool {
        let alert = job.alert.clone();
        let mut progress = lock(&self.progress);
        let is_sent = self.jobs.try_send(job).is_ok();
        if is_sent {
            progress.insert(alert, Progress::Sending);
        }
        is_sent
    }

    /// What was delivered is recorded, or its Alert is deleted.
    pub fn clear(&self, alert: &AlertKey) {
        lock(&self.progress).remove(alert);
    }

    /// Messages were sent; `None` if none was accepted.
    pub fn ended(&self, job: &Job, delivered: Option<Delivered>) {
        let mut progress = lock(&self.progress);
        // It is missing if the Alert was deleted meanwhile.
        match (progress.get_mut(&job.alert), delivered) {
            (Some(progress), Some(delivered)) => {
                *progress = Progress::Delivered(Arc::clone(&job.messages), delivered);
            }
            _ => {
                progress.remove(&job.alert);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_kube::key;
    use helmops_notify::alert::Event;

    use super::*;

    fn job(alert: &str) -> Job {
        let message = |reason: &str| Message {
            event: Event::Failure,
            reason: reason.to_owned(),
            subjects: Vec::new(),
        };
        Job {
            alert: key("a", alert),
            provider: key("a", "chat"),
            format: Format::CdEvents,
            messages: ["A", "B", "C"].map(message).into(),
        }
    }

    fn delivered(number: usize, leadership: &Leadership) -> Option<Delivered> {
        let term = leadership.term()?;
        Some(Delivered { number, term })
    }

    #[test]
    fn a_message_is_on_its_way_until_it_is_recorded() {
        let (outbox, _jobs) = Outbox::new();
        let leadership = Leadership::always();
        let (one, job) = (key("a", "one"), job("one"));
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free);
        assert!(outbox.send(job.clone()));
        assert_eq!(outbox.slot(&one, &leadership), Slot::Busy);
        outbox.ended(&job, None);
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free, "it is sent again");
        outbox.send(job.clone());
        outbox.ended(&job, delivered(3, &leadership));
        assert_eq!(
            outbox.slot(&one, &leadership),
            Slot::Delivered(Arc::clone(&job.messages))
        );
        assert_eq!(outbox.delivered(), std::slice::from_ref(&one));
        outbox.clear(&one);
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free);
        // The Alert was deleted while its message was on its way.
        outbox.send(job.clone());
        outbox.clear(&one);
        outbox.ended(&job, delivered(3, &leadership));
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free);
    }

    /// The rest of a batch is sent again.
    #[test]
    fn what_was_not_delivered_of_a_batch_is_not_recorded() {
        let (outbox, _jobs) = Outbox::new();
        let (leadership, job) = (Leadership::always(), job("one"));
        outbox.send(job.clone());
        outbox.ended(&job, delivered(2, &leadership));
        let Slot::Delivered(messages) = outbox.slot(&job.alert, &leadership) else {
            panic!("nothing is delivered");
        };
        assert_eq!(messages[..], job.messages[..2]);
    }

    #[test]
    fn what_was_delivered_in_an_earlier_term_is_not_recorded() {
        let (outbox, _jobs) = Outbox::new();
        let job = job("one");
        outbox.send(job.clone());
        outbox.ended(&job, delivered(3, &Leadership::always()));
        let (_sender, lost) = Leadership::elected();
        assert_eq!(outbox.slot(&key("a", "one"), &lost), Slot::Free);
    }

    #[test]
    fn messages_that_do_not_fit_are_sent_later() {
        let (outbox, _jobs) = Outbox::new();
        let sent = (0..CAPACITY + 10)
            .filter(|number| outbox.send(job(&number.to_string())))
            .count();
        assert_eq!(sent, CAPACITY);
        assert_eq!(
            outbox.slot(&key("a", &CAPACITY.to_string()), &Leadership::always()),
            Slot::Free
        );
    }
}
