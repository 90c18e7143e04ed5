use helmops_api::lifecycle::ReadyExpression;
use serde_json::{Value, json};

use super::*;

fn evaluate(text: &str, object: &Value) -> Result<bool, String> {
    let expression = Expression::parse(text).map_err(|error| error.to_string())?;
    let variables: Vec<_> = object
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (&**name, value))
        .collect();
    expression.evaluate(&variables).map_err(|error| error.to_string())
}

/// Runs a check on a stack of half the size of that of tokio's workers.
fn on_a_small_stack<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(check);
    thread.unwrap().join().unwrap()
}

#[test]
fn conditions_are_true_or_false() {
    let object = json!({
        "metadata": { "name": "db", "labels": { "app.kubernetes.io/name": "db" } },
        "spec": { "replicas": 3 },
        "status": { "ready": 3, "phase": "Running", "share": 0.5,
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Synced", "status": "False" }] }
    });
    for (text, expected) in [
        ("status.phase == 'Running'", true),
        ("status.ready == spec.replicas", true),
        ("status.ready - 1 >= spec.replicas", false),
        ("has(status.phase)", true),
        ("has(status.missing)", false),
        ("!has(status.missing) || status.missing == 1", true),
        (
            "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
            true,
        ),
        ("status.conditions.all(c, c.status == 'True')", false),
        (
            "status.conditions.filter(c, c.status == 'True').size() == 1",
            true,
        ),
        ("status.conditions.map(c, c.type).exists(t, t == 'Synced')", true),
        ("status.conditions.exists_one(c, c.status == 'False')", true),
        ("status.phase in ['Running', 'Done']", true),
        ("metadata.labels['app.kubernetes.io/name'] == metadata.name", true),
        (
            "metadata.name.startsWith('d') && metadata.name.matches('^d.$')",
            true,
        ),
        ("status.share > 0.25 ? true : false", true),
        ("size(status.conditions) == 2", true),
        ("int(string(status.ready)) == 3", true),
    ] {
        assert_eq!(evaluate(text, &object), Ok(expected), "{text}");
    }
}

#[test]
fn invalid_expressions_are_refused_with_the_fix() {
    for (text, expected) in [
        ("", "the expression is empty; write a condition"),
        ("  \n", "the expression is empty"),
        ("status.phase = 'x'", "not a CEL expression: "),
        ("status.phase == ", "not a CEL expression: "),
        ("'open", "unterminated string literal at column 1; correct it"),
        ("a ? b", "not a CEL expression: "),
        (
            "frobnicate(status)",
            "CEL function \"frobnicate\" is not available; available are all, ",
        ),
        (
            "status.x.lowerAscii() == 'a'",
            "CEL function \"lowerAscii\" is not available",
        ),
        // A name with a `_` is no operator.
        (
            "status.phase.starts_with('Run')",
            "CEL function \"starts_with\" is not available",
        ),
        ("_(status.phase)", "CEL function \"_\" is not available"),
        (
            "timestamp('2026-01-01T00:00:00Z') == status.t",
            "CEL function \"timestamp\" is not available",
        ),
        (
            "status.x.matches('(')",
            "matches() needs a regular expression in quotes",
        ),
        (
            "status.x.matches(status.y)",
            "matches() needs a regular expression in quotes of at most 256 bytes: it is computed",
        ),
        (
            "status.x.matches('(\\\\w{100}){100}')",
            "matches() needs a regular expression",
        ),
        (
            "has(status)",
            "not a CEL expression: invalid argument to has() macro",
        ),
        ("Some{a: 1}.a == 1", "CEL function \"Some\" is not available"),
        (
            "a.all(x, x.all(y, y.all(z, z == 1)))",
            "3 loops (all, exists, exists_one, map, filter) are nested; at most 2 are",
        ),
    ] {
        let error = Expression::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.len() < 500, "{error}");
    }
}

#[test]
fn a_missing_field_is_named() {
    let object = json!({ "status": { "a": {} } });
    for (text, field) in [
        ("status.phase == 'x'", "phase"),
        ("status.a.b.c == 1", "b"),
        ("spec.a == 1", "spec"),
    ] {
        let error = evaluate(text, &object).unwrap_err();
        assert_eq!(
            error,
            format!("{text}: there is no field {field:?}; test it with has() first")
        );
    }
}

