//! Renders a template with JSON as its data.
//!
//! `echo '{"name": "world"}' | cargo run --example render -- template.txt`
//!
//! With `-` instead of the file, the template is read from the input, and there is no data: `.` is nil.

#![expect(clippy::print_stdout, reason = "it is the output of a program")]

use std::{env, error::Error, fs, io};

use gotmpl::{Budget, Context, Delimiters, Template, line_at};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args()
        .nth(1)
        .ok_or("the file of a template is missing; - is the input")?;
    let input = io::read_to_string(io::stdin())?;
    let (text, data) = if path == "-" {
        (input, None)
    } else {
        (fs::read_to_string(path)?, Some(serde_json::from_str(&input)?))
    };
    let budget = Budget::default();
    let context = match data {
        Some(data) => Context::new(&data, &budget)?,
        None => Context::default(),
    };
    let rendered = Template::parse(&text, Delimiters::GO, &budget)
        .and_then(|template| template.render(&context, &budget))
        .map_err(|error| format!("{error}, in the line <{}>", line_at(&text, error.offset)))?;
    print!("{}", rendered.text);
    Ok(())
}
