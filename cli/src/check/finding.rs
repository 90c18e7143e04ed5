//! The findings of a check, and how they are shown.

use std::io;

use serde::Serialize;

use crate::{
    failure::Failure,
    output::{self, Format},
    terminal::{Console, marks::Marks, style::Style},
};

/// How a finding is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Not checked, and why.
    Skipped,
    /// Works, but should be looked at.
    Warning,
    /// Does not work.
    Error,
}

impl Level {
    const fn style(self) -> Style {
        match self {
            Self::Ok => Style::Good,
            Self::Skipped => Style::Faint,
            Self::Warning => Style::Pending,
            Self::Error => Style::Bad,
        }
    }
}

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Group {
    /// The API server, and what is there before an installation.
    Cluster,
    Crds,
    /// The Deployments.
    Processes,
    Webhook,
    Certificates,
    /// Leader election.
    Leader,
    /// What the user may do.
    Permissions,
    Metrics,
    /// The agents of clusters.
    Agents,
}

impl Group {
    const fn heading(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Crds => "CRDs",
            Self::Processes => "Processes",
            Self::Webhook => "Webhook",
            Self::Certificates => "Certificates",
            Self::Leader => "Leader",
            Self::Permissions => "Your permissions",
            Self::Metrics => "Metrics",
            Self::Agents => "Agents",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub group: Group,
    /// How it is judged.
    pub level: Level,
    /// The object, and what was found.
    pub message: String,
    /// What to do about it; empty if there is nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

impl Finding {
    /// As it should be.
    pub fn ok(group: Group, message: impl Into<String>) -> Self {
        Self {
            group,
            level: Level::Ok,
            message: message.into(),
            fix: String::new(),
        }
    }

    /// Not checked.
    pub fn skipped(group: Group, message: impl Into<String>) -> Self {
        Self {
            level: Level::Skipped,
            ..Self::ok(group, message)
        }
    }

    /// Works, but should be looked at.
    pub fn warning(group: Group, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            fix: fix.into(),
            ..Self::ok(group, message)
        }
    }

    /// Does not work.
    pub fn error(group: Group, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            level: Level::Error,
            ..Self::warning(group, message, fix)
        }
    }
}

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order of their groups.
    pub findings: Vec<Finding>,
    /// How many do not work.
    pub errors: usize,
    /// How many should be looked at.
    pub warnings: usize,
}

impl Report {
    /// A report of findings, whose groups are kept together.
    pub fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.group);
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        Self {
            errors: count(Level::Error),
            warnings: count(Level::Warning),
            findings,
        }
    }

    /// Prints the report, and fails if something does not work.
    pub fn print(&self, format: Format, marks: Marks, console: &mut Console<'_>) -> Result<(), Failure> {
        match format {
            Format::Json => output::write_json(&mut console.out, self)?,
            Format::Yaml => output::write_yaml(&mut console.out, self)?,
            Format::Table | Format::Wide | Format::Name => self.print_lines(marks, console)?,
        }
        let plural = if self.errors == 1 { "check" } else { "checks" };
        match self.errors {
            0 => Ok(()),
            errors => Err(Failure::negative(format!("{errors} {plural} failed"))),
        }
    }

    fn print_lines(&self, marks: Marks, console: &mut Console<'_>) -> io::Result<()> {
        let mut group = None;
        for finding in &self.findings {
            if group.replace(finding.group) != Some(finding.group) {
                let heading = console.styles.paint(Style::Strong, finding.group.heading());
                writeln!(console.out, "{heading}")?;
            }
            let mark = marks.mark(finding.level.style(), console.styles);
            writeln!(console.out, "  {mark} {}", finding.message)?;
            if !finding.fix.is_empty() {
                let fix = console.styles.paint(Style::Faint, "fix:");
                writeln!(console.out, "      {fix} {}", finding.fix)?;
            }
        }
        match (self.errors, self.warnings) {
            (0, 0) => writeln!(console.out, "\nAll checks passed."),
            (errors, warnings) => writeln!(console.out, "\nErrors: {errors}, warnings: {warnings}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::buffers::Buffers;

    fn printed(findings: Vec<Finding>, marks: Marks) -> (String, Result<(), Failure>) {
        let mut buffers = Buffers::default();
        let mut console = buffers.console();
        let result = Report::new(findings).print(Format::Table, marks, &mut console);
        (buffers.out(), result)
    }

    fn all() -> Vec<Finding> {
        vec![
            Finding::error(Group::Webhook, "it does not respond", "start it"),
            Finding::ok(Group::Crds, "helmops"),
            Finding::warning(Group::Crds, "policies\u{1b}[2J", "apply it"),
            Finding::skipped(Group::Metrics, "not reachable"),
        ]
    }

    #[test]
    fn findings_are_printed_by_group_with_their_fixes() {
        let (text, result) = printed(all(), Marks::Unicode);
        assert_eq!(
            text,
            "\
CRDs
  ✔ helmops
  ! policies
      fix: apply it
Webhook
  ✗ it does not respond
      fix: start it
Metrics
  - not reachable

Errors: 1, warnings: 1
"
        );
        assert_eq!(result.unwrap_err().code, crate::failure::NEGATIVE);
        let (text, _) = printed(all(), Marks::Ascii);
        assert!(
            text.is_ascii() && text.contains("  x  it does not respond"),
            "{text}"
        );
    }

    #[test]
    fn warnings_are_no_failure() {
        let (text, result) = printed(all().split_off(1), Marks::Unicode);
        assert!(text.ends_with("Errors: 0, warnings: 1\n"));
        assert!(result.is_ok());
        let (text, _) = printed(all()[1..2].to_vec(), Marks::Unicode);
        assert!(text.ends_with("All checks passed.\n"));
    }
}
