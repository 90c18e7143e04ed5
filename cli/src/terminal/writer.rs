//! The only way to standard output and standard error: nothing that a cluster, a chart or a file contains controls the terminal.

use std::{
    fmt::Arguments,
    io::{self, Write},
};

use bounded_text::printable;

use super::style;

/// Writes texts without control characters. Only [`Style`](super::style::Style)s are written, and what is of [`Control`].
pub struct Writer<'a> {
    to: &'a mut dyn Write,
}

/// What this program does with the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Go to the start of the line, and clear it.
    ClearLine,
    /// Clear the screen, and what was scrolled out of it.
    ClearScreen,
}

impl<'a> Writer<'a> {
    /// Writes to an output.
    pub fn new(to: &'a mut dyn Write) -> Self {
        Self { to }
    }

    /// What `write!` calls, with the whole text.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write_fmt(&mut self, text: Arguments<'_>) -> io::Result<()> {
        let text = text.to_string();
        let mut parts = style::parts(&text);
        self.to
            .write_all(printable(parts.next().unwrap_or_default()).as_bytes())?;
        for part in parts {
            let (code, rest) = style::split_code(part);
            write!(self.to, "{code}{}", printable(rest))?;
        }
        Ok(())
    }

    /// Controls the terminal.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn control(&mut self, control: Control) -> io::Result<()> {
        self.to.write_all(match control {
            Control::ClearLine => b"\r\x1b[K",
            Control::ClearScreen => b"\x1b[H\x1b[2J\x1b[3J",
        })
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::style::{Style, Styles};

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write!(Writer::new(&mut out), "{text}").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_own_styles_control_the_terminal() {
        let hostile = "\u{1b}[31m\u{1b}]52;c;eA==\u{7}\u{9b}2J\u{202e}\ta\n";
        assert_eq!(written(hostile), "]52;c;eA==2J\ta\n");
        let painted = Styles::new(true).paint(Style::Good, hostile);
        assert_eq!(written(&painted), "\u{1b}[32m]52;c;eA==2J\ta\n\u{1b}[0m");
        let around = format!("{hostile}{painted}{hostile}");
        assert_eq!(
            written(&around),
            "]52;c;eA==2J\ta\n\u{1b}[32m]52;c;eA==2J\ta\n\u{1b}[0m]52;c;eA==2J\ta\n"
        );
        // Who cuts a text in a style gets none of what follows.
        let cut = painted.split("32m").next().unwrap();
        assert_eq!(written(&format!("{cut}2J")), "");
        assert_eq!(
            written(&Styles::new(false).paint(Style::Good, hostile)),
            written(hostile)
        );
    }
}
