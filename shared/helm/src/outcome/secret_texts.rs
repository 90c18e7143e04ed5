//! Values of Secrets, which no message and no record shows.

use std::{collections::BTreeSet, fmt, sync::Arc};

/// What stands for a value of a Secret.
const HIDDEN: &str = "…";
/// Values with fewer bytes are not hidden: they would be found in the middle of other words.
const MIN_BYTES: usize = 6;

/// Texts that are hidden, each once. Clones share them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretTexts(Arc<BTreeSet<Box<str>>>);

impl SecretTexts {
    /// These texts, and the lines of longer ones; without what is too short to be found, and without `names`, which are no secret.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>, names: &[&str]) -> Self {
        let lines = |text: &'t str| text.lines().map(str::trim).chain([text]);
        let texts = texts.into_iter().flat_map(lines);
        let hidden = texts.filter(|text| text.len() >= MIN_BYTES && !names.contains(text));
        Self(Arc::new(hidden.map(Box::from).collect()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without these texts, as they are or as Go quotes them: the longest ones first, since one may be a part of another. It must not
    /// be cut before: the start of a secret does not look like one.
    pub fn hide(&self, text: &str) -> String {
        let mut hidden: Vec<&str> = self.0.iter().map(AsRef::as_ref).collect();
        hidden.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut text = text.to_owned();
        for secret in hidden {
            replace(&mut text, secret);
            let quoted = format!("{secret:?}");
            let quoted = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            if quoted != secret {
                replace(&mut text, quoted);
            }
        }
        text
    }
}

fn replace(text: &mut String, secret: &str) {
    if text.contains(secret) {
        *text = text.replace(secret, HIDDEN);
    }
}

impl fmt::Debug for SecretTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_secrets_are_hidden_as_they_are_and_quoted() {
        let texts = [
            "hunter2",
            "hunter2-very-secret",
            "short",
            "",
            "a\"b\\c\nd-of-key",
            "web-shop",
        ];
        let secrets = SecretTexts::of(texts, &["web-shop"]);
        for (text, expected) in [
            (
                "Invalid value: \"hunter2-very-secret\": hunter2 is short",
                "Invalid value: \"…\": … is short",
            ),
            (r#"Invalid value: "a\"b\\c\nd-of-key""#, "Invalid value: \"…\""),
            ("line d-of-key of it", "line … of it"),
            ("release web-shop", "release web-shop"),
        ] {
            assert_eq!(secrets.hide(text), expected);
        }
        assert!(!format!("{secrets:?}").contains("hunter2"));
    }

    /// A Secret with a million lines.
    #[test]
    fn what_is_not_hidden_takes_no_memory() {
        let text = "\n".repeat(1 << 20) + &"same-line\n".repeat(1 << 10);
        let secrets = SecretTexts::of([&*text; 3], &[]);
        assert_eq!(secrets.0.len(), 2);
    }
}
