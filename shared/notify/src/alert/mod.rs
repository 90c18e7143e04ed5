//! From the states of objects to messages: which are sent, in which format.
//!
//! ```text
//! status of an object ─► state ─┐
//!                               ├─► plan ─► message ─► format ─► request
//! reported (status of the Alert)┘                         │
//!       ▲                                                 │
//!       └──────────────── delivered ◄─────────────────────┘
//! ```

mod batch;
mod filter;
pub mod format;
mod message;
mod plan;
mod rejected;
mod reported;
mod state;

pub use self::{
    batch::batch_size,
    filter::Filter,
    message::{After, Event, Message, Subject},
    plan::{MAX_OBJECTS, Memory, Plan, REFRESH, Rules, plan},
    rejected::Rejected,
    reported::Reported,
    state::{Failing, MAX_LABELS, Observed, State},
};
