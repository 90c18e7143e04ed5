//! Polling for newer versions.

mod intervals;
mod min_age;
mod restart;
