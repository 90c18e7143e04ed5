//! Sends messages: no reconciliation waits for an endpoint.
//!
//! Each Alert has one message on its way at most. Those to one AlertProvider are sent one after the other, those to different ones at the
//! same time, so that an endpoint that hangs delays no other.

mod delivery;
mod failures;

use std::{
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use futures::FutureExt;
use helmops_kube::lease::{Leadership, Term};
use helmops_notify::alert::Message;
use helmops_process::lock;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::failures::{Failures, Subject};
use crate::{
    alert,
    context::Context,
    work::{AlertKey, ProviderKey, Work},
};

/// The maximum number of messages that wait for the sender. More Alerts try again later.
const CAPACITY: usize = 1_000;

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Job {
    /// The Alert.
    pub alert: AlertKey,
    /// The AlertProvider.
    pub provider: ProviderKey,
    /// The message.
    pub message: Arc<Message>,
}

/// What has become of the message of an Alert.
#[derive(Clone, Debug)]
enum Progress {
    /// It is on its way.
    Sending,
    /// It is delivered in this term of leadership, and not recorded yet.
    Delivered(Arc<Message>, Term),
}

/// The messages on their way, by Alert.
#[derive(Debug)]
pub struct Outbox {
    progress: Mutex<HashMap<AlertKey, Progress>>,
    jobs: mpsc::Sender<Job>,
}

/// The message of an Alert.
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// There is none.
    Free,
    /// It is on its way.
    Busy,
    /// It is delivered, and to be recorded.
    Delivered(Arc<Message>),
}

/// The receiving half of the outbox.
#[derive(Debug)]
pub struct Sender {
    jobs: mpsc::Receiver<Job>,
    ended: mpsc::Sender<Work>,
}

/// An outbox, its sender, and the objects to reconcile when a message was sent.
pub fn outbox() -> (Outbox, Sender, mpsc::Receiver<Work>) {
    let (jobs, receiver) = mpsc::channel(CAPACITY);
    let (ended, works) = mpsc::channel(CAPACITY);
    let outbox = Outbox {
        progress: Mutex::default(),
        jobs,
    };
    let sender = Sender {
        jobs: receiver,
        ended,
    };
    (outbox, sender, works)
}

impl Outbox {
    /// The message of an Alert. One that was delivered in an earlier term counts no more: another replica has been the leader since.
    pub fn slot(&self, alert: &AlertKey, leadership: &Leadership) -> Slot {
        let mut progress = lock(&self.progress);
        match progress.get(alert) {
            None => Slot::Free,
            Some(Progress::Sending) => Slot::Busy,
            Some(Progress::Delivered(message, term)) if leadership.check(*term).is_ok() => {
                Slot::Delivered(Arc::clone(message))
            }
            Some(Progress::Delivered(..)) => {
                progress.remove(alert);
                Slot::Free
            }
        }
    }

    /// The Alerts whose message is delivered and not recorded yet.
    fn delivered(&self) -> Vec<AlertKey> {
        let progress = lock(&self.progress);
        let delivered = progress
            .iter()
            .filter(|(_, progress)| matches!(progress, Progress::Delivered(..)));
        delivered.map(|(alert, _)| alert.clone()).collect()
    }

    /// Hands a message over. Returns whether there was room for it.
    pub fn send(&self, job: Job) -> bool {
        let alert = job.alert.clone();
        let mut progress = lock(&self.progress);
        let is_sent = self.jobs.try_send(job).is_ok();
        if is_sent {
            progress.insert(alert, Progress::Sending);
        }
        is_sent
    }

    /// The delivery of a message is recorded, or its Alert is deleted.
    pub fn clear(&self, alert: &AlertKey) {
        lock(&self.progress).remove(alert);
    }

    /// A message was sent; `delivered` is the term in which it was accepted.
    fn ended(&self, job: &Job, delivered: Option<Term>) {
        let mut progress = lock(&self.progress);
        // It is missing if the Alert was deleted meanwhile.
        match (progress.get_mut(&job.alert), delivered) {
            (Some(progress), Some(term)) => *progress = Progress::Delivered(Arc::clone(&job.message), term),
            _ => {
                progress.remove(&job.alert);
            }
        }
    }
}

