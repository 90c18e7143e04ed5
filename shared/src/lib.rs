//! The functional core of helmops: values in, values out.
//!
//! The modules stand in the order in which a HelmOp passes through them:
//!
//! ```text
//! api ─► admit ─► policy ─► chart ─► bundle ─► targeting ─► poll ─► status
//! wire   accept-  al-       which    HelmOp +  which        is it   what to
//! types  able?    lowed?    version? version   clusters?    time?   report?
//!                                    → Bundle
//! ```
//!
//! None of them knows a client, a clock, a socket or a file: `now` and names come in as parameters. Helpers for
//! processes are in [`runtime`], behind a feature of that name.

pub mod api;

pub mod admit;
pub mod policy;
pub mod chart;
pub mod bundle;
pub mod targeting;
pub mod poll;
pub mod status;

pub mod reason;
pub mod text;

#[cfg(feature = "runtime")]
pub mod runtime;
