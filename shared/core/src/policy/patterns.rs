//! Allowed texts, as patterns.

use bounded_text::cut;
use go_formats::regexp::{is_plain, rewrite};
use helmops_model::chart::url;
use regex::{Regex, RegexBuilder};

use super::{
    chart::{Candidate, PolicySubject},
    list::{Entry, List},
};

/// Total length of the regular expressions of a list, in bytes. Usual lists have a few thousand; parsing takes up to about two
/// thousand times the length in memory.
const MAX_TEXT: usize = 32 * 1024;

/// Total memory of the compiled regular expressions of a list, in bytes: enough for about 1,500 such as `chart-1-.*`.
const MAX_COMPILED: usize = 2 * 1024 * 1024;

/// Memory that a search caches for the next one, in bytes; less than the default of the crate (2 MiB), because each namespace
/// with Policies has three lists, and the texts are short.
const MAX_CACHE: usize = 256 * 1024;

/// Longest text that a message quotes, in bytes: enough to recognise it.
pub const MAX_SHOWN: usize = 120;

/// The texts that a HelmOp may use in a field, compiled.
///
/// As in Fleet, an entry allows the text that is equal to it, and every text that it fully matches as a regular expression.
/// Entries are evaluated in order, up to the first one that is not a valid regular expression.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// What the texts are, in Fleet's words.
    kind: &'static str,
    list: List,
    /// The regular expressions before the invalid one, combined.
    matcher: Option<Regex>,
    invalid: Option<InvalidEntry>,
}

/// An entry that is not a valid regular expression.
#[derive(Clone, Debug)]
struct InvalidEntry {
    index: usize,
    error: String,
}

impl Patterns {
    pub fn new(kind: &'static str, list: List) -> Self {
        let (mut expressions, mut invalid) = parse(&list);
        let matcher = compile(&expressions).or_else(|error| {
            let usable = usable(&expressions);
            // The error of the next entry alone, or else the error that it exceeds the memory together with those before.
            let alone = expressions.get(usable..=usable).map(compile);
            invalid = Some(InvalidEntry {
                index: usable,
                error: explain(&alone.and_then(Result::err).unwrap_or(error)),
            });
            expressions.truncate(usable);
            compile(&expressions)
        });
        Self {
            kind,
            list,
            matcher: matcher.ok().flatten(),
            invalid,
        }
    }

    /// Whether there are no entries, so that every text is allowed.
    pub const fn is_empty(&self) -> bool {
        self.list.entries.is_empty()
    }

