//! `printf`: Go's verbs, for the types of templates.

use std::fmt::Write as _;

use bounded_text::hex;
use go_formats::number::{exponential, not_finite, print_float};

use super::{
    budget::MAX_TEXT,
    format::{display, is_printable, quote, quote_char, quote_with},
    heap::Heap,
    value::Value,
};

/// The flags, width and precision between `%` and the verb.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Spec {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// `fmt.Sprintf`
pub fn printf(heap: &Heap, format: &str, args: &[Value]) -> Result<String, String> {
    let mut out = String::with_capacity(format.len() + 16);
    let mut args = args.iter();
    let mut rest = format;
    while let Some((text, after)) = rest.split_once('%') {
        out.push_str(text);
        let (spec, verb, after) = spec(after, &mut args, &mut out)?;
        rest = after;
        match verb {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(verb) => match args.next() {
                None => _ = write!(out, "%!{verb}(MISSING)"),
                Some(value) => out.push_str(&format_verb(heap, spec, verb, value)?),
            },
        }
        heap.charge_steps(1)?;
        heap.meter.check_text(out.len())?;
    }
    out.push_str(rest);
    let extra = args.as_slice();
    if !extra.is_empty() {
        out.push_str("%!(EXTRA ");
        for (index, value) in extra.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            match value {
                Value::Nil => out.push_str("<nil>"),
                other => {
                    heap.charge_steps(1)?;
                    // Writing into a string cannot fail.
                    _ = write!(out, "{}={}", heap.type_of(other), display(heap, other)?);
                }
            }
            heap.meter.check_text(out.len())?;
        }
        out.push(')');
    }
    Ok(out)
}

/// Flags, width and precision; then the verb and what follows it. A width or precision that is an argument (`*`) but not a
/// number is reported in the output.
fn spec<'t>(
    text: &'t str,
    args: &mut std::slice::Iter<'_, Value>,
    out: &mut String,
) -> Result<(Spec, Option<char>, &'t str), String> {
    let mut spec = Spec::default();
    let flags = text.len() - text.trim_start_matches(['+', '-', '#', ' ', '0']).len();
    let (flags, rest) = text.split_at_checked(flags).unwrap_or_default();
    for flag in flags.chars() {
        match flag {
            '+' => spec.plus = true,
            '-' => spec.minus = true,
            '#' => spec.sharp = true,
            ' ' => spec.space = true,
            _ => spec.zero = true,
        }
    }
    let rest = if let Some(rest) = rest.strip_prefix('*') {
        match argument(args) {
            Some(width) => {
                spec.minus |= width < 0;
                spec.width = usize::try_from(width.unsigned_abs()).unwrap_or_default();
            }
            None => out.push_str("%!(BADWIDTH)"),
        }
        rest
    } else {
        let (width, rest) = number(rest)?;
        spec.width = width.unwrap_or_default();
        rest
    };
    // Zeros on the right would change the number.
    spec.zero &= !spec.minus;
    let rest = if let Some(rest) = rest.strip_prefix(".*") {
        spec.precision = argument(args).and_then(|number| usize::try_from(number).ok());
        if spec.precision.is_none() {
            out.push_str("%!(BADPREC)");
        }
        rest
    } else if let Some(rest) = rest.strip_prefix('.') {
        let (precision, rest) = number(rest)?;
        spec.precision = Some(precision.unwrap_or_default());
        rest
    } else {
        rest
    };
    let verb = rest.chars().next();
    // For `v`, a plus adds the names of fields, which no value has.
    spec.plus &= verb != Some('v');
    if verb == Some('[') {
        return Err("printf: numbered arguments ([1]) are not supported".to_owned());
    }
    let rest = rest.get(verb.map_or(0, char::len_utf8)..).unwrap_or_default();
    Ok((spec, verb, rest))
}

/// A width or precision that is an argument: a number of at most a million.
fn argument(args: &mut std::slice::Iter<'_, Value>) -> Option<i64> {
    match args.next()? {
        Value::Int(number) | Value::Int64(number) => {
            Some(*number).filter(|number| number.unsigned_abs() <= 1_000_000)
        }
        _ => None,
    }
}

fn number(text: &str) -> Result<(Option<usize>, &str), String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, rest) = text.split_at_checked(digits).unwrap_or_default();
    if digits.is_empty() {
        return Ok((None, rest));
    }
    match digits.parse() {
        Ok(number) if number <= MAX_TEXT => Ok((Some(number), rest)),
        _ => Err(format!(
            "printf: a width or precision is too large; the maximum is {MAX_TEXT}"
        )),
    }
}