#[test]
fn a_function_that_is_called_in_another_way_is_no_missing_field() {
    let object = json!({ "status": { "a": [1] } });
    let error = evaluate("all(status.a)", &object).unwrap_err();
    assert_eq!(
        error,
        "all(status.a): function \"all\" cannot be called in this way"
    );
    let error = evaluate("all == 1", &object).unwrap_err();
    assert!(error.contains("there is no field \"all\""), "{error}");
}

#[test]
fn a_result_that_is_no_condition_is_an_error() {
    let object = json!({ "status": { "ready": 3, "text": "true" } });
    for (text, found) in [
        ("status.ready", "int"),
        ("status.text", "string"),
        ("[true]", "list"),
        ("null", "null"),
    ] {
        let error = evaluate(text, &object).unwrap_err();
        assert!(
            error.starts_with(text) && error.contains(&format!("type {found}, but must be true or false")),
            "{error}"
        );
    }
    let error = evaluate("status.ready + 'x' == 'x'", &object).unwrap_err();
    assert!(error.starts_with("status.ready + 'x' == 'x': "), "{error}");
    assert!(evaluate("1 / 0 == 1", &object).is_err());
    assert!(evaluate("9223372036854775807 + 1 == 1", &object).is_err());
    assert!(evaluate("[1][5] == 1", &object).is_err());
}

#[test]
fn only_available_variables_may_be_used() {
    let expression = Expression::parse("dep.status.ready && [1].all(x, x == self.n)").unwrap();
    assert_eq!(expression.check_variables(&["dep", "self"]), Ok(()));
    assert_eq!(
        expression.check_variables(&["dep"]).unwrap_err().to_string(),
        "unknown variable \"self\"; available are dep"
    );
    let shadowed = Expression::parse("[1].all(x, x == 1) && x == 1").unwrap();
    assert!(
        shadowed.check_variables(&[]).is_err(),
        "a variable of a loop is not one outside of it"
    );
}

#[test]
fn only_available_fields_may_be_used() {
    let expression = Expression::parse("a.ready > 0 || has(a.since) || b.all(p, p.name == 'x')").unwrap();
    assert_eq!(expression.check_fields(&["name", "ready", "since"]), Ok(()));
    assert_eq!(
        expression
            .check_fields(&["name", "ready"])
            .unwrap_err()
            .to_string(),
        "unknown field \"since\"; available are name, ready"
    );
}

#[test]
fn a_brief_evaluation_has_mistakes_of_types_and_of_values() {
    let object = json!({ "a": { "n": 0, "t": "x" }, "l": [1] });
    let of_values = Some(true);
    let of_types = Some(false);
    for (text, mistake) in [
        ("a.n == 0", None),
        ("1 / a.n == 1 || 1 % a.n == 1", of_values),
        ("9223372036854775807 + 1 == a.n", of_values),
        ("l[1] == 1", of_values),
        ("a.n == 0 && a.t", of_types),
        ("a.n", of_types),
        ("a.m == 1", of_types),
        ("a.t + a.n == 'x'", of_types),
        (&format!("l.all(x, {}.all(y, y == x))", json!(vec![1; 50])), None),
        // Evaluated within the usual limit, it has a result.
        (
            &format!("{0}.all(x, {0}.all(y, y == x))", json!(vec![1; 500])),
            of_types,
        ),
    ] {
        let expression = Expression::parse(text).unwrap();
        let found = expression.evaluate_briefly(&[("a", &object["a"]), ("l", &object["l"])]);
        let found_mistake = found.as_ref().err().map(EvaluationError::depends_on_values);
        assert_eq!(found_mistake, mistake, "{text}: {found:?}");
    }
}

