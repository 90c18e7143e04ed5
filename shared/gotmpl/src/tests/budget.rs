//! No template exceeds the limits on work and memory, for any function with any argument.

use std::{cell::Cell, fmt::Write as _, rc::Rc, time::Duration};

use serde_json::json;

use super::{
    super::{Budget, Exceeded, Limits, MAX_TEXT, TemplateErrorKind},
    context, render_within as render,
};

/// Calls of functions on `$x`, a text of 2 MiB or a large list or map.
const ON_TEXTS: &[&str] = &[
    "upper $x",
    "lower $x",
    "title $x",
    "untitle $x",
    "swapcase $x",
    "snakecase $x",
    "kebabcase $x",
    "camelcase $x",
    "trim $x",
    "trimAll $x $x",
    "trimSuffix $x $x",
    "trimPrefix \"x\" $x",
    "nospace $x",
    "initials $x",
    "contains \"y\" $x",
    "hasPrefix $x $x",
    "hasSuffix $x $x",
    "replace \"y\" \"z\" $x",
    "substr 0 5 $x",
    "trunc 5 $x",
    "abbrev 5 $x",
    "abbrevboth 5 10 $x",
    "wrap 80 $x",
    "wrapWith 80 \"y\" $x",
    "indent 1 $x",
    "nindent 1 $x",
    "quote $x",
    "squote $x",
    "cat $x",
    "toString $x",
    "toStrings $x",
    "join \"y\" $x",
    "sortAlpha $x",
    "split \"y\" $x",
    "splitn \"y\" 2 $x",
    "splitList \"y\" $x",
    "print $x",
    "println $x",
    "printf \"%s\" $x",
    "printf \"%.1s\" $x",
    "printf $x",
    "printf \"%q\" $x",
    "printf \"%+q\" $x",
    "printf \"% #x\" $x",
    "printf \"%*s\" 1000000 $x",
    "b64enc $x",
    "b64dec $x",
    "b32enc $x",
    "b32dec $x",
    "sha1sum $x",
    "sha256sum $x",
    "sha512sum $x",
    "adler32sum $x",
    "html $x",
    "js $x",
    "urlquery $x",
    "toJson $x",
    "toRawJson $x",
    "toPrettyJson $x",
    "fromJson $x",
    "atoi $x",
    "int64 $x",
    "int $x",
    "float64 $x",
    "toDecimal $x",
    "add $x 1",
    "add1 $x",
    "max $x 1",
    "addf $x 1",
    "floor $x",
    "round $x 1",
    "eq $x $y",
    "ne $x $y",
    "lt $x $y",
    "le $x $y",
    "deepEqual $x $y",
    "deepCopy $x",
    "typeIs $x 1",
    "kindIs $x 1",
    "base $x",
    "dir $x",
    "clean $x",
    "ext $x",
    "isAbs $x",
    "duration $x",
    "durationRound $x",
    "urlJoin (dict \"path\" $x)",
    "regexMatch \"y\" $x",
    "regexFind \"y\" $x",
    "regexFindAll \"y\" $x -1",
    "regexReplaceAll \"y\" $x \"z\"",
    "regexReplaceAllLiteral \"y\" $x \"z\"",
    "regexSplit \"y\" $x -1",
    "regexQuoteMeta $x",
    "regexMatch $x \"y\"",
    "get $d $x",
    "hasKey $d $x",
    "dict $x 1",
    "set $d $x 1",
    "unset $d $x",
    "pluck $x $d",
    "pick $d $x",
    "omit $d $x",
    "dig $x 1 $d",
    "index $d $x",
    "has $x (list $y)",
    "uniq (list $x $y)",
    "without (list $x) $y",
];
const ON_LISTS: &[&str] = &[
    "append $x 1",
    "prepend $x 1",
    "first $x",
    "last $x",
    "rest $x",
    "initial $x",
    "reverse $x",
    "compact $x",
    "uniq $x",
    "without $x 1",
    "has 0.5 $x",
    "slice $x 1",
    "concat $x $x",
    "chunk 1 $x",
    "deepEqual $x $y",
    "deepCopy $x",
    "toJson $x",
    "toString $x",
    "join \"\" $x",
    "sortAlpha $x",
    "toStrings $x",
    "print $x",
    "printf \"%d\" $x",
    "until 100000",
    "seq 100000",
    "untilStep 0 100000 1",
];
const ON_MAPS: &[&str] = &[
    "keys $x",
    "values $x",
    "pick $x \"a\"",
    "omit $x \"a\"",
    "merge $d $x",
    "mergeOverwrite $d $x",
    "deepCopy $x",
    "deepEqual $x $y",
    "toJson $x",
    "toString $x",
    "print $x",
    "printf \"%v\" $x",
    "dict \"a\" $x | toJson",
];

