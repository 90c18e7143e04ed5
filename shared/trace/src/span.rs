//! Spans around futures. The current span is local to its task, so that the steps of a reconciliation need no parameter for it.

use std::{borrow::Cow, cell::RefCell, time::SystemTime};

use bounded_text::cut;

use crate::{
    context::TraceContext,
    record::{Attribute, SpanRecord},
    tracer::Tracer,
};

/// Bytes of the value of an attribute, and of an error.
const MAX_TEXT: usize = 1_024;
/// Attributes of a span.
const MAX_ATTRIBUTES: usize = 32;

/// What a future returns, as far as a span records it.
pub trait Outcome {
    /// Why it failed.
    fn error(&self) -> Option<String>;
}

impl Outcome for () {
    fn error(&self) -> Option<String> {
        None
    }
}

impl<T> Outcome for Option<T> {
    fn error(&self) -> Option<String> {
        None
    }
}

impl<T, E: ToString> Outcome for Result<T, E> {
    fn error(&self) -> Option<String> {
        self.as_ref().err().map(ToString::to_string)
    }
}

struct Current {
    tracer: Tracer,
    context: TraceContext,
    attributes: RefCell<Vec<Attribute>>,
}

tokio::task_local! {
    static CURRENT: Current;
}

/// Runs a future as a span of a trace. Without a trace it just runs.
pub async fn in_trace<F>(
    tracer: &Tracer,
    parent: Option<TraceContext>,
    name: &'static str,
    work: F,
) -> F::Output
where
    F: Future<Output: Outcome>,
{
    let Some(parent) = parent else {
        return work.await;
    };
    let start = SystemTime::now();
    let context = tracer.child(parent);
    let current = Current {
        tracer: tracer.clone(),
        context,
        attributes: RefCell::default(),
    };
    let observed = async {
        let output = work.await;
        (output, CURRENT.with(|current| current.attributes.take()))
    };
    let (output, attributes) = CURRENT.scope(current, observed).await;
    tracer.record(SpanRecord {
        context,
        parent: Some(parent),
        name,
        start,
        end: SystemTime::now(),
        attributes,
        error: output.error().map(|error| cut(error, MAX_TEXT)),
    });
    output
}

/// Runs a future as a child of the current span. Without one it just runs.
pub async fn in_span<F>(name: &'static str, work: F) -> F::Output
where
    F: Future<Output: Outcome>,
{
    match CURRENT.try_with(|current| (current.tracer.clone(), current.context)) {
        Ok((tracer, parent)) => Box::pin(in_trace(&tracer, Some(parent), name, work)).await,
        Err(_) => work.await,
    }
}

/// The current span, for what continues elsewhere.
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|current| current.context).ok()
}

/// Adds a detail to the current span. `value` is computed only if there is one.
pub fn set_attribute<V: Into<Cow<'static, str>>>(key: &'static str, value: impl FnOnce() -> V) {
    _ = CURRENT.try_with(|current| {
        let mut attributes = current.attributes.borrow_mut();
        if attributes.len() < MAX_ATTRIBUTES {
            let value = match value().into() {
                Cow::Owned(text) => Cow::Owned(cut(text, MAX_TEXT)),
                text @ Cow::Borrowed(_) => text,
            };
            attributes.push(Attribute { key, value });
        }
    });
}
