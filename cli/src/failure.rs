//! How a command ends when it did not succeed.

use std::{error::Error, fmt, io, process::ExitCode};

/// The command ran, and its result is negative: something is invalid, differs, or is not ready.
pub const NEGATIVE: u8 = 1;
/// The command could not run: arguments, files, or the API server.
pub const UNABLE: u8 = 2;

/// Why a command failed, for standard error.
#[derive(Debug)]
pub struct Failure {
    /// What failed, with the name of the object and the offending text.
    pub message: String,
    /// What to do about it, such as the next command; empty if there is nothing.
    pub hint: String,
    /// The exit code.
    pub code: u8,
}

impl Failure {
    /// The command could not run.
    pub fn unable(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: String::new(),
            code: UNABLE,
        }
    }

    /// The command ran, and its result is negative.
    pub fn negative(message: impl Into<String>) -> Self {
        Self {
            code: NEGATIVE,
            ..Self::unable(message)
        }
    }

    /// Several failures as one, if there are any.
    pub fn of_several(failures: Vec<Self>) -> Option<Self> {
        let mut failures = failures.into_iter();
        let mut first = failures.next()?;
        for other in failures {
            first.message = format!("{}\n       {}", first.message, other.message);
            first.code = first.code.max(other.code);
        }
        Some(first)
    }

    /// What is wrong is in the output of the command already.
    pub const fn reported(code: u8) -> Self {
        Self {
            message: String::new(),
            hint: String::new(),
            code,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The error of a library, with what was attempted, and its causes.
    pub fn because(attempt: impl fmt::Display, error: &dyn Error) -> Self {
        Self::unable(format!("{attempt}: {}", causes(error)))
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Whether the output of the command says what is wrong.
    pub const fn is_reported(&self) -> bool {
        self.message.is_empty()
    }

    /// Whether the reader of the output has gone, as `head` does: no error then.
    pub fn is_broken_pipe(&self) -> bool {
        self.code == 0
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let mut failure = Self::unable(format!("cannot write the output: {error}"));
        if error.kind() == io::ErrorKind::BrokenPipe {
            failure.code = 0;
        }
        failure
    }
}

/// An error and its causes in one line. A cause whose text its parent includes already is left out.
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
