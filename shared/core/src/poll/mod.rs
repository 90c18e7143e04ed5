//! Whether a poll for a newer version is due.
//!
//! Everything follows from the HelmOp and the clock, so that a restart, another leader or a lost queue neither skips a
//! poll nor triggers all polls at the same time:
//!
//! ```text
//! spec.pollingInterval ─► Schedule: times, the same for all HelmOps with one repository and interval
//! status ─► PollHistory: start and result of the last poll ─┬► due: now, at a time, or never
//! annotation ─► Request: an explicitly requested poll ──────┘
//! ```

mod ages;
mod due;
mod interval;
mod request;
mod schedule;

pub use self::{
    ages::Ages,
    due::{Due, PollHistory, due, may_hide_polls},
    interval::{MIN_INTERVAL, SHORT_INTERVAL, interval},
    request::PollRequest,
    schedule::Schedule,
};
