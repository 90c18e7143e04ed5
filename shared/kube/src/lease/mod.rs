//! Leader election: only the replica that holds the Lease reconciles.
//!
//! ```text
//! Lease ◄──► run (reads, writes) ──► elector (decides) ──► Leadership ──┬─► workers: start no work without leadership
//!                                                                       └─► guard: rejects writes without leadership
//! ```
//!
//! The rules and the content of the Lease are those of Kubernetes' own components (client-go), so both can share a Lease. The
//! holder renews the Lease, and may write for `--renew-deadline` after it has sent its last renewal. A candidate that observes
//! the Lease unchanged for the longer `--lease-duration` may acquire it. Both durations are measured by the monotonic clock of
//! each process, so wall clocks do not matter. Every write carries the resource version that it is based on, so only one of two
//! candidates gets the Lease.

mod args;
mod elector;
mod error;
mod guard;
mod leadership;
mod metrics;
mod name;
mod run;
mod shard;
mod transition_log;

pub use self::args::LeaseArgs;
pub use self::guard::{Guard, NotLeading};
pub use self::leadership::{Leadership, Term, TermEnded};
pub use self::metrics::LeaseMetrics;
pub use self::name::{LeaseName, identity};
pub use self::run::Election;
pub use self::shard::{InvalidShard, SHARD_LEASE, shard_lease};
