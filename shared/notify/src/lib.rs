//! The functional core of notifications: pure functions over values.
//!
//! Alerts: [`alert`] compares the state of objects with what was reported about them, and computes messages in the format of each
//! AlertProvider. Receivers: [`push`] verifies what registries send, and selects the HelmOps to poll. Both select objects with
//! [`source`]. [`admit`] validates the kinds.

#![warn(missing_docs)]

pub mod admit;
pub mod alert;
pub mod message_format;
pub mod push;
pub mod severity;
pub mod source;
