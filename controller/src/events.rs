//! Events of HelmOps (`events.k8s.io/v1`), as `kubectl describe` shows them.
//!
//! They are told on the side: whoever reconciles leaves them in a queue, and where they come faster than the API server
//! takes them some are dropped and counted. The status says it all anyhow.

use helmops_shared::{api::HelmOp, runtime::exit::with_causes, status::Event};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{self, EventType, Recorder, Reporter},
};
use prometheus::IntCounter;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::bounded;

/// As many as the API server takes in a few seconds.
const QUEUE: usize = 1000;

/// Where events are left.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Told>,
    dropped: IntCounter,
}

/// Events of one HelmOp, to be told.
type Told = (ObjectReference, Vec<Event>);

/// What is left to be told.
#[derive(Debug)]
pub struct Queue(mpsc::Receiver<Told>);

/// A queue; what finds no room in it is counted in `dropped`.
pub fn queue(dropped: IntCounter) -> (Events, Queue) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (
        Events {
            queue: sender,
            dropped,
        },
        Queue(receiver),
    )
}

impl Events {
    /// Leaves events of a HelmOp to be told.
    pub fn tell(&self, helmop: &HelmOp, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let number = events.len();
        if self.queue.try_send((helmop.object_ref(&()), events)).is_err() {
            self.dropped.inc_by(number as u64);
        }
    }
}

impl Queue {
    /// Tells events, one after the other, until it is told to stop; what is left then is not told.
    pub async fn run(mut self, client: Client, reporter: Reporter, stop: CancellationToken) {
        let recorder = Recorder::new(client, reporter);
        while let Some(Some((helmop, events))) = stop.run_until_cancelled(self.0.recv()).await {
            for event in events {
                tell(&recorder, &helmop, event).await;
            }
        }
    }
}

async fn tell(recorder: &Recorder, helmop: &ObjectReference, event: Event) {
    let reason = event.reason.clone();
    let event = events::Event {
        type_: if event.is_warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: event.reason,
        note: Some(event.note),
        action: event.action.to_owned(),
        secondary: None,
    };
    if let Err(error) = bounded(recorder.publish(&event, helmop)).await {
        tracing::warn!(
            namespace = helmop.namespace,
            helmop = helmop.name,
            reason,
            error = with_causes(&error),
            "failed to write an event"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let dropped = IntCounter::new("dropped", "Dropped.").unwrap();
        let (events, mut queue) = queue(dropped.clone());
        let event = Event {
            is_warning: false,
            reason: "Accepted".to_owned(),
            action: "Reconcile",
            note: String::new(),
        };
        let helmop = HelmOp::default();
        events.tell(&helmop, Vec::new());
        assert!(queue.0.try_recv().is_err(), "nothing is nothing");
        for _ in 0..QUEUE + 2 {
            events.tell(&helmop, vec![event.clone()]);
        }
        assert_eq!(dropped.get(), 2);
        assert!(queue.0.try_recv().is_ok());
    }
}