/// Each of these overflows a stack of 2 MiB with the parser or the interpreter alone.
#[test]
fn hostile_expressions_neither_overflow_the_stack_nor_take_long() {
    let repeated = |before: &str, count: usize, middle: &str, after: &str| {
        format!("{}{middle}{}", before.repeat(count), after.repeat(count))
    };
    let fits = |before: &str, middle: &str, after: &str| {
        let count = (limits::EXPRESSION - middle.len()) / (before.len() + after.len());
        repeated(before, count, middle, after)
    };
    let mut texts = vec!["a".repeat(1 << 20), "\u{0}".repeat(2_000), "?:,.]".repeat(400)];
    for (before, middle, after) in [
        ("(", "a", ")"),
        ("[", "a", "]"),
        ("{1:", "a", "}"),
        ("a(", "a", ")"),
        ("a[", "0", "]"),
        ("[1].all(x,", "true", ")"),
        ("(", "", ""),
        ("[", "", ""),
        ("{", "", ""),
        ("!", "a", ""),
        ("-", "a", ""),
        ("!-", "a", ""),
        ("! ", "a", ""),
        ("a?a:", "a", ""),
        ("a?", "a", ":a"),
        ("a+", "a", ""),
        ("a==", "a", ""),
        ("", "a", "[0]"),
        ("", "a", ".a"),
        ("", "a", ".size()"),
        ("true&&", "true", ""),
        ("a,", "a", ""),
        ("size(", "a", ")"),
        ("-(", "a", ")"),
        ("'a'+", "'a'", ""),
        ("a in ", "a", ""),
        ("//", "", ""),
        ("\u{1F600}", "", ""),
    ] {
        texts.push(fits(before, middle, after));
        for count in [1, 2, 5, 10, 20, 23, 24, 25, 30, 47, 48, 49, 60] {
            texts.push(repeated(before, count, middle, after));
        }
    }
    on_a_small_stack(move || {
        for text in texts {
            // Whatever the result is, there is one.
            _ = Expression::parse(&text).map(|expression| {
                let object = json!({ "a": 1 });
                expression.evaluate(&[("a", &object["a"])])
            });
        }
    });
}

#[test]
fn deep_nesting_is_refused_before_the_parser_runs() {
    for (before, column) in [("(", 25), ("[", 25), ("!-", 25), ("{ ", 49)] {
        let error = Expression::parse(&format!("{}a", before.repeat(30)));
        assert_eq!(error, Err(ExpressionError::TooDeep(Some(column))), "{before}");
    }
}

#[test]
fn expressions_up_to_the_limits_are_allowed() {
    on_a_small_stack(|| {
        let of =
            |text: &str| Expression::parse(text).map(|expression| expression.evaluate(&[("a", &json!(1))]));
        assert_eq!(of(&format!("a{} == 22", "+a".repeat(21))), Ok(Ok(true)));
        assert!(matches!(
            of(&format!("a{} == 24", "+a".repeat(23))),
            Err(ExpressionError::TooDeep(_))
        ));
        assert_eq!(of(&format!("a == 1{}", " && a == 1".repeat(150))), Ok(Ok(true)));
        let nested = |levels| format!("{}a == 1{}", "(".repeat(levels), ")".repeat(levels));
        assert_eq!(of(&nested(shape::MAX_DEPTH)), Ok(Ok(true)));
        assert_eq!(
            of(&nested(shape::MAX_DEPTH + 1)),
            Err(ExpressionError::TooDeep(Some(shape::MAX_DEPTH + 1)))
        );
        let texts: Vec<_> = (0..200).map(|number| format!("{number}")).collect();
        assert_eq!(of(&format!("a in [{}]", texts.join(","))), Ok(Ok(true)));
    });
}

#[test]
fn loops_that_take_long_are_refused_before_they_run() {
    let items = |count: usize| json!({ "a": (0..count).map(|n| json!({ "n": n, "s": "x".repeat(10) })).collect::<Vec<_>>() });
    let small = items(40);
    let large = items(5_000);
    for text in [
        "a.all(x, a.exists(y, y.n == x.n))",
        "a.all(x, x == x)",
        "a.map(x, x.n).size() > 1",
        "a.filter(x, x.s.matches('^x+$')).size() > 1",
    ] {
        assert_eq!(evaluate(text, &small), Ok(true), "{text}");
    }
    for text in [
        "a.all(x, x.n >= 0)",
        "a.map(x, x.n).size() > 1",
        "a.all(x, x == x)",
        "a.exists(x, x.s == 'y') == false",
    ] {
        assert_eq!(evaluate(text, &large), Ok(true), "{text}");
    }
    for text in [
        "a.all(x, a.exists(y, y.n == x.n))",
        "a.all(x, a == a)",
        "a.map(x, a).size() > 1",
        "a.map(x, a.map(y, a)).size() > 1",
        "a.all(x, x.s.matches('^x+$'))",
        "a.all(x, a + a == a)",
        "(a + a + a + a).all(x, (a + a).all(y, true))",
        "a.all(x, x in a)",
        "a.all(x, [a, a, a] == [])",
        "a.all(x, string(a) == '')",
    ] {
        let error = evaluate(text, &large).unwrap_err();
        assert!(
            error.contains("takes too long, since the object has a list or map of 5000 items"),
            "{text}: {error}"
        );
    }
}

