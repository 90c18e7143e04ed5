//! What every helmops process needs around its work: flags, logs, metrics, probes, a supervisor and a
//! server that a slow or silent peer cannot wear down.
//!
//! ```text
//! main ─► ProcessArgs ─► telemetry::install
//!                        Supervisor ── starts ──► PlainPort: admin (/metrics), probes (/livez /readyz)
//!                            │                    the process' own tasks
//!                            └─ SIGTERM: Health::stopping, delay, cancel, drain ─► ExitCode
//! ```
//!
//! Everything with an effect in this crate lives here, behind the feature `runtime`; the rest of the
//! crate is values in, values out.

pub mod admin;
pub mod args;
pub mod build_info;
#[cfg(feature = "cluster")]
pub mod kube_client;
pub mod exit;
pub mod fair;
pub mod health;
mod lock;
pub mod metrics;
pub mod plain_port;
pub mod probes;
pub mod reference;
mod scrape;
pub mod serve;
mod signals;
pub mod supervisor;
pub mod telemetry;
mod throttle;

pub use admin::Expose;
pub use args::{LogFormat, ProcessArgs};
pub use build_info::version;
pub use exit::{exit, run_process, run_process_on};
pub use fair::{FairPermit, FairSemaphore};
pub use health::{Gate, Health, Heartbeat};
pub use lock::lock;
pub use plain_port::{PlainPort, PortError, Purpose};
pub use serve::{Accept, Drained, Limits, PeerBytes, ServeMetrics, Transport, listen, serve};
pub use signals::{OsSignals, Signals};
pub use supervisor::{Outcome, ProcessError, Shutdown, Supervisor};
pub use telemetry::TelemetryError;
pub use throttle::Throttle;
