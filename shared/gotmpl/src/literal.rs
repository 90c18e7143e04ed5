//! String and character literals in a template: `strconv.Unquote`.

/// The value of a string literal.
pub fn unquote(literal: &str) -> Result<String, String> {
    let inner = literal
        .get(1..literal.len().saturating_sub(1))
        .unwrap_or_default();
    if literal.starts_with('`') {
        return Ok(inner.replace('\r', ""));
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, '"', &mut bytes)?,
            '\n' => return Err(invalid(literal)),
            c => push(&mut bytes, c),
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("{literal} is not valid UTF-8"))
}

/// The value of a character literal such as `'a'`.
pub fn character(literal: &str) -> Result<char, String> {
    let malformed = || format!("malformed character constant: {literal}");
    let mut rest = literal.strip_prefix('\'').ok_or_else(malformed)?.chars();
    let mut bytes = Vec::new();
    match rest.next().ok_or_else(malformed)? {
        '\\' => escape(&mut rest, '\'', &mut bytes)?,
        '\'' => return Err(malformed()),
        c => push(&mut bytes, c),
    }
    if rest.as_str() != "'" {
        return Err(malformed());
    }
    let text = String::from_utf8(bytes).map_err(|_| malformed())?;
    text.chars().next().ok_or_else(malformed)
}

fn escape(rest: &mut std::str::Chars<'_>, quote: char, out: &mut Vec<u8>) -> Result<(), String> {
    let invalid_escape = || "invalid syntax in an escape sequence".to_owned();
    let c = rest.next().ok_or_else(invalid_escape)?;
    match c {
        'a' => out.push(7),
        'b' => out.push(8),
        'f' => out.push(12),
        'n' => out.push(b'\n'),
        'r' => out.push(b'\r'),
        't' => out.push(b'\t'),
        'v' => out.push(11),
        '\\' => out.push(b'\\'),
        c if c == quote => push(out, c),
        'x' => out.push(
            u8::try_from(digits(rest, 2, 16).ok_or_else(invalid_escape)?).map_err(|_| invalid_escape())?,
        ),
        'u' => push(out, code(digits(rest, 4, 16)).ok_or_else(invalid_escape)?),
        'U' => push(out, code(digits(rest, 8, 16)).ok_or_else(invalid_escape)?),
        '0'..='7' => {
            let first = c.to_digit(8).ok_or_else(invalid_escape)?;
            let others = digits(rest, 2, 8).ok_or_else(invalid_escape)?;
            out.push(u8::try_from(first * 64 + others).map_err(|_| invalid_escape())?);
        }
        _ => return Err(invalid_escape()),
    }
    Ok(())
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    (0..count).try_fold(0_u32, |number, _| {
        number
            .checked_mul(radix)?
            .checked_add(rest.next()?.to_digit(radix)?)
    })
}

fn code(number: Option<u32>) -> Option<char> {
    char::from_u32(number?)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn invalid(literal: &str) -> String {
    format!("invalid syntax: {literal}")
}
