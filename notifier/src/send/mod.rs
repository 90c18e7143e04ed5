//! Sends messages: no reconciliation waits for an endpoint.
//!
//! Each Alert has one batch of messages on its way at most. Those to one AlertProvider are sent one after the other, those to different ones at the
//! same time, so that an endpoint that hangs delays no other.

mod delivery;

use std::{
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures::FutureExt;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    alert,
    context::Context,
    failures::Subject,
    outbox::{CAPACITY, Job, Outbox},
    work::{ProviderKey, Work},
};

/// The receiving half of the outbox.
#[derive(Debug)]
pub struct Sender {
    jobs: mpsc::Receiver<Job>,
    ended: mpsc::Sender<Work>,
}

/// An outbox, its sender, and the objects to reconcile when a message was sent.
pub fn outbox() -> (Outbox, Sender, mpsc::Receiver<Work>) {
    let (outbox, jobs) = Outbox::new();
    let (ended, works) = mpsc::channel(CAPACITY);
    (outbox, Sender { jobs, ended }, works)
}

impl Sender {
    /// Sends messages until `stop`, and then waits for those on their way, for a short time, and records each as it is delivered.
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
                        running.spawn(send(Arc::clone(&context), self.ended.clone(), job, stop.clone()));
                    }
                }
                Some(ended) = running.join_next() => {
                    // Panics are caught in the task, and nothing aborts a task.
                    let Ok(job) = ended else { continue };
                    match waiting.get_mut(&job.provider).and_then(VecDeque::pop_front) {
                        Some(next) => {
                            running.spawn(send(Arc::clone(&context), self.ended.clone(), next, stop.clone()));
                        }
                        None => { waiting.remove(&job.provider); }
                    }
                }
            }
        }
        // The loops do not reconcile any more, so nothing else records what is delivered now. An endpoint that hangs must not delay the
        // record of what others have accepted.
        for alert in context.outbox.delivered() {
            alert::record(&context, &alert).await;
        }
        while let Some(ended) = running.join_next().await {
            if let Ok(job) = ended {
                alert::record(&context, &job.alert).await;
            }
        }
    }
}

/// Sends messages, and enqueues their Alert.
async fn send(context: Arc<Context>, ended: mpsc::Sender<Work>, job: Job, stop: CancellationToken) -> Job {
    let endpoint = Subject::Provider(job.provider.clone());
    let failed_before = context.failures.of(&endpoint).is_some();
    // The panic is already logged.
    let delivered = AssertUnwindSafe(delivery::deliver_all(&context, &job, &stop))
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
mod tests;
