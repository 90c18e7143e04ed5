//! The documents of a file, separated as kubectl separates them.

use go_formats::yaml::place::Span;
use serde::de::IgnoredAny;

/// The documents of a text, or what is wrong between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Documents {
    /// Where each document is.
    pub spans: Vec<Span>,
    /// Separators with a text after them: kubectl rejects them.
    pub invalid_separators: Vec<Span>,
}

/// Separates documents. A text of JSON values has one document for each; any other is YAML, with lines `---` between documents.
pub fn split(text: &str) -> Documents {
    if text.trim_start().starts_with('{')
        && let Some(spans) = json(text)
    {
        return Documents {
            spans,
            invalid_separators: Vec::new(),
        };
    }
    yaml(text)
}

/// Where the values of a JSON text are; `None` if it is not JSON: flow style of YAML looks like it.
fn json(text: &str) -> Option<Vec<Span>> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let (mut spans, mut start) = (Vec::new(), 0);
    while let Some(value) = values.next() {
        value.ok()?;
        let end = values.byte_offset();
        spans.push(Span { start, end });
        start = end;
    }
    Some(spans)
}

fn yaml(text: &str) -> Documents {
    let mut documents = Documents::default();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if let Some(after) = line.strip_prefix("---") {
            documents.spans.push(Span { start, end: at });
            start = end;
            let after = after.trim();
            if !after.is_empty() && !after.starts_with('#') {
                documents.invalid_separators.push(Span {
                    start: at,
                    end: at + line.trim_end().len(),
                });
            }
        }
        at = end;
    }
    documents.spans.push(Span { start, end: at });
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        let spans = split(text).spans;
        spans.iter().map(|span| &text[span.start..span.end]).collect()
    }

    #[test]
    fn documents_are_separated_as_by_kubectl() {
        for (text, expected) in [
            ("a: 1\n---\nb: 2\n", &["a: 1\n", "b: 2\n"][..]),
            ("---\na: 1\n--- # more\nb: 2", &["", "a: 1\n", "b: 2"]),
            ("a: |\n  ---\n  x\n", &["a: |\n  ---\n  x\n"]),
            ("a: 1\r\n---\r\nb: 2\r\n", &["a: 1\r\n", "b: 2\r\n"]),
            ("", &[""]),
            ("{\"a\": 1}\n{\"b\": 2} ", &["{\"a\": 1}", "\n{\"b\": 2}"]),
            ("{a: 1}\n---\nb: 2\n", &["{a: 1}\n", "b: 2\n"]),
            ("{\"a\": 1,\n", &["{\"a\": 1,\n"]),
        ] {
            assert_eq!(texts(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_separator_has_nothing_after_it() {
        let separators = split("a: 1\n--- {b: 2}\n---#\n").invalid_separators;
        assert_eq!(separators, [Span { start: 5, end: 15 }]);
    }
}
