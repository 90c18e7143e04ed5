//! Archives, built in code.

mod build;
mod canonical;
mod crds;
mod hostile;
mod templates;
