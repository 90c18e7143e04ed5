//! Strings.

use super::{
    super::{
        format, printf,
        value::{Elements, Value},
    },
    args::{Call, Function, at_least, exactly},
    cases,
    wrap::{self, slice},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "hello" => exactly(0, |_| Ok(Value::str("Hello!"))),
        "upper" => exactly(1, |c| Ok(cases::upper(&c.text(0)?).into())),
        "lower" => exactly(1, |c| Ok(cases::lower(&c.text(0)?).into())),
        "title" => exactly(1, |c| Ok(cases::title(&c.text(0)?).into())),
        "untitle" => exactly(1, |c| Ok(cases::untitle(&c.text(0)?).into())),
        "swapcase" => exactly(1, |c| Ok(cases::swap(&c.text(0)?).into())),
        "snakecase" => exactly(1, |c| Ok(cases::separated(&c.text(0)?, '_').into())),
        "kebabcase" => exactly(1, |c| Ok(cases::separated(&c.text(0)?, '-').into())),
        "camelcase" => exactly(1, |c| Ok(cases::camel(&c.text(0)?).into())),
        "trim" => exactly(1, |c| Ok(Value::str(c.text(0)?.trim()))),
        "trimall" | "trimAll" => exactly(2, |c| {
            let (set, text) = (c.text(0)?, c.text(1)?);
            c.heap.meter.check_memory(set.len().saturating_mul(8))?;
            let mut set: Vec<char> = set.chars().collect();
            set.sort_unstable();
            Ok(Value::str(text.trim_matches(|ch| set.binary_search(&ch).is_ok())))
        }),
        "trimSuffix" => exactly(2, |c| {
            let text = c.text(1)?;
            Ok(Value::str(text.strip_suffix(&*c.text(0)?).unwrap_or(&text)))
        }),
        "trimPrefix" => exactly(2, |c| {
            let text = c.text(1)?;
            Ok(Value::str(text.strip_prefix(&*c.text(0)?).unwrap_or(&text)))
        }),
        "nospace" => exactly(1, |c| Ok(wrap::without_spaces(&c.text(0)?).into())),
        "initials" => exactly(1, |c| Ok(wrap::initials(&c.text(0)?).into())),
        "contains" => exactly(2, |c| Ok(c.text(1)?.contains(&*c.text(0)?).into())),
        "hasPrefix" => exactly(2, |c| Ok(c.text(1)?.starts_with(&*c.text(0)?).into())),
        "hasSuffix" => exactly(2, |c| Ok(c.text(1)?.ends_with(&*c.text(0)?).into())),
        "repeat" => exactly(2, repeat),
        "replace" => exactly(3, replace),
        "substr" => exactly(3, substring),
        "trunc" => exactly(2, truncate),
        "abbrev" => exactly(2, |c| {
            let (width, text) = (c.int(0)?, c.text(1)?);
            abbreviate(&text, 0, width, 4).map(Value::from)
        }),
        "abbrevboth" => exactly(3, |c| {
            let (left, width, text) = (c.int(0)?, c.int(1)?, c.text(2)?);
            abbreviate(&text, left, width, if left > 0 { 7 } else { 4 }).map(Value::from)
        }),
        "wrap" => exactly(2, |c| {
            wrap::wrap(&c.text(1)?, c.count(0)?, "\n", false).map(Value::from)
        }),
        "wrapWith" => exactly(3, |c| {
            wrap::wrap(&c.text(2)?, c.count(0)?, &c.text(1)?, true).map(Value::from)
        }),
        "indent" => exactly(2, |c| indent(c).map(Value::from)),
        "nindent" => exactly(2, |c| Ok(format!("\n{}", indent(c)?).into())),
        "plural" => exactly(3, |c| {
            let (one, many) = (c.text(0)?, c.text(1)?);
            Ok(Value::Str(if c.int(2)? == 1 { one } else { many }))
        }),
        "quote" => at_least(0, |c| joined(c, |out, text| out.push_str(&format::quote(text)))),
        "squote" => at_least(0, |c| joined(c, |out, text| out.extend(["'", text, "'"]))),
        "cat" => at_least(0, |c| joined(c, String::push_str)),
        "toString" => exactly(1, |c| Ok(c.display(0)?.into())),
        "toStrings" => exactly(1, |c| {
            let items = strings_of(c, 0)?;
            c.heap.strings(items)
        }),
        "join" => exactly(2, |c| {
            let separator = c.text(0)?;
            let items = strings_of(c, 1)?;
            c.heap
                .meter
                .check_text(items.iter().map(String::len).sum::<usize>() + separator.len() * items.len())?;
            Ok(items.join(&separator).into())
        }),
        "sortAlpha" => exactly(1, sorted),
        "split" => exactly(2, |c| {
            let (separator, text) = (c.text(0)?, c.text(1)?);
            numbered(c, &text, &separator, None)
        }),
        "splitn" => exactly(3, |c| {
            let (separator, most, text) = (c.text(0)?, c.int(1)?, c.text(2)?);
            numbered(c, &text, &separator, usize::try_from(most).ok())
        }),
        "splitList" => exactly(2, |c| {
            let (separator, text) = (c.text(0)?, c.text(1)?);
            check_pieces(c, &text, &separator, size_of::<Value>() + TEXT)?;
            c.heap.strings(pieces(&text, &separator, None))
        }),
        "print" => at_least(0, |c| print(c, false)),
        "println" => at_least(0, |c| print(c, true)),
        "printf" => at_least(1, |c| {
            let (format, args) = (c.text(0)?, c.rest(1));
            printf::printf(c.heap, &format, &args).map(Value::from)
        }),
        _ => return None,
    })
}