/// The work of a template until it is stopped, and the error.
fn stopped(template: &str) -> (u64, String) {
    let budget = Budget::default();
    let error = render(template, &context(), &budget)
        .map(|text| text.len())
        .expect_err(template);
    (budget.used(), error.kind.to_string())
}

fn hostile() -> Vec<String> {
    let text =
        |fill: &str| format!("${{ $d := dict }}${{ $x := repeat 1500000 \"{fill}\" }}${{ $y := print $x }}");
    let list = "${ $d := dict }${ $x := until 100000 }${ $y := slice $x 0 }";
    let map = "${ $d := dict }${ $x := .Map }${ $y := deepCopy $x }";
    let mut templates = Vec::new();
    for (before, calls) in [
        (&*text("x"), ON_TEXTS),
        (&text("1"), ON_TEXTS),
        (list, ON_LISTS),
        (map, ON_MAPS),
    ] {
        for call in calls {
            templates.push(format!(
                "{before}${{ range 160000 }}${{ $_ := {call} }}${{ end }}"
            ));
        }
    }
    for pattern in [
        "(\\\\pL{90}){90}",
        "[\\\\pL\\\\pN-]{1,63}",
        "(a{30}){30}",
        "(x?){500}y",
        "a(b|c)*d",
    ] {
        templates.push(format!(
            "${{ range 10000000 }}${{ $_ := regexMatch \"{pattern}\" \"x\" }}${{ end }}"
        ));
        templates.push(format!(
            "${{ range $i := until 100000 }}${{ $_ := regexMatch (print \"{pattern}\" $i) \"x\" }}${{ end }}"
        ));
        templates.push(format!(
            "{}${{ range 100000 }}${{ $_ := regexMatch \"{pattern}\" $x }}${{ end }}",
            text("x")
        ));
    }
    let mut chain = String::new();
    for (one, next) in ('a'..'t').zip('b'..='t') {
        let calls = format!("${{ template \"{next}\" }}").repeat(10);
        _ = write!(chain, "${{ define \"{one}\" }}{calls}${{ end }}");
    }
    templates.push(format!(
        "${{ define \"t\" }}${{ end }}{chain}${{ template \"a\" }}"
    ));
    templates.push("${ range 100000000 }${ continue }${ end }".to_owned());
    templates.push("${ range 100000000 }${ if true }${ end }${ end }".to_owned());
    templates
}

/// The map is part of the context, so creating it costs no work.
fn with_map() -> serde_json::Value {
    let mut context = context();
    let entries = (0..20_000).map(|index| (format!("key-{index}"), json!(index)));
    context["Map"] = serde_json::Value::Object(entries.collect());
    context
}

#[test]
fn every_function_is_charged_for_what_it_reads() {
    for template in hostile() {
        let budget = Budget::new(
            Limits {
                work: 50_000_000,
                ..Limits::default()
            },
            || Duration::ZERO,
        );
        let Err(error) = render(&template, &with_map(), &budget) else {
            panic!("{template:.200} is not stopped after {} units", budget.used());
        };
        let message = error.kind.to_string();
        let is_limit = message.contains("more work than") || message.contains("more than 16777216 bytes");
        // Invalid numbers, URLs and Base64 fail immediately.
        let is_call_error = message.contains("error calling") && budget.used() < 40_000_000;
        assert!(is_limit || is_call_error, "{template:.200}: {error}");
    }
}

