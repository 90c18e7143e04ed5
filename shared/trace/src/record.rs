//! A span that has ended, as it waits for its export.

use std::{borrow::Cow, time::SystemTime};

use crate::context::TraceContext;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// The trace and the span.
    pub context: TraceContext,
    /// The span that caused it.
    pub parent: Option<TraceContext>,
    /// What was done.
    pub name: &'static str,
    /// When it started.
    pub start: SystemTime,
    /// When it ended.
    pub end: SystemTime,
    /// Details.
    pub attributes: Vec<Attribute>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A detail of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, such as `helmops.version`.
    pub key: &'static str,
    /// Its value.
    pub value: Cow<'static, str>,
}
