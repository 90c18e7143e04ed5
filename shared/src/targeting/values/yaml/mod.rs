//! YAML as `sigs.k8s.io/yaml` writes and reads it.
//!
//! Fleet renders values as one text: it writes them as YAML, runs that as a template and reads the result. So it depends
//! on how a text is written whether what a template gives becomes a number or a text, and whether a quote within it
//! survives. The writer is that of `go-yaml` 2, line breaks after 80 columns included; the reader follows YAML 1.1, in
//! which `yes` is a boolean and `0o17` a number.

mod emit;
mod order;
mod read;
mod resolve;
mod scalar;

pub use self::{
    emit::{TooLong, emit, path_at},
    read::{Room, Unreadable, read},
};

#[cfg(test)]
mod tests;
