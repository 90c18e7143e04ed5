//! What a template is made of, once it is parsed.

use std::{collections::BTreeMap, ops::Range, rc::Rc};

use super::functions::Function;

/// The templates of a text: the text itself, and what it defines under a name.
#[derive(Debug, Default)]
pub struct Templates {
    pub main: Vec<Node>,
    pub named: BTreeMap<String, Vec<Node>>,
}

/// A piece of a template.
#[derive(Debug)]
pub enum Node {
    /// Text that stands for itself.
    Text(Range<usize>),
    /// An action that prints what it gives.
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        place: Range<usize>,
        name: String,
        pipe: Option<Pipe>,
    },
    Break,
    Continue,
}

/// `if`, `with` and `range`: what is asked, and what follows.
#[derive(Debug)]
pub struct Branch {
    pub pipe: Pipe,
    pub then: Vec<Node>,
    pub otherwise: Option<Vec<Node>>,
}

/// Commands, each of which gets what the one before gives, and the variables that get the result.
#[derive(Debug)]
pub struct Pipe {
    pub place: Range<usize>,
    /// `=` rather than `:=`.
    pub assigns: bool,
    pub variables: Vec<String>,
    pub commands: Vec<Vec<Operand>>,
}

/// A word of a command.
#[derive(Debug)]
pub struct Operand {
    pub place: Range<usize>,
    pub term: Term,
    /// `.a.b` behind it.
    pub fields: Vec<String>,
}

/// What a word is.
#[derive(Debug)]
pub enum Term {
    /// `.`, with fields perhaps.
    Dot,
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Rc<str>),
    /// `$x`
    Variable(String),
    /// `None` for `and` and `or`.
    Function(String, Option<Function>),
    /// Commands in parentheses.
    Pipe(Box<Pipe>),
}
