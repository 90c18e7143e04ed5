//! The agents of clusters, as the management cluster sees them: the account that each of them uses there, and whether it still
//! reports.
//!
//! ```text
//! Cluster, its namespace ─► account: desired objects ─► plan: writes
//!                           ▲ observed objects ─────────┘
//! lastSeen, clock ────────► contact: never, reporting until, or silent
//! ```

mod account;
mod contact;
mod plan;

pub use self::{
    account::{
        ACCOUNT, AccountObject, CONTENTS_ROLE, Kind, ObjectId, ObservedObject, REGISTERED_ROLE, Registration,
        account, registered,
    },
    contact::{AGENT_TIMEOUT, Contact, Patience},
    plan::{Write, plan},
};
