//! Walks the syntax tree of an expression.

use std::collections::BTreeSet;

use cel::{
    IdedExpr,
    common::ast::{EntryExpr, Expr, IdedEntryExpr},
};

/// The parts of an expression, of a loop in the order of their evaluation.
pub fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(of) => vec![
            &of.iter_range,
            &of.accu_init,
            &of.loop_cond,
            &of.loop_step,
            &of.result,
        ],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => of_entries(&map.entries),
        Expr::Struct(of) => of_entries(&of.entries),
        Expr::Select(select) => vec![&select.operand],
    }
}

fn of_entries(entries: &[IdedEntryExpr]) -> Vec<&IdedExpr> {
    let parts = entries.iter().flat_map(|entry| match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    });
    parts.collect()
}

/// The variables of an expression that are not those of its loops.
pub fn variables(expression: &IdedExpr) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    collect(expression, &mut Vec::new(), &mut found);
    found
}

fn collect<'e>(expression: &'e IdedExpr, bound: &mut Vec<&'e str>, found: &mut BTreeSet<&'e str>) {
    match &expression.expr {
        Expr::Ident(name) if !bound.contains(&&**name) => {
            found.insert(name);
        }
        Expr::Comprehension(of) => {
            collect(&of.iter_range, bound, found);
            let outer = bound.len();
            bound.extend([&*of.iter_var, &*of.accu_var]);
            bound.extend(of.iter_var2.as_deref());
            for part in [&of.accu_init, &of.loop_cond, &of.loop_step, &of.result] {
                collect(part, bound, found);
            }
            bound.truncate(outer);
        }
        _ => children(expression)
            .into_iter()
            .for_each(|part| collect(part, bound, found)),
    }
}

/// The fields that an expression reads or tests.
pub fn fields(expression: &IdedExpr) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut rest = vec![expression];
    while let Some(expression) = rest.pop() {
        if let Expr::Select(select) = &expression.expr {
            found.insert(&*select.field);
        }
        rest.extend(children(expression));
    }
    found
}

/// The variable that a field or an item is read from, such as `a` for `a.b[0].c`.
pub fn root(expression: &IdedExpr) -> Option<&str> {
    let mut expression = expression;
    loop {
        expression = match &expression.expr {
            Expr::Ident(name) => return Some(name),
            Expr::Select(select) => &select.operand,
            Expr::Call(call) if call.func_name == "_[_]" => call.args.first()?,
            _ => return None,
        };
    }
}
