//! What it costs to read the index of a chart repository, beside Helm's own loader.
//!
//! ```text
//! layout ─► two files ─┬─► ours   ─┐
//!                      └─► helm   ─┴─► reading ─► report
//! ```
//!
//! Each reading is a process of its own, so that the most memory that the process ever held is that of the reading. The
//! processes take turns: what disturbs the machine for a while disturbs both.

pub mod layout;

pub mod helm;
pub mod ours;
pub mod reading;

pub mod compare;
pub mod report;
