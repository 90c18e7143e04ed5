//! What a person reads: tables, colors, ages, progress.

pub mod age;
#[cfg(test)]
pub mod buffers;
pub mod marks;
pub mod progress;
pub mod style;
pub mod table;
pub mod writer;

use std::io::{IsTerminal, stderr, stdout};

use self::{style::Styles, writer::Writer};

/// Where a command writes. Tests replace it with buffers.
pub struct Console<'a> {
    /// Standard output.
    pub out: Writer<'a>,
    /// Standard error: progress, warnings, hints.
    pub err: Writer<'a>,
    /// How standard output is styled.
    pub styles: Styles,
    /// Whether standard output is a terminal.
    pub is_terminal: bool,
    /// Whether a person waits: standard error is a terminal.
    pub is_interactive: bool,
}

impl Console<'_> {
    /// Runs `command` with the console of the process. Colors appear on terminals only, and not with `NO_COLOR`.
    pub fn of_process<T>(command: impl FnOnce(&mut Console<'_>) -> T) -> T {
        let is_terminal = stdout().is_terminal();
        let has_colors = is_terminal
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        command(&mut Console {
            // One write for many lines: a table of thousands of rows is not as many system calls.
            out: Writer::new(&mut std::io::BufWriter::new(stdout().lock())),
            err: Writer::new(&mut stderr()),
            styles: Styles::new(has_colors),
            is_terminal,
            is_interactive: stderr().is_terminal(),
        })
    }
}
