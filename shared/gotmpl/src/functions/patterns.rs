//! Regular expressions.

use regex::{Captures, Regex};

use super::{
    super::{pattern_cache::Pattern, patterns, value::Value},
    args::{Call, Function, exactly},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "regexMatch" => exactly(2, |c| {
            let (pattern, text) = (c.text(0)?, c.text(1)?);
            // Go's function returns false for an invalid expression.
            let Ok(pattern) = patterns::compile(&c.heap.meter, &pattern)? else {
                return Ok(false.into());
            };
            is_match(c, &pattern, &text)
        }),
        "mustRegexMatch" => exactly(2, |c| {
            let pattern = compile(c)?;
            is_match(c, &pattern, &c.text(1)?)
        }),
        "regexFind" | "mustRegexFind" => exactly(2, |c| {
            let (pattern, text) = (compile(c)?, c.text(1)?);
            pattern.search(&c.heap.meter, text.len())?;
            Ok(Value::str(
                pattern.regex.find(&text).map_or("", |found| found.as_str()),
            ))
        }),
        "regexFindAll" | "mustRegexFindAll" => exactly(3, |c| {
            let (pattern, text, most) = (compile(c)?, c.text(1)?, limit(c.int(2)?));
            let found: Vec<_> = matches(c, &pattern, &text, most)?;
            c.heap
                .strings(found.into_iter().filter_map(|(start, end)| text.get(start..end)))
        }),
        "regexReplaceAll" | "mustRegexReplaceAll" => exactly(3, |c| {
            let new = c.text(2)?;
            replace(c, |found, out| expand(c, found, &new, out))
        }),
        "regexReplaceAllLiteral" | "mustRegexReplaceAllLiteral" => exactly(3, |c| {
            let new = c.text(2)?;
            replace(c, |_, out| {
                out.push_str(&new);
                c.heap.meter.check_text(out.len())
            })
        }),
        "regexSplit" | "mustRegexSplit" => exactly(3, split),
        "regexQuoteMeta" => exactly(1, |c| Ok(quote_meta(&c.text(0)?).into())),
        _ => return None,
    })
}

/// Work for each match and its check of the clock, in addition to the search of the whole text.
const MATCH: u64 = 800;

fn compile(c: &Call<'_>) -> Result<Pattern, String> {
    let compiled = patterns::compile(&c.heap.meter, &c.text(0)?)?;
    compiled.map_err(|why| format!("error parsing regexp: {why}"))
}

fn is_match(c: &Call<'_>, pattern: &Pattern, text: &str) -> Result<Value, String> {
    pattern.search(&c.heap.meter, text.len())?;
    Ok(pattern.regex.is_match(text).into())
}

fn limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Charges for a match. The search for it may read the whole rest of the text, so only the clock shows how long it took.
fn count(c: &Call<'_>) -> Result<(), String> {
    c.heap.meter.charge(MATCH)?;
    c.heap.meter.check_time()
}

/// The start and end of each match.
fn matches(c: &Call<'_>, pattern: &Pattern, text: &str, most: usize) -> Result<Vec<(usize, usize)>, String> {
    pattern.search(&c.heap.meter, text.len())?;
    let mut found = Vec::new();
    for one in pattern.regex.find_iter(text).take(most) {
        count(c)?;
        c.heap
            .meter
            .check_memory((found.len() + 1) * 4 * size_of::<usize>())?;
        found.push((one.start(), one.end()));
    }
    Ok(found)
}

/// Replaces all matches with what `write` writes.
fn replace(
    c: &Call<'_>,
    write: impl Fn(&Captures<'_>, &mut String) -> Result<(), String>,
) -> Result<Value, String> {
    let (pattern, text) = (compile(c)?, c.text(1)?);
    let regex: &Regex = &pattern.regex;
    // One search for the position of the match and one for its groups.
    pattern.search(&c.heap.meter, text.len().saturating_mul(2))?;
    let (mut out, mut end) = (String::new(), 0);
    for found in regex.captures_iter(&text) {
        count(c)?;
        let Some(whole) = found.get(0) else { continue };
        out.push_str(text.get(end..whole.start()).unwrap_or_default());
        let before = out.len();
        write(&found, &mut out)?;
        end = whole.end();
        c.heap.charge_read(out.len() - before)?;
    }
    out.push_str(text.get(end..).unwrap_or_default());
    Ok(out.into())
}

/// Writes a replacement with its groups expanded, one group at a time, because each can be as long as the whole text.
fn expand(c: &Call<'_>, found: &Captures<'_>, new: &str, out: &mut String) -> Result<(), String> {
    c.heap.charge_read(new.len())?;
    let mut rest = new;
    while !rest.is_empty() {
        let (one, after) = rest.split_at_checked(group_end(rest)).unwrap_or((rest, ""));
        found.expand(one, out);
        c.heap.meter.check_text(out.len())?;
        rest = after;
    }
    Ok(())
}

/// The start of the next group of a replacement, after the one at its start.
fn group_end(new: &str) -> usize {
    let name = match new.as_bytes() {
        // Braces can contain any text.
        [b'$', b'{', ..] => new.find('}').unwrap_or(1),
        [b'$', b'$', ..] => 2,
        _ => 1,
    };
    let after = new.as_bytes().iter().skip(name);
    name + after.take_while(|byte| **byte != b'$').count()
}

fn split(c: &mut Call<'_>) -> Result<Value, String> {
    let (pattern, text, count) = (compile(c)?, c.text(1)?, c.int(2)?);
    if count == 0 {
        return c.heap.strings([""; 0]);
    }
    if text.is_empty() && !c.text(0)?.is_empty() {
        return c.heap.strings([""]);
    }
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for found in matches(c, &pattern, &text, limit(count))? {
        if count > 0 && pieces.len() + 1 == limit(count) {
            break;
        }
        end = found.0;
        if found.1 != 0 {
            pieces.push(text.get(start..end).unwrap_or_default());
        }
        start = found.1;
    }
    if end != text.len() {
        pieces.push(text.get(start..).unwrap_or_default());
    }
    c.heap.strings(pieces)
}

fn quote_meta(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
