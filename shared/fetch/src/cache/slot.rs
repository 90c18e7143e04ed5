//! What is known about one key: its last response and error, and whether a request is in flight. It decides which of the
//! waiting resolutions are served, and what the others wait for.

use std::{
    fmt::Display,
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::{Duration, Instant},
};

use helmops_fair::Reservation;
use helmops_process::lock;
use helmops_runtime::error_class::{ClassifiedError, Scope};
use tokio::{sync::Notify, time};

/// The error of a fetch.
pub trait FetchFailure: Display {
    /// Whether it applies to all resolutions of the key. If not, it is shared within the namespace only.
    fn is_shared(&self) -> bool;
}

impl<E: ClassifiedError> FetchFailure for E {
    fn is_shared(&self) -> bool {
        self.class().scope() != Scope::Namespace
    }
}

/// The resolution that needs a response.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// Namespace of the HelmOp.
    pub namespace: &'a Arc<str>,
    /// The earliest start of a request whose response is fresh enough.
    pub since: Instant,
}

/// The response to a key, shared by the resolutions that need it.
#[derive(Debug)]
pub(super) struct Slot<V, E> {
    pub state: Mutex<SlotState<V, E>>,
    /// Notified when a request has ended, with any result.
    pub ended: Notify,
    pub last_used: AtomicU64,
    /// Its size without a response.
    pub overhead: usize,
    /// The namespace that it is charged to, and the size.
    pub charge: Mutex<Reservation>,
}

/// The requests for a key, and their results.
#[derive(Debug)]
pub(super) struct SlotState<V, E> {
    pub is_in_flight: bool,
    /// When the last request started, whatever its result.
    pub last_start: Option<time::Instant>,
    /// When the last request started whose result is shared.
    pub shared_since: Option<Instant>,
    /// The error of that request.
    pub failure: Option<E>,
    /// The last error that is shared within a namespace only.
    pub namespace_failure: Option<NamespaceFailure<E>>,
    /// The last valid response. An error keeps it.
    pub value: Option<Arc<V>>,
}

/// An error that concerns one namespace.
#[derive(Debug)]
pub(super) struct NamespaceFailure<E> {
    pub namespace: Arc<str>,
    pub since: Instant,
    pub failure: E,
}

impl<V, E> Slot<V, E> {
    pub fn new(overhead: usize, charge: Reservation) -> Self {
        let state = SlotState {
            is_in_flight: false,
            last_start: None,
            shared_since: None,
            failure: None,
            namespace_failure: None,
            value: None,
        };
        Self {
            state: Mutex::new(state),
            ended: Notify::new(),
            last_used: AtomicU64::new(0),
            overhead,
            charge: Mutex::new(charge),
        }
    }

    /// The namespace that it is charged to, and the size.
    pub fn charged(&self) -> (Arc<str>, usize) {
        let charge = lock(&self.charge);
        (Arc::clone(charge.key()), charge.bytes())
    }
}

impl<V, E: Clone> SlotState<V, E> {
    /// The result of the last request, if it is fresh enough and contains what the requester needs.
    pub fn result_for(
        &self,
        requester: Requester<'_>,
        accepts: impl Fn(&V) -> bool,
    ) -> Option<Result<Arc<V>, E>> {
        let Requester { namespace, since } = requester;
        let shared = match &self.failure {
            _ if self.shared_since.is_none_or(|start| start < since) => None,
            Some(failure) => Some(Err(failure.clone())),
            None => self.accepted_value(accepts).map(Ok),
        };
        let own = self.namespace_failure.as_ref();
        let own = own.filter(|own| own.since >= since && own.namespace == *namespace);
        shared.or_else(|| own.map(|own| Err(own.failure.clone())))
    }

    pub fn accepted_value(&self, accepts: impl Fn(&V) -> bool) -> Option<Arc<V>> {
        self.value.clone().filter(|value| accepts(value))
    }

    /// What a resolution waits for that this state does not serve.
    pub fn wait(&self, min_interval: Duration) -> Wait {
        match self.last_start {
            _ if self.is_in_flight => Wait::Request,
            Some(start) if start.elapsed() < min_interval => Wait::Interval(start + min_interval),
            _ => Wait::Permit,
        }
    }
}

/// What a resolution waits for.
pub(super) enum Wait {
    /// The end of the request in flight.
    Request,
    /// The time at which the next request may start.
    Interval(time::Instant),
    /// The permit for a request.
    Permit,
}

/// A request in flight, until dropped.
pub(super) struct InFlight<'a, V, E>(pub &'a Slot<V, E>);

impl<V, E> Drop for InFlight<'_, V, E> {
    fn drop(&mut self) {
        lock(&self.0.state).is_in_flight = false;
        self.0.ended.notify_waiters();
    }
}