fn repeat(c: &mut Call<'_>) -> Result<Value, String> {
    let (count, text) = (c.int(0)?, c.text(1)?);
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count".to_owned())?;
    c.heap.meter.check_text(text.len().saturating_mul(count))?;
    Ok(text.repeat(count).into())
}

fn replace(c: &mut Call<'_>) -> Result<Value, String> {
    let (old, new, text) = (c.text(0)?, c.text(1)?, c.text(2)?);
    // An empty `old` matches before every character and at the end.
    let count = text.matches(&*old).count();
    c.heap
        .meter
        .check_text(text.len() + count.saturating_mul(new.len()))?;
    Ok(text.replace(&*old, &new).into())
}

fn substring(c: &mut Call<'_>) -> Result<Value, String> {
    let (start, end, text) = (c.int(0)?, c.int(1)?, c.text(2)?);
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let end_of_text = if end < 0 || end > length { length } else { end };
    match (start, end) {
        (..0, end) => slice(&text, 0, end),
        (start, _) => slice(&text, start, end_of_text),
    }
    .map(Value::str)
}

fn truncate(c: &mut Call<'_>) -> Result<Value, String> {
    let (count, text) = (c.int(0)?, c.text(1)?);
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    match count {
        ..0 if length.saturating_add(count) > 0 => slice(&text, length.saturating_add(count), length),
        0.. if length > count => slice(&text, 0, count),
        _ => Ok(&*text),
    }
    .map(Value::str)
}

fn abbreviate(text: &str, offset: i64, width: i64, min_width: i64) -> Result<String, String> {
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if width < min_width || length <= width {
        return Ok(text.to_owned());
    }
    let kept = width - 3;
    let offset = if length - offset.min(length) < kept {
        length - kept
    } else {
        offset.min(length)
    };
    if offset <= 4 {
        return Ok(format!("{}...", slice(text, 0, kept)?));
    }
    if width < 7 {
        return Ok(String::new());
    }
    if offset + kept < length {
        let rest = slice(text, offset, length)?;
        // A width that is too small for the dots gives an empty text.
        let rest = if kept < 4 {
            String::new()
        } else {
            abbreviate(rest, 0, kept, 4)?
        };
        return Ok(format!("...{rest}"));
    }
    Ok(format!("...{}", slice(text, length - kept, length)?))
}

fn indent(c: &Call<'_>) -> Result<String, String> {
    let (spaces, text) = (c.int(0)?, c.text(1)?);
    let spaces = usize::try_from(spaces).map_err(|_| "strings: negative Repeat count".to_owned())?;
    let lines = text.matches('\n').count() + 1;
    if spaces.saturating_mul(lines) > super::super::budget::MAX_TEXT {
        return Err("the text would be too long".to_owned());
    }
    let pad = " ".repeat(spaces);
    Ok(format!("{pad}{}", text.replace('\n', &format!("\n{pad}"))))
}