impl Sender {
    /// Sends messages until `stop`, and then waits for those on their way and records them.
    pub async fn run(mut self, context: Arc<Context>, stop: CancellationToken) {
        let mut running = JoinSet::new();
        let mut waiting = HashMap::<ProviderKey, VecDeque<Job>>::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(job) = self.jobs.recv() => {
                    if let Some(queue) = waiting.get_mut(&job.provider) {
                        queue.push_back(job);
                    } else {
                        waiting.insert(job.provider.clone(), VecDeque::new());
                        running.spawn(send(Arc::clone(&context), self.ended.clone(), job));
                    }
                }
                Some(ended) = running.join_next() => {
                    // Panics are caught in the task, and nothing aborts a task.
                    let Ok(job) = ended else { continue };
                    match waiting.get_mut(&job.provider).and_then(VecDeque::pop_front) {
                        Some(next) => {
                            running.spawn(send(Arc::clone(&context), self.ended.clone(), next));
                        }
                        None => { waiting.remove(&job.provider); }
                    }
                }
            }
        }
        // The loops do not reconcile any more, so nothing else records what is delivered now.
        while running.join_next().await.is_some() {}
        for alert in context.outbox.delivered() {
            alert::record(&context, &alert).await;
        }
    }
}

/// Sends a message, and enqueues its Alert.
async fn send(context: Arc<Context>, ended: mpsc::Sender<Work>, job: Job) -> Job {
    let endpoint = [Subject::Provider(job.provider.clone())];
    let failed_before = context.failures.of(&endpoint).is_some();
    // The panic is already logged.
    let delivered = AssertUnwindSafe(delivery::deliver(&context, &job))
        .catch_unwind()
        .await;
    context.outbox.ended(&job, delivered.ok().flatten());
    // It fails only if the loops have ended.
    let _ = ended.send(Work::Alert(job.alert.clone())).await;
    if failed_before || context.failures.of(&endpoint).is_some() {
        let _ = ended.send(Work::Provider(job.provider.clone())).await;
    }
    job
}

#[cfg(test)]
mod tests {
    use helmops_kube::key;
    use helmops_notify::alert::Event;

    use super::*;

    fn job(alert: &str) -> Job {
        let message = Message {
            event: Event::Failure,
            reason: "A".to_owned(),
            subjects: Vec::new(),
        };
        Job {
            alert: key("a", alert),
            provider: key("a", "chat"),
            message: Arc::new(message),
        }
    }

    #[test]
    fn a_message_is_on_its_way_until_it_is_recorded() {
        let (outbox, _sender, _works) = outbox();
        let leadership = Leadership::always();
        let (one, job) = (key("a", "one"), job("one"));
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free);
        assert!(outbox.send(job.clone()));
        assert_eq!(outbox.slot(&one, &leadership), Slot::Busy);
        outbox.ended(&job, None);
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free, "it is sent again");
        outbox.send(job.clone());
        outbox.ended(&job, leadership.term());
        assert_eq!(
            outbox.slot(&one, &leadership),
            Slot::Delivered(Arc::clone(&job.message))
        );
        assert_eq!(outbox.delivered(), std::slice::from_ref(&one));
        outbox.clear(&one);
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free);
        // The Alert was deleted while its message was on its way.
        outbox.send(job.clone());
        outbox.clear(&one);
        outbox.ended(&job, leadership.term());
        assert_eq!(outbox.slot(&one, &leadership), Slot::Free);
    }

    #[test]
    fn what_was_delivered_in_an_earlier_term_is_not_recorded() {
        let (outbox, _sender, _works) = outbox();
        let job = job("one");
        outbox.send(job.clone());
        outbox.ended(&job, Leadership::always().term());
        let (_sender, lost) = Leadership::elected();
        assert_eq!(outbox.slot(&key("a", "one"), &lost), Slot::Free);
    }

    #[test]
    fn messages_that_do_not_fit_are_sent_later() {
        let (outbox, _sender, _works) = outbox();
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
