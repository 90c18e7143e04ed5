//! The queue of spans that wait for their export.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::{context::TraceContext, metrics::TraceMetrics, record::SpanRecord};

/// How many spans wait for their export at most: what a burst of deployments causes within a second or two. Each has some hundred
/// bytes.
const QUEUE: usize = 4_096;

/// Records spans. A clone records to the same queue.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Queue>>);

#[derive(Debug)]
struct Queue {
    spans: Sender<SpanRecord>,
    ratio: f64,
    /// Where the numbers of spans of this process start, and how many there are. The start differs between processes, so that their
    /// spans in one trace differ.
    next: AtomicU64,
    metrics: TraceMetrics,
}

impl Tracer {
    /// Records nothing.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Records the part `ratio` of all traces. `first` is a random number: that of the first span.
    pub(crate) fn new(ratio: f64, first: u64, metrics: TraceMetrics) -> (Self, Receiver<SpanRecord>) {
        let (spans, receiver) = mpsc::channel(QUEUE);
        let next = AtomicU64::new(first);
        let queue = Queue {
            spans,
            ratio,
            next,
            metrics,
        };
        (Self(Some(Arc::new(queue))), receiver)
    }

    /// Whether spans are recorded.
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// The root of the trace of one generation of an object, if it is recorded.
    pub fn root(&self, uid: &str, generation: i64, rollout: i64) -> Option<TraceContext> {
        let queue = self.0.as_ref()?;
        let root = TraceContext::root(uid, generation, rollout);
        root.is_sampled(queue.ratio).then_some(root)
    }

    /// The span of a `traceparent`, if spans are recorded at all. The process that wrote it has decided that this trace is recorded.
    pub fn parent(&self, traceparent: Option<&str>) -> Option<TraceContext> {
        self.0.as_ref()?;
        TraceContext::parse(traceparent?)
    }

    /// The context of a new child.
    pub fn child(&self, parent: TraceContext) -> TraceContext {
        let number = self
            .0
            .as_ref()
            .map_or(1, |queue| queue.next.fetch_add(1, Ordering::Relaxed));
        parent.child(number)
    }

    /// Records a span that has ended. It is dropped, and counted, if the queue is full.
    pub fn record(&self, span: SpanRecord) {
        let Some(queue) = &self.0 else { return };
        if queue.spans.try_send(span).is_err() {
            queue.metrics.dropped.inc();
        }
    }
}