#[test]
fn the_number_of_tokens_is_limited() {
    for piece in [
        "${1}",
        "${1 1}",
        "${$a := 1}",
        "${if 1}${end}",
        "${/**/}${.a.b.c}",
    ] {
        let (_, message) = stopped(&piece.repeat(MAX_TEXT / piece.len()));
        assert!(
            message.contains("more than 16777216 bytes") || message.contains("more work"),
            "{piece}: {message}"
        );
    }
    // The work for a long command is linear.
    let budget = Budget::default();
    assert!(
        render(
            &format!("${{ print {} }}", "1 ".repeat(20_000)),
            &json!({}),
            &budget
        )
        .is_ok()
    );
}

#[test]
fn the_memory_of_a_rendering_is_limited() {
    for template in [
        "${ $l := list }${ range until 240 }${ $l = append $l (repeat 2097152 \"x\") }${ end }",
        "${ $t := repeat 2000000 \"x\" }${ $l := list }${ range until 200 }${ $l = append $l $t }${ end }${ join \"\" $l | len }",
        "${ $t := repeat 2000000 \"x\" }${ $l := list }${ range until 200 }${ $l = append $l $t }${ end }${ toStrings $l | len }",
        "${ $d := dict }${ range until 200 }${ $d = set $d (repeat 100000 (toString .)) $d }${ end }${ toJson $d }",
        "${ $t := repeat 250000 \"{\\\"a\\\":1},\" }${ fromJson (print \"[\" $t \"1]\") | len }",
        "${ splitList \"\" (repeat 2000000 \"x\") | len }",
        "${ regexFindAll \"x\" (repeat 2000000 \"x\") -1 | len }",
        "${ $l := until 300000 }${ $m := concat $l $l $l $l }",
        "${ range until 100000 }${ $_ := list . }${ $_ = dict \"a\" . }${ end }",
    ] {
        let (_, message) = stopped(template);
        assert!(
            message.contains("more than 16777216 bytes"),
            "{template}: {message}"
        );
    }
}

/// Templates at the maximum depth fit into the stack of a thread.
#[test]
fn the_deepest_templates_fit_into_the_stack() {
    let nested = |ifs: usize, parentheses: usize| {
        let (before, after) = ("${ if true }".repeat(ifs), "${ end }".repeat(ifs));
        let deepest = format!(
            "${{ print {}1{} }}",
            "(print ".repeat(parentheses),
            ")".repeat(parentheses)
        );
        let mut text = format!("${{ define \"t6\" }}{deepest}${{ end }}");
        for level in 1..6 {
            let next = level + 1;
            _ = write!(
                text,
                "${{ define \"t{level}\" }}{before}${{ template \"t{next}\" }}{after}${{ end }}"
            );
        }
        render(
            &format!("{text}${{ template \"t1\" }}"),
            &json!({}),
            &Budget::default(),
        )
    };
    assert_eq!(nested(20, 40).unwrap(), "1");
    let error = nested(40, 40).unwrap_err().to_string();
    assert!(error.contains("more than 150 deep"), "{error}");
}

#[test]
fn processor_time_stops_a_template_within_its_work_limit() {
    let calls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&calls);
    let limits = Limits {
        time: Duration::from_secs(2),
        ..Limits::default()
    };
    let budget = Budget::new(limits, move || {
        counted.set(counted.get() + 1);
        Duration::from_millis(100 * counted.get())
    });
    let error = render("${ range 1000000 }${ upper \"a\" }${ end }", &json!({}), &budget).unwrap_err();
    let exceeded = Exceeded::Time { limit: limits.time };
    assert_eq!(error.kind, TemplateErrorKind::Exceeded(exceeded));
    assert_eq!(budget.exceeded(), Some(exceeded));
    assert_eq!(calls.get(), 21);
    assert_eq!(budget.next_item(), Err(exceeded));
}
