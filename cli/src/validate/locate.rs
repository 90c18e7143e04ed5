//! From the path of a field to the text that an error is about.

use go_formats::yaml::place::{Content, Place, Span};

use super::source::Source;

/// Steps of a search: keys that contain dots make a path ambiguous.
const MAX_STEPS: usize = 10_000;

/// Words of a value that are looked for, if its lines are not those of the text.
const MAX_WORDS: usize = 20;

/// What an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The text.
    pub span: Span,
    /// The alias by which the text became a part of the object.
    pub alias: Option<Span>,
}

/// How far a path leads.
#[derive(Clone, Copy, Debug)]
struct Found<'p> {
    place: &'p Place,
    key: Option<Span>,
    alias: Option<Span>,
    /// Bytes of the path that were found.
    length: usize,
}

/// Finds the text that an error is about: the value at a path such as `spec.targets[0].helm.version`, or else the key of the nearest
/// field around it.
///
/// `value` is the offending text if it is known: it may be a key of the mapping at the path, or a part of the value.
pub fn locate(source: &Source, root: &Place, path: &str, value: &str) -> Located {
    let found = find(root, path);
    if found.length < path.len() {
        return around(source, found);
    }
    if let Some(entry) = found.place.entry(value) {
        return Located {
            span: entry.key,
            alias: found.alias,
        };
    }
    if found.place.content != Content::Scalar || source.slice(found.place.span).trim().is_empty() {
        return around(source, found);
    }
    Located {
        span: part(source, found.place.span, value),
        alias: found.alias,
    }
}

/// Where a field is: its key, or the start of an item of a list. If it does not exist, that of the nearest one around it, or `None`.
pub fn locate_field(source: &Source, root: &Place, path: &str) -> Option<Span> {
    let found = find(root, path);
    (found.length > 0).then(|| around(source, found).span)
}

/// Splits a text such as `spec.helm.version: "1.x" is resolved once` after the path, which may contain keys with colons.
pub fn split_path<'t>(root: &Place, text: &'t str) -> (&'t str, &'t str) {
    let splits = text
        .match_indices(": ")
        .filter_map(|(at, separator)| Some((text.get(..at)?, text.get(at + separator.len()..)?)));
    let exact = splits
        .clone()
        .take(8)
        .find(|(path, _)| find(root, path).length == path.len());
    exact.or_else(|| splits.clone().next()).unwrap_or(("", text))
}

/// The longest part of the path that exists.
fn find<'p>(root: &'p Place, path: &str) -> Found<'p> {
    let start = Found {
        place: root,
        key: None,
        alias: None,
        length: 0,
    };
    let mut steps = MAX_STEPS;
    search(start, path, &mut steps)
}

/// The longest part of the path that exists, from what was found of it.
fn search<'p>(from: Found<'p>, path: &str, steps: &mut usize) -> Found<'p> {
    let rest = path.get(from.length..).unwrap_or_default();
    if rest.is_empty() || *steps == 0 {
        return from;
    }
    *steps -= 1;
    let mut best = from;
    let mut attempt = |place: &'p Place, key, length| {
        let next = Found {
            place,
            key,
            alias: place.alias.or(from.alias),
            length: from.length + length,
        };
        let found = search(next, path, steps);
        if found.length > best.length {
            best = found;
        }
    };
    match &from.place.content {
        Content::Scalar => {}
        Content::List(_) => {
            if let Some((index, length)) = index(rest)
                && let Some(item) = from.place.item(index)
            {
                attempt(item, None, length);
            }
        }
        Content::Mapping(entries) => {
            for (name, entry) in entries {
                if let Some(length) = step(rest, name, from.length == 0) {
                    attempt(&entry.value, Some(entry.key), length);
                }
            }
        }
    }
    best
}

/// `[3]` at the start of a path, and its length.
fn index(path: &str) -> Option<(usize, usize)> {
    let (digits, _) = path.strip_prefix('[')?.split_once(']')?;
    Some((digits.parse().ok()?, digits.len() + 2))
}

