//! Go's `text/template`, as far as Helm values use it: texts with actions between `${` and `}`.
//!
//! Values are written for Fleet, whose controller renders them with Go's package and the functions of `sprig`. The same
//! text must give the same values here, or every deployment would change when the controller does. So the grammar, the
//! types and the way in which values are printed are Go's: a number of a Cluster's `templateValues` is a `float64` and
//! prints as `1e+06`, a missing key is an error, and a function that wants a string takes nothing else.
//!
//! Different on purpose:
//! - What gives another result each time (`randAlphaNum`, `uuidv4`, `genCA`, `now` and the like) is an error that says
//!   so: it would deploy again and again. `keys` and `values` list in the order of the keys, not in any.
//! - Every rendering begins with what the Cluster says. In Fleet `set` and `merge` change the Cluster itself, for all
//!   that is rendered later.
//! - Rendering has limits: on the work for all clusters of a Bundle, on what it makes and on how deep it nests; see
//!   [`budget`].
//! - No error has a text that a template gives: values may be secrets of others. Only `fail` says what its template says.
//! - What is no Base64 or Base32 is an error, where Fleet deploys the text of the error.
//! - A text that a function would cut in the middle of a character is an error here, and is not valid YAML there.
//!
//! Not there: complex numbers, functions as values, and those functions of `sprig` that need a clock, keys or passwords;
//! `functions/mod.rs` lists them, and using one is an error that names it.

pub mod budget;
mod check;
mod error;
mod exec;
mod format;
mod functions;
mod heap;
mod json;
mod lex;
mod literal;
mod node;
pub mod number;
mod parse;
mod patterns;
mod printf;
mod url;
mod value;

pub use self::{
    budget::{Budget, Exceeded, Limits, MAX_TEXT},
    check::{UnsupportedFunction, check, check_tokens},
    error::TemplateError,
    exec::{Rendered, line_at},
    heap::Context,
};

use serde_json::Value as Json;

use self::budget::Meter;

/// Takes in what `.` and `$` are in templates: a JSON object. It serves any number of renderings.
///
/// # Errors
/// Where it is too large, or the limit of the Bundle is exceeded: `budget` says which.
pub fn context(json: &Json, budget: &Budget) -> Result<Context, TemplateError> {
    Context::new(json, Meter::new(budget)).map_err(|message| TemplateError::new("", 0..0, message))
}

/// Renders a template.
///
/// # Errors
/// Says what is wrong and at which byte of the text. Where the limit of the Bundle is exceeded, `budget` says which.
pub fn render(text: &str, context: &Context, budget: &Budget) -> Result<Rendered, TemplateError> {
    let meter = Meter::new(budget);
    let templates = parse::parse(text, &meter)?;
    exec::run(text, &templates, context, meter)
}

/// What a text without actions renders to: itself.
///
/// # Errors
/// Where it is too long, or the limit of the Bundle is exceeded.
pub fn plain(text: &str, budget: &Budget) -> Result<Rendered, TemplateError> {
    let meter = Meter::new(budget);
    exec::plain(text, &meter).map_err(|message| TemplateError::new(text, 0..0, message))
}

/// Whether there is anything to render.
pub fn has_actions(text: &str) -> bool {
    text.contains(lex::LEFT)
}

#[cfg(test)]
mod tests;
