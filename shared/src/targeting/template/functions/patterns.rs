//! Regular expressions, and ranges of versions.

use regex::{NoExpand, Regex};

use super::{
    super::value::Value,
    args::{Call, Function, exactly},
};
use crate::policy::expression;

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "regexMatch" => exactly(2, |c| {
            let (_, text) = (c.text(0)?, c.text(1)?);
            // Go's function says no where it cannot read the expression.
            Ok(compile(c).is_ok_and(|regex| regex.is_match(&text)).into())
        }),
        "mustRegexMatch" => exactly(2, |c| Ok(compile(c)?.is_match(&c.text(1)?).into())),
        "regexFind" | "mustRegexFind" => exactly(2, |c| {
            let (regex, text) = (compile(c)?, c.text(1)?);
            Ok(Value::str(regex.find(&text).map_or("", |found| found.as_str())))
        }),
        "regexFindAll" | "mustRegexFindAll" => exactly(3, |c| {
            let (regex, text, most) = (compile(c)?, c.text(1)?, limit(c.int(2)?));
            let found: Vec<_> = regex
                .find_iter(&text)
                .take(most)
                .map(|found| found.as_str())
                .collect();
            c.heap.strings(found)
        }),
        "regexReplaceAll" | "mustRegexReplaceAll" => exactly(3, |c| {
            let (regex, text, new) = (compile(c)?, c.text(1)?, c.text(2)?);
            room(c, &regex, &text, new.len().max(text.len()))?;
            Ok(Value::str(&regex.replace_all(&text, &*new)))
        }),
        "regexReplaceAllLiteral" | "mustRegexReplaceAllLiteral" => exactly(3, |c| {
            let (regex, text, new) = (compile(c)?, c.text(1)?, c.text(2)?);
            room(c, &regex, &text, new.len())?;
            Ok(Value::str(&regex.replace_all(&text, NoExpand(&new))))
        }),
        "regexSplit" | "mustRegexSplit" => exactly(3, split),
        "regexQuoteMeta" => exactly(1, |c| Ok(quote_meta(&c.text(0)?).into())),
        _ => return None,
    })
}

fn compile(c: &Call<'_>) -> Result<Regex, String> {
    let text = c.text(0)?;
    let rewritten =
        expression::rewrite_with_groups(&text).map_err(|error| format!("regexp {text:?}: {error}"))?;
    Regex::new(&rewritten).map_err(|error| format!("regexp {text:?}: {error}"))
}

fn limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Refuses a replacement that would be too long before it is made.
fn room(c: &mut Call<'_>, regex: &Regex, text: &str, each: usize) -> Result<(), String> {
    let count = regex.find_iter(text).count();
    c.heap.spend(count)?;
    c.heap
        .spend_text(text.len().saturating_add(count.saturating_mul(each)))
}

fn split(c: &mut Call<'_>) -> Result<Value, String> {
    let (regex, text, count) = (compile(c)?, c.text(1)?, c.int(2)?);
    if count == 0 {
        return c.heap.strings([""; 0]);
    }
    if text.is_empty() && !c.text(0)?.is_empty() {
        return c.heap.strings([""]);
    }
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for found in regex.find_iter(&text).take(limit(count)) {
        if count > 0 && pieces.len() + 1 == limit(count) {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            pieces.push(text.get(start..end).unwrap_or_default());
        }
        start = found.end();
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