/// The length of `.name`, `[name]` or, at the start, `name`, if the path continues with it.
fn step(path: &str, name: &str, is_start: bool) -> Option<usize> {
    let ends = |length: usize| {
        let rest = path.get(length..)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some(length)
    };
    if is_start {
        return path.strip_prefix(name).and_then(|_| ends(name.len()));
    }
    match path.as_bytes().first()? {
        b'.' => path
            .get(1..)?
            .strip_prefix(name)
            .and_then(|_| ends(name.len() + 1)),
        b'[' => {
            let rest = path.get(1..)?.strip_prefix(name)?;
            rest.strip_prefix(']').and_then(|_| ends(name.len() + 2))
        }
        _ => None,
    }
}

/// The key of a field; the first key of an item of a list; or the start of anything else.
fn around(source: &Source, found: Found<'_>) -> Located {
    let span = found.key.unwrap_or_else(|| head(source, found.place));
    Located {
        span,
        // The key is where the alias is, not where its anchor is.
        alias: found.alias.filter(|_| found.place.alias.is_none()),
    }
}

/// The start of a value without a key: its first key, its first line if it is a scalar, or else its first character.
pub fn head(source: &Source, place: &Place) -> Span {
    if let Content::Mapping(entries) = &place.content
        && !source.slice(place.span).starts_with('{')
        && let Some(first) = entries
            .values()
            .map(|entry| entry.key)
            .filter(|key| place.span.start <= key.start && key.end <= place.span.end)
            .min()
    {
        return first;
    }
    let text = source.slice(place.span);
    let length = match place.content {
        Content::Scalar => text.lines().next().map_or(0, str::len),
        _ => text.chars().next().map_or(0, char::len_utf8),
    };
    Span {
        start: place.span.start,
        end: place.span.start + length,
    }
}

/// The only occurrence of the offending text in a longer value, or the value.
fn part(source: &Source, span: Span, value: &str) -> Span {
    let text = source.slice(span);
    let lines = text.trim_end().contains('\n');
    let found = only(text, value).or_else(|| if lines { start_of(text, value) } else { None });
    match found {
        Some((at, length)) => Span {
            start: span.start + at,
            end: span.start + at + length,
        },
        None => Span {
            start: span.start,
            end: span.start + text.trim_end().len(),
        },
    }
}

/// The only occurrence of a part of a text, and its length.
fn only(text: &str, part: &str) -> Option<(usize, usize)> {
    let mut found = text.match_indices(part).map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(at), None) if !part.is_empty() => Some((at, part.len())),
        _ => None,
    }
}

/// The only occurrence of the first words of a value, as many as there are in one line: the lines of a value are indented or folded in the
/// text.
fn start_of(text: &str, value: &str) -> Option<(usize, usize)> {
    let line = value.lines().find(|line| !line.trim().is_empty())?.trim();
    let ends = line.match_indices(' ').map(|(at, _)| at).chain([line.len()]);
    let ends: Vec<_> = ends.take(MAX_WORDS).collect();
    ends.into_iter()
        .rev()
        .filter_map(|end| line.get(..end))
        .find_map(|words| only(text, words))
}

#[cfg(test)]
mod tests {
    use go_formats::yaml::{Quota, read_located};
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
metadata: {name: web}
spec:
  labels:
    a b: x
    a.b/c: 'y z'
  helm:
    chart: \"\"
    values:
      a.b:
        c: \"x ${ .Nope y\"
      a:
        b:
        - d
  targets:
  - &first
    name: one
  - *first
  - {clusterName: c}
  empty:
";

    fn found(path: &str, value: &str) -> (String, usize, Option<usize>) {
        let source = Source::new("a.yaml".to_owned(), TEXT.to_owned());
        let located = read_located(TEXT, &mut Quota::default()).unwrap();
        let found = locate(&source, located.place.as_ref().unwrap(), path, value);
        let line = |span| source.region(span).line;
        (
            source.slice(found.span).to_owned(),
            line(found.span),
            found.alias.map(line),
        )
    }

