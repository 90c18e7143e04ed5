//! Is it time to look for a newer version?
//!
//! Everything follows from the HelmOp and the clock, so that a restart, another leader or a lost queue neither skips a
//! look nor brings all of them at once:
//!
//! ```text
//! spec.pollingInterval ─► Schedule: points in time, the same for all HelmOps of a repository and interval
//! status ─► Past: when the last look began, what came of it ─┬► due: now, then, or never
//! annotation ─► a look that is asked for ────────────────────┘
//! ```

mod due;
mod interval;
mod request;
mod schedule;

pub use self::{
    due::{Due, PollHistory, due},
    interval::{SHORT, interval},
    request::Request,
    schedule::Schedule,
};
