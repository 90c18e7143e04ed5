//! Polling for newer versions.

mod intervals;
mod restart;
