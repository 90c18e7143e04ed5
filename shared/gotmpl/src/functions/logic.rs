//! Comparisons, defaults and reflection.

use std::{cmp::Ordering, rc::Rc};

use super::{
    super::{heap::Heap, value::Value},
    args::{Call, Function, at_least, exactly, is_empty},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "not" => exactly(1, |c| Ok((!c.heap.is_true(&c.any(0))).into())),
        "eq" => at_least(1, |c| equal(c).map(Value::from)),
        "ne" => exactly(2, |c| Ok((!equal(c)?).into())),
        "lt" => exactly(2, |c| Ok((order(c)? == Some(Ordering::Less)).into())),
        "le" => exactly(2, |c| {
            Ok(matches!(order(c)?, Some(Ordering::Less | Ordering::Equal)).into())
        }),
        // Go negates `le` and `lt` for these, so they are true for NaN.
        "gt" => exactly(2, |c| {
            Ok((!matches!(order(c)?, Some(Ordering::Less | Ordering::Equal))).into())
        }),
        "ge" => exactly(2, |c| Ok((order(c)? != Some(Ordering::Less)).into())),
        "default" => at_least(1, |c| {
            Ok(c.any(usize::from(c.args.len() > 1 && !is_empty(c.heap, &c.any(1)))))
        }),
        "empty" => exactly(1, |c| Ok(is_empty(c.heap, &c.any(0)).into())),
        "coalesce" => at_least(0, |c| {
            let values = c.rest(0);
            let found = values.into_iter().find(|value| !is_empty(c.heap, value));
            Ok(found.unwrap_or(Value::Nil))
        }),
        "all" => at_least(0, |c| {
            Ok(c.args.iter().all(|value| !is_empty(c.heap, value)).into())
        }),
        "any" => at_least(0, |c| {
            Ok(c.args.iter().any(|value| !is_empty(c.heap, value)).into())
        }),
        "ternary" => exactly(3, |c| Ok(c.any(usize::from(!c.flag(2)?)))),
        "fail" => exactly(1, |c| Err(c.text(0)?.to_string())),
        "typeOf" => exactly(1, |c| Ok(Value::str(c.heap.type_of(&c.any(0))))),
        "typeIs" => exactly(2, |c| Ok((*c.text(0)? == *c.heap.type_of(&c.any(1))).into())),
        // A pointer type is like the type that it points to.
        "typeIsLike" => exactly(2, |c| {
            let found = c.heap.type_of(&c.any(1));
            let expected = c.text(0)?;
            Ok((*expected == *found || found.strip_prefix('*') == Some(&expected)).into())
        }),
        "kindOf" => exactly(1, |c| Ok(Value::str(c.any(0).kind()))),
        "kindIs" => exactly(2, |c| Ok((*c.text(0)? == *c.any(1).kind()).into())),
        "deepEqual" => exactly(2, |c| {
            let (one, other) = (c.any(0), c.any(1));
            c.heap.deep_equal(&one, &other, 0).map(Value::from)
        }),
        "deepCopy" | "mustDeepCopy" => exactly(1, |c| {
            let value = c.any(0);
            if matches!(value, Value::Nil) {
                return Err("there is nothing to copy".to_owned());
            }
            c.heap.deep_copy(&value, 0)
        }),
        _ => return None,
    })
}

fn equal(c: &mut Call<'_>) -> Result<bool, String> {
    if c.args.len() < 2 {
        return Err("missing argument for comparison".to_owned());
    }
    let one = c.any(0);
    for other in c.rest(1) {
        if equals(c.heap, &one, &other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equals(heap: &Heap, one: &Value, other: &Value) -> Result<bool, String> {
    if let (Some(one), Some(other)) = (one.integer(), other.integer()) {
        return Ok(one == other);
    }
    Ok(match (one, other) {
        (Value::Nil, Value::Nil) => true,
        (Value::Nil, _) | (_, Value::Nil) => false,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Float(one), Value::Float(other)) => one.partial_cmp(other) == Some(Ordering::Equal),
        (Value::Str(one), Value::Str(other)) => one == other,
        // Go compares pointers.
        (Value::Version(one), Value::Version(other)) => Rc::ptr_eq(one, other),
        (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) => {
            return Err(format!("non-comparable type {}", heap.type_of(other)));
        }
        _ => return Err(incompatible(heap, one, other)),
    })
}

fn order(c: &Call<'_>) -> Result<Option<Ordering>, String> {
    let (one, other) = (c.any(0), c.any(1));
    if let (Some(one), Some(other)) = (one.integer(), other.integer()) {
        return Ok(Some(one.cmp(&other)));
    }
    match (&one, &other) {
        (Value::Float(one), Value::Float(other)) => Ok(one.partial_cmp(other)),
        (Value::Str(one), Value::Str(other)) => Ok(Some(one.cmp(other))),
        (Value::Nil | Value::Version(_) | Value::List(_) | Value::Map(_), _)
        | (_, Value::Nil | Value::Version(_) | Value::List(_) | Value::Map(_))
        | (Value::Bool(_), Value::Bool(_)) => Err("invalid type for comparison".to_owned()),
        _ => Err(incompatible(c.heap, &one, &other)),
    }
}

fn incompatible(heap: &Heap, one: &Value, other: &Value) -> String {
    format!(
        "incompatible types for comparison: {} and {}",
        heap.type_of(one),
        heap.type_of(other)
    )
}
