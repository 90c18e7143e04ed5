//! What `create` writes to standard error: each kind of warning once, each refusal, and a summary.

use std::collections::{BTreeMap, BTreeSet};

use bounded_text::{listed, numbered};

use super::{
    batch::Batch,
    note::{Gap, Note},
};
use crate::{
    failure::Failure,
    terminal::{Console, style::Style},
};

/// Warnings of one kind with different names that are written.
const MAX_OF_KIND: usize = 3;
/// Positions that are written in a line.
const MAX_POSITIONS: usize = 10;

/// Writes what the user has to know.
///
/// # Errors
/// If standard error cannot be written.
pub fn write(batch: &Batch, console: &mut Console<'_>) -> Result<(), Failure> {
    for Line { label, text } in lines(batch) {
        let (style, label) = match label {
            Label::Warning => (Style::Pending, "warning: "),
            Label::Refused => (Style::Bad, "refused: "),
            Label::None => (Style::Strong, ""),
        };
        writeln!(console.err, "{}{text}", console.styles.paint(style, label))?;
    }
    Ok(())
}

/// The same as a text, without colors.
#[cfg(test)]
pub fn plain(batch: &Batch) -> String {
    let line = |line: Line| match line.label {
        Label::Warning => format!("warning: {}\n", line.text),
        Label::Refused => format!("refused: {}\n", line.text),
        Label::None => format!("{}\n", line.text),
    };
    lines(batch).into_iter().map(line).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Warning,
    Refused,
    None,
}

#[derive(Debug, PartialEq, Eq)]
struct Line {
    label: Label,
    text: String,
}

fn lines(batch: &Batch) -> Vec<Line> {
    let warning = |text| Line {
        label: Label::Warning,
        text,
    };
    let of_drafts: Vec<_> = batch
        .drafts
        .iter()
        .map(|draft| draft.warnings(batch.len() == 1))
        .collect();
    let notes: Vec<_> = of_drafts.iter().flatten().chain(&batch.notes).collect();
    let mut lines: Vec<_> = grouped(&notes).into_iter().map(warning).collect();
    lines.extend(left_out(batch).into_iter().map(warning));
    lines.extend(batch.refused.iter().flatten().map(|note| Line {
        label: Label::Refused,
        text: match note.gap {
            Gap::Field(loss) => format!("{note}; to convert it nevertheless, add --accept={}", loss.name()),
            _ => note.to_string(),
        },
    }));
    let with_warnings = of_drafts.iter().filter(|notes| !notes.is_empty()).count();
    lines.extend(summary(batch, with_warnings).into_iter().map(|text| Line {
        label: Label::None,
        text,
    }));
    lines
}

/// The notes as lines: one for those with the same text, and a few for those that differ in names only.
fn grouped(notes: &[&Note]) -> Vec<String> {
    let mut kinds: Vec<Vec<&Note>> = Vec::new();
    let mut known = BTreeMap::new();
    for note in notes {
        let kind = (without_indexes(&note.path), without_names(&note.text));
        let index = *known.entry(kind).or_insert(kinds.len());
        match kinds.get_mut(index) {
            Some(kind) => kind.push(note),
            None => kinds.push(vec![note]),
        }
    }
    kinds.iter().flat_map(|kind| of_kind(kind)).collect()
}

fn of_kind(notes: &[&Note]) -> Vec<String> {
    let mut texts: Vec<(&Note, BTreeSet<_>)> = Vec::new();
    for note in notes {
        let place = (&note.object, &note.position);
        match texts.iter_mut().find(|(first, _)| first.text == note.text) {
            Some((_, places)) => {
                places.insert(place);
            }
            None => texts.push((note, BTreeSet::from([place]))),
        }
    }
    let count = texts.len();
    let mut lines: Vec<_> = texts
        .into_iter()
        .take(MAX_OF_KIND)
        .map(|(first, places)| first.line(places.len() - 1))
        .collect();
    if count > MAX_OF_KIND {
        lines.push(format!(
            "and {} more of this kind; the comments of --dry-run=client -o yaml have all",
            count - MAX_OF_KIND
        ));
    }
    lines
}

/// `a[0].b` as `a[].b`.
fn without_indexes(path: &str) -> String {
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    let mut parts = path.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('[');
        text.push_str(match part.split_once(']') {
            Some((index, _)) if is_index(index) => part.get(index.len()..).unwrap_or_default(),
            _ => part,
        });
    }
    text
}