fn format_verb(heap: &Heap, spec: Spec, verb: char, value: &Value) -> Result<String, String> {
    let padding = spec.width.saturating_add(spec.precision.unwrap_or_default());
    heap.meter.check_memory(padding)?;
    heap.charge_read(padding)?;
    if verb == 'T' {
        return Ok(pad(spec, heap.type_of(value).to_owned()));
    }
    let text = match value {
        Value::Nil if verb == 'v' => pad(spec, "<nil>".to_owned()),
        Value::Nil => format!("%!{verb}(<nil>)"),
        Value::Bool(value) if matches!(verb, 't' | 'v') => pad(spec, value.to_string()),
        Value::Int(number) | Value::Int64(number) if "vdboOxXcqU".contains(verb) => {
            integer(spec, verb, *number)
        }
        Value::Float(number) if "veEfFgG".contains(verb) => float(spec, verb, *number)?,
        Value::Float(_) if "bxX".contains(verb) => {
            return Err(format!(
                "printf: %{verb} of a number with decimals is not supported"
            ));
        }
        Value::Str(text) if "xX".contains(verb) => {
            heap.meter
                .check_memory(text.len().saturating_mul(HEXADECIMAL_BYTE))?;
            string(spec, verb, text)
        }
        Value::Str(text) if "vsq".contains(verb) => string(spec, verb, text),
        Value::Version(version) if "vsqxX".contains(verb) => string(spec, verb, &version.to_string()),
        // Go prints the fields of the struct.
        Value::Version(_) => return Err(format!("printf: %{verb} of a version is not supported")),
        Value::List(_) | Value::Map(_) if spec.sharp => {
            return Err("printf: %#v of lists and maps is not supported".to_owned());
        }
        Value::List(list) => {
            let list = heap.list_of(*list)?;
            let mut out = "[".to_owned();
            for (index, item) in list.items.iter().enumerate() {
                heap.charge_steps(1)?;
                if index > 0 {
                    out.push(' ');
                }
                element(heap, &mut out, spec, verb, item)?;
            }
            out + "]"
        }
        Value::Map(map) => {
            let map = heap.map_of(*map)?;
            let mut out = "map[".to_owned();
            for (index, (key, item)) in map.entries.iter().enumerate() {
                heap.charge_steps(1)?;
                if index > 0 {
                    out.push(' ');
                }
                element(heap, &mut out, spec, verb, &Value::str(key))?;
                out.push(':');
                element(heap, &mut out, spec, verb, item)?;
            }
            out + "]"
        }
        other => {
            // With the flags and the width of the verb that does not exist for the type.
            let spec = Spec { sharp: false, ..spec };
            let text = format_verb(heap, spec, 'v', other)?;
            format!("%!{verb}({}={text})", heap.type_of(other))
        }
    };
    heap.charge_write(text.len())?;
    Ok(text)
}

/// Writes an element of a list or map. Nested lists and maps are not supported, because they could nest without limit.
fn element(heap: &Heap, out: &mut String, spec: Spec, verb: char, value: &Value) -> Result<(), String> {
    match value {
        Value::Nil => out.push_str("<nil>"),
        Value::List(_) | Value::Map(_) if verb == 'v' && spec.width == 0 => {
            out.push_str(&display(heap, value)?);
        }
        Value::List(_) | Value::Map(_) => {
            return Err(format!(
                "printf: %{verb} of lists and maps within others is not supported"
            ));
        }
        other => out.push_str(&format_verb(heap, spec, verb, other)?),
    }
    heap.meter.check_text(out.len())
}

fn integer(spec: Spec, verb: char, number: i64) -> String {
    let size = number.unsigned_abs();
    let (mut digits, prefix) = match verb {
        'b' => (format!("{size:b}"), "0b"),
        'o' | 'O' => (format!("{size:o}"), "0"),
        'x' => (format!("{size:x}"), "0x"),
        'X' => (format!("{size:X}"), "0X"),
        'c' | 'q' | 'U' => return character(spec, verb, number),
        _ => (size.to_string(), ""),
    };
    let sign = match (number < 0, spec.plus, spec.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        (false, false, false) => "",
    };
    let least = match spec.precision {
        Some(0) if number == 0 => return pad(Spec { zero: false, ..spec }, String::new()),
        Some(precision) => precision,
        None if spec.zero => spec.width.saturating_sub(sign.len()),
        None => 0,
    };
    if digits.len() < least {
        digits = zeros_before(&digits, least);
    }
    let prefix = match verb {
        'O' => "0o",
        'o' if digits.starts_with('0') => "",
        _ if spec.sharp => prefix,
        _ => "",
    };
    pad(Spec { zero: false, ..spec }, format!("{sign}{prefix}{digits}"))
}

fn character(spec: Spec, verb: char, number: i64) -> String {
    let known = u32::try_from(number).ok().and_then(char::from_u32);
    let c = known.unwrap_or(char::REPLACEMENT_CHARACTER);
    let text = match (verb, known) {
        ('c', _) => c.to_string(),
        ('q', _) => quote_char(c, spec.plus),
        (_, Some(c)) if spec.sharp && is_printable(c) => format!("U+{number:04X} '{c}'"),
        _ => format!("U+{number:04X}"),
    };
    pad(spec, text)
}

