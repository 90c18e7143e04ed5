//! What a command writes, for tests.

use super::{Console, style::Styles, writer::Writer};

/// Standard output and standard error of a test.
#[derive(Debug, Default)]
pub struct Buffers {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Buffers {
    /// The console that writes to them, as if it were no terminal.
    pub fn console(&mut self) -> Console<'_> {
        self.with_colors(false)
    }

    /// The same with or without colors.
    pub fn with_colors(&mut self, has_colors: bool) -> Console<'_> {
        Console {
            out: Writer::new(&mut self.out),
            err: Writer::new(&mut self.err),
            styles: Styles::new(has_colors),
            is_terminal: false,
            is_interactive: false,
        }
    }

    /// Standard output.
    pub fn out(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    /// Standard error.
    pub fn err(&self) -> String {
        String::from_utf8(self.err.clone()).unwrap()
    }
}
