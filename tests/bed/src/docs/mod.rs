//! Checks of the documentation and of the sources: the words, the links and the names that they use.
//!
//! ```text
//! sources ────────────────────────► words: terms that the glossary in CONTRIBUTING.md replaces, also in Go, scripts and workflows
//! pages (Markdown, manifests) ─┬─► words
//!                              ├─► links: files, headings and tests that exist
//!                              └─► names: metrics, flags, alerts, reasons and labels that exist in the reference pages and the alerts
//! ```

mod links;
mod names;
mod pages;
mod words;

use std::{fmt, path::Path};

use anyhow::Result;

use self::pages::Page;

/// Something that is wrong in a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Path of the page in the repository.
    pub page: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page, self.line, self.message)
    }
}

/// Everything that is wrong in the documentation, and in the words and imports of the sources, of the repository at `root`.
///
/// # Errors
/// Where a page cannot be read.
pub fn check(root: &Path) -> Result<Vec<Problem>> {
    let pages = pages::read(root)?;
    let mut problems = words::check(&pages);
    let sources = pages::sources(root)?;
    problems.extend(words::check(&sources));
    problems.extend(words::check(&pages::others(root)?));
    problems.extend(links::check(&pages, root));
    problems.extend(names::check(&pages)?);
    problems.sort();
    Ok(problems)
}

/// A problem in a line of a page.
fn problem(page: &Page, (index, _): (usize, &str), message: impl Into<String>) -> Problem {
    Problem {
        page: page.path.clone(),
        line: index + 1,
        message: message.into(),
    }
}
