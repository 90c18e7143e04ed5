//! Go's `text/template`, as far as Helm values use it: text with actions between `${` and `}`.
//!
//! Values are written for Fleet, whose controller renders them with Go's package and the functions of `sprig`. The same
//! template must give the same values here, or every deployment would change when the controller changes. So the grammar,
//! the types and the way values are printed are Go's: a number in a Cluster's `templateValues` is a `float64` and prints as
//! `1e+06`, a missing key is an error, and a function that expects a string accepts no other type.
//!
//! docs/from-fleet.md lists the differences from Fleet ("Value templates").

pub mod budget;
mod check;
mod error;
mod exec;
mod format;
mod functions;
pub mod go_json;
mod heap;
mod json;
mod lex;
mod literal;
mod node;
pub mod number;
mod parse;
mod patterns;
mod printf;
pub mod regexp;
mod url;
mod value;
pub mod yaml;

pub use self::{
    budget::{Budget, Exceeded, Limits, MAX_TEXT},
    check::{UnsupportedFunction, check, check_tokens},
    error::TemplateError,
    exec::{Rendered, line_at},
    heap::Context,
};

use serde_json::Value as Json;

use self::budget::Meter;

/// Converts a JSON object to the context of templates: their `.` and `$`. Any number of renderings can use it.
///
/// # Errors
/// If it is too large, or a limit of the Bundle is exceeded: then `budget` contains that limit.
pub fn context(json: &Json, budget: &Budget) -> Result<Context, TemplateError> {
    Context::new(json, Meter::new(budget)).map_err(|message| TemplateError::new("", 0..0, message))
}

/// Renders a template.
///
/// # Errors
/// What is wrong, and at which byte of the text. If a limit of the Bundle is exceeded, `budget` contains it.
pub fn render(text: &str, context: &Context, budget: &Budget) -> Result<Rendered, TemplateError> {
    let meter = Meter::new(budget);
    let templates = parse::parse(text, &meter)?;
    exec::run(text, &templates, context, meter)
}

/// Renders a text without actions: the result is the text itself.
///
/// # Errors
/// If it is too long, or a limit of the Bundle is exceeded.
pub fn plain(text: &str, budget: &Budget) -> Result<Rendered, TemplateError> {
    let meter = Meter::new(budget);
    exec::plain(text, &meter).map_err(|message| TemplateError::new(text, 0..0, message))
}

/// Whether a text contains actions, and so needs to be rendered.
pub fn has_actions(text: &str) -> bool {
    text.contains(lex::LEFT)
}

#[cfg(test)]
mod tests;
