//! The steps of a command that changes several objects: each is reported when it is done, and named when it fails.

use std::io;

use crate::{
    failure::{Failure, UNABLE},
    terminal::{Console, marks::Marks, progress, style::Style},
};

/// The steps of a command.
pub struct Steps {
    marks: Marks,
    /// What to do after a failure, besides its own hint.
    again: &'static str,
}

impl Steps {
    /// No step is done yet. `again` is added to the hint of every failure.
    pub fn new(marks: Marks, again: &'static str) -> Self {
        Self { marks, again }
    }

    /// Does a step: `what` is shown while it takes place, and in front of the message if it fails. Its text is printed when it is done.
    ///
    /// # Errors
    /// That of the step.
    pub async fn run<T>(
        &self,
        console: &mut Console<'_>,
        what: &str,
        step: impl Future<Output = Result<(T, String), Failure>>,
    ) -> Result<T, Failure> {
        match progress::during(console, what, step).await {
            Ok((value, done)) => {
                self.line(console, Style::Good, &done)?;
                Ok(value)
            }
            Err(failure) => {
                let style = Style::Bad;
                self.line(console, style, what)?;
                Err(self.explained(failure))
            }
        }
    }

    /// Prints something to be aware of.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn warn(&self, console: &mut Console<'_>, text: &str) -> io::Result<()> {
        self.line(console, Style::Pending, text)
    }

    fn line(&self, console: &mut Console<'_>, style: Style, text: &str) -> io::Result<()> {
        let mark = self.marks.mark(style, console.styles);
        writeln!(console.out, "{mark} {text}")?;
        // A person reads along.
        console.out.flush()
    }

    /// A refusal has its own remedy; only what could not be done is tried again.
    fn explained(&self, mut failure: Failure) -> Failure {
        if failure.code != UNABLE {
            return failure;
        }
        failure.hint = match (failure.hint.is_empty(), self.again.is_empty()) {
            (_, true) => failure.hint,
            (true, false) => self.again.to_owned(),
            (false, false) => format!("{}; {}", failure.hint, self.again),
        };
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::buffers::Buffers;

    async fn run(step: Result<((), String), Failure>) -> (String, Result<(), Failure>) {
        let mut buffers = Buffers::default();
        let mut console = buffers.console();
        let steps = Steps::new(Marks::Unicode, "run it again");
        let result = steps.run(&mut console, "Creating it", async { step }).await;
        (buffers.out(), result)
    }

    #[tokio::test]
    async fn a_step_is_reported_when_it_is_done() {
        let (printed, result) = run(Ok(((), "Cluster a/b created".to_owned()))).await;
        assert_eq!(printed, "✔ Cluster a/b created\n");
        assert!(result.is_ok());
    }

    #[tokio::test]
    async fn a_step_that_fails_is_named_with_how_to_continue() {
        let failure = Failure::unable("no").with_hint("fix it");
        let (printed, result) = run(Err(failure)).await;
        assert_eq!(printed, "✗ Creating it\n");
        let failure = result.unwrap_err();
        assert_eq!(
            (&*failure.message, &*failure.hint),
            ("no", "fix it; run it again")
        );
    }
}
