//! Limits as the documentation shows them: the values of constants, beside the largest values that real charts have.

use std::fmt;

/// How much larger a limit is than the largest value that was found, or there is a reason.
const MIN_FACTOR: u64 = 10;

/// A limit for something that has a size in real charts and repositories. [`limit!`] makes one of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub what: &'static str,
    /// The value, in `unit`.
    pub value: u64,
    /// Of the limit. The largest value is a plain number, also of bytes.
    pub unit: Unit,
    /// The largest value that was found.
    pub largest: u64,
    /// Where it was found; may be empty.
    pub found_in: &'static str,
    /// Why the limit is less than ten times the largest value; empty otherwise.
    pub reason: &'static str,
    /// The constant that has the value.
    pub constant: &'static str,
}

/// How a limit is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Number,
    /// Bytes, in MiB.
    MiB,
}

/// A [`Limit`] with the value and the name of a constant.
macro_rules! limit {
    ($what:literal: $constant:expr, $unit:ident, $largest:literal, $found_in:literal $(, $reason:literal)?) => {
        $crate::table::Limit {
            what: $what,
            value: $constant as u64,
            unit: $crate::table::Unit::$unit,
            largest: $largest,
            found_in: $found_in,
            reason: concat!("", $($reason)?),
            constant: stringify!($constant),
        }
    };
}
pub(crate) use limit;

/// A table of limits in Markdown.
///
/// # Errors
/// If a limit is less than ten times the largest value, and has no reason.
pub fn table(limits: &[Limit]) -> Result<String, String> {
    let mut text = String::from(
        "| What | Limit | Largest found | Factor | Why less than 10 | Constant |\n|---|---|---|---|---|---|\n",
    );
    for limit in limits {
        if limit.value < MIN_FACTOR * limit.largest && limit.reason.is_empty() {
            return Err(format!("{} needs a reason, or a larger value", limit.constant));
        }
        text.push_str(&limit.to_string());
        text.push('\n');
    }
    Ok(text)
}

/// A row of a table.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.unit {
            Unit::Number => grouped(self.value),
            Unit::MiB => format!("{} MiB", self.value >> 20),
        };
        let tenths = 10 * self.value / self.largest.max(1);
        write!(f, "| {} | {value} | {}", self.what, grouped(self.largest))?;
        if !self.found_in.is_empty() {
            write!(f, " ({})", self.found_in)?;
        }
        write!(f, " | {}.{} |", tenths / 10, tenths % 10)?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        write!(f, " | `{}` |", self.constant)
    }
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_NODES: usize = 2_000_000;
    const MAX_FILE: u64 = 5 << 20;

    #[test]
    fn a_table_has_the_factor_and_the_name_of_each_limit() {
        let limits = [
            limit!("Nodes": MAX_NODES, Number, 197_954, "a 1.0"),
            limit!("A file": MAX_FILE, MiB, 3_083_468, "", "the limit of Helm"),
        ];
        let table = table(&limits).unwrap();
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| Nodes | 2,000,000 | 197,954 (a 1.0) | 10.1 | | `MAX_NODES` |",
                "| A file | 5 MiB | 3,083,468 | 1.7 | the limit of Helm | `MAX_FILE` |",
            ]
        );
    }

    #[test]
    fn a_limit_near_a_real_value_needs_a_reason() {
        let error = table(&[limit!("A file": MAX_FILE, MiB, 3_083_468, "")]);
        assert_eq!(
            error,
            Err("MAX_FILE needs a reason, or a larger value".to_owned())
        );
    }
}
