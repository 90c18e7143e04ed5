//! A parsed template.

use super::{
    budget::{Budget, Meter},
    delimiters::Delimiters,
    error::TemplateError,
    exec::{self, Rendered},
    heap::Context,
    node::Templates,
    parse,
};

/// A parsed template, with the templates that it defines. It can be rendered any number of times, with any data and budget.
///
/// It refers to the text that it was parsed from, and belongs to one thread.
#[derive(Debug)]
pub struct Template<'t> {
    text: &'t str,
    templates: Templates,
    /// Bytes of the nodes: part of the memory of each rendering.
    bytes: usize,
}

impl<'t> Template<'t> {
    /// Parses a template.
    ///
    /// # Errors
    /// With the offset and the piece of the text that is concerned, if
    /// - it is not a template, in Go's words;
    /// - it calls a function that is not defined, or that is [not supported](crate::UnsupportedFunction), even in a branch that
    ///   would never be executed;
    /// - it is longer than [`MAX_TEXT`](crate::MAX_TEXT), or its blocks or parentheses nest more than 50 deep;
    /// - `budget` is exceeded.
    pub fn parse(text: &'t str, delimiters: Delimiters<'_>, budget: &Budget) -> Result<Self, TemplateError> {
        let meter = Meter::new(budget);
        let templates = parse::parse(text, delimiters, &meter).map_err(|error| error.or_exceeded(budget))?;
        Ok(Self {
            text,
            templates,
            bytes: meter.allocated(),
        })
    }

    /// Renders the template.
    ///
    /// Functions such as `set` change a copy of the data, so a rendering never affects another one.
    ///
    /// # Errors
    /// With the offset and the piece of the template that is concerned, if
    /// - a key is missing, a field of `nil` is requested, or a function fails; the error has Go's message, without the name of the
    ///   template and the line;
    /// - the output or a text within the rendering is longer than [`MAX_TEXT`](crate::MAX_TEXT), or all texts, lists and maps of
    ///   the rendering together have more than 16 MiB;
    /// - templates call each other more than 20 deep, or data nests more than 100 deep;
    /// - `budget` is exceeded.
    pub fn render(&self, context: &Context, budget: &Budget) -> Result<Rendered, TemplateError> {
        let meter = Meter::new(budget);
        meter
            .allocate(self.bytes)
            .map_err(|message| TemplateError::new(self.text, 0..0, message))
            .and_then(|()| exec::run(self.text, &self.templates, context, meter))
            .map_err(|error| error.or_exceeded(budget))
    }
}
