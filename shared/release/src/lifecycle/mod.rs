//! The life cycle of a release: what follows when an attempt to install or upgrade it fails.
//!
//! ```text
//! options, spec.lifecycle ─► Policy ─┐
//! state, records, requests, time ────┴─► next ─► Step: act, remediate, or wait for the next attempt
//! ```
//!
//! Everything follows from the records of Helm: which attempt failed, why, and when. So a restart of the agent forgets no failure, and
//! repeats no remediation.

mod policy;
mod step;

pub use self::{
    policy::{
        ActionPolicy, CrdPolicy, DEFAULT_TIMEOUT, KeptBecause, Policy, Remediation, Schedule, TestPolicy,
        time,
    },
    step::{
        Remedy, Requested, Retry, Situation, Step, completed, is_remediation, may_recover, next, requests,
    },
};
