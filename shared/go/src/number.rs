//! Numbers as Go reads and prints them.

/// `strconv.ParseInt(text, 0, 64)`: with a prefix for the base, underscores between digits, and a leading zero that
/// means octal.
pub fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let magnitude = i128::from(parse_uint(digits)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// `strconv.ParseUint(text, 0, 64)`.
pub fn parse_uint(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.get(1..)?)
    } else {
        (10, &*lower)
    };
    // An underscore is allowed between digits, and between the prefix and a digit.
    let has_prefix = digits.len() != lower.len();
    if digits.ends_with('_') || digits.contains("__") || (!has_prefix && digits.starts_with('_')) {
        return None;
    }
    let digits = digits.replace('_', "");
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

/// `strconv.ParseFloat(text, 64)`
pub fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    if lower.contains('_') {
        return has_valid_underscores(&lower).then(|| parse_float(&text.replace('_', "")))?;
    }
    if let Some(digits) = lower.strip_prefix("0x") {
        let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
        return hexadecimal_float(digits).map(|number| sign * number);
    }
    if !matches!(&*lower, "inf" | "infinity" | "nan")
        && !lower.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // Go returns an error: out of range.
    (number.is_finite() || !lower.starts_with(|c: char| c.is_ascii_digit() || c == '.')).then_some(number)
}

/// Whether each underscore is between two digits or after the prefix of the base.
fn has_valid_underscores(lower: &str) -> bool {
    let digits = lower
        .strip_prefix("0x")
        .map_or(lower, |_| lower.get(1..).unwrap_or_default());
    let pieces: Vec<&str> = digits.split('_').collect();
    let is_digit = |c: char| c.is_ascii_hexdigit() || c == 'x';
    pieces
        .windows(2)
        .all(|pair| matches!(pair, [one, two] if one.ends_with(is_digit) && two.starts_with(is_digit)))
}

/// The part of a hexadecimal number after `0x`: a mantissa and the exponent of 2 that must follow, such as `1.8p-3`.
fn hexadecimal_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() {
        return None;
    }
    let number = digits.chars().try_fold(0.0, |number: f64, c| {
        Some(number.mul_add(16.0, f64::from(c.to_digit(16)?)))
    })?;
    let exponent: i32 = exponent.parse().ok()?;
    let shift = i32::try_from(fraction.len().checked_mul(4)?).ok()?;
    let result = number * 2.0_f64.powi(exponent.checked_sub(shift)?);
    result.is_finite().then_some(result)
}

/// `%v` of a `float64`, which is `strconv.FormatFloat(number, 'g', -1, 64)`: the shortest text that parses to the same number,
/// with an exponent below 0.0001 and from a million on.
pub fn print_float(number: f64) -> String {
    if !number.is_finite() {
        return not_finite(number).to_owned();
    }
    let scientific = format!("{number:e}");
    let exponent: i32 = scientific
        .rsplit_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or_default();
    if number != 0.0 && !(-4..6).contains(&exponent) {
        return exponential(&scientific);
    }
    format!("{number}")
}

/// A number with an exponent as Go prints it: with a sign and at least two digits.
pub fn exponential(scientific: &str) -> String {
    let Some((mantissa, exponent)) = scientific.rsplit_once(['e', 'E']) else {
        return scientific.to_owned();
    };
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

/// The text for a number that is not finite.
pub fn not_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }
}
