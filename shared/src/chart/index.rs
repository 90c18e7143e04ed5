//! Reading a Helm repository's `index.yaml`.
//!
//! The document is read event by event and only the versions of one chart are kept, so that memory does not grow with
//! the other charts of the repository.

use std::borrow::Cow;

use granit_parser::{Event, Parser, StrInput};
use thiserror::Error;

/// One version of a chart, as the index lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Version of the chart, as written.
    pub version: String,
    /// Where the chart archive is, relative to the repository or absolute. Empty where the index names no place.
    pub url: String,
    /// When the version was published, as written; empty if unknown.
    pub created: String,
}

/// Why an index gives no versions.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IndexError {
    /// The document is no YAML, or ends too early.
    #[error("the index is not valid YAML: {0}")]
    Malformed(String),
    /// The document is YAML but not an index: an error page, for example.
    #[error("the document is not a Helm repository index: {0}")]
    NotAnIndex(&'static str),
    /// The index does not list the chart.
    #[error("no chart name found: the index has no chart {0:?}")]
    NoSuchChart(String),
}

/// Reads the versions of `chart`, in the order of the index. Entries without a version are passed over.
///
/// # Errors
/// Where the text is no index, or has no such chart.
pub fn versions(text: &str, chart: &str) -> Result<Vec<IndexEntry>, IndexError> {
    let mut reader = Reader::new(text);
    let mut found = None;
    let mut has_entries = false;
    reader.document(|reader, key| {
        if key != "entries" {
            return reader.skip();
        }
        has_entries = true;
        reader.mapping(|reader, name| {
            if name != chart {
                return reader.skip();
            }
            found = Some(reader.entries()?);
            Ok(())
        })
    })?;
    match found {
        Some(entries) => Ok(entries),
        None if has_entries => Err(IndexError::NoSuchChart(chart.to_owned())),
        None => Err(IndexError::NotAnIndex("it has no `entries`")),
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let mut options = granit_parser::options! {};
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(text.trim_start_matches('\u{feff}'), options),
        }
    }

    fn next(&mut self) -> Result<Event<'t>, IndexError> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(IndexError::Malformed(error.to_string())),
            None => Err(IndexError::Malformed("it ends too early".to_owned())),
        }
    }

    /// Reads the whole document, a mapping, to its end.
    fn document(
        &mut self,
        field: impl FnMut(&mut Self, &str) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        loop {
            match self.next()? {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::MappingStart(..) => break,
                Event::StreamEnd => return Err(IndexError::NotAnIndex("it is empty")),
                Event::SequenceStart(..) => return Err(IndexError::NotAnIndex("it is a list")),
                _ => return Err(IndexError::NotAnIndex("it is plain text or a web page")),
            }
        }
        self.fields(field)?;
        // A document that breaks off later is not to be trusted either.
        while self.next()? != Event::StreamEnd {}
        Ok(())
    }

    /// Reads a mapping; anything else counts as an empty one.
    fn mapping(
        &mut self,
        field: impl FnMut(&mut Self, &str) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        match self.next()? {
            Event::MappingStart(..) => self.fields(field),
            other => self.skip_after(&other),
        }
    }

    /// Reads the fields of a mapping that has begun. `field` must read the value of its key.
    fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, &str) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        loop {
            match self.next()? {
                Event::MappingEnd => return Ok(()),
                Event::Scalar(key, ..) => field(self, &key)?,
                // A key that is no scalar is none that is looked for.
                other => {
                    self.skip_after(&other)?;
                    self.skip()?;
                }
            }
        }
    }

    /// Reads a sequence; anything else counts as an empty one. `item` must read the item that begins with its event.
    fn sequence(
        &mut self,
        mut item: impl FnMut(&mut Self, Event<'t>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        match self.next()? {
            Event::SequenceStart(..) => {}
            other => return self.skip_after(&other),
        }
        loop {
            match self.next()? {
                Event::SequenceEnd => return Ok(()),
                event => item(self, event)?,
            }
        }
    }

    /// Reads a scalar; anything else counts as an empty one.
    fn scalar(&mut self) -> Result<Cow<'t, str>, IndexError> {
        match self.next()? {
            Event::Scalar(text, ..) => Ok(text),
            other => self.skip_after(&other).map(|()| Cow::Borrowed("")),
        }
    }

    /// The list of a chart's versions.
    fn entries(&mut self) -> Result<Vec<IndexEntry>, IndexError> {
        let mut entries = Vec::new();
        self.sequence(|reader, event| {
            if !matches!(event, Event::MappingStart(..)) {
                return reader.skip_after(&event);
            }
            let mut entry = IndexEntry::default();
            reader.fields(|reader, key| {
                match key {
                    "version" => entry.version = reader.scalar()?.into_owned(),
                    "created" => entry.created = reader.scalar()?.into_owned(),
                    "urls" => reader.first_url(&mut entry.url)?,
                    _ => reader.skip()?,
                }
                Ok(())
            })?;
            if !entry.version.is_empty() {
                entries.push(entry);
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn first_url(&mut self, url: &mut String) -> Result<(), IndexError> {
        self.sequence(|reader, event| match event {
            Event::Scalar(text, ..) if url.is_empty() => {
                *url = text.into_owned();
                Ok(())
            }
            other => reader.skip_after(&other),
        })
    }

    /// Passes over the next node.
    fn skip(&mut self) -> Result<(), IndexError> {
        let event = self.next()?;
        self.skip_after(&event)
    }

    /// Passes over the rest of the node that begins with `event`.
    fn skip_after(&mut self, event: &Event<'t>) -> Result<(), IndexError> {
        let mut depth = usize::from(opens(event));
        while depth > 0 {
            match self.next()? {
                Event::MappingEnd | Event::SequenceEnd => depth -= 1,
                event if opens(&event) => depth += 1,
                _ => {}
            }
        }
        Ok(())
    }
}

fn opens(event: &Event<'_>) -> bool {
    matches!(event, Event::MappingStart(..) | Event::SequenceStart(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "\
apiVersion: v1
entries:
  alpine:
  - apiVersion: v2
    created: \"2026-01-02T03:04:05Z\"
    dependencies:
    - name: version
      version: 9.9.9
    description: |
      version: 8.8.8
    urls:
    - alpine-0.2.0.tgz
    - https://mirror.example.com/alpine-0.2.0.tgz
    version: 0.2.0
  - null
  - name: lacks a version
  - {version: 0.1.0, urls: [alpine-0.1.0.tgz]}
  nginx: []
generated: \"2026-01-02T03:04:05Z\"
";

    fn entry(version: &str, url: &str, created: &str) -> IndexEntry {
        IndexEntry {
            version: version.to_owned(),
            url: url.to_owned(),
            created: created.to_owned(),
        }
    }

    #[test]
    fn keeps_the_versions_of_one_chart() {
        let expected = vec![
            entry("0.2.0", "alpine-0.2.0.tgz", "2026-01-02T03:04:05Z"),
            entry("0.1.0", "alpine-0.1.0.tgz", ""),
        ];
        assert_eq!(versions(INDEX, "alpine"), Ok(expected));
        assert_eq!(versions(INDEX, "nginx"), Ok(vec![]));
    }

    #[test]
    fn reads_json() {
        let json = r#"{"entries":{"web":[{"version":"1.0.0","urls":["web-1.0.0.tgz"]}]},"apiVersion":"v1"}"#;
        assert_eq!(
            versions(json, "web"),
            Ok(vec![entry("1.0.0", "web-1.0.0.tgz", "")])
        );
    }

    #[test]
    fn says_what_a_document_is_instead() {
        let not = |why| Err(IndexError::NotAnIndex(why));
        assert_eq!(
            versions(INDEX, "redis"),
            Err(IndexError::NoSuchChart("redis".into()))
        );
        assert_eq!(versions("", "web"), not("it is empty"));
        assert_eq!(versions("# nothing\n", "web"), not("it is empty"));
        assert_eq!(
            versions("<!DOCTYPE html><html><body>Sign in</body></html>", "web"),
            not("it is plain text or a web page")
        );
        assert_eq!(versions("- a\n", "web"), not("it is a list"));
        assert_eq!(
            versions(r#"{"message": "not found"}"#, "web"),
            not("it has no `entries`")
        );
        assert!(matches!(
            versions("entries: {web: [", "web"),
            Err(IndexError::Malformed(_))
        ));
    }

    #[test]
    fn a_document_that_breaks_off_is_refused_even_behind_the_chart() {
        let broken = format!("{INDEX}annotations: \"begun");
        assert!(matches!(
            versions(&broken, "alpine"),
            Err(IndexError::Malformed(_))
        ));
    }
}
