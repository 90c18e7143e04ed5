//! The limits of an expression that do not depend on what it is evaluated for.

use cel::{
    IdedExpr,
    common::ast::{Expr, LiteralValue},
};
use helmops_api::limits;
use regex::RegexBuilder;

use super::{ExpressionError, quoted, syntax_tree::children};

/// Levels of the syntax tree. The interpreter takes some 20 KiB of the stack for each in a debug build.
pub const MAX_DEPTH: usize = 24;

/// Levels that the parser enters; parentheses are levels here, but not in the syntax tree.
pub const MAX_DEPTH_IN_PARSER: u16 = 48;

/// Nodes of the syntax tree: far more than a text of this length has, if its loops are not nested.
pub const MAX_NODES: usize = 2_048;

/// Loops in each other.
pub const MAX_LOOPS: usize = 2;

/// Bytes of a regular expression.
pub const MAX_PATTERN: usize = 256;

/// Memory of a compiled regular expression, in bytes. It is compiled in each evaluation.
const MAX_COMPILED_PATTERN: usize = 64 << 10;

/// The functions that are available. Operators are none of them.
pub const FUNCTIONS: &[&str] = &[
    "all",
    "bool",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "exists",
    "exists_one",
    "filter",
    "has",
    "int",
    "map",
    "matches",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
];

/// The calls that the parser makes of operators and loops. A text cannot have these names, while other names with a `_` are
/// functions.
const OPERATORS: &[&str] = &[
    "!_",
    "-_",
    "@in",
    "@not_strictly_false",
    "_!=_",
    "_%_",
    "_&&_",
    "_*_",
    "_+_",
    "_-_",
    "_/_",
    "_<=_",
    "_<_",
    "_==_",
    "_>=_",
    "_>_",
    "_?_:_",
    "_[_]",
    "_||_",
];

/// Limits that the parser depends on.
pub fn check_text(text: &str) -> Result<(), ExpressionError> {
    if text.trim().is_empty() {
        return Err(ExpressionError::Empty);
    }
    if text.len() > limits::EXPRESSION {
        return Err(ExpressionError::TooLong(text.len()));
    }
    match deepest_unary(text) {
        Some(column) => Err(ExpressionError::TooDeep(Some(column))),
        None => Ok(()),
    }
}

/// The column where brackets and signs (`!` and `-`) are nested too deeply. Those in strings count too, if there are more of them in
/// a row than any text needs.
fn deepest_unary(text: &str) -> Option<usize> {
    let mut row = 0_usize;
    for (index, byte) in text.bytes().enumerate() {
        row = match byte {
            b'!' | b'-' | b'(' | b'[' | b'{' => row + 1,
            byte if byte.is_ascii_whitespace() => row,
            _ => 0,
        };
        if row > MAX_DEPTH {
            return Some(index + 1);
        }
    }
    None
}

/// Limits of a syntax tree.
pub fn check_tree(tree: &IdedExpr) -> Result<(), ExpressionError> {
    let mut nodes = 0;
    check_node(tree, Level::default(), &mut nodes)
}

#[derive(Clone, Copy, Default)]
struct Level {
    depth: usize,
    loops: usize,
}

fn check_node(node: &IdedExpr, level: Level, nodes: &mut usize) -> Result<(), ExpressionError> {
    *nodes += 1;
    let mut inner = Level {
        depth: level.depth + 1,
        ..level
    };
    if inner.depth > MAX_DEPTH || *nodes > MAX_NODES {
        return Err(ExpressionError::TooDeep(None));
    }
    match &node.expr {
        Expr::Unspecified => {
            return Err(ExpressionError::Syntax {
                problem: "a part is missing".to_owned(),
                column: None,
            });
        }
        Expr::Struct(of) => return Err(ExpressionError::UnknownFunction(quoted(&of.type_name))),
        Expr::Call(call) => check_call(&call.func_name, &call.args)?,
        Expr::Comprehension(_) => {
            inner.loops += 1;
            if inner.loops > MAX_LOOPS {
                return Err(ExpressionError::NestedLoops(inner.loops));
            }
        }
        _ => {}
    }
    if let Expr::Comprehension(of) = &node.expr {
        // The list that is looped over is evaluated once.
        check_node(
            &of.iter_range,
            Level {
                loops: level.loops,
                ..inner
            },
            nodes,
        )?;
    }
    let skipped = usize::from(matches!(node.expr, Expr::Comprehension(_)));
    for child in children(node).into_iter().skip(skipped) {
        check_node(child, inner, nodes)?;
    }
    Ok(())
}

fn check_call(name: &str, arguments: &[IdedExpr]) -> Result<(), ExpressionError> {
    if !OPERATORS.contains(&name) && !FUNCTIONS.contains(&name) {
        return Err(ExpressionError::UnknownFunction(quoted(name)));
    }
    if name == "matches" {
        let pattern = arguments.last().map(|argument| &argument.expr);
        let Some(Expr::Literal(LiteralValue::String(pattern))) = pattern else {
            return Err(ExpressionError::Pattern("it is computed".to_owned()));
        };
        check_pattern(pattern.inner()).map_err(ExpressionError::Pattern)?;
    }
    Ok(())
}

fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("it has {} bytes", pattern.len()));
    }
    let compiled = RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED_PATTERN)
        .build();
    compiled.map(|_| ()).map_err(|error| {
        let text = error.to_string();
        quoted(
            text.lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: "),
        )
    })
}
