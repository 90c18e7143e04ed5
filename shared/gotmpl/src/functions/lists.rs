//! Lists.

use std::fmt::Write as _;

use super::{
    super::value::{Elements, Value},
    args::{Call, Function, at_least, exactly, is_empty, to_int64},
};

/// Work for each number that is created.
const NUMBER: u64 = 40;

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "list" | "tuple" => at_least(0, |c| {
            let items = c.rest(0);
            c.heap.list(Elements::Any, items)
        }),
        "append" | "push" | "mustAppend" | "mustPush" => exactly(2, |c| {
            let mut items = c.list(0, "push on")?;
            items.push(c.any(1));
            c.heap.list(Elements::Any, items)
        }),
        "prepend" | "mustPrepend" => exactly(2, |c| {
            let mut items = c.list(0, "prepend on")?;
            items.insert(0, c.any(1));
            c.heap.list(Elements::Any, items)
        }),
        "first" | "mustFirst" => exactly(1, |c| {
            Ok(c.list(0, "find first on")?.first().cloned().unwrap_or(Value::Nil))
        }),
        "last" | "mustLast" => exactly(1, |c| {
            Ok(c.list(0, "find last on")?.last().cloned().unwrap_or(Value::Nil))
        }),
        "rest" | "mustRest" => exactly(1, |c| {
            let items = c.list(0, "find rest on")?;
            part(c, items.get(1..))
        }),
        "initial" | "mustInitial" => exactly(1, |c| {
            let items = c.list(0, "find initial on")?;
            part(c, items.split_last().map(|(_, initial)| initial))
        }),
        "reverse" | "mustReverse" => exactly(1, |c| {
            let items = c.list(0, "find reverse on")?.into_iter().rev().collect();
            c.heap.list(Elements::Any, items)
        }),
        "compact" | "mustCompact" => exactly(1, |c| {
            let mut items = c.list(0, "compact on")?;
            items.retain(|item| !is_empty(c.heap, item));
            c.heap.list(Elements::Any, items)
        }),
        "uniq" | "mustUniq" => exactly(1, |c| {
            let items = c.list(0, "find uniq on")?;
            let mut kept = Vec::new();
            for item in items {
                if !holds(c, &kept, &item)? {
                    kept.push(item);
                }
            }
            c.heap.list(Elements::Any, kept)
        }),
        "without" | "mustWithout" => at_least(1, |c| {
            let (items, others) = (c.list(0, "find without on")?, c.rest(1));
            let mut kept = Vec::new();
            for item in items {
                if !holds(c, &others, &item)? {
                    kept.push(item);
                }
            }
            c.heap.list(Elements::Any, kept)
        }),
        "has" | "mustHas" => exactly(2, |c| {
            if matches!(c.any(1), Value::Nil) {
                return Ok(false.into());
            }
            let (items, item) = (c.list(1, "find has on")?, c.any(0));
            holds(c, &items, &item).map(Value::from)
        }),
        "slice" | "mustSlice" => at_least(1, slice),
        "concat" => at_least(0, |c| {
            let mut items = Vec::new();
            for index in 0..c.args.len() {
                items.extend(c.list(index, "concat")?);
                c.heap.meter.check_memory(items.len() * size_of::<Value>())?;
            }
            c.heap.list_or_nil(Elements::Any, items)
        }),
        "chunk" | "mustChunk" => exactly(2, chunk),
        "until" => exactly(1, |c| {
            let count = c.int(0)?;
            numbers(c, 0, count, if count < 0 { -1 } else { 1 })
        }),
        "untilStep" => exactly(3, |c| {
            let (start, end, step) = (c.int(0)?, c.int(1)?, c.int(2)?);
            numbers(c, start, end, step)
        }),
        "seq" => at_least(0, seq),
        "index" => at_least(1, index),
        "len" => exactly(1, |c| {
            let length = match c.any(0) {
                Value::Str(text) => text.len(),
                Value::List(list) => c.heap.items(list).len(),
                Value::Map(map) => c.heap.len(map),
                Value::Nil => return Err("len of nil pointer".to_owned()),
                other => return Err(format!("len of type {}", c.heap.type_of(&other))),
            };
            Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
        }),
        _ => return None,
    })
}

/// A part of a list, or a nil slice if the list is empty.
fn part(c: &mut Call<'_>, items: Option<&[Value]>) -> Result<Value, String> {
    match items {
        Some(items) => c.heap.list(Elements::Any, items.to_vec()),
        None => c.heap.list_or_nil(Elements::Any, Vec::new()),
    }
}

