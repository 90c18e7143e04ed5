use super::super::Constraint;

const VERSION: &str = "expected a version such as 1.2.3, 1.2.x or *";
const NEXT: &str = "expected a blank, a comma or || before what comes next";
const RANGE: &str = "a range needs a blank on both sides of the hyphen, as in 1.2 - 1.4";
const BOTH: &str = "write a blank or a comma between conditions that must both hold";

fn message(text: &str) -> String {
    Constraint::parse(text).unwrap_err().to_string()
}

/// Rows of a constraint, the quoted segment, and the text in parentheses after it.
fn assert_improper(rows: &[(&str, &str, String)]) {
    for (text, segment, reason) in rows {
        assert_eq!(
            message(text),
            format!("improper constraint: {segment} ({reason})"),
            "{text:?}"
        );
    }
}

#[test]
fn a_missing_version_is_reported_with_a_hint() {
    let operator = "write one operator before a version, without a blank inside it";
    let comma = "leave the comma out where no condition is on both sides of it";
    let newest = "write * for the newest release";
    assert_improper(&[
        ("foo", r#""foo""#, format!("at byte 0: {VERSION}")),
        (" foo ", r#"" foo ""#, format!("at byte 1: {VERSION}")),
        ("1 || foo", r#"" foo""#, format!("at byte 5: {VERSION}")),
        ("", r#""""#, format!("at byte 0: {VERSION}, found nothing")),
        (">= 1 ||", r#""""#, format!("at byte 7: {VERSION}, found nothing")),
        ("|| 1", r#""""#, format!("at byte 0: {VERSION}, found nothing")),
        (
            ">= foo",
            r#"">= foo""#,
            format!(r#"at byte 3: {VERSION}, found "foo""#),
        ),
        (
            "1 >= ",
            r#""1 >= ""#,
            format!(r#"at byte 2: {VERSION}, found ">="; {operator}"#),
        ),
        (
            "> = 1",
            r#""> = 1""#,
            format!(r#"at byte 2: {VERSION}, found "="; {operator}"#),
        ),
        (
            "==1",
            r#""==1""#,
            format!(r#"at byte 1: {VERSION}, found "=1"; {operator}"#),
        ),
        ("Latest", r#""Latest""#, format!("at byte 0: {VERSION}; {newest}")),
        (
            ">=stable",
            r#"">=stable""#,
            format!(r#"at byte 2: {VERSION}, found "stable"; {newest}"#),
        ),
        (
            "1 && 2",
            r#""1 && 2""#,
            format!(r#"at byte 2: {VERSION}, found "&&"; {BOTH}"#),
        ),
        (
            ">1 AND <2",
            r#"">1 AND <2""#,
            format!(r#"at byte 3: {VERSION}, found "AND"; {BOTH}"#),
        ),
        (
            "1 or 2",
            r#""1 or 2""#,
            format!(r#"at byte 2: {VERSION}, found "or"; write || between alternatives"#),
        ),
        (
            "V1",
            r#""V1""#,
            format!("at byte 0: {VERSION}; write the v before a version as a small letter"),
        ),
        (
            "1, ",
            r#""1, ""#,
            format!(r#"at byte 1: {VERSION}, found ","; {comma}"#),
        ),
        (
            ", 1",
            r#"", 1""#,
            format!(r#"at byte 0: {VERSION}, found ","; {comma}"#),
        ),
        (
            "\"1\"",
            r#""\"1\"""#,
            format!("at byte 0: {VERSION}; leave quotes and brackets out"),
        ),
    ]);
}

#[test]
fn a_missing_separator_is_reported_with_a_hint() {
    let numbers = "a version has one to three numbers with single dots between them";
    let underscore = "a version has no underscore; where a registry tag has one, the version has +";
    let blank = "only plain blanks may separate conditions; this one is of another kind";
    assert_improper(&[
        ("1>2", r#""1>2""#, format!(r#"at byte 1: {NEXT}, found ">2""#)),
        (
            "1&&2",
            r#""1&&2""#,
            format!(r#"at byte 1: {NEXT}, found "&&2"; {BOTH}"#),
        ),
        (
            "1-a|2",
            r#""1-a|2""#,
            format!(r#"at byte 3: {NEXT}, found "|2"; write || between alternatives"#),
        ),
        (
            "1.2.3.4",
            r#""1.2.3.4""#,
            format!(r#"at byte 5: {NEXT}, found ".4"; {numbers}"#),
        ),
        (
            "1.2.3_b",
            r#""1.2.3_b""#,
            format!(r#"at byte 5: {NEXT}, found "_b"; {underscore}"#),
        ),
        (
            "1\u{a0}<2",
            r#""1\u00a0<2""#,
            format!(r#"at byte 1: {NEXT}, found "\u00a0<2"; {blank}"#),
        ),
    ]);
}

#[test]
fn errors_in_ranges_have_positions_in_the_original_text() {
    let comma = "write a comma before a range, as in 3, 1 - 2";
    let hyphen = "write a range with a plain hyphen, as in 1.2 - 1.4";
    let no_operator = "a range takes no operator";
    assert_improper(&[
        (
            "1 -2",
            r#""1 -2""#,
            format!(r#"at byte 2: {VERSION}, found "-2"; {RANGE}"#),
        ),
        (
            "1- 2",
            r#""1- 2""#,
            format!(r#"at byte 1: {NEXT}, found "-"; {RANGE}"#),
        ),
        (
            "1 – 2",
            r#""1 – 2""#,
            format!(r#"at byte 2: {VERSION}, found "–"; {hyphen}"#),
        ),
        // The segment is the rewritten one, as Helm shows it; offset and token are those of the text to the left.
        (
            "3 1 - 2",
            r#""3>= 1, <= 2 ""#,
            format!(r#"at byte 2: {NEXT}, found "1"; {comma}"#),
        ),
        (
            ">=1.0 - 2",
            r#"">=>= 1.0, <= 2 ""#,
            format!(r#"at byte 2: {VERSION}, found "1.0"; {no_operator}"#),
        ),
        (
            "1 - 2 - 3",
            r#"">= 1, <= 2 - 3""#,
            format!(r#"at byte 6: {VERSION}, found "-"; {RANGE}"#),
        ),
        (
            "1 - 2 || 3 - 4 foo",
            r#"">= 3, <= 4 foo""#,
            format!(r#"at byte 15: {VERSION}, found "foo""#),
        ),
    ]);
}

#[test]
fn unusable_versions_are_reported_with_the_reason() {
    let long = format!("1.2.3-{}", "a".repeat(251));
    for (text, token, reason) in [
        (
            "1|2",
            "1|2",
            r#"at byte 0: "1|2" is not a number; write || between alternatives"#,
        ),
        (
            ">1 | <2",
            "|",
            r#"at byte 3: "|" is not a number; write || between alternatives"#,
        ),
        (
            "1 - 2.1x",
            "2.1x",
            r#"at byte 4: "1x" is not a number; a wildcard x or * stands alone between the dots"#,
        ),
        (
            "1, 2.18446744073709551616",
            "2.18446744073709551616",
            "at byte 3: number 18446744073709551616 is too large; the largest is 18446744073709551615",
        ),
        (
            "1.2-rc.01",
            "1.2-rc.01",
            r#"at byte 0: pre-release part "01" starts with a zero; write it without leading zeros"#,
        ),
        (
            &long,
            &long,
            "at byte 0: it is 257 bytes long with all its numbers; at most 256 are allowed",
        ),
    ] {
        assert_eq!(
            message(text),
            format!("unusable version {token:?} in constraint ({reason})"),
            "{text:?}"
        );
    }
}

#[test]
fn exceeded_limits_are_reported() {
    assert_eq!(
        message(&" ".repeat(513)),
        "constraint is 513 bytes long; at most 512 are allowed"
    );
    assert_eq!(
        message(&"1||".repeat(40)),
        "constraint has 41 alternatives joined by ||; at most 32 are allowed"
    );
}
