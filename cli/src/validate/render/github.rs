//! For GitHub Actions: a workflow command for each problem, which becomes an annotation of the line.

use std::io;

use crate::{
    terminal::writer::Writer,
    validate::{Problem, Report},
};

/// Writes a command for each problem, and a summary.
pub fn write(report: &Report, out: &mut Writer<'_>) -> io::Result<()> {
    for problem in &report.problems {
        writeln!(out, "{}", command(problem))?;
    }
    writeln!(out, "{}", report.summary())
}

fn command(problem: &Problem) -> String {
    let mut properties = vec![format!("file={}", property(&problem.file))];
    if let Some(region) = problem.region {
        properties.push(format!("line={},endLine={}", region.line, region.end_line));
        // Columns of several lines are not supported.
        if region.line == region.end_line {
            properties.push(format!("col={},endColumn={}", region.column, region.end_column));
        }
    }
    properties.push(format!("title={}", property(problem.reason)));
    let mut lines = vec![problem.text()];
    if !problem.fix.is_empty() {
        lines.push(format!("fix: {}", problem.fix));
    }
    format!(
        "::{} {}::{}",
        problem.severity.as_str(),
        properties.join(","),
        data(&lines.join("\n"))
    )
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_cannot_end_a_command() {
        assert_eq!(super::property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
        assert_eq!(super::data("a: 1%\r\n::error::"), "a: 1%25%0D%0A::error::");
    }
}
