//! Colors and emphasis, on terminals only.

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
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Pending => "33",
            Self::Bad => "31",
            Self::Faint => "2",
            Self::Strong => "1",
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

    /// The text in a style.
    pub fn paint(self, style: Style, text: &str) -> String {
        if self.is_enabled && !text.is_empty() {
            format!("\u{1b}[{}m{text}\u{1b}[0m", style.code())
        } else {
            text.to_owned()
        }
    }
}
