//! Unified differences between two texts, in color on terminals.

use similar::{ChangeTag, TextDiff};

use crate::{
    failure::Failure,
    terminal::{Console, style::Style, table::one_line},
};

/// Lines around a change.
const CONTEXT: usize = 3;

/// Writes the difference under a title.
///
/// # Errors
/// If the output cannot be written.
pub fn write(title: &str, before: &str, after: &str, console: &mut Console<'_>) -> Result<(), Failure> {
    let styles = console.styles;
    let heading =
        |sign: &str, side: &str| styles.paint(Style::Strong, &format!("{sign} {} ({side})", one_line(title)));
    writeln!(console.out, "{}", heading("---", "deployed"))?;
    writeln!(console.out, "{}", heading("+++", "desired"))?;
    let diff = TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        writeln!(
            console.out,
            "{}",
            styles.paint(Style::Faint, &hunk.header().to_string())
        )?;
        for change in hunk.iter_changes() {
            let line = change.value().trim_end_matches('\n');
            let line = match change.tag() {
                ChangeTag::Delete => styles.paint(Style::Bad, &format!("-{line}")),
                ChangeTag::Insert => styles.paint(Style::Good, &format!("+{line}")),
                ChangeTag::Equal => format!(" {line}"),
            };
            writeln!(console.out, "{line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::buffers::Buffers;

    fn written(before: &str, after: &str, has_colors: bool) -> String {
        let mut buffers = Buffers::default();
        let mut console = buffers.with_colors(has_colors);
        write("web on cluster a: changed", before, after, &mut console).unwrap();
        buffers.out()
    }

    #[test]
    fn changes_have_three_lines_around_them() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nb\nc\nd\ne\nF\u{1b}[2J\ng\nh\n";
        let expected = "\
--- web on cluster a: changed (deployed)
+++ web on cluster a: changed (desired)
@@ -3,6 +3,6 @@
 c
 d
 e
-f
+F
 g
 h
";
        assert_eq!(written(before, after, false), expected);
        let colored = written(before, after, true);
        assert!(
            colored.contains("\u{1b}[31m-f\u{1b}[0m\n\u{1b}[32m+F\u{1b}[0m\n"),
            "{colored:?}"
        );
    }
}
