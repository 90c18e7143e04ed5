//! An upper bound of the work that an evaluation takes.
//!
//! A loop is counted as if it ran over the longest list or map of the variables. A comparison, concatenation or conversion of
//! something that is not a literal is counted with the size of the variables, or with the average size of an item for the variable
//! of the innermost loop.

use cel::{
    IdedExpr,
    common::ast::{Expr, LiteralValue},
};
use serde_json::Value;

use super::syntax_tree::{children, root};

/// The limit: some tenths of a second at most, and usually far below a millisecond.
pub const BUDGET: u64 = 2_000_000;

/// The limit where others wait meanwhile: some milliseconds.
pub const BRIEF_BUDGET: u64 = 100_000;

/// What a search with a regular expression costs besides the text: it is compiled each time.
const PATTERN: u64 = 2_000;

/// Checks that the evaluation of an expression is within a budget.
///
/// # Errors
/// If it is not: the number of items in the longest list or map.
pub fn check(expression: &IdedExpr, variables: &[(&str, &Value)], budget: u64) -> Result<(), usize> {
    let mut data = Size::default();
    for (_, value) in variables {
        data.add(value);
    }
    literals(expression, &mut data);
    // Each concatenation of lists can make a list as long as both.
    let factor = 1 + additions(expression);
    let bounds = Bounds {
        longest: (data.longest as u64).saturating_mul(factor),
        total: data.total.saturating_mul(factor),
    };
    if bounds.cost(expression, None) > budget {
        Err(data.longest)
    } else {
        Ok(())
    }
}

/// How large values are.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// Items of the longest list or map.
    longest: usize,
    /// Values and keys, and a sixteenth of the bytes of their texts.
    total: u64,
}

impl Size {
    fn add(&mut self, value: &Value) {
        self.total += 1;
        match value {
            Value::String(text) => self.total += text.len() as u64 / 16,
            Value::Array(items) => {
                self.longest = self.longest.max(items.len());
                for item in items {
                    self.add(item);
                }
            }
            Value::Object(fields) => {
                self.longest = self.longest.max(fields.len());
                for (key, value) in fields {
                    self.total += 1 + key.len() as u64 / 16;
                    self.add(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn literals(expression: &IdedExpr, size: &mut Size) {
    let parts = children(expression);
    if matches!(expression.expr, Expr::List(_) | Expr::Map(_)) {
        size.longest = size.longest.max(parts.len());
    }
    size.total += 1;
    if let Expr::Literal(LiteralValue::String(text)) = &expression.expr {
        size.total += text.inner().len() as u64 / 16;
    }
    for part in parts {
        literals(part, size);
    }
}

fn additions(expression: &IdedExpr) -> u64 {
    let own = match &expression.expr {
        // The result of `map` and `filter` is appended to, which takes no longer than the loop.
        Expr::Call(call) => {
            let is_of_loop = call
                .args
                .first()
                .and_then(root)
                .is_some_and(|name| name.starts_with('@'));
            u64::from(call.func_name == "_+_" && !is_of_loop)
        }
        _ => 0,
    };
    own + children(expression).into_iter().map(additions).sum::<u64>()
}

struct Bounds {
    longest: u64,
    total: u64,
}

impl Bounds {
    /// The cost of an expression in a loop over this variable.
    fn cost(&self, expression: &IdedExpr, item: Option<&str>) -> u64 {
        let of = |part| self.cost(part, item);
        let parts = match &expression.expr {
            Expr::Comprehension(of) => return self.loop_cost(of, item),
            _ => children(expression)
                .into_iter()
                .map(of)
                .fold(0, u64::saturating_add),
        };
        parts
            .saturating_add(1)
            .saturating_add(self.own_cost(expression, item))
    }

    fn loop_cost(&self, of: &cel::common::ast::ComprehensionExpr, item: Option<&str>) -> u64 {
        let once = [&of.iter_range, &of.accu_init, &of.result].map(|part| self.cost(part, item));
        let step = [&of.loop_cond, &of.loop_step].map(|part| self.cost(part, Some(&of.iter_var)));
        let steps = self.longest.saturating_mul(sum(&step));
        // Each item is copied.
        sum(&once).saturating_add(steps).saturating_add(self.total)
    }

    /// The cost of an operation, without that of its operands.
    fn own_cost(&self, expression: &IdedExpr, item: Option<&str>) -> u64 {
        match &expression.expr {
            Expr::Call(call) => {
                let operands = call.target.as_deref().into_iter().chain(&call.args);
                let sizes = operands.map(|operand| self.size(operand, item));
                match &*call.func_name {
                    "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => sizes.min().unwrap_or_default(),
                    "_&&_" | "_||_" | "!_" | "_[_]" | "size" | "type" | "has" => 0,
                    "matches" => PATTERN.saturating_add(sizes.max().unwrap_or_default()),
                    name if name.starts_with('@') && name != "@in" => 0,
                    _ => sizes.fold(0, u64::saturating_add),
                }
            }
            // The parts of a new list or map are copied.
            Expr::List(_) | Expr::Map(_) => {
                let sizes = children(expression).into_iter().map(|part| self.size(part, item));
                sizes.fold(0, u64::saturating_add)
            }
            _ => 0,
        }
    }

    /// How large the value of an operand can be.
    fn size(&self, operand: &IdedExpr, item: Option<&str>) -> u64 {
        match &operand.expr {
            Expr::Literal(LiteralValue::String(text)) => text.inner().len() as u64 / 16,
            Expr::Literal(_) => 0,
            Expr::Call(call) if !matches!(&*call.func_name, "_[_]" | "_+_" | "_?_:_" | "dyn" | "string") => 0,
            Expr::List(_) => children(operand)
                .into_iter()
                .map(|part| self.size(part, item) + 1)
                .sum(),
            _ => match (root(operand), item) {
                // The result that a loop builds up.
                (Some(name), _) if name.starts_with('@') => 0,
                (Some(name), Some(item)) if name == item => self.total / self.longest.max(1) + 1,
                _ => self.total,
            },
        }
    }
}

fn sum(costs: &[u64]) -> u64 {
    costs.iter().copied().fold(0, u64::saturating_add)
}
