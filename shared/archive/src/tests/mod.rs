//! Archives, built in code.

mod build;
mod canonical;
mod hostile;
