#![doc = include_str!("../README.md")]
//!
//! # How a template is rendered
//!
//! ```text
//!                                   serde_json::Value ─► Context
//!                                                          │
//! text ─► lex ─► parse (resolves functions) ─► Template ─► exec ─► Rendered
//!          └──────────────┴── Meter ─────────────┴─────────┘
//! ```
//!
//! Each step charges the [`Budget`] before it works or allocates. Functions work on a heap of the rendering, because Go's maps are
//! shared: `set` changes the map for every variable that refers to it.

#![warn(missing_docs)]

mod budget;
mod check;
mod delimiters;
mod error;
mod exec;
mod format;
mod functions;
mod heap;
mod json;
mod lex;
mod literal;
mod node;
mod parse;
mod pattern_cache;
mod patterns;
mod printf;
mod template;
mod value;

pub use self::{
    budget::{Budget, Exceeded, Limits, MAX_TEXT},
    check::{check, check_tokens},
    delimiters::Delimiters,
    error::{TemplateError, TemplateErrorKind, UnsupportedFunction, UnsupportedReason},
    exec::{Rendered, line_at},
    heap::Context,
    template::Template,
};

#[cfg(test)]
mod tests;
