//! The parser: from a text to the events of its documents.
//!
//! It has the grammar of libyaml, whose ports `go-yaml` 2 to 4 are used by kubectl and Helm, with all of its differences from the
//! specifications of YAML. [`cursor`] has the characters, [`scanner`] makes tokens of them, with [`scalars`] and [`tags`], and [`grammar`]
//! makes events of tokens. A token is read only when it is needed, and nothing is recursive, so the caller bounds the depth.

mod cursor;
mod grammar;
mod scalars;
mod scanner;
mod tags;
mod text;

use std::borrow::Cow;

pub use self::grammar::Parser;
use super::place::Span;

/// What is invalid in a text, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub message: &'static str,
    pub at: usize,
    /// The line, from 0.
    pub line: usize,
}

/// An event, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'t> {
    pub kind: EventKind<'t>,
    pub span: Span,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind<'t> {
    DocumentStart,
    DocumentEnd,
    StreamEnd,
    Alias(&'t str),
    Scalar(Scalar<'t>),
    SequenceStart(Option<&'t str>),
    SequenceEnd,
    MappingStart(Option<&'t str>),
    MappingEnd,
}

/// A scalar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scalar<'t> {
    pub text: Cow<'t, str>,
    pub anchor: Option<&'t str>,
    /// The whole tag. Without quotes and a tag, the type follows from the text.
    pub tag: Option<Cow<'t, str>>,
    pub is_plain: bool,
}
