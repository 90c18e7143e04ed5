//! Texts that may be used, by patterns.

use regex::{Regex, RegexBuilder};

use super::{
    chart::{Compared, PolicySubject},
    expression::{is_plain, rewrite},
    list::{Entry, List},
};
use crate::{chart::url, text::cut};

/// Longest text of the regular expressions of a list together, in bytes. Lists that people write have a few thousand; to
/// read a text can take some two thousand times its length.
const MAX_TEXT: usize = 32 * 1024;

/// Most memory that the regular expressions of a list take together once they are compiled, in bytes: room for some 1,500
/// such as `chart-1-.*`.
const MAX_COMPILED: usize = 2 * 1024 * 1024;

/// Most memory, in bytes, that a search keeps for the next one to be faster; less than the crate's own 2 MiB because there
/// are three lists in each namespace that has Policies, and their texts are short.
const MAX_CACHE: usize = 256 * 1024;

/// Longest text that a message repeats, in bytes: enough to recognise it.
const MAX_SHOWN: usize = 120;

/// Which texts a HelmOp may use in a field, compiled.
///
/// As in Fleet, an entry allows the text that is equal to it, and every text that it matches as a regular expression from
/// end to end. Entries are gone through in their order, and the first that is no regular expression ends that.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// What the texts are, in Fleet's words.
    what: &'static str,
    list: List,
    /// The regular expressions up to the broken one, as one.
    matcher: Option<Regex>,
    broken: Option<Broken>,
}

/// An entry that is no regular expression.
#[derive(Clone, Debug)]
struct Broken {
    index: usize,
    why: String,
}

impl Patterns {
    pub fn new(what: &'static str, list: List) -> Self {
        let (mut expressions, mut broken) = read(&list);
        let matcher = compile(&expressions).or_else(|why| {
            let usable = usable(&expressions);
            // What is wrong with the next entry alone, or else that it is too much together with those before it.
            let alone = expressions.get(usable..=usable).map(compile);
            broken = Some(Broken {
                index: usable,
                why: explain(&alone.and_then(Result::err).unwrap_or(why)),
            });
            expressions.truncate(usable);
            compile(&expressions)
        });
        Self {
            what,
            list,
            matcher: matcher.ok().flatten(),
            broken,
        }
    }

    /// Whether there are no entries, so that every text may be used.
    pub const fn is_empty(&self) -> bool {
        self.list.entries.is_empty()
    }

    /// Whether a text may be used.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn check(&self, told: &PolicySubject<'_>) -> Result<(), String> {
        if self.is_empty() || self.allows(told) {
            return Ok(());
        }
        let (what, shown) = (self.what, shown(told));
        if let Some((broken, entry)) = self.broken() {
            return Err(format!(
                "disallowed {what} {shown}: policy failed to compile regex {:?}: {}; mend it in {} of Policy {:?}",
                cut(entry.text.clone(), MAX_SHOWN),
                broken.why,
                self.list.field,
                entry.policy
            ));
        }
        let (set, place) = (self.list.set(), self.list.place());
        let remedy = match &told.read {
            Ok(read) if read.iter().any(|compared| self.allows_text(&compared.text)) => format!(
                "it holds an encoded slash (%2F), and is not allowed with a slash in its place, as some servers read it; \
                 have {shown} itself added to {place}"
            ),
            Ok(_) => format!("use one that is, or have it added to {place}"),
            Err(why) => format!("it is not compared with patterns, because {why}"),
        };
        Err(format!(
            "disallowed {what} {shown}: {shown} not in allowed set {set}; {remedy}"
        ))
    }

    fn allows(&self, told: &PolicySubject<'_>) -> bool {
        let read = told.read.as_deref().unwrap_or_default();
        self.lists(told.written) || read.iter().any(|compared| self.allows_compared(compared))
    }

    /// Whether a text may be used. One with an encoded slash is listed as it is, or allowed in both readings.
    fn allows_compared(&self, Compared { text, with_slashes }: &Compared<'_>) -> bool {
        let other = with_slashes.as_deref();
        self.lists(text) || (self.allows_text(text) && other.is_none_or(|other| self.allows_text(other)))
    }

    fn allows_text(&self, text: &str) -> bool {
        self.lists(text)
            || self
                .matcher
                .as_ref()
                .is_some_and(|matcher| matcher.is_match(text))
    }

    /// Whether an entry up to the broken one is equal to a text.
    fn lists(&self, text: &str) -> bool {
        let reached = self
            .broken
            .as_ref()
            .map_or(usize::MAX, |broken| broken.index.saturating_add(1));
        let mut entries = self.list.entries.iter().take(reached);
        entries.any(|entry| entry.text == text)
    }

    fn broken(&self) -> Option<(&Broken, &Entry)> {
        let broken = self.broken.as_ref()?;
        Some((broken, self.list.entries.get(broken.index)?))
    }
}

/// The entries up to the first that is no regular expression, for the `regex` crate. Those that match nothing but their own
/// text are `None`: they cost nothing.
fn read(list: &List) -> (Vec<Option<String>>, Option<Broken>) {
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
                "the regexes of this list are longer than {MAX_TEXT} bytes together"
            ))
        } else {
            rewrite(&entry.text).map_err(|error| error.to_string())
        };
        match rewritten {
            Ok(expression) => expressions.push(Some(expression)),
            Err(why) => return (expressions, Some(Broken { index, why })),
        }
    }
    (expressions, None)
}

/// Compiles expressions to one that matches what any of them matches; `None` where there are none.
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

/// How many expressions from the front compile together, where all of them do not.
fn usable(expressions: &[Option<String>]) -> usize {
    let (mut good, mut bad) = (0, expressions.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        let front = expressions.get(..middle).unwrap_or_default();
        if compile(front).is_ok() {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

fn explain(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!(
            "it takes more than {limit} bytes of memory, alone or together with those before it; repeat less in it"
        ),
        // The last line says what is wrong; those before it show what was made of the text.
        other => {
            let text = other.to_string();
            text.rsplit_once("error: ")
                .map_or(text.as_str(), |(_, last)| last)
                .to_owned()
        }
    }
}

fn shown(told: &PolicySubject<'_>) -> String {
    cut(url::redacted(told.written), MAX_SHOWN)
}
