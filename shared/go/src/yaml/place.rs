//! Where keys and values are in a text.

use std::collections::BTreeMap;

/// A range of a text, in bytes. Both ends are between characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
}

impl Span {
    /// From the start of this range to the end of another one.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            start: self.start,
            end: other.end.max(self.end),
        }
    }

    /// Whether it contains nothing, such as that of a value that is left out.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The same range in a text that has `offset` bytes more at its start.
    #[must_use]
    pub const fn after(self, offset: usize) -> Self {
        Self {
            start: self.start + offset,
            end: self.end + offset,
        }
    }
}

/// Where a value is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The value: a scalar with its quotes, or a collection with all of its content. If the value is that of an alias, its anchor's.
    pub span: Span,
    /// The alias that the value is of, such as `*base`.
    pub alias: Option<Span>,
    /// The parts of the value.
    pub content: Content,
}

/// The parts of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// A scalar, which has no parts.
    #[default]
    Scalar,
    /// The items of a list.
    List(Vec<Place>),
    /// The entries of a mapping, with those of merged mappings.
    Mapping(BTreeMap<String, Entry>),
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Span,
    /// Its value.
    pub value: Place,
    /// Earlier entries of the mapping with the same key, which this one replaces; without those of merged mappings.
    pub replaced: Vec<Span>,
    /// Whether it is from a merged mapping.
    pub is_merged: bool,
}

impl Place {
    /// The entry of a mapping.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Mapping(entries) => entries.get(key),
            Content::Scalar | Content::List(_) => None,
        }
    }

    /// The item of a list.
    pub fn item(&self, index: usize) -> Option<&Self> {
        match &self.content {
            Content::List(items) => items.get(index),
            Content::Scalar | Content::Mapping(_) => None,
        }
    }
}

impl Place {
    /// Moves it, for a text that is a part of a longer one.
    pub fn shift(&mut self, offset: usize) {
        self.span = self.span.after(offset);
        self.alias = self.alias.map(|alias| alias.after(offset));
        match &mut self.content {
            Content::Scalar => {}
            Content::List(items) => items.iter_mut().for_each(|item| item.shift(offset)),
            Content::Mapping(entries) => {
                for entry in entries.values_mut() {
                    entry.key = entry.key.after(offset);
                    entry.value.shift(offset);
                    for key in &mut entry.replaced {
                        *key = key.after(offset);
                    }
                }
            }
        }
    }
}

/// How positions are recorded while a text is read: `()` records none.
pub(super) trait Track: Clone {
    /// The entries of a mapping that is being read.
    type Entries: Default;

    fn scalar(span: Span) -> Self;
    fn list(span: Span, items: Vec<Self>) -> Self;
    fn mapping(span: Span, entries: Self::Entries) -> Self;
    /// Adds an entry, which replaces one with the same key.
    fn insert(entries: &mut Self::Entries, name: &str, key: &Self, value: Self);
    /// Adds the entries of a mapping, or of the mappings of a list, of which the first one takes precedence. They replace entries with the
    /// same keys.
    fn merge(entries: &mut Self::Entries, other: &Self);
    /// The same value, used by an alias.
    fn aliased(self, at: Span) -> Self;
}

impl Track for () {
    type Entries = ();

    fn scalar(_: Span) -> Self {}
    fn list(_: Span, _: Vec<Self>) -> Self {}
    fn mapping(_: Span, (): ()) -> Self {}
    fn insert((): &mut (), _: &str, (): &Self, (): Self) {}
    fn merge((): &mut (), (): &Self) {}
    fn aliased(self, _: Span) -> Self {}
}

impl Track for Place {
    type Entries = BTreeMap<String, Entry>;

    fn scalar(span: Span) -> Self {
        Self {
            span,
            ..Self::default()
        }
    }

    fn list(span: Span, items: Vec<Self>) -> Self {
        Self {
            span,
            alias: None,
            content: Content::List(items),
        }
    }

    fn mapping(span: Span, entries: Self::Entries) -> Self {
        Self {
            span,
            alias: None,
            content: Content::Mapping(entries),
        }
    }

    fn insert(entries: &mut Self::Entries, name: &str, key: &Self, value: Self) {
        let key = key.alias.unwrap_or(key.span);
        let entry = Entry {
            key,
            value,
            replaced: Vec::new(),
            is_merged: false,
        };
        add(entries, name, entry);
    }

    fn merge(entries: &mut Self::Entries, other: &Self) {
        match &other.content {
            Content::Scalar => {}
            Content::List(items) => items.iter().rev().for_each(|item| Self::merge(entries, item)),
            Content::Mapping(others) => {
                for (name, entry) in others {
                    let mut entry = entry.clone();
                    // The alias of the whole mapping is that of each entry.
                    entry.value.alias = other.alias.or(entry.value.alias);
                    entry.is_merged = true;
                    add(entries, name, entry);
                }
            }
        }
    }

    fn aliased(self, at: Span) -> Self {
        Self {
            alias: Some(at),
            ..self
        }
    }
}

