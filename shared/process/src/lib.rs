//! What every helmops process needs besides its own work: flags, logs, metrics, probes, a supervisor and an
//! HTTP server that slow or silent clients cannot exhaust.
//!
//! ```text
//! main ─► ProcessArgs ─► prepare: logs, signals, metrics, health, supervisor
//!                        Supervisor ── starts ──► Port: admin (/metrics), probes (/livez /readyz)
//!                            │                    the tasks of the process itself
//!                            └─ SIGTERM: Health::set_stopping, delay, cancel, drain ─► ExitCode
//! ```
//!
//! Nothing here knows Fleet or Kubernetes, except the file with the namespace of the pod ([`own_namespace()`]).

#![warn(missing_docs)]

pub mod admin;
pub mod args;
mod body;
pub mod build_info;
pub mod exit;
mod failure_log;
pub mod health;
pub mod memory_limit;
pub mod metrics;
mod on_change;
pub mod port;
mod prepare;
pub mod probes;
pub mod reference;
mod scrape;
pub mod serve;
mod shutdown_header;
mod signals;
pub mod supervisor;
pub mod telemetry;
mod throttle;

pub use args::{LogFormat, ProcessArgs, own_namespace};
pub use body::{Bodies, BodyError, BodyLimits, RequestBody};
pub use build_info::version;
pub use exit::{exit, run_process, run_process_on};
pub use failure_log::FailureLog;
pub use health::{Gate, Health, Heartbeat};
pub use helmops_fair::lock;
pub use memory_limit::{MemoryLimit, Quantity, QuantityError};
pub use on_change::OnChange;
pub use port::{Port, PortConfig, PortError, serve_metrics_and_probes};
pub use prepare::{PrepareError, Prepared, prepare};
pub use scrape::MetricsWriter;
pub use serve::{Accept, Drained, Limits, ServeMetrics, Transport, listen, serve};
pub use shutdown_header::close_on_shutdown;
pub use signals::{OsSignals, Signals};
pub use supervisor::{ProcessError, Shutdown, Supervisor, TaskResult};
pub use telemetry::TelemetryError;
pub use throttle::Throttle;