    #[test]
    fn fields_are_found() {
        for (path, value, text, line, alias) in [
            ("metadata.name", "web", "web", 1, None),
            ("metadata.namespace", "", "metadata", 1, None),
            ("spec.labels", "a b", "a b", 4, None),
            ("spec.labels[a.b/c]", "y z", "y z", 5, None),
            ("spec.labels[nope]", "", "labels", 3, None),
            ("spec.helm.chart", "", "\"\"", 7, None),
            ("spec.helm.repo", "", "helm", 6, None),
            ("spec.helm.values", "", "values", 8, None),
            ("spec.helm.values.a.b.c", "${ .Nope y", "${ .Nope y", 10, None),
            ("spec.helm.values.a.b[0]", "", "d", 13, None),
            ("spec.targets[0]", "", "name", 16, None),
            ("spec.targets[1].name", "one", "one", 16, Some(17)),
            ("spec.targets[2]", "", "{", 18, None),
            ("spec.targets[2].helm", "", "{", 18, None),
            ("spec.targets[7].helm", "", "targets", 14, None),
            ("spec.empty", "", "empty", 19, None),
            ("status", "", "metadata", 1, None),
            ("", "", "metadata", 1, None),
        ] {
            assert_eq!(found(path, value), (text.to_owned(), line, alias), "{path}");
        }
    }

    #[test]
    fn warnings_are_split_after_their_path() {
        let text = "spec: {helm: {values: {\"a: b\": c}, version: 1.x}}\n";
        let located = read_located(text, &mut Quota::default()).unwrap();
        let root = located.place.unwrap();
        for (warning, path, message) in [
            (
                "spec.helm.version: \"1.x\": no",
                "spec.helm.version",
                "\"1.x\": no",
            ),
            ("spec.helm.values.a: b: no", "spec.helm.values.a: b", "no"),
            ("spec.targets: empty: so", "spec.targets", "empty: so"),
            ("nothing", "", "nothing"),
        ] {
            assert_eq!(split_path(&root, warning), (path, message), "{warning}");
        }
    }

    proptest! {
        /// Any path, of any document, leads to a text of the document.
        #[test]
        fn every_path_leads_into_the_document(
            text in "([a-c]: |\n|\n  |\n    |- |\\[|\\]|\\{|\\}|, |&a |\\*a|<<: |'|\"|é|x|\\||a\\.b: |😀){0,30}",
            path in "(spec|a|b|c|\\.|\\[|\\]|0|1|a\\.b|é|😀){0,12}",
            value in "(a|b|x|é|){0,2}"
        ) {
            if let Ok(located) = read_located(&text, &mut Quota::default())
                && let Some(place) = &located.place
            {
                let source = Source::new("a.yaml".to_owned(), text.clone());
                let found = locate(&source, place, &path, &value);
                for span in [Some(found.span), found.alias].into_iter().flatten() {
                    prop_assert!(text.get(span.start..span.end).is_some(), "{:?} {:?} {:?}", text, path, span);
                    let region = source.region(span);
                    prop_assert!(region.line <= text.lines().count().max(1) + 1);
                    let line = source.line(span);
                    prop_assert!(line.text.get(line.marked.clone()).is_some());
                }
                let _ = split_path(place, &format!("{path}: {value}"));
            }
        }
    }

    #[test]
    fn a_key_before_an_alias_is_where_the_alias_is() {
        let text = "helm: &h {repo: x}\ntargets:\n- helm: *h\n";
        let located = read_located(text, &mut Quota::default()).unwrap();
        let source = Source::new("a.yaml".to_owned(), text.to_owned());
        let found = locate(&source, &located.place.unwrap(), "targets[0].helm.chart", "");
        assert_eq!((source.slice(found.span), found.alias), ("helm", None));
        assert_eq!(source.region(found.span).line, 3);
    }
}