/// Adds an entry, which replaces one with the same key. Only a merged entry is there to be replaced.
fn add(entries: &mut BTreeMap<String, Entry>, name: &str, mut entry: Entry) {
    entry.replaced = match entries.remove(name) {
        Some(mut earlier) => {
            if !earlier.is_merged {
                earlier.replaced.push(earlier.key);
            }
            earlier.replaced
        }
        None => Vec::new(),
    };
    entries.insert(name.to_owned(), entry);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml::{Quota, read_exact, read_located};

    /// The texts of a key and its value, by a path of keys and indexes.
    fn texts<'t>(text: &'t str, path: &[&str]) -> (&'t str, &'t str) {
        let located = read_located(text, &mut Quota::default()).unwrap();
        let mut place = located.place.as_ref().unwrap();
        let mut key = Span::default();
        for step in path {
            if let Ok(index) = step.parse() {
                place = place.item(index).unwrap();
                key = Span::default();
            } else {
                let entry = place.entry(step).unwrap();
                (key, place) = (entry.key, &entry.value);
            }
        }
        (&text[key.start..key.end], &text[place.span.start..place.span.end])
    }

    #[test]
    fn keys_and_values_are_found_where_they_are() {
        let text = "# é\nspec: # comment\n  \"chart\": 'we''b'\n  list:\n  - a\n  - {b: [1, \"ü\"]}\n  empty:\n  text: |\n    one\n    two\nlast: x\n";
        for (path, key, value) in [
            (&["spec", "chart"][..], "\"chart\"", "'we''b'"),
            (&["spec", "list", "0"], "", "a"),
            (&["spec", "list", "1", "b", "1"], "", "\"ü\""),
            (&["spec", "list", "1"], "", "{b: [1, \"ü\"]}"),
            (&["last"], "last", "x"),
        ] {
            assert_eq!(texts(text, path), (key, value), "{path:?}");
        }
        let (key, value) = texts(text, &["spec", "empty"]);
        assert_eq!((key, value.trim()), ("empty", ""));
        let (key, value) = texts(text, &["spec", "text"]);
        assert_eq!(key, "text");
        assert!(value.contains("one\n    two"), "{value:?}");
        let (key, value) = texts(text, &["spec"]);
        assert_eq!(key, "spec");
        assert!(value.starts_with("\"chart\""), "{value:?}");
    }

    #[test]
    fn the_value_of_an_alias_is_that_of_its_anchor() {
        let text = "base: &base {chart: web, version: 1.x}\none: *base\ntwo:\n  <<: *base\n  version: 2.x\n";
        let located = read_located(text, &mut Quota::default()).unwrap();
        let root = located.place.unwrap();
        let shown = |span: Span| &text[span.start..span.end];
        let one = &root.entry("one").unwrap().value;
        assert_eq!(shown(one.alias.unwrap()), "*base");
        assert_eq!(shown(one.entry("chart").unwrap().value.span), "web");
        let two = &root.entry("two").unwrap().value;
        let chart = &two.entry("chart").unwrap().value;
        assert_eq!((shown(chart.span), shown(chart.alias.unwrap())), ("web", "*base"));
        let version = &two.entry("version").unwrap().value;
        assert_eq!((shown(version.span), version.alias), ("2.x", None));
    }

    #[test]
    fn repeated_keys_are_kept() {
        let text = "a: 1\nb: 2\na: 3\n'a': 4\n";
        let located = read_located(text, &mut Quota::default()).unwrap();
        assert_eq!(located.value, serde_json::json!({ "a": 4, "b": 2 }));
        let root = located.place.unwrap();
        let entry = root.entry("a").unwrap();
        assert_eq!(entry.key, Span { start: 15, end: 18 });
        assert_eq!(
            entry.replaced,
            [Span { start: 0, end: 1 }, Span { start: 10, end: 11 }]
        );
        assert!(root.entry("b").unwrap().replaced.is_empty());
    }

    #[test]
    fn errors_have_a_position() {
        for (text, at) in [
            ("a: 1\nb: c: d\n", 9),
            ("a:\n\tb: 1\n", 3),
            ("a: [1, 2\nb: 3\n", 10),
            ("a: 1\n? [x]\n: 2\n", 7),
            ("a: *b\n", 3),
        ] {
            let error = read_located(text, &mut Quota::default()).unwrap_err();
            assert_eq!(error.at, at, "{text:?}: {error}");
        }
    }

    #[test]
    fn a_second_document_is_noticed() {
        let ignored = |text: &str| read_located(text, &mut Quota::default()).unwrap().ignored;
        assert_eq!(ignored("a: 1\n...\nb: 2\n"), Some(9));
        assert_eq!(ignored("a: 1\n...\n# nothing\n"), None);
        assert_eq!(ignored("# nothing\n"), None);
    }

    fn check(place: &Place, text: &str) {
        for span in [Some(place.span), place.alias].into_iter().flatten() {
            assert!(span.start <= span.end, "{text:?}: {span:?}");
            assert!(text.get(span.start..span.end).is_some(), "{text:?}: {span:?}");
        }
        match &place.content {
            Content::Scalar => {}
            Content::List(items) => items.iter().for_each(|item| check(item, text)),
            Content::Mapping(entries) => {
                for entry in entries.values() {
                    assert!(text.get(entry.key.start..entry.key.end).is_some(), "{text:?}");
                    check(&entry.value, text);
                }
            }
        }
    }

    proptest! {
        /// Positions are inside of the text, between characters, and change nothing about the value.
        #[test]
        fn positions_are_in_the_text(
            text in "([a-c]|é|: |:|- |\n|\n  |\n    |\\[|\\]|\\{|\\}|, |&a |\\*a|<<: |'|\"|\\||>|#|\t|1|\\.|\\?|!!str |~|\r\n|😀){0,40}"
        ) {
            let plain = read_exact(&text, &mut Quota::default());
            match read_located(&text, &mut Quota::default()) {
                Ok(located) => {
                    // An error in a second document is found only here.
                    prop_assert_eq!(plain.as_ref(), Ok(&located.value));
                    if let Some(place) = &located.place {
                        check(place, &text);
                    }
                }
                Err(error) => prop_assert!(text.is_char_boundary(error.at), "{:?}: {:?}", text, error),
            }
        }
    }
}
