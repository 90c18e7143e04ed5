//! Archives, built in code.

mod build;
mod crds;
mod hostile;
mod templates;
mod valid;
