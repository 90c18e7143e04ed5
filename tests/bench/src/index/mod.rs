//! Benchmark of reading the index of a chart repository, compared with Helm's own loader.
//!
//! ```text
//! layout ─► two files ─┬─► ours   ─┐
//!                      └─► helm   ─┴─► reading ─► report
//! ```
//!
//! Each reading runs in its own process, so that the peak memory of the process is that of the reading. The readers alternate,
//! so that a disturbance of the machine affects both.

pub mod layout;

pub mod helm;
pub mod ours;
pub mod reading;

pub mod compare;
pub mod report;
