//! Emits and reads YAML as `sigs.k8s.io/yaml` does.
//!
//! Fleet renders values as one text: it emits them as YAML, executes that as a template and reads the result. So the style in
//! which a string is emitted decides whether the output of a template becomes a number or a string, and how quotes in it are
//! read. The emitter is equivalent to that of `go-yaml` 2, including line breaks after 80 columns; the reader follows YAML
//! 1.1, in which `yes` is a boolean and `0o17` a number.

mod emit;
mod order;
mod read;
mod resolve;
mod scalar;

pub use self::{
    emit::{TooLong, emit, path_at},
    read::{Quota, ReadError, read},
};

#[cfg(test)]
mod tests;
