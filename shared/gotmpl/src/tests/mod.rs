//! Errors, limits and the intended differences from Go. `tests/truth.rs` compares the output with Go's.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Budget, Context, Delimiters, Template, TemplateError, TemplateErrorKind, UnsupportedReason};

const DOLLAR: Delimiters<'_> = Delimiters::new("${", "}");

fn render(template: &str, context: &Value) -> Result<String, TemplateError> {
    render_within(template, context, &Budget::default())
}

fn render_within(template: &str, context: &Value, budget: &Budget) -> Result<String, TemplateError> {
    let context = Context::new(context, budget)?;
    render_in(template, &context, budget)
}

fn render_in(template: &str, context: &Context, budget: &Budget) -> Result<String, TemplateError> {
    let template = Template::parse(template, DOLLAR, budget)?;
    template.render(context, budget).map(|rendered| rendered.text)
}

fn context() -> Value {
    serde_json::from_str(include_str!("../../tests/truth/context.json")).unwrap()
}

fn error(template: &str) -> String {
    render(template, &context()).unwrap_err().to_string()
}

#[test]
fn errors_contain_the_piece_and_the_cause() {
    for (template, expected) in [
        (
            "x: ${ .ClusterValues.absent }",
            r#"at <.ClusterValues.absent>: map has no entry for key "absent""#,
        ),
        ("${ nosuch }", r#"at <nosuch>: function "nosuch" not defined"#),
        (
            "${ upper 1 }",
            "at <upper>: error calling upper: wrong type for value; expected string; got int",
        ),
        (
            "${ upper }",
            "at <upper>: wrong number of args for upper: want 1 got 0",
        ),
        ("a ${ if true }", "unexpected EOF; an {{end}} is missing"),
        ("${ fail \"no zone\" }", "at <fail>: error calling fail: no zone"),
        ("${ .ClusterName", "at <${ .ClusterName>: unclosed action"),
        ("${ $x }", r#"at <$x>: undefined variable "$x""#),
    ] {
        assert_eq!(error(template), expected, "{template}");
    }
    assert_eq!(render("ab ${ nosuch }", &json!({})).unwrap_err().offset, 6);
}

#[test]
fn functions_with_changing_results_are_rejected() {
    for (template, name, reason) in [
        ("${ randAlphaNum 5 }", "randAlphaNum", UnsupportedReason::Random),
        ("${ uuidv4 }", "uuidv4", UnsupportedReason::Random),
        ("${ if false }${ now }${ end }", "now", UnsupportedReason::Time),
        (
            "${ getHostByName \"a\" }",
            "getHostByName",
            UnsupportedReason::Network,
        ),
    ] {
        let error = render(template, &context()).unwrap_err();
        let TemplateErrorKind::Unsupported(function) = error.kind else {
            panic!("{error}")
        };
        assert_eq!((&*function.name, function.reason), (name, reason), "{template}");
        assert_eq!((error.offset, &*error.piece), (function.offset, name));
    }
}

#[test]
fn keys_and_values_are_sorted_by_key() {
    let keys = "${ keys .ClusterValues.zone | join \",\" } ${ values (dict \"b\" 1 \"a\" 2) }";
    assert_eq!(render(keys, &context()).unwrap(), "deep,list,name [2 1]");
}

#[test]
fn invalid_encodings_and_cut_characters_are_errors() {
    assert!(error("${ b64dec \"c0\" }").contains("illegal base64 data"));
    assert!(error("${ b32dec \"c0\" }").contains("illegal base32 data"));
    assert!(error("${ trunc 1 \"é\" }").contains("cut a character in two"));
}

#[test]
fn a_rendering_does_not_change_the_context_of_others() {
    let budget = Budget::default();
    let context = Context::new(&context(), &budget).unwrap();
    let render = |template| render_in(template, &context, &budget);
    let before = render("${ toJson . }").unwrap();
    for change in [
        "${ $_ := set .ClusterValues \"x\" 1 }${ .ClusterValues.x }",
        "${ $_ := unset .ClusterValues \"zone\" }${ hasKey .ClusterValues \"zone\" | ternary 0 1 }",
        "${ $_ := mergeOverwrite .ClusterValues.zone (dict \"name\" 1) }${ .ClusterValues.zone.name }",
    ] {
        assert_eq!(render(change).unwrap(), "1", "{change}");
        assert_eq!(render("${ toJson . }").unwrap(), before, "{change}");
    }
}

/// `range` iterates over the map as it was at its start.
#[test]
fn a_map_can_change_during_a_range_over_it() {
    let template = "${ $m := dict \"a\" 1 \"b\" 2 }${ range $k, $v := $m }${ $_ := set $m (print $k $k) $v }\
                    ${ $_ := unset $m \"b\" }${ $k }${ end } ${ keys $m | join \",\" }";
    assert_eq!(render(template, &json!({})).unwrap(), "ab a,aa,bb");
}

#[test]
fn output_work_and_depth_are_limited() {
    let mut text = "x".to_owned();
    for _ in 0..40 {
        text = format!("${{ $s = print $s $s }}{text}");
    }
    for (template, expected) in [
        (
            "${ range until 10000000 }${ end }".to_owned(),
            "more than 16777216 bytes",
        ),
        ("${ range 10000000 }${ end }".to_owned(), "more work than"),
        (
            "${ range 2000 }${ range 2000 }x${ end }${ end }".to_owned(),
            "more than 16777216 bytes",
        ),
        ("${ repeat 100000000 \"x\" }".to_owned(), "longer than"),
        ("${ indent 100000000 \"x\" }".to_owned(), "too long"),
        ("${ printf \"%100000000d\" 1 }".to_owned(), "too large"),
        (format!("${{ $s := repeat 1000 \"x\" }}{text}"), "longer than"),
        (
            "${ $d := dict }${ $_ := set $d \"d\" $d }${ toJson $d }".to_owned(),
            "one contains itself",
        ),
        (
            "${ $d := dict }${ $_ := set $d \"d\" $d }${ $d }".to_owned(),
            "one contains itself",
        ),
        (
            "${ $d := dict }${ $_ := set $d \"d\" $d }${ deepCopy $d }".to_owned(),
            "one contains itself",
        ),
        (
            "${ define \"a\" }${ template \"a\" }${ end }${ template \"a\" }".to_owned(),
            "call one another",
        ),
        (format!("${{ {}1{} }}", "(".repeat(500), ")".repeat(500)), "deep"),
        ("${ if true }".repeat(500), "deep"),
    ] {
        let error = error(&template);
        assert!(error.contains(expected), "{template:.60}: {error}");
    }
}

/// Dropping deeply nested maps does not overflow the stack.
#[test]
fn a_long_chain_of_maps_is_dropped_without_recursion() {
    let template = "${ $d := dict }${ range until 15000 }${ $d = dict \"d\" $d }${ end }done";
    assert_eq!(render(template, &context()).unwrap(), "done");
}

#[test]
fn patterns_are_limited_as_in_go() {
    assert!(error(r#"${ mustRegexMatch "(a{40}){40}" "a" }"#).contains("invalid repeat count"));
    assert_eq!(
        render(r#"${ regexMatch "(\\pL{90}){90}" "x" }"#, &context()).unwrap(),
        "false"
    );
    for pattern in [
        r"(a{25}){40}",
        r"^[\\pL\\pN-]{2,63}$",
        r"^\\pL{63}$",
        r"(?i)[^/]{100}",
        r"a{1000}",
    ] {
        let template = format!(r#"${{ mustRegexMatch "{pattern}" "x" }}"#);
        assert_eq!(render(&template, &context()).unwrap(), "false", "{pattern}");
    }
}

/// The standard library formats at most 65,535 digits.
#[test]
fn numbers_with_large_widths_are_formatted() {
    for (verb, argument, length) in [
        ("%070000d", "1", 70_000),
        ("%.70000d", "1", 70_000),
        ("%070000.1f", "1.5", 70_000),
        ("%.70000f", "1.5", 70_002),
        ("%.70000e", "1.5", 70_006),
        ("%.70000g", "0.25", 4),
        ("%.70000g", "5e-324", 757),
        ("%-70000s", "\"a\"", 70_000),
    ] {
        let template = format!("${{ printf {verb:?} {argument} | len }}");
        assert_eq!(
            render(&template, &context()).unwrap(),
            length.to_string(),
            "{verb}"
        );
    }
}

/// Go with its default delimiters, and with some whose parts could be taken for something else.
#[test]
fn delimiters_are_those_of_the_template() {
    let budget = Budget::default();
    let context = Context::new(&json!({ "a": { "b": "c" } }), &budget).unwrap();
    for (delimiters, template, expected) in [
        (Delimiters::GO, "x {{- .a.b -}} y", "xcy"),
        (Delimiters::GO, "{{/* a */}}{ {{ \"}}\" }}}", "{ }}}"),
        (Delimiters::GO, "{{- /* a */ -}} {{.a.b}}", "c"),
        (Delimiters::GO, "{{ range 2 }}{{ . }}{{ end }}${ . }", "01${ . }"),
        (
            Delimiters::new("<%", "%>"),
            "<% with .a %>{{<%- .b -%>}}<% end %>",
            "{{c}}",
        ),
        (Delimiters::new("|", "|"), "|.a.b| |- .a.b -| x", "ccx"),
        (Delimiters::new("((", "))"), "((.a.b)) (( print (1) ))", "c 1"),
        (Delimiters::new("é", "ü"), "é .a.b üé\"ü\"ü", "cü"),
        (Delimiters::new("", "%}"), "{{ .a.b %}", "c"),
    ] {
        let rendered = Template::parse(template, delimiters, &budget)
            .and_then(|template| template.render(&context, &budget))
            .map(|rendered| rendered.text);
        assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
    }
    let error = Template::parse("{{ .a }", Delimiters::GO, &budget).unwrap_err();
    assert_eq!(error.to_string(), "at <{{ .a }>: unclosed action");
}

/// The nodes of a template are in memory while it is rendered.
#[test]
fn a_template_counts_for_each_rendering() {
    let budget = Budget::default();
    let text = format!("{}${{ $x := repeat 1500000 \"x\" }}", "${ 1 }".repeat(20_000));
    let template = Template::parse(&text, DOLLAR, &budget).unwrap();
    let error = template.render(&Context::default(), &budget).unwrap_err();
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
}

#[test]
fn json_that_nests_too_deep_is_an_error() {
    let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let budget = Budget::default();
    assert!(Context::new(&deep(256), &budget).is_ok());
    let error = Context::new(&deep(257), &budget).unwrap_err();
    assert_eq!(error.to_string(), "lists and maps nest more than 256 deep");
}

mod budget;

proptest! {
    /// No delimiters panic.
    #[test]
    fn any_delimiters_can_be_used(left in "[ -~é]{0,3}", right in "[ -~é]{0,3}", pieces in "[ -~é]{0,20}") {
        let text = format!("{pieces}{left} .a {right}{left}- {pieces} -{right}{left}/*{pieces}*/{right}");
        let budget = Budget::default();
        let delimiters = Delimiters::new(&left, &right);
        let template = Template::parse(&text, delimiters, &budget);
        _ = template.and_then(|template| template.render(&Context::default(), &budget));
    }

    /// No input panics.
    #[test]
    fn rendering_any_text_does_not_panic(text in "(\\$\\{|\\}| |-|\"|`|'|\\(|\\)|\\||\\.|\\$x|:=|=|,|if|else|end|range|with|print|index|1|nil|a|\\\\|\n){0,20}") {
        _ = render(&text, &json!({ "a": { "a": [1, "é"] } }));
    }
}
