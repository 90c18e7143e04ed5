//! Traces: which step of the way from `kubectl apply` to a ready release took how long, in which process.
//!
//! ```text
//! webhook, controller, agent ─► Span ─► bounded queue ─► batches ─► OTLP over HTTP, in JSON ─► collector
//! ```
//!
//! The ID of a trace follows from the UID and the generation of the HelmOp, so processes agree on it without a write, and it
//! survives restarts. Controllers pass it on to Bundles and BundleDeployments in an annotation, in writes that happen anyway.
//! Without `--otlp-endpoint` a span costs a comparison.

#![warn(missing_docs)]

mod args;
mod context;
mod export;
mod metrics;
mod otlp;
mod record;
mod span;
mod tracer;

pub use args::{TraceArgs, TraceArgsError};
pub use context::TraceContext;
pub use export::Exporter;
pub use metrics::TraceMetrics;
pub use record::{Attribute, SpanRecord};
pub use span::{Outcome, current, in_span, in_trace, set_attribute};
pub use tracer::Tracer;
