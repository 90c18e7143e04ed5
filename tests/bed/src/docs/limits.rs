//! The limits in docs/limits.md are those of the code.
//!
//! A row names a constant, or the field of one, with a link to its file: its value, and the factor between it and the largest value that
//! was found, have to be right. A factor below 10 needs a reason.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{Page, Problem, problem};

const PAGE: &str = "docs/limits.md";
/// How much larger a limit is than the largest real value, or there is a reason.
const MIN_FACTOR: u64 = 10;
/// How deep constants may refer to others.
const MAX_STEPS: usize = 8;

/// Differences between the page and the constants of the repository at `root`.
///
/// # Errors
/// If a source file cannot be read.
pub fn check(pages: &[Page], root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for page in pages.iter().filter(|page| page.path == PAGE) {
        for line in page.lines() {
            let Some(row) = Row::of(line.1) else { continue };
            let path = root.join("docs").join(row.file);
            let source =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            problems.extend(row.check(&source).map(|message| problem(page, line, message)));
        }
    }
    Ok(problems)
}

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
struct Row<'p> {
    limit: &'p str,
    largest: &'p str,
    factor: &'p str,
    reason: &'p str,
    name: &'p str,
    file: &'p str,
}

impl<'p> Row<'p> {
    fn of(line: &'p str) -> Option<Self> {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, _, limit, largest, factor, reason, constant, _] = cells[..] else {
            return None;
        };
        let (name, place) = constant.strip_prefix('`')?.split_once("` (")?;
        let (_, file) = place.strip_suffix("))")?.split_once("](")?;
        Some(Self {
            limit,
            largest,
            factor,
            reason,
            name,
            file,
        })
    }

    /// What is wrong with the row.
    fn check(&self, source: &str) -> Option<String> {
        let Some(value) = constant(source, self.name, MAX_STEPS) else {
            return Some(format!(
                "{} has no constant or field {} that can be read",
                self.file, self.name
            ));
        };
        let Some(limit) = number(self.limit) else {
            return Some(format!("{:?} is no number", self.limit));
        };
        if limit != value {
            return Some(format!("{} is {value} in the code, and {limit} here", self.name));
        }
        let Some(largest) = number(self.largest).filter(|largest| *largest > 0) else {
            return Some(format!("{:?} does not start with a number", self.largest));
        };
        let tenths = value.saturating_mul(10) / largest;
        let factor = format!("{}.{}", tenths / 10, tenths % 10);
        if factor != self.factor {
            return Some(format!("{value} is {factor} times as large as {largest}"));
        }
        if tenths < 10 * MIN_FACTOR && self.reason.is_empty() {
            return Some(format!("{} needs a reason, or a larger value", self.name));
        }
        None
    }
}

/// A number at the start of a text, with commas between thousands and a unit of bytes.
fn number(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.replace(',', "").parse().ok()?;
    let unit = match words.next() {
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        _ => 1,
    };
    number.checked_mul(unit)
}

/// The value of a constant, or of the field of one.
fn constant(source: &str, name: &str, steps: usize) -> Option<u64> {
    let steps = steps.checked_sub(1)?;
    let declared = source.lines().find_map(|line| {
        let rest = line.trim_start();
        let rest = rest.strip_prefix("pub ").unwrap_or(rest);
        let rest = rest.strip_prefix("pub(crate) ").unwrap_or(rest);
        let (_, value) = rest
            .strip_prefix("const ")?
            .strip_prefix(name)?
            .strip_prefix(':')?
            .split_once('=')?;
        value.strip_suffix(';')
    });
    let field = || {
        let mut fields = source.lines().filter_map(|line| {
            let value = line.trim_start().strip_prefix(name)?.strip_prefix(": ")?;
            value.strip_suffix(',')
        });
        fields.find(|value| value.starts_with(|c: char| c.is_ascii_digit()))
    };
    evaluate(source, declared.or_else(field)?, steps)
}

/// What a sign between two numbers means.
type Operation = fn(u64, u64) -> Option<u64>;

/// The value of `a`, `a << b`, `a * b` or `a / b`, of numbers and constants.
fn evaluate(source: &str, expression: &str, steps: usize) -> Option<u64> {
    let expression = expression.trim();
    let operations: [(&str, Operation); 3] = [
        (" << ", |a, b| a.checked_shl(u32::try_from(b).ok()?)),
        (" * ", u64::checked_mul),
        (" / ", u64::checked_div),
    ];
    for (sign, operation) in operations {
        if let Some((a, b)) = expression.split_once(sign) {
            return operation(evaluate(source, a, steps)?, evaluate(source, b, steps)?);
        }
    }
    let digits = expression.replace('_', "");
    digits
        .parse()
        .ok()
        .or_else(|| constant(source, expression, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub const MAX_NODES: usize = 2_000_000;\npub(crate) const MAX_BYTES: usize = 32 << 20;\n\
        const MAX_ALL: usize = 2 * MAX_BYTES;\nLimits {\n    file: 5 << 20,\n}\nconst LOOP: u64 = LOOP;\n";

    fn message(row: &str) -> Option<String> {
        Row::of(row).unwrap().check(SOURCE)
    }

    #[test]
    fn a_right_row_has_no_problem() {
        for row in [
            "| Nodes | 2,000,000 | 197,954 (a 1.0) | 10.1 | | `MAX_NODES` ([a.rs](../a.rs)) |",
            "| All | 64 MiB | 1 MiB | 64.0 | | `MAX_ALL` ([a.rs](../a.rs)) |",
            "| File | 5 MiB | 3,083,468 | 1.7 | Helm's | `file` ([a.rs](../a.rs)) |",
        ] {
            assert_eq!(message(row), None, "{row}");
        }
        assert_eq!(
            Row::of("| What | Limit | Largest found | Factor | Why | Constant |"),
            None
        );
    }

    #[test]
    fn a_wrong_row_is_reported() {
        for (row, expected) in [
            (
                "| a | 1,000 | 10 | 100.0 | | `MAX_NODES` ([a.rs](../a.rs)) |",
                "MAX_NODES is 2000000 in the code, and 1000 here",
            ),
            (
                "| a | 32 MiB | 1 MiB | 31.0 | | `MAX_BYTES` ([a.rs](../a.rs)) |",
                "33554432 is 32.0 times as large as 1048576",
            ),
            (
                "| a | 5 MiB | 1 MiB | 5.0 | | `file` ([a.rs](../a.rs)) |",
                "file needs a reason, or a larger value",
            ),
            (
                "| a | 5 MiB | 1 MiB | 5.0 | | `OTHER` ([a.rs](../a.rs)) |",
                "../a.rs has no constant or field OTHER that can be read",
            ),
            (
                "| a | 5 MiB | 1 MiB | 5.0 | | `LOOP` ([a.rs](../a.rs)) |",
                "../a.rs has no constant or field LOOP that can be read",
            ),
            (
                "| a | 5 MiB | many | 5.0 | | `file` ([a.rs](../a.rs)) |",
                "\"many\" does not start with a number",
            ),
        ] {
            assert_eq!(message(row).as_deref(), Some(expected), "{row}");
        }
    }
}
