//! `-o`: how results are printed.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

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
pub fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(
        &mut *out,
        serde_json::ser::PrettyFormatter::with_indent(b"    "),
    );
    value.serialize(&mut serializer)?;
    writeln!(out)
}

/// Writes a value as YAML, with fields in the order of their names, as kubectl does.
pub fn write_yaml(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let text = gotmpl::yaml::emit_exact(&serde_json::to_value(value)?).map_err(io::Error::other)?;
    write!(out, "{text}")
}
