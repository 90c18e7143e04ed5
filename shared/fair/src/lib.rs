//! The mechanisms that limit work, for every process:
//!
//! | Module | Limits | Shares between |
//! |---|---|---|
//! | [`semaphore`] | what is done at a time | keys, such as namespaces; optionally second keys, such as hosts |
//! | [`bytes`] | memory | keys |
//! | [`backoff`] | attempts after failures | no one: each key has its own state |
//! | [`rate`] | attempts per time | no one: each key has its own state |
//! | [`deadline`] | the time of one piece of work | no one |
//!
//! Nothing here reads a clock but the deadline, which ends work at a time: the others take the current time as a parameter.

#![warn(missing_docs)]

pub mod backoff;
pub mod bytes;
#[cfg(feature = "tokio")]
pub mod deadline;
mod lock;
pub mod rate;
#[cfg(feature = "tokio")]
pub mod semaphore;

pub use backoff::{AtLeast, ExponentialBackoff, KeyedBackoff};
pub use bytes::{ByteBudget, Charge, OverBudget, Reservation, Share};
#[cfg(feature = "tokio")]
pub use deadline::{Deadline, DeadlineExceeded};
pub use lock::lock;
pub use rate::{Rate, RateLimit, TokenBucket};
#[cfg(feature = "tokio")]
pub use semaphore::{FairPermit, FairSemaphore, PairLimits};
