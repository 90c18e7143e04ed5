//! `-o`: how results are printed.

use std::{fmt::Write as _, io};

use bounded_text::is_control;
use clap::ValueEnum;
use serde::Serialize;

use crate::terminal::writer::Writer;

/// A format for `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table
    #[default]
    #[value(hide = true)]
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names only, such as helmop.fleet.cattle.io/web
    Name,
}

/// The flag for the format.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct OutputArgs {
    /// Output format
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true
    )]
    pub output: Format,
}

/// Writes a value as JSON, as kubectl indents it.
pub fn write_json(out: &mut Writer<'_>, value: &impl Serialize) -> io::Result<()> {
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut json = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut json, formatter))?;
    let json = String::from_utf8(json).map_err(io::Error::other)?;
    writeln!(out, "{}", escaped(&json))
}

/// JSON without control characters that mean something to a terminal. They are in strings only, which have the same value with an
/// escape.
fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for part in json.split_inclusive(is_control) {
        let last = part.chars().next_back().filter(|c| is_control(*c));
        let text = last.and_then(|c| part.strip_suffix(c)).unwrap_or(part);
        escaped.push_str(text);
        for unit in last.iter().flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec()) {
            // Writing into a string cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// Writes a value as YAML, with fields in the order of their names, as kubectl does.
pub fn write_yaml(out: &mut Writer<'_>, value: &impl Serialize) -> io::Result<()> {
    let text = go_formats::yaml::emit_exact(&serde_json::to_value(value)?).map_err(io::Error::other)?;
    write!(out, "{text}")
}

#[cfg(test)]
mod tests {
    use go_formats::yaml::{Quota, read_exact};
    use serde_json::{Value, json};

    use super::*;

    type Write = fn(&mut Writer<'_>, &Value) -> io::Result<()>;

    #[test]
    fn values_are_the_same_and_control_no_terminal() {
        let text: String = ('\0'..='\u{9f}')
            .chain("\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{feff}\u{e0041} é \\ \"".chars())
            .collect();
        let value = json!({ &text: [&text], "<<": { "=": "<<" } });
        let written = |write: Write| {
            let mut out = Vec::new();
            write(&mut Writer::new(&mut out), &value).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(!out.contains(is_control), "{out:?}");
            out
        };
        let json = written(write_json);
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value, "{json}");
        let yaml = written(write_yaml);
        assert_eq!(read_exact(&yaml, &mut Quota::default()).unwrap(), value, "{yaml}");
    }
}
