//! Which of several replicas works: the one that holds a Lease.
//!
//! ```text
//! Lease ◄──► run (reads, writes) ──► elector (decides) ──► Leadership ──┬─► workers: begin nothing while another leads
//!                                                                       └─► guard: every write of the client
//! ```
//!
//! The rules are those of Kubernetes' own components (client-go), and so is what is written, so that they respect each
//! other. Who holds the Lease renews it, and may write for `--renew-deadline` from the moment on at which its last
//! renewal was sent. Whoever sees it unchanged for the longer `--lease-duration` may take it. Both are measured by each
//! process' own monotonic clock, so it does not matter what time it is anywhere. Every write carries the resource version
//! that it is based on, so that of two who want the Lease one gets it.

mod args;
mod elector;
mod guard;
mod leadership;
mod metrics;
mod name;
mod run;
mod telling;

pub use self::args::LeaseArgs;
pub use self::guard::{Guard, NotLeading};
pub use self::leadership::{Leadership, Passed, Term};
pub use self::metrics::LeaseMetrics;
pub use self::name::{LeaseName, identity};
pub use self::run::Election;
