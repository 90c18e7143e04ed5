//! Regular expressions.

use regex::{Captures, Regex};

use super::{
    super::{
        pattern_cache::Pattern,
        patterns,
        value::{Elements, Value},
    },
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
            if found.is_empty() {
                return c.heap.list_or_nil(Elements::Strings, Vec::new());
            }
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

/// Writes a replacement with its groups expanded (`Regexp.Expand`), one group at a time, because each can be as long as the
/// whole text.
fn expand(c: &Call<'_>, found: &Captures<'_>, new: &str, out: &mut String) -> Result<(), String> {
    c.heap.charge_read(new.len())?;
    let mut rest = new;
    while let Some((text, after)) = rest.split_once('$') {
        out.push_str(text);
        rest = match (after.strip_prefix('$'), group_name(after)) {
            (Some(after), _) => {
                out.push('$');
                after
            }
            (None, Some((name, after))) => {
                out.push_str(group(found, name));
                after
            }
            (None, None) => {
                out.push('$');
                after
            }
        };
        c.heap.meter.check_text(out.len())?;
    }
    out.push_str(rest);
    c.heap.meter.check_text(out.len())
}

/// The name or number after a `$`, with or without braces, and what follows it.
fn group_name(text: &str) -> Option<(&str, &str)> {
    let is_name = |c: char| c == '_' || c.is_alphanumeric();
    let (name, after) = if let Some(inner) = text.strip_prefix('{') {
        inner.split_once('}')?
    } else {
        text.split_at_checked(text.find(|c| !is_name(c)).unwrap_or(text.len()))?
    };
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, after))
}

/// The text of a group; empty if there is none. A number has no leading zero.
fn group<'t>(found: &Captures<'t>, name: &str) -> &'t str {
    let is_number = name.bytes().all(|c| c.is_ascii_digit());
    let group = match (is_number, name) {
        (false, _) => found.name(name),
        (true, "0") => found.get(0),
        (true, _) if name.starts_with('0') => None,
        (true, _) => name.parse().ok().and_then(|number| found.get(number)),
    };
    group.map_or("", |group| group.as_str())
}

fn split(c: &mut Call<'_>) -> Result<Value, String> {
    let (pattern, text, count) = (compile(c)?, c.text(1)?, c.int(2)?);
    if count == 0 {
        return c.heap.list_or_nil(Elements::Strings, Vec::new());
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
