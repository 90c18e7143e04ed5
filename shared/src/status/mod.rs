//! What to report.

mod condition;
mod helmop;
mod patch;
mod ready;

pub use self::{
    condition::{ConditionType, State},
    helmop::{Outcome, next, without_extras},
    patch::merge_patch,
};