    /// Checks whether a text may be used.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn check(&self, subject: &PolicySubject<'_>) -> Result<(), String> {
        if self.is_empty() || self.allows(subject) {
            return Ok(());
        }
        let (kind, shown) = (self.kind, shown(subject));
        if let Some((invalid, entry)) = self.invalid() {
            return Err(format!(
                "disallowed {kind} {shown}: policy failed to compile regex {:?}: {}; fix it in {} of Policy {:?}",
                cut(entry.text.clone(), MAX_SHOWN),
                invalid.error,
                self.list.field,
                entry.policy
            ));
        }
        let (set, location) = (self.list.allowed_set(), self.list.location());
        let remedy = match &subject.candidates {
            Ok(candidates)
                if candidates
                    .iter()
                    .any(|candidate| self.allows_text(&candidate.text)) =>
            {
                format!(
                    "it contains an encoded slash (%2F), and is not allowed with a decoded slash, as some servers read it; have \
                 {shown} itself added to {location}"
                )
            }
            Ok(_) => format!("use one that is, or have it added to {location}"),
            Err(problem) => format!("it is not compared with patterns, because {problem}"),
        };
        Err(format!(
            "disallowed {kind} {shown}: {shown} not in allowed set {set}; {remedy}"
        ))
    }

    fn allows(&self, subject: &PolicySubject<'_>) -> bool {
        let candidates = subject.candidates.as_deref().unwrap_or_default();
        self.contains(subject.text)
            || candidates
                .iter()
                .any(|candidate| self.allows_candidate(candidate))
    }

    /// Whether a candidate may be used. One with an encoded slash must be listed literally, or be allowed in both forms.
    fn allows_candidate(&self, Candidate { text, with_slashes }: &Candidate<'_>) -> bool {
        let decoded = with_slashes.as_deref();
        self.contains(text)
            || (self.allows_text(text) && decoded.is_none_or(|decoded| self.allows_text(decoded)))
    }

    fn allows_text(&self, text: &str) -> bool {
        self.contains(text)
            || self
                .matcher
                .as_ref()
                .is_some_and(|matcher| matcher.is_match(text))
    }

    /// Whether an entry up to the invalid one is equal to a text.
    fn contains(&self, text: &str) -> bool {
        let evaluated = self
            .invalid
            .as_ref()
            .map_or(usize::MAX, |invalid| invalid.index.saturating_add(1));
        let mut entries = self.list.entries.iter().take(evaluated);
        entries.any(|entry| entry.text == text)
    }

    /// The entry that is not a valid regular expression: its index, its text, and what is wrong with it.
    pub fn invalid_entry(&self) -> Option<(usize, &str, &str)> {
        let (invalid, entry) = self.invalid()?;
        Some((invalid.index, &entry.text, &invalid.error))
    }

    fn invalid(&self) -> Option<(&InvalidEntry, &Entry)> {
        let invalid = self.invalid.as_ref()?;
        Some((invalid, self.list.entries.get(invalid.index)?))
    }
}

/// Rewrites the entries before the first invalid one for the `regex` crate. Those that match only their own text are `None`:
/// they cost nothing.
fn parse(list: &List) -> (Vec<Option<String>>, Option<InvalidEntry>) {
    let mut expressions = Vec::with_capacity(list.entries.len());
    let mut length = 0;
    for (index, entry) in list.entries.iter().enumerate() {
        if is_plain(&entry.text) {
            expressions.push(None);
            continue;
        }
        length += entry.text.len();
        let rewritten = if length > MAX_TEXT {
            Err(format!(
                "the regexes of this list are longer than {MAX_TEXT} bytes in total"
            ))
        } else {
            rewrite(&entry.text).map_err(|error| error.to_string())
        };
        match rewritten {
            Ok(expression) => expressions.push(Some(expression)),
            Err(error) => return (expressions, Some(InvalidEntry { index, error })),
        }
    }
    (expressions, None)
}

/// Combines expressions into one that matches if any of them does; `None` if there are none.
fn compile(expressions: &[Option<String>]) -> Result<Option<Regex>, regex::Error> {
    let alternatives: Vec<_> = expressions
        .iter()
        .flatten()
        .map(|text| format!("(?:{text})"))
        .collect();
    if alternatives.is_empty() {
        return Ok(None);
    }
    RegexBuilder::new(&format!(r"\A(?:{})\z", alternatives.join("|")))
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_CACHE)
        .build()
        .map(Some)
}

/// The number of leading expressions that compile together, if not all of them do.
fn usable(expressions: &[Option<String>]) -> usize {
    let (mut low, mut high) = (0, expressions.len());
    while high - low > 1 {
        let middle = low.midpoint(high);
        let leading = expressions.get(..middle).unwrap_or_default();
        if compile(leading).is_ok() {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn explain(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!(
            "it takes more than {limit} bytes of memory, alone or together with those before it; repeat less in it"
        ),
        // The last line has the error; those before it show the rewritten expression.
        other => {
            let text = other.to_string();
            text.rsplit_once("error: ")
                .map_or(text.as_str(), |(_, last)| last)
                .to_owned()
        }
    }
}

fn shown(subject: &PolicySubject<'_>) -> String {
    cut(url::redacted(subject.text), MAX_SHOWN)
}
