//! The marks before lines of results.

use super::style::{Style, Styles};

/// Marks that the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// ✔ ! ✗
    Unicode,
    /// ok ! x
    Ascii,
}

impl Marks {
    /// Those for the locale of the process.
    pub fn of_process() -> Self {
        let variables = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).unwrap_or_default());
        Self::of_locale(&variables)
    }

    /// The first of the variables with a value decides, as in the C library.
    fn of_locale(variables: &[String]) -> Self {
        let locale = variables.iter().find(|value| !value.is_empty());
        let locale = locale
            .map(|locale| locale.to_ascii_lowercase())
            .unwrap_or_default();
        if locale.ends_with("utf-8") || locale.ends_with("utf8") {
            Self::Unicode
        } else {
            Self::Ascii
        }
    }

    /// The mark of what has this style, in its color. All have the same width.
    pub fn mark(self, style: Style, styles: Styles) -> String {
        let text = match (self, style) {
            (Self::Unicode, Style::Good) => "✔",
            (Self::Unicode, Style::Bad) => "✗",
            (Self::Unicode, Style::Pending) => "!",
            (Self::Unicode, Style::Faint | Style::Strong) => "-",
            (Self::Ascii, Style::Good) => "ok",
            (Self::Ascii, Style::Bad) => "x ",
            (Self::Ascii, Style::Pending) => "! ",
            (Self::Ascii, Style::Faint | Style::Strong) => "- ",
        };
        styles.paint(style, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_between_unicode_and_ascii() {
        for (variables, expected) in [
            (["", "", "en_US.UTF-8"], Marks::Unicode),
            (["", "C.utf8", "C"], Marks::Unicode),
            (["C", "", "en_US.UTF-8"], Marks::Ascii),
            (["", "", ""], Marks::Ascii),
        ] {
            assert_eq!(
                Marks::of_locale(&variables.map(str::to_owned)),
                expected,
                "{variables:?}"
            );
        }
    }
}
