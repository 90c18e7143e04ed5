//! Texts without the credentials of the URLs in them.
//!
//! What helmops writes itself has none. What Helm, charts and other programs print may have, and conditions, Events, logs, spans and
//! messages have more readers than their output.

use std::borrow::Cow;

use super::redacted;

/// The text with each URL as messages show URLs: without its user part and its query.
pub fn redacted_urls(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, url, after)) = next_url(rest) {
        shown.push_str(before);
        if !url.contains(['@', '?']) {
            shown.push_str(url);
        } else if url.matches("://").nth(1).is_some() {
            // Several without a space between them: which part is a password cannot be known.
            shown.push('…');
        } else {
            shown.push_str(&redacted(url));
        }
        rest = after;
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The first URL of a text, with what is before and after it.
fn next_url(text: &str) -> Option<(&str, &str, &str)> {
    let separator = text.find("://")?;
    let (head, tail) = text.split_at(separator);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let scheme = head.trim_end_matches(is_scheme).len();
    let (before, _) = head.split_at(scheme);
    let word = tail.find(char::is_whitespace).unwrap_or(tail.len());
    // A quote ends the URL, unless it belongs to a password.
    let password = tail.get(..word).and_then(|word| word.rfind('@')).unwrap_or(0);
    let is_quote = |c: char| "\"'`<>".contains(c);
    let quote = tail
        .get(password..word)
        .and_then(|word| word.find(is_quote))
        .map_or(word, |quote| password + quote);
    let end = separator + quote;
    Some((before, text.get(scheme..end)?, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn user_parts_and_queries_are_removed_and_the_rest_stays() {
        for (text, expected) in [
            ("no URL", "no URL"),
            (
                "cannot fetch https://h.example/index.yaml: status 404",
                "cannot fetch https://h.example/index.yaml: status 404",
            ),
            (
                "cannot fetch https://user:geheim@h.example/index.yaml: status 404",
                "cannot fetch https://h.example/index.yaml: status 404",
            ),
            (
                "Get \"https://h.example/x?token=geheim\": EOF; oci://u:geheim@r.example/web",
                "Get \"https://h.example/x?…\": EOF; oci://r.example/web",
            ),
            (
                "'https://h.example/x?sig=geheim' and https://geheim@h.example/é",
                "'https://h.example/x?…' and https://h.example/é",
            ),
            (
                "see https://h.example/doc#anchor",
                "see https://h.example/doc#anchor",
            ),
            ("://", "://"),
            ("é://é", "é://é"),
        ] {
            assert_eq!(redacted_urls(text), expected);
        }
        for text in [
            "https://u:ge\"heim@h/x",
            "https://u:geheim@[bad/x",
            "a,https://u:geheim@h,https://v:geheim@h?x=geheim",
            "https://u:p?geheim@h",
            "(https://h/x?token=geheim)",
            "https://u:geheim@h/x\nhttps://u:geheim@h/x",
        ] {
            let shown = redacted_urls(text);
            assert!(
                !shown.contains("geheim") && !shown.contains("heim"),
                "{text}: {shown}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in r#"([a-z]{0,3}(://|@|\?|"| |é|:|/)){0,12}"#) {
            let shown = redacted_urls(&text);
            prop_assert!(text.contains("://") || shown == text);
        }
    }
}
