//! Each row has the result of Go's `regexp` (1.26).

use regex::Regex;

use super::{is_plain, rewrite};

fn matches(expression: &str, text: &str) -> bool {
    let rewritten = rewrite(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    Regex::new(&format!(r"\A(?:{rewritten})\z"))
        .unwrap_or_else(|error| panic!("{expression}: {error}"))
        .is_match(text)
}

#[test]
fn expressions_match_the_same_texts_as_in_go() {
    for (expression, yes, no) in [
        // Common patterns.
        (
            r"^https://charts\.a\.example\.com/.*",
            &["https://charts.a.example.com/x"][..],
            &["https://chartsxa.example.com/x"][..],
        ),
        (
            r"tenant-a-[a-z0-9-]+$",
            &["tenant-a-web"],
            &["tenant-a-", "tenant-a-Web"],
        ),
        ("a|bc", &["a", "bc"], &["ac", "abc", "b"]),
        ("", &[""], &["a"]),
        // ASCII only.
        (r"\d", &["1"], &["٣", "a"]),
        (r"[\w.]+", &["a_1.Z"], &["ä", "-"]),
        (r"[^\D]", &["1"], &["٣", "a"]),
        (r"\s", &[" ", "\t"], &["\x0b", "\u{a0}"]),
        (r"a\bä", &["aä"], &[]),
        (r"ä\Bé", &["äé"], &[]),
        // Literals.
        (r"\Q.*[\E+", &[".*[", ".*[["], &["ab", ".*"]),
        (r"\Qa.b", &["a.b"], &["axb"]),
        (r"\<\_\>\/\-\%\ ", &["<_>/-% "], &[]),
        (r"\101\x42\x{00043}\0", &["ABC\0"], &[]),
        ("a{,2}b{c}{", &["a{,2}b{c}{"], &["aab"]),
        (r"\b{start}", &[], &["", "a"]),
        ("a]}", &["a]}"], &[]),
        // Classes.
        ("[a[b]", &["a", "[", "b"], &["]"]),
        ("[a&&b]", &["a", "&", "b"], &[]),
        ("[a~~b]", &["a", "~", "b"], &[]),
        ("[]a-]", &["]", "a", "-"], &["b"]),
        ("[^]a]", &["b", "\n"], &["]", "a"]),
        ("[--/]", &["-", ".", "/"], &["0"]),
        (r"[\]\x41-\x{43}]", &["]", "B"], &["D"]),
        ("[[:alpha:]_]+", &["aZ_"], &["1", ":", "ä"]),
        ("[[:^alpha:]]", &["1", "ä"], &["a"]),
        ("[[:a]+", &["[", ":", "a"], &["b"]),
        (r"\pL\p{Greek}\P{^Lu}\p{Yi}", &["éωAꀀ"], &["éoAꀀ", "éωaꀀ"]),
        (r"[\p{^L}a]", &["1", "a"], &["b"]),
        // Flags and groups.
        (r"(?i)k[s]", &["KS", "\u{212a}\u{17f}"], &["k"]),
        ("a(?i:b)c", &["aBc"], &["ABc", "aBC"]),
        ("(?ii-i)a", &["a"], &["A"]),
        ("(?-i)(?)(?U)a+?", &["aaa"], &["A"]),
        (".", &["a", "ä"], &["\n", "ab"]),
        ("(?s).", &["\n"], &[]),
        ("a(?m)$\n^b", &["a\nb"], &["a", "ab"]),
        (r"\Aa\z", &["a"], &["a\n"]),
        ("(?P<name>a)(?<1name>b)(c)", &["abc"], &[]),
        ("a{2}b{1,}c{0,1}?", &["aabb", "aabc"], &["ab", "aac"]),
    ] {
        for text in yes {
            assert!(matches(expression, text), "{expression} should match {text:?}");
        }
        for text in no {
            assert!(
                !matches(expression, text),
                "{expression} should not match {text:?}"
            );
        }
    }
}

#[test]
fn syntax_errors_are_those_of_go() {
    for (expression, error) in [
        ("a[", "missing closing ]: `[`"),
        ("[]", "missing closing ]: `[]`"),
        ("(a", "missing closing ): `(a`"),
        ("a)|(b", "unexpected ): `a)|(b`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a|+", "missing argument to repetition operator: `+`"),
        ("(?i)*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a??{2}", "invalid nested repetition operator: `??{2}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("(a{40}){40}", "invalid repeat count: `{40}`"),
        ("(b|(a{2}c)){501,}", "invalid repeat count: `{501,}`"),
        ("((a{10}){10}){11}?", "invalid repeat count: `{11}?`"),
        ("a{99999999999}", "invalid repeat count: `{99999999999}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{sc=Greek}", r"invalid character class range: `\p{sc=Greek}`"),
        (r"\p{Greek", r"invalid character class range: `\p{Greek`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?-)a", "invalid or unsupported Perl syntax: `(?-)`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?P<a-b>c)", "invalid named capture: `(?P<a-b>`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\u0041", r"invalid escape sequence: `\u`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"[\b]", r"invalid escape sequence: `\b`"),
        (r"\x4g", r"invalid escape sequence: `\x4g`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\x{+41}", r"invalid escape sequence: `\x{+`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ] {
        let result = rewrite(expression).map_err(|error| error.to_string());
        assert_eq!(
            result,
            Err(format!("error parsing regexp: {error}")),
            "{expression}"
        );
    }
}

#[test]
fn an_expression_without_metacharacters_is_plain() {
    for plain in ["web-app", "a b", "ä#&~<>", ""] {
        assert!(is_plain(plain), "{plain}");
    }
    for c in r"\.+*?()|[]{}^$".chars() {
        assert!(!is_plain(&format!("a{c}")), "{c}");
    }
}

/// Only nested counts are multiplied.
#[test]
fn counts_that_go_accepts_are_accepted() {
    for expression in [
        "(a{25}){40}",
        "a{1000}b{1000}",
        "(a{900}|b{900})(c{2})",
        "(a{1000})*",
        "((a{1000})+)?",
        "(a{0}){1000}",
        "(a{0,}){1000}",
        "((a{1000}){0}){1000}",
        "(a{1000}){1}",
    ] {
        assert!(rewrite(expression).is_ok(), "{expression}");
    }
}