/// A text without what is in quotes.
fn without_names(text: &str) -> String {
    text.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

fn left_out(batch: &Batch) -> Vec<String> {
    let left_out = &batch.left_out;
    [
        (
            &left_out.not_yaml,
            "no YAML, as templates of other tools are".to_owned(),
        ),
        (
            &left_out.unmatched,
            format!(
                "incomplete {}s, as patches of kustomize are; convert what kustomize build prints, to have them applied",
                batch.kind
            ),
        ),
    ]
    .into_iter()
    .filter(|(positions, _)| !positions.is_empty())
    .map(|(positions, what)| format!("left out: {}: {what}", listed(positions, MAX_POSITIONS)))
    .collect()
}

/// What became of several objects.
fn summary(batch: &Batch, with_warnings: usize) -> Vec<String> {
    let left_out = &batch.left_out;
    let (all, converted) = (batch.len(), batch.drafts.len());
    let skipped = left_out.not_yaml.len() + left_out.patches + left_out.others;
    if all == 1 && skipped == 0 {
        return Vec::new();
    }
    let mut text = format!(
        "{}: {converted} converted ({with_warnings} with warnings), {} refused",
        numbered(all, batch.kind),
        batch.refused.len()
    );
    if skipped > 0 {
        text = format!(
            "{text}; left out: {} incomplete, {}, {} without YAML",
            left_out.patches,
            numbered(left_out.others, "other object"),
            numbered(left_out.not_yaml.len(), "document")
        );
    }
    let mut lines = vec![text];
    let mut causes: BTreeMap<Gap, usize> = BTreeMap::new();
    for notes in &batch.refused {
        let gaps: BTreeSet<_> = notes.iter().map(|note| note.gap).collect();
        for gap in gaps {
            *causes.entry(gap).or_default() += 1;
        }
    }
    if !causes.is_empty() {
        let causes: Vec<_> = causes
            .into_iter()
            .map(|(gap, count)| format!("{count} {}", gap.cause()))
            .collect();
        lines.push(format!("refused because of: {}", causes.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::draft::{Draft, Origin};

    fn note(object: &str, path: &str, text: &str) -> Note {
        Note {
            object: object.to_owned(),
            path: path.to_owned(),
            position: None,
            text: text.to_owned(),
            gap: Gap::None,
        }
    }

    fn lines_of(notes: &[Note]) -> Vec<String> {
        grouped(&notes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn warnings_of_one_kind_are_one_line() {
        let notes = [
            note("HelmRelease a", "spec.x", "new objects stay"),
            note("HelmRelease a", "spec.y", "another one"),
            note("HelmRelease b", "spec.x", "new objects stay"),
            note("HelmRelease c", "spec.x", "new objects stay"),
        ];
        assert_eq!(
            lines_of(&notes),
            [
                "HelmRelease a and 2 more: spec.x: new objects stay",
                "HelmRelease a: spec.y: another one"
            ]
        );
    }

    #[test]
    fn warnings_that_differ_in_names_are_a_few_lines() {
        let of = |index: usize| {
            let object = format!("HelmRelease {index}");
            note(
                &object,
                &format!("spec.valuesFrom[{index}].name"),
                &format!("ConfigMap \"c{index}\" has to exist"),
            )
        };
        let notes: Vec<_> = (0..5).map(of).collect();
        let lines = lines_of(&notes);
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[0],
            "HelmRelease 0: spec.valuesFrom[0].name: ConfigMap \"c0\" has to exist"
        );
        assert!(lines[3].starts_with("and 2 more of this kind"), "{lines:?}");
    }

    /// Each of them has to be known, however many there are.
    #[test]
    fn every_refusal_is_a_line() {
        let draft = |index: usize| {
            let mut draft = Draft::named(&format!("web{index}"));
            let origin = Origin {
                title: format!("HelmRelease shop/web{index}"),
                position: None,
            };
            draft.notes =
                vec![origin.note("spec.chart", "a chart in a GitRepository".to_owned(), Gap::Chart)];
            draft.origin = Some(origin);
            draft
        };
        let mut batch = Batch {
            kind: "HelmRelease",
            drafts: (0..4).map(draft).collect(),
            ..Batch::default()
        };
        batch.settle(&[]);
        let text = plain(&batch);
        assert_eq!(text.matches("refused: HelmRelease shop/web").count(), 4, "{text}");
        let summary = "4 HelmReleases: 0 converted (0 with warnings), 4 refused\nrefused because of: 4 no repository of the chart\n";
        assert!(text.ends_with(summary), "{text}");
    }
}
