//! Events of objects (`events.k8s.io/v1`), as `kubectl describe` shows them.
//!
//! A reconciliation puts them into a queue and does not wait. If they come faster than the API server accepts them, some are
//! dropped and counted: the status has the same information.
//!
//! An Event that is repeated is counted in its series. One with another text is another Event, although kube's recorder counts it too,
//! and then shows only the first text: of another release in the same namespace, for example.

use std::collections::HashMap;

use helmops_model::event::Event;
use helmops_process::exit::with_causes;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{self, EventType, Recorder, Reporter},
};
use prometheus::IntCounter;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::bounded;

/// As many as the API server accepts in a few seconds.
const CAPACITY: usize = 1000;
/// The number of objects and reasons whose last text is known. Without it, a repeated Event is written as a new one.
const MAX_SERIES: usize = 1000;

/// The sending half of the queue of Events.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Pending>,
    dropped: IntCounter,
}

/// Events of one object that are not written yet.
type Pending = (ObjectReference, Vec<Event>);

/// Writes the Events of the queue.
#[derive(Debug)]
pub struct EventWriter(mpsc::Receiver<Pending>);

/// A queue. Events that do not fit are counted in `dropped`.
pub fn queue(dropped: IntCounter) -> (Events, EventWriter) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (
        Events {
            queue: sender,
            dropped,
        },
        EventWriter(receiver),
    )
}

impl Events {
    /// Queues events of an object.
    pub fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, events: Vec<Event>) {
        self.publish_for(object.object_ref(&()), events);
    }

    /// Queues events of the object that a reference names. They are in its namespace, or in `default` if it has none.
    pub fn publish_for(&self, object: ObjectReference, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let number = events.len();
        if self.queue.try_send((object, events)).is_err() {
            self.dropped.inc_by(number as u64);
        }
    }
}

impl EventWriter {
    /// Writes events one after the other until `stop`; the rest of the queue is dropped then.
    pub async fn run(mut self, client: Client, reporter: Reporter, stop: CancellationToken) {
        let mut series = Series::new(client, reporter);
        while let Some(Some((object, events))) = stop.run_until_cancelled(self.0.recv()).await {
            for event in events {
                write(series.recorder(&object, &event), &object, event).await;
            }
        }
    }
}

/// The recorders of series of Events. A recorder counts all Events of an object with the same reason as one.
struct Series {
    client: Client,
    reporter: Reporter,
    /// By object and reason, with the last text.
    last: HashMap<[Option<String>; 5], (String, Recorder)>,
}

impl Series {
    fn new(client: Client, reporter: Reporter) -> Self {
        Self {
            client,
            reporter,
            last: HashMap::new(),
        }
    }

    /// The recorder of the same Event before, or a new one.
    fn recorder(&mut self, object: &ObjectReference, event: &Event) -> &Recorder {
        if self.last.len() >= MAX_SERIES {
            self.last.clear();
        }
        let new = || {
            let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
            (event.note.clone(), recorder)
        };
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            ..
        } = object.clone();
        let key = [kind, namespace, name, uid, Some(event.reason.clone())];
        let last = self.last.entry(key).or_insert_with(new);
        if last.0 != event.note {
            *last = new();
        }
        &last.1
    }
}

async fn write(recorder: &Recorder, object: &ObjectReference, event: Event) {
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
    if let Err(error) = bounded(recorder.publish(&event, object)).await {
        tracing::warn!(
            kind = object.kind,
            namespace = object.namespace,
            name = object.name,
            reason,
            error = with_causes(&error),
            "failed to write an Event"
        );
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;

    use super::*;

    #[test]
    fn events_that_do_not_fit_are_counted() {
        let dropped = IntCounter::new("dropped", "Dropped.").unwrap();
        let (events, mut writer) = queue(dropped.clone());
        let event = Event {
            is_warning: false,
            reason: "Accepted".to_owned(),
            action: "Reconcile",
            note: String::new(),
        };
        let helmop = HelmOp::default();
        events.publish(&helmop, Vec::new());
        assert!(writer.0.try_recv().is_err(), "no events, no entry");
        for _ in 0..CAPACITY + 2 {
            events.publish(&helmop, vec![event.clone()]);
        }
        assert_eq!(dropped.get(), 2);
        assert!(writer.0.try_recv().is_ok());
    }
}