/// The elements of a list as texts, sorted. Sprig sorts a list of strings in place.
fn sorted(c: &mut Call<'_>) -> Result<Value, String> {
    let mut items = match c.any(0) {
        Value::List(_) => strings_of(c, 0)?,
        _ => vec![c.display(0)?],
    };
    items.sort();
    match c.any(0) {
        Value::List(list) if c.heap.elements(list) == Elements::Strings => {
            let items = items
                .iter()
                .map(|item| c.heap.text(item))
                .collect::<Result<_, _>>()?;
            c.heap.replace_items(list, items)?;
            Ok(Value::List(list))
        }
        _ => c.heap.strings(items),
    }
}

/// The arguments that are not nil, with a space between them. The length is checked after each.
fn joined(c: &mut Call<'_>, write: fn(&mut String, &str)) -> Result<Value, String> {
    let (mut out, mut is_first) = (String::new(), true);
    for value in c.args.iter().filter(|value| !matches!(value, Value::Nil)) {
        if !std::mem::take(&mut is_first) {
            out.push(' ');
        }
        write(&mut out, &format::display(c.heap, value)?);
        c.heap.meter.check_text(out.len())?;
    }
    Ok(out.into())
}

/// The elements of a list as texts; any other value as one text.
pub fn strings_of(c: &mut Call<'_>, index: usize) -> Result<Vec<String>, String> {
    let items = match c.any(index) {
        Value::List(list) => c.heap.items_of(list)?,
        other => vec![other],
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        if !matches!(item, Value::Nil) {
            texts.push(format::display(c.heap, &item)?);
        }
    }
    Ok(texts)
}

/// Bytes of a text, and of an entry of a map, in addition to its content.
const TEXT: usize = 32;
const ENTRY: usize = 160;

/// Fails for a text with too many pieces, each of which takes `each` bytes.
fn check_pieces(c: &Call<'_>, text: &str, separator: &str, each: usize) -> Result<(), String> {
    let count = if separator.is_empty() {
        text.len()
    } else {
        text.matches(separator).count() + 1
    };
    c.heap.meter.charge_each(count, 100)?;
    c.heap.meter.check_memory(count.saturating_mul(each))
}

fn pieces<'t>(text: &'t str, separator: &str, most: Option<usize>) -> Vec<&'t str> {
    if most == Some(0) {
        return Vec::new();
    }
    if separator.is_empty() {
        // Each character is a piece; the last piece is the rest of the text.
        let mut starts: Vec<_> = text.char_indices().map(|(start, _)| start).collect();
        starts.truncate(most.unwrap_or(usize::MAX));
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        return starts
            .iter()
            .zip(ends)
            .filter_map(|(start, end)| text.get(*start..end))
            .collect();
    }
    match most {
        Some(most) => text.splitn(most, separator).collect(),
        None => text.split(separator).collect(),
    }
}

/// `_0`, `_1` and so on.
fn numbered(c: &mut Call<'_>, text: &str, separator: &str, most: Option<usize>) -> Result<Value, String> {
    check_pieces(c, text, separator, ENTRY + TEXT)?;
    let entries = pieces(text, separator, most)
        .into_iter()
        .enumerate()
        .map(|(index, piece)| Ok((format!("_{index}"), c.heap.text(piece)?)))
        .collect::<Result<_, String>>()?;
    c.heap.map(Elements::Strings, entries)
}

/// `print` writes a space between two arguments if neither is a text, `println` between all.
fn print(c: &mut Call<'_>, is_line: bool) -> Result<Value, String> {
    let args = c.rest(0);
    let text = sprint(c, &args, is_line)?;
    Ok(text.into())
}

/// `fmt.Sprint` and `fmt.Sprintln`.
pub fn sprint(c: &mut Call<'_>, args: &[Value], is_line: bool) -> Result<String, String> {
    let mut out = String::new();
    let mut was_text = true;
    for (index, value) in args.iter().enumerate() {
        let is_text = matches!(value, Value::Str(_));
        if index > 0 && (is_line || !(is_text || was_text)) {
            out.push(' ');
        }
        out.push_str(&format::display(c.heap, value)?);
        c.heap.meter.check_text(out.len())?;
        was_text = is_text;
    }
    if is_line {
        out.push('\n');
    }
    Ok(out)
}