fn holds(c: &mut Call<'_>, items: &[Value], item: &Value) -> Result<bool, String> {
    for other in items {
        if c.heap.deep_equal(item, other, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn slice(c: &mut Call<'_>) -> Result<Value, String> {
    let Value::List(list) = c.any(0) else {
        return Err(format!(
            "list should be type of slice or array but {}",
            c.any(0).kind()
        ));
    };
    let items = c.heap.items_of(list)?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |index: usize, other: usize| match c.args.get(index) {
        Some(value) => usize::try_from(to_int64(value)).ok(),
        None => Some(other),
    };
    let bounds = bound(1, 0).zip(bound(2, items.len()));
    let kept = bounds.and_then(|(start, end)| items.get(start..end));
    match kept {
        Some(kept) => c.heap.list(c.heap.elements(list), kept.to_vec()),
        None => Err("reflect.Value.Slice: slice index out of bounds".to_owned()),
    }
}

fn chunk(c: &mut Call<'_>) -> Result<Value, String> {
    let (size, items) = (c.int(0)?, c.list(1, "chunk")?);
    let size = usize::try_from(size)
        .ok()
        .filter(|size| *size > 0)
        .ok_or("chunks need a size of at least 1")?;
    let chunks = items
        .chunks(size)
        .map(|chunk| c.heap.list(Elements::Any, chunk.to_vec()))
        .collect::<Result<_, _>>()?;
    c.heap.list(Elements::Lists, chunks)
}

fn numbers(c: &mut Call<'_>, start: i64, end: i64, step: i64) -> Result<Value, String> {
    let items = steps(c, start, end, step)?.into_iter().map(Value::Int).collect();
    c.heap.list(Elements::Ints, items)
}

/// The numbers from `start` in steps to `end`, which is excluded.
fn steps(c: &mut Call<'_>, start: i64, end: i64, step: i64) -> Result<Vec<i64>, String> {
    let goes_there = if end < start { step < 0 } else { step > 0 };
    if !goes_there {
        return Ok(Vec::new());
    }
    let count = start.abs_diff(end).div_ceil(step.unsigned_abs());
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    c.heap.meter.charge_each(count, NUMBER)?;
    c.heap
        .meter
        .check_memory(count.saturating_mul(2 * size_of::<Value>()))?;
    Ok(
        std::iter::successors(Some(start), |number| number.checked_add(step))
            .take_while(|number| if step < 0 { *number > end } else { *number < end })
            .collect(),
    )
}

/// Numbers as a text, like the command `seq`.
fn seq(c: &mut Call<'_>) -> Result<Value, String> {
    let params = (0..c.args.len())
        .map(|index| c.int(index))
        .collect::<Result<Vec<_>, _>>()?;
    let (start, step, end) = match params.as_slice() {
        [end] => (1, if *end < 1 { -1 } else { 1 }, *end),
        [start, end] => (*start, if end < start { -1 } else { 1 }, *end),
        [start, step, end] if end < start && *step > 0 => return Ok(Value::str("")),
        [start, step, end] => (*start, *step, *end),
        _ => return Ok(Value::str("")),
    };
    let beyond = end.saturating_add(if end < start { -1 } else { 1 });
    let numbers = steps(c, start, beyond, step)?;
    let mut out = String::new();
    for number in numbers {
        c.heap.meter.check_text(out.len())?;
        if !out.is_empty() {
            out.push(' ');
        }
        // Writing into a string cannot fail.
        _ = write!(out, "{number}");
    }
    Ok(out.into())
}

fn index(c: &mut Call<'_>) -> Result<Value, String> {
    let mut item = c.any(0);
    if matches!(item, Value::Nil) {
        return Err("index of untyped nil".to_owned());
    }
    for key in c.rest(1) {
        c.heap.charge_steps(1)?;
        if let Value::Str(key) = &key {
            c.heap.charge_read(key.len())?;
        }
        item = match &item {
            Value::List(list) => {
                let items = c.heap.items(*list);
                let index = position(c, &key, items.len())?;
                match items.get(index) {
                    Some(item) => item.clone(),
                    None => return Err("reflect: slice index out of range".to_owned()),
                }
            }
            Value::Str(text) => {
                let index = position(c, &key, text.len())?;
                match text.as_bytes().get(index) {
                    Some(byte) => Value::Int(i64::from(*byte)),
                    None => return Err("reflect: string index out of range".to_owned()),
                }
            }
            Value::Map(map) => match &key {
                Value::Str(key) => {
                    let missing = match c.heap.map_elements(*map) {
                        Elements::Strings => Value::str(""),
                        Elements::Any | Elements::Ints | Elements::Lists => Value::Nil,
                    };
                    c.heap.get(*map, key).cloned().unwrap_or(missing)
                }
                Value::Nil => return Err("value is nil; should be of type string".to_owned()),
                other => {
                    let name = c.heap.type_of(other);
                    return Err(format!("value has type {name}; should be string"));
                }
            },
            Value::Nil => return Err("index of nil pointer".to_owned()),
            other => return Err(format!("can't index item of type {}", c.heap.type_of(other))),
        };
    }
    Ok(item)
}

fn position(c: &Call<'_>, key: &Value, length: usize) -> Result<usize, String> {
    let Some(number) = key.integer() else {
        return Err(match key {
            Value::Nil => "cannot index slice/array with nil".to_owned(),
            other => format!("cannot index slice/array with type {}", c.heap.type_of(other)),
        });
    };
    usize::try_from(number)
        .ok()
        .filter(|index| *index <= length)
        .ok_or_else(|| "index out of range".to_owned())
}
