//! Colors and emphasis, on terminals only.
//!
//! A text in a style has a mark before each code, until [`Writer`](super::writer::Writer) writes it. The mark is random, so no other text
//! has it: what looks like a code elsewhere is not of this program.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{1b}{:016x}", RandomState::new().hash_one(std::process::id())));
/// The code after each text in a style.
const END: &str = "\u{1b}[0m";

/// What a text means; the terminal's palette decides how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As it should be.
    Good,
    /// Not yet, or questionable.
    Pending,
    /// Wrong.
    Bad,
    /// Less important.
    Faint,
    /// More important.
    Strong,
}

impl Style {
    const ALL: [Self; 5] = [Self::Good, Self::Pending, Self::Bad, Self::Faint, Self::Strong];

    const fn code(self) -> &'static str {
        match self {
            Self::Good => "\u{1b}[32m",
            Self::Pending => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Faint => "\u{1b}[2m",
            Self::Strong => "\u{1b}[1m",
        }
    }
}

/// Whether styles are written.
#[derive(Clone, Copy, Debug)]
pub struct Styles {
    is_enabled: bool,
}

impl Styles {
    /// Styles, or none.
    pub const fn new(is_enabled: bool) -> Self {
        Self { is_enabled }
    }

    /// The text in a style, for a [`Writer`](super::writer::Writer).
    pub fn paint(self, style: Style, text: &str) -> String {
        if self.is_enabled && !text.is_empty() {
            format!("{mark}{}{text}{mark}{END}", style.code(), mark = *MARK)
        } else {
            text.to_owned()
        }
    }
}

/// The parts of a text between marks. Each but the first starts with a code.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(MARK.as_str())
}

/// The code at the start of a part, and the rest.
pub(super) fn split_code(part: &str) -> (&'static str, &str) {
    let codes = Style::ALL.map(Style::code).into_iter().chain([END]);
    let mut found = codes.filter_map(|code| Some((code, part.strip_prefix(code)?)));
    found.next().unwrap_or(("", part))
}
