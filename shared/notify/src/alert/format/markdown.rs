//! Texts that services read as Markdown: a chart, a registry or a cluster has written parts of them.

/// Mentions that Discord reads although they are escaped.
const MENTIONS: [&str; 2] = ["everyone", "here"];

/// A text that Markdown shows as it is: without links, mentions, headings, quotes, lists and emphasis.
///
/// What has no meaning stays, such as `_` within a word: clients make links of the URLs in a text, and would take a `\` for a part of
/// them.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut is_start_of_line = true;
    for (at, c) in text.char_indices() {
        let (_, rest) = text.split_at(at + c.len_utf8());
        let after = rest.chars().next();
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let has_meaning = match c {
            '\\' | '`' | '*' | '~' | '[' | ']' | '(' | ')' | '<' | '|' => true,
            '_' => !(is_word(before) && is_word(after)),
            '#' | '>' | '-' | '+' | '=' => is_start_of_line,
            // A list with numbers.
            '.' => after.is_none_or(char::is_whitespace) && ends_with_line_of_digits(&escaped),
            _ => false,
        };
        if has_meaning {
            escaped.push('\\');
        }
        escaped.push(c);
        if c == '@' && MENTIONS.iter().any(|mention| starts_with(rest, mention)) {
            escaped.push('\u{200b}');
        }
        is_start_of_line = c == '\n' || is_start_of_line && c.is_whitespace();
        before = Some(c);
    }
    escaped
}

/// Whether the last line of a text is a number.
fn ends_with_line_of_digits(text: &str) -> bool {
    let line = text.rsplit('\n').next().unwrap_or_default().trim_start();
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|found| found.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_texts_are_shown_as_they_are() {
        for (text, expected) in [
            ("[log in](https://evil)", r"\[log in\]\(https://evil\)"),
            ("![x](https://evil/x.png)", r"!\[x\]\(https://evil/x.png\)"),
            ("[a]: https://evil", r"\[a\]: https://evil"),
            (r"\[a\](b)", r"\\\[a\\\]\(b\)"),
            ("<https://evil|log in>", r"\<https://evil\|log in>"),
            ("<@123> <@&1> <!here>", r"\<@123> \<@&1> \<!here>"),
            ("@everyone @HERE", "@\u{200b}everyone @\u{200b}HERE"),
            ("# a\n  ## b #c", "\\# a\n  \\## b #c"),
            ("-# a\n> b\n- c\n+ d", "\\-# a\n\\> b\n\\- c\n\\+ d"),
            ("a\n---\nb\n===", "a\n\\---\nb\n\\==="),
            ("1. a\n 23. b", "1\\. a\n 23\\. b"),
            ("**a** _b_ __c__ ~~d~~", r"\*\*a\*\* \_b\_ \_\_c\_\_ \~\~d\~\~"),
            (
                "```\na\n``` `b` ||c||",
                "\\`\\`\\`\na\n\\`\\`\\` \\`b\\` \\|\\|c\\|\\|",
            ),
        ] {
            assert_eq!(escape(text), expected, "{text}");
        }
    }

    #[test]
    fn what_has_no_meaning_stays() {
        for text in [
            "3 of 200 clusters fail: ErrApplied: fleet/c-1: timeout",
            "6.5.1+b is ready, see https://wiki.example.com/run_books/a-b.html#first",
            "cannot fetch oci://r.example/charts/web@sha256:0123: 404 & \"more\"",
            "user@example.com; 1.2.3 > 1.2.2",
            "",
        ] {
            assert_eq!(escape(text), text);
        }
    }
}