fn rule(failed: &str, in_progress: &str, current: &str) -> ReadyExpressions {
    let of = json!([{ "apiVersion": "db.example.com/v1", "kind": "Database", "failed": failed, "inProgress": in_progress,
        "current": current }]);
    let of: Vec<ReadyExpression> = serde_json::from_value(of).unwrap();
    ReadyExpressions::parse(&of).unwrap()
}

fn database(version: &str, status: &Value) -> Value {
    json!({ "apiVersion": format!("db.example.com/{version}"), "kind": "Database",
        "metadata": { "name": "db", "generation": 2 }, "status": status })
}

#[test]
fn the_first_expression_that_is_true_is_the_readiness() {
    let rules = rule(
        "status.phase in ['Failed', 'Creating']",
        "status.phase == 'Creating'",
        "status.phase in ['Ready', 'Creating', 'Failed']",
    );
    let of = |status: Value| rules.readiness(&database("v1", &status)).unwrap();
    assert_eq!(
        of(json!({ "phase": "Failed" })),
        Readiness::Failed("status.phase in ['Failed', 'Creating'] is true".to_owned())
    );
    assert_eq!(
        of(json!({ "phase": "Creating" })),
        Readiness::InProgress("status.phase == 'Creating' is true".to_owned())
    );
    assert_eq!(of(json!({ "phase": "Ready" })), Readiness::Current);
    assert_eq!(
        of(json!({ "phase": "Other" })),
        Readiness::InProgress("status.phase in ['Ready', 'Creating', 'Failed'] is not true yet".to_owned())
    );
    let missing = "status.phase == 'Creating': there is no field \"phase\"; test it with has() first";
    assert_eq!(of(json!({})), Readiness::InProgress(missing.to_owned()));
}

#[test]
fn a_missing_status_is_an_empty_one() {
    let rules = rule("has(status.error)", "", "!has(status.pending)");
    let mut object = database("v1", &json!({}));
    object.as_object_mut().unwrap().remove("status");
    assert_eq!(rules.readiness(&object), Some(Readiness::Current));
}

#[test]
fn an_error_in_one_expression_does_not_hide_that_another_is_true() {
    let rules = rule("status.error == 'x'", "", "status.phase == 'Ready'");
    assert_eq!(
        rules.readiness(&database("v1", &json!({ "phase": "Ready" }))),
        Some(Readiness::Current)
    );
}

#[test]
fn expressions_are_for_all_versions_of_a_kind_and_for_no_other() {
    let rules = rule("", "", "true");
    assert_eq!(
        rules.readiness(&database("v2beta1", &json!({}))),
        Some(Readiness::Current)
    );
    for other in [
        json!({ "apiVersion": "v1", "kind": "Database" }),
        json!({ "apiVersion": "other.example.com/v1", "kind": "Database" }),
        json!({ "apiVersion": "db.example.com/v1", "kind": "Backup" }),
        json!({}),
        json!(null),
    ] {
        assert_eq!(rules.readiness(&other), None, "{other}");
    }
}

#[test]
fn an_object_whose_change_is_not_observed_is_in_progress() {
    let rules = rule("", "", "true");
    for (observed, expected) in [
        (json!(1), false),
        (json!(2), true),
        (json!(3), true),
        (Value::Null, true),
    ] {
        let readiness = rules
            .readiness(&database("v1", &json!({ "observedGeneration": observed })))
            .unwrap();
        assert_eq!(
            readiness == Readiness::Current,
            expected,
            "{observed}: {readiness:?}"
        );
    }
}
