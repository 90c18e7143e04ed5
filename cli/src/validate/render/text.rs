//! For people: each problem with its line of the file, and the offending text underlined.

use std::{fmt::Write as _, io};

use bounded_text::is_control;
use helmops_model::reason::Reason;
use unicode_width::UnicodeWidthChar;

use crate::{
    terminal::{
        Console,
        style::{Style, Styles},
        table::one_line,
    },
    validate::{Line, Problem, Report, Severity, source::Region},
};

/// Columns of a line that are shown.
const WIDTH: usize = 100;
/// Columns of a line that are shown before the offending text, if the line is longer.
const BEFORE: usize = 40;
const TAB: usize = 4;

/// Writes all problems and a summary.
pub fn write(report: &Report, console: &mut Console<'_>) -> io::Result<()> {
    for problem in &report.problems {
        let text = problem_text(problem, console.styles);
        writeln!(console.out, "{text}")?;
    }
    let has_reason = |problem: &Problem| Reason::ALL.iter().any(|reason| reason.as_str() == problem.reason);
    if report.problems.iter().any(has_reason) {
        writeln!(
            console.out,
            "To learn more about a reason: kubectl helmop explain REASON"
        )?;
    }
    let style = if report.errors > 0 {
        Style::Bad
    } else if report.warnings > 0 {
        Style::Pending
    } else {
        Style::Good
    };
    writeln!(console.out, "{}", console.styles.paint(style, &report.summary()))
}

fn problem_text(problem: &Problem, styles: Styles) -> String {
    let style = match problem.severity {
        Severity::Error => Style::Bad,
        Severity::Warning => Style::Pending,
    };
    let kind = format!("{}[{}]", problem.severity.as_str(), problem.reason);
    let mut text = format!(
        "{}: {}: {}\n",
        styles.paint(Style::Strong, &position(&problem.file, problem.region)),
        styles.paint(style, &kind),
        one_line(&problem.text())
    );
    let number = problem
        .region
        .map(|region| region.line.to_string())
        .unwrap_or_default();
    let margin = " ".repeat(number.len());
    if let Some(line) = &problem.line {
        let (shown, before, width) = shown(line);
        let bar = styles.paint(Style::Faint, "|");
        let mark = styles.paint(style, &"^".repeat(width));
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{margin} {bar}");
        let _ = writeln!(text, "{number} {bar} {shown}");
        let _ = writeln!(text, "{margin} {bar} {}{mark}", " ".repeat(before));
    }
    if !problem.fix.is_empty() {
        let _ = writeln!(text, "{margin} = fix: {}", one_line(&problem.fix));
    }
    if let Some(related) = &problem.related {
        let place = position(&related.file, Some(related.region));
        let _ = writeln!(text, "{margin} = note: {}: {place}", related.message);
    }
    text
}

fn position(file: &str, region: Option<Region>) -> String {
    let file = one_line(file);
    match region {
        Some(Region { line, column, .. }) => format!("{file}:{line}:{column}"),
        None => file,
    }
}

/// A line as it is shown, the columns before the offending text, and the width of that text, at least 1.
fn shown(line: &Line) -> (String, usize, usize) {
    let cells: Vec<(usize, String)> = line.text.char_indices().map(|(at, c)| (at, cell(c))).collect();
    let width_of = |cells: &[(usize, String)]| -> usize {
        cells
            .iter()
            .flat_map(|(_, text)| text.chars())
            .map(|c| c.width().unwrap_or(0))
            .sum()
    };
    let start = cells.partition_point(|(at, _)| *at < line.marked.start);
    let end = cells.partition_point(|(at, _)| *at < line.marked.end);
    let is_long = width_of(&cells) > WIDTH;
    let mut from = 0;
    if is_long {
        while from < start && width_of(cells.get(from..start).unwrap_or_default()) > BEFORE {
            from += 1;
        }
    }
    let (mut to, mut width) = (from, 0);
    while let Some((_, text)) = cells.get(to) {
        width += text.chars().map(|c| c.width().unwrap_or(0)).sum::<usize>();
        if width > WIDTH {
            break;
        }
        to += 1;
    }
    let end = end.min(to);
    let part = |from: usize, to: usize| cells.get(from..to).unwrap_or_default();
    let mut text: String = part(from, to).iter().map(|(_, text)| text.as_str()).collect();
    let mut before = width_of(part(from, start));
    if from > 0 || line.is_cut_before {
        text.insert(0, '…');
        before += 1;
    }
    if to < cells.len() || line.is_cut_after {
        text.push('…');
    }
    (
        text.trim_end().to_owned(),
        before,
        width_of(part(start, end)).max(1),
    )
}

/// A character as it is shown.
fn cell(c: char) -> String {
    match c {
        '\t' => " ".repeat(TAB),
        c if is_control(c) => "\u{fffd}".to_owned(),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, offending: &str) -> (String, String) {
        let start = text.find(offending).unwrap();
        let line = Line {
            text: text.to_owned(),
            marked: start..start + offending.len(),
            is_cut_before: false,
            is_cut_after: false,
        };
        let (shown, before, width) = shown(&line);
        (shown, format!("{}{}", " ".repeat(before), "^".repeat(width)))
    }

    #[test]
    fn the_offending_text_is_underlined() {
        assert_eq!(
            marked("  a: foo # b", "foo"),
            ("  a: foo # b".to_owned(), "     ^^^".to_owned())
        );
        assert_eq!(marked("\ta:\tfoo", "foo").1, "          ^^^", "tabs");
        assert_eq!(marked("名前: é値", "é値").1, "      ^^^", "wide characters");
        assert_eq!(marked("a: e\u{301}x y", "y").1, "      ^", "combining characters");
        assert_eq!(
            marked("a: \u{1b}[2J", "\u{1b}[2J"),
            ("a: \u{fffd}[2J".to_owned(), "   ^^^^".to_owned())
        );
        let empty = Line {
            text: "a:".to_owned(),
            marked: 2..2,
            is_cut_before: false,
            is_cut_after: false,
        };
        assert_eq!(shown(&empty), ("a:".to_owned(), 2, 1));
    }

    #[test]
    fn long_lines_are_cut() {
        let text = format!("a: {} here {}", "x".repeat(200), "y".repeat(200));
        let (line, mark) = marked(&text, "here");
        assert!(line.starts_with('…') && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().count(), WIDTH + 2);
        let column = mark.find('^').unwrap();
        assert_eq!(line.chars().skip(column).take(4).collect::<String>(), "here");
        let all = "z".repeat(500);
        let (line, mark) = marked(&all, &all);
        assert_eq!((line.chars().count(), mark.len()), (WIDTH + 1, WIDTH));
    }
}
