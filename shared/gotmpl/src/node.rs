//! The nodes of a parsed template.

use std::{collections::BTreeMap, ops::Range, rc::Rc};

use super::functions::Function;

/// The templates in a text: the text itself, and those that it defines under a name.
#[derive(Debug, Default)]
pub struct Templates {
    pub main: Vec<Node>,
    pub named: BTreeMap<String, Vec<Node>>,
}

/// A node of a template.
#[derive(Debug)]
pub enum Node {
    /// Text that is copied to the output.
    Text(Range<usize>),
    /// An action that prints the value of its pipeline.
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        span: Range<usize>,
        name: String,
        pipe: Option<Pipe>,
    },
    Break,
    Continue,
}

/// `if`, `with` or `range`: the condition, and the nodes for both outcomes.
#[derive(Debug)]
pub struct Branch {
    pub pipe: Pipe,
    pub body: Vec<Node>,
    pub else_body: Option<Vec<Node>>,
}

/// A pipeline: each command gets the result of the previous one, and the variables get the last result.
#[derive(Debug)]
pub struct Pipe {
    pub span: Range<usize>,
    /// `=` instead of `:=`.
    pub assigns: bool,
    pub variables: Vec<String>,
    pub commands: Vec<Vec<Operand>>,
}

/// An operand of a command, or its function.
#[derive(Debug)]
pub struct Operand {
    pub span: Range<usize>,
    pub term: Term,
    /// The fields `.a.b` after it.
    pub fields: Vec<String>,
}

/// What an operand starts with.
#[derive(Debug)]
pub enum Term {
    /// `.`, possibly with fields.
    Dot,
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Rc<str>),
    /// `$x`
    Variable(String),
    /// A function call; `None` for `and` and `or`, which evaluate their arguments themselves.
    Function(String, Option<Function>),
    /// A pipeline in parentheses.
    Pipe(Box<Pipe>),
}
