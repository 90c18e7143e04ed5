//! Maps.

use std::collections::BTreeMap;

use super::{
    super::{
        format,
        heap::{Heap, check_depth},
        value::{Elements, Value},
    },
    args::{Call, Function, at_least, exactly, is_empty},
};

/// Work to compare a key with another one.
const COMPARISON: u64 = 20;

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "dict" => at_least(0, dict),
        "get" => exactly(2, |c| {
            let (map, key) = (c.map(0)?, c.text(1)?);
            Ok(c.heap.get(map, &key).cloned().unwrap_or_else(|| Value::str("")))
        }),
        "set" => exactly(3, |c| {
            let (map, key, value) = (c.map(0)?, c.text(1)?, c.any(2));
            if matches!(c.any(0), Value::Nil) {
                return Err("assignment to entry in nil map".to_owned());
            }
            c.heap.set(map, &key, value)?;
            Ok(Value::Map(map))
        }),
        "unset" => exactly(2, |c| {
            let (map, key) = (c.map(0)?, c.text(1)?);
            c.heap.unset(map, &key)?;
            Ok(Value::Map(map))
        }),
        "hasKey" => exactly(2, |c| {
            let (map, key) = (c.map(0)?, c.text(1)?);
            Ok(c.heap.get(map, &key).is_some().into())
        }),
        "pluck" => at_least(1, |c| {
            let key = c.text(0)?;
            let mut found = Vec::new();
            for index in 1..c.args.len() {
                let map = c.map(index)?;
                found.extend(c.heap.get(map, &key).cloned());
            }
            c.heap.list(Elements::Any, found)
        }),
        "keys" => at_least(0, |c| {
            let mut keys = Vec::new();
            for index in 0..c.args.len() {
                let map = c.map(index)?;
                let map = c.heap.map_of(map)?;
                for key in map.entries.keys() {
                    keys.push(c.heap.text(key)?);
                }
            }
            c.heap.list(Elements::Strings, keys)
        }),
        "values" => exactly(1, |c| {
            let map = c.map(0)?;
            c.heap.meter.check_memory(c.heap.len(map) * size_of::<Value>())?;
            let values = c.heap.map_of(map)?.entries.values().cloned().collect();
            c.heap.list(Elements::Any, values)
        }),
        "pick" => at_least(1, |c| select(c, true)),
        "omit" => at_least(1, |c| select(c, false)),
        "merge" | "mustMerge" => at_least(1, |c| merge_all(c, false)),
        "mergeOverwrite" | "mustMergeOverwrite" => at_least(1, |c| merge_all(c, true)),
        "dig" => at_least(0, dig),
        _ => return None,
    })
}

fn dict(c: &mut Call<'_>) -> Result<Value, String> {
    let args = c.rest(0);
    let mut entries = BTreeMap::new();
    for pair in args.chunks(2) {
        let key = pair.first().cloned().unwrap_or(Value::Nil);
        let key = format::display(c.heap, &key)?;
        c.heap.charge_steps(1)?;
        entries.insert(key, pair.get(1).cloned().unwrap_or_else(|| Value::str("")));
    }
    c.heap.map(Elements::Any, entries)
}

/// The entries whose keys are listed, or the other ones.
fn select(c: &mut Call<'_>, listed: bool) -> Result<Value, String> {
    let map = c.map(0)?;
    let keys = (1..c.args.len())
        .map(|index| c.text(index))
        .collect::<Result<Vec<_>, _>>()?;
    // Each key of the map is compared with each listed one.
    let compared = c.heap.len(map).saturating_mul(keys.len() + 1);
    c.heap.meter.charge_each(compared, COMPARISON)?;
    let map = c.heap.map_of(map)?;
    let entries = map
        .entries
        .iter()
        .filter(|(key, _)| keys.iter().any(|listed| **listed == ***key) == listed)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    c.heap.map(Elements::Any, entries)
}

fn merge_all(c: &mut Call<'_>, overwrites: bool) -> Result<Value, String> {
    let into = c.map(0)?;
    for index in 1..c.args.len() {
        let from = c.map(index)?;
        merge(c.heap, into, from, overwrites, 0)?;
    }
    Ok(Value::Map(into))
}

/// Merges a map into another one as `mergo` does: an empty value counts as missing.
fn merge(heap: &mut Heap, into: usize, from: usize, overwrites: bool, depth: usize) -> Result<(), String> {
    check_depth(depth)?;
    let from = heap.map_of(from)?;
    heap.charge_steps(from.entries.len())?;
    for (key, value) in &from.entries {
        let present = heap.get(into, key).cloned();
        match (&present, value) {
            (_, Value::Nil) if !overwrites => continue,
            (Some(Value::Map(present)), Value::Map(value)) if heap.len(*present) > 0 => {
                merge(heap, *present, *value, overwrites, depth + 1)?;
                continue;
            }
            _ => {}
        }
        if overwrites || present.is_none_or(|present| is_empty(heap, &present)) {
            heap.set(into, key, value.clone())?;
        }
    }
    Ok(())
}

/// `dig "a" "b" default map`
fn dig(c: &mut Call<'_>) -> Result<Value, String> {
    let count = c.args.len();
    if count < 3 {
        return Err("dig needs at least three arguments".to_owned());
    }
    let keys = (0..count - 2)
        .map(|index| c.text(index))
        .collect::<Result<Vec<_>, _>>()?;
    let mut map = c.map(count - 1)?;
    let Some((last, before)) = keys.split_last() else {
        return Ok(Value::Nil);
    };
    for (index, key) in before.iter().enumerate() {
        match c.heap.get(map, key) {
            None => return Ok(c.any(count - 2)),
            Some(Value::Map(next)) if c.heap.map_elements(*next) == Elements::Any => map = *next,
            Some(other) => {
                let type_name = c.heap.type_of(other);
                return Err(format!(
                    "the value of key number {} is a {type_name}, not a map[string]interface {{}}",
                    index + 1
                ));
            }
        }
    }
    Ok(c.heap.get(map, last).cloned().unwrap_or_else(|| c.any(count - 2)))
}
