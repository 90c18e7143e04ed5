//! What the checks print: a line for each, with its time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use helmops_bed::wait::eventually;

/// The results of the checks of one boot.
#[derive(Debug)]
pub struct Report {
    start: Instant,
    passed: usize,
    failed: usize,
}

impl Report {
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            passed: 0,
            failed: 0,
        }
    }

    pub fn section(&self, name: &str) {
        println!("---- {name} ({:.0} s)", self.start.elapsed().as_secs_f64());
    }

    /// Runs a check, which succeeds or fails now.
    pub async fn check(&mut self, what: &str, check: impl Future<Output = Result<()>>) -> bool {
        let start = Instant::now();
        let result = check.await;
        self.print(what, start, result)
    }

    /// Repeats a check until it succeeds, for as many seconds.
    pub async fn within(&mut self, seconds: u64, what: &str, check: impl AsyncFnMut() -> Result<()>) -> bool {
        let start = Instant::now();
        let result = eventually(what, Duration::from_secs(seconds), check).await;
        self.print(what, start, result)
    }

    /// A section cannot go on.
    pub fn broken(&mut self, error: &anyhow::Error) {
        println!("FAIL           the section ends here: {error:#}");
        self.failed += 1;
    }

    fn print(&mut self, what: &str, start: Instant, result: Result<()>) -> bool {
        let seconds = start.elapsed().as_secs_f64();
        if let Err(error) = result {
            println!("FAIL {seconds:6.1} s  {what}: {error:#}");
            self.failed += 1;
            return false;
        }
        println!("pass {seconds:6.1} s  {what}");
        self.passed += 1;
        true
    }

    /// Prints the sum. Whether all passed.
    pub fn end(&self) -> bool {
        let Self {
            passed,
            failed,
            start,
        } = self;
        let seconds = start.elapsed().as_secs_f64();
        println!("{passed} checks passed, {failed} failed, {seconds:.0} s");
        self.failed == 0
    }
}

/// Prints something to read, which is no check.
pub fn note(text: &str) {
    for line in text.lines() {
        println!("              {line}");
    }
}

/// An error unless the text has the part; with the text.
pub fn contains(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "{part:?} is not in {text:?}");
    Ok(())
}
