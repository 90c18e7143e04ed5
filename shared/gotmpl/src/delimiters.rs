//! The delimiters of actions.

/// What begins and ends an action.
///
/// [`Delimiters::GO`] is the default. As in Go's `Delims`, an empty text stands for that of the default.
///
/// ```
/// use gotmpl::Delimiters;
///
/// const DOLLAR: Delimiters<'_> = Delimiters::new("${", "}");
/// assert!(DOLLAR.has_actions("name: ${ .name }"));
/// assert!(!DOLLAR.has_actions("name: {{ .name }}"));
/// assert_eq!(Delimiters::new("", ""), Delimiters::GO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiters<'d> {
    left: &'d str,
    right: &'d str,
}

impl Delimiters<'static> {
    /// Go's default: `{{` and `}}`.
    pub const GO: Self = Self {
        left: "{{",
        right: "}}",
    };
}

impl Default for Delimiters<'_> {
    fn default() -> Self {
        Delimiters::GO
    }
}

impl<'d> Delimiters<'d> {
    /// Other delimiters; an empty one is replaced by that of [`Delimiters::GO`].
    pub const fn new(left: &'d str, right: &'d str) -> Self {
        Self {
            left: if left.is_empty() { "{{" } else { left },
            right: if right.is_empty() { "}}" } else { right },
        }
    }

    /// The left delimiter. It is never empty.
    pub const fn left(self) -> &'d str {
        self.left
    }

    /// The right delimiter. It is never empty.
    pub const fn right(self) -> &'d str {
        self.right
    }

    /// Whether a text contains an action. Without one, it renders to itself.
    pub fn has_actions(self, text: &str) -> bool {
        text.contains(self.left)
    }
}