fn float(spec: Spec, verb: char, number: f64) -> Result<String, String> {
    if spec.sharp && verb != 'v' {
        return Err(format!("printf: %#{verb} of a number is not supported"));
    }
    let text = if number.is_finite() {
        match (verb, spec.precision) {
            ('e' | 'E', precision) => scientific(number, precision.unwrap_or(6)),
            ('f' | 'F', precision) => fixed(number, precision.unwrap_or(6)),
            (_, None) => print_float(number),
            // Further digits are zeros, which are omitted.
            (_, Some(precision)) => significant(number, precision.clamp(1, MAX_DIGITS)),
        }
    } else {
        not_finite(number).to_owned()
    };
    let text = if verb.is_ascii_uppercase() {
        text.to_uppercase()
    } else {
        text
    };
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) if text.starts_with('-') => ("-", digits),
        Some(digits) => (if spec.plus { "+" } else { "" }, digits),
        None if spec.plus => ("+", &*text),
        None if spec.space => (" ", &*text),
        None => ("", &*text),
    };
    // Go prints the sign of an infinity.
    let sign = if text == "+Inf" { "+" } else { sign };
    if spec.zero && number.is_finite() {
        let least = spec.width.saturating_sub(sign.len());
        return Ok(format!("{sign}{}", zeros_before(digits, least)));
    }
    Ok(pad(Spec { zero: false, ..spec }, format!("{sign}{digits}")))
}

/// How many decimal places a `float64` can have; further ones are zeros. The standard library formats at most 65,535 and
/// panics for more.
const MAX_DIGITS: usize = 1100;

fn zeros_before(digits: &str, least: usize) -> String {
    let missing = least.saturating_sub(digits.len());
    format!("{}{digits}", "0".repeat(missing))
}

/// `%.3f`
fn fixed(number: f64, precision: usize) -> String {
    let digits = precision.min(MAX_DIGITS);
    format!("{number:.digits$}{}", "0".repeat(precision - digits))
}

/// `%.3e`
fn scientific(number: f64, precision: usize) -> String {
    let digits = precision.min(MAX_DIGITS);
    let text = format!("{number:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    exponential(&format!(
        "{mantissa}{}e{exponent}",
        "0".repeat(precision - digits)
    ))
}

/// `%.3g`
fn significant(number: f64, precision: usize) -> String {
    let scientific = format!("{number:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or_default();
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    let limit = i64::try_from(precision).unwrap_or(i64::MAX);
    if exponent < -4 || exponent >= limit {
        return exponential(&format!("{}e{exponent}", trim(mantissa)));
    }
    let decimals = usize::try_from(limit - 1 - exponent)
        .unwrap_or_default()
        .min(MAX_DIGITS);
    trim(&format!("{number:.decimals$}"))
}

fn string(spec: Spec, verb: char, text: &str) -> String {
    let cut: String = match spec.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text.to_owned(),
    };
    let text = match verb {
        'q' if spec.sharp && can_backquote(&cut) => format!("`{cut}`"),
        'q' => quote_with(&cut, spec.plus),
        'x' => hexadecimal(spec, cut.as_bytes(), "0x"),
        'X' => hexadecimal(spec, cut.as_bytes(), "0X").to_ascii_uppercase(),
        'v' if spec.sharp => quote(&cut),
        _ => cut,
    };
    pad(spec, text)
}

/// The longest form of a byte: `0xff` and a space.
const HEXADECIMAL_BYTE: usize = 5;

/// `%x` of a string: the space flag separates the bytes, each with a prefix.
fn hexadecimal(spec: Spec, bytes: &[u8], prefix: &str) -> String {
    let prefix = if spec.sharp && !bytes.is_empty() {
        prefix
    } else {
        ""
    };
    if !spec.space {
        return format!("{prefix}{}", hex(bytes));
    }
    let mut out = String::with_capacity(bytes.len() * HEXADECIMAL_BYTE);
    for (index, byte) in bytes.iter().enumerate() {
        let separator = if index > 0 { " " } else { "" };
        // Writing into a string cannot fail.
        _ = write!(out, "{separator}{prefix}{byte:02x}");
    }
    out
}

/// `strconv.CanBackquote`
fn can_backquote(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c == '`' || c == '\u{feff}' || (c.is_ascii_control() && c != '\t'))
}

/// Pads to the width, which counts characters.
fn pad(spec: Spec, text: String) -> String {
    let missing = spec.width.saturating_sub(text.chars().count());
    if missing == 0 {
        return text;
    }
    if spec.minus {
        return format!("{text}{}", " ".repeat(missing));
    }
    let filler = if spec.zero { "0" } else { " " };
    format!("{}{text}", filler.repeat(missing))
}
