//! Golden outputs, and the position of every mistake that admission knows.
//!
//! `UPDATE_GOLDEN=1 cargo test -p helmops-cli` writes the outputs of `tests/golden/validate` again.

use std::{fs, path::PathBuf};

use go_formats::yaml::emit_exact;
use helmops_mistakes::Mistake;
use serde_json::{Value, json};

use super::*;
use crate::terminal::buffers::Buffers;

mod notifications;
mod schedules;
mod texts;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/validate")
        .join(name)
}

/// Compares an output with its file.
fn assert_golden(name: &str, found: &str) {
    let path = golden(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{name}");
}

fn of_text(text: &str) -> Report {
    validate(
        &[Input::Text("web.yaml".to_owned(), text.to_owned())],
        Options::default(),
    )
}

/// Runs the command, and returns its output and exit code.
fn run_command(args: &[&str], has_colors: bool) -> (String, u8) {
    use clap::Parser;

    let line = ["kubectl-helmop", "validate"]
        .into_iter()
        .chain(args.iter().copied());
    let arguments = crate::arguments::Arguments::parse_from(line);
    let mut buffers = Buffers::default();
    let mut console = buffers.with_colors(has_colors);
    let code = match crate::run::run(arguments, &mut console) {
        Ok(()) => 0,
        Err(failure) => failure.code,
    };
    (buffers.out(), code)
}

/// Runs the command on a golden file.
fn of_golden(name: &str, args: &[&str], has_colors: bool) -> (String, u8) {
    let file = golden(name).display().to_string();
    let args: Vec<_> = ["-f", &file].into_iter().chain(args.iter().copied()).collect();
    let (out, code) = run_command(&args, has_colors);
    // As it is named in SARIF, and otherwise.
    let uri = file.replace(' ', "%20");
    (out.replace(&file, name).replace(&uri, name), code)
}

#[test]
fn every_format_has_its_golden_output() {
    for (name, args) in [
        ("web.txt", &[][..]),
        ("web.json", &["-o", "json"]),
        ("web.out.yaml", &["-o", "yaml"]),
        ("web.sarif", &["-o", "sarif"]),
        ("web.github", &["-o", "github"]),
        ("web.strict.txt", &["--strict"]),
        ("alerts.txt", &[]),
        ("alerts.json", &["-o", "json"]),
        ("alerts.sarif", &["-o", "sarif"]),
        ("alerts.github", &["-o", "github"]),
    ] {
        let (file, _) = name.split_once('.').unwrap();
        let (out, code) = of_golden(&format!("{file}.yaml"), args, false);
        assert_eq!(code, 1, "{name}");
        let version = json!(helmops_process::version()).to_string();
        assert_golden(name, &out.replace(&version, "\"VERSION\""));
    }
    let (out, _) = of_golden("web.yaml", &[], true);
    assert!(out.contains("\u{1b}[31merror[InvalidType]\u{1b}[0m"), "{out}");
}

#[test]
fn a_log_in_sarif_has_what_the_standard_requires() {
    for file in ["web.yaml", "alerts.yaml"] {
        let (out, _) = of_golden(file, &["-o", "sarif"], false);
        let log: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        for result in run["results"].as_array().unwrap() {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(result["ruleId"], rules[index]["id"]);
            assert!(matches!(result["level"].as_str(), Some("error" | "warning")));
            let region = &result["locations"][0]["physicalLocation"]["region"];
            assert!(region["startLine"].as_u64().unwrap() > 0 && region["startColumn"].as_u64().unwrap() > 0);
            let lines = (region["startLine"].as_u64(), region["endLine"].as_u64());
            assert!(lines.0 <= lines.1);
        }
        for rule in rules {
            assert!(
                !rule["shortDescription"]["text"].as_str().unwrap().is_empty(),
                "{rule}"
            );
        }
    }
}

#[test]
fn exit_codes_are_those_of_the_documentation() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let object = |version: &str| {
        format!(
            "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: {}}}\nspec:\n  helm: {{repo: 'https://h', \
             chart: c, version: {version}}}\n  targets: [{{clusterSelector: {{}}}}]\n",
            if version == "1.2.3" { "a" } else { "b" }
        )
    };
    let valid = write("valid.yaml", &object("1.2.3"));
    let warned = write("warned.yaml", &object("1.x"));
    let invalid = write("invalid.yaml", &object("foo"));
    fs::write(folder.path().join("binary.yaml"), b"a: \xff").unwrap();
    let binary = folder.path().join("binary.yaml").display().to_string();
    for (args, code) in [
        (&["-f", &valid][..], 0),
        (&["-f", &valid, &warned], 0),
        (&["-f", &warned, "--warnings-as-errors"], 1),
        (&["-f", &warned, "--strict"], 1),
        (&["-f", &invalid], 1),
        (&["-f", &invalid, "-f", &binary], 2),
        (&["-f", "/does/not/exist.yaml"], 2),
        (&["-f", &valid, "-n", "other"], 0),
    ] {
        assert_eq!(run_command(args, false).1, code, "{args:?}");
    }
    let (out, _) = run_command(&["-f", &binary], false);
    assert!(out.contains("error[Unreadable]: not UTF-8 in line 1"), "{out}");
    let (out, _) = run_command(&["-f", &valid], false);
    assert_eq!(out, "1 file: 1 of 1 HelmOp valid; 0 errors, 0 warnings\n");
}

#[test]
fn the_namespace_is_that_of_the_object_of_the_flag_or_default() {
    let helmop = |namespace: &str| {
        format!(
            "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: a{namespace}}}\nspec: {{helm: {{repo: 'https://h', \
             chart: c, version: 1.2.3}}, targets: [{{clusterSelector: {{}}}}]}}\n---\n"
        )
    };
    let policy = |namespace: &str| {
        format!(
            "apiVersion: fleet.cattle.io/v1alpha1\nkind: Policy\nmetadata: {{name: p, namespace: {namespace}}}\n\
             requireServiceAccount: true\n---\n"
        )
    };
    let errors = |text: String, flag: Option<&str>| {
        let options = Options {
            namespace: flag,
            ..Options::default()
        };
        let report = validate(&[Input::Text("a.yaml".to_owned(), text)], options);
        report
            .problems
            .iter()
            .map(|problem| problem.reason)
            .collect::<Vec<_>>()
    };
    let own = ", namespace: team";
    assert_eq!(errors(helmop(own) + &policy("team"), None), ["PolicyViolation"]);
    assert_eq!(errors(helmop("") + &policy("team"), None), [""; 0]);
    assert_eq!(errors(helmop("") + &policy("default"), None), ["PolicyViolation"]);
    assert_eq!(
        errors(helmop("") + &policy("team"), Some("team")),
        ["PolicyViolation"]
    );
    assert_eq!(errors(helmop(own), Some("other")), ["NamespaceMismatch"]);
    // The API server rejects this Policy, so it forbids nothing.
    let invalid = policy("team").replace(
        "requireServiceAccount: true",
        "requireServiceAccount: true\nhelmOp: 1",
    );
    assert_eq!(errors(helmop(own) + &invalid, None), ["InvalidType"]);
}

/// The reasons and fields of the errors of a HelmOp with this spec.
fn errors_of_spec(spec: &str) -> Vec<(&'static str, String)> {
    let text =
        format!("apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: a}}\nspec: {spec}\n");
    let report = validate(&[Input::Text("a.yaml".to_owned(), text)], Options::default());
    let errors = report.problems.into_iter();
    let errors = errors.filter(|problem| problem.severity == Severity::Error);
    errors.map(|problem| (problem.reason, problem.field)).collect()
}

#[test]
fn a_part_of_the_wrong_type_is_one_mistake() {
    let helm = "{repo: 'https://h', chart: c, version: 1.2.3}";
    for (spec, field) in [
        ("5".to_owned(), "spec"),
        (
            format!("{{helm: {helm}, targets: [5, {{clusterSelector: {{}}}}]}}"),
            "spec.targets[0]",
        ),
        (
            format!("{{helm: {helm}, targets: [{{clusterSelector: {{}}}}, [], {{clusterSelector: {{}}}}]}}"),
            "spec.targets[1]",
        ),
        (
            "{helm: {repo: 'https://h', chart: c, version: 1.2.3, valuesFrom: [x]}, targets: [{clusterSelector: {}}]}".to_owned(),
            "spec.helm.valuesFrom[0]",
        ),
        (
            "{helm: {repo: 'https://h', chart: c, version: 1.2.3, valuesFiles: [a, 3]}, targets: [{clusterSelector: {}}]}".to_owned(),
            "spec.helm.valuesFiles[1]",
        ),
    ] {
        assert_eq!(errors_of_spec(&spec), [("InvalidType", field.to_owned())], "{spec}");
    }
    // The other parts are checked nevertheless.
    let both = "{helm: {repo: 'https://h', chart: c, version: lates}, targets: [5, {clusterSelector: {}}]}";
    let reasons: Vec<_> = errors_of_spec(both)
        .into_iter()
        .map(|(reason, _)| reason)
        .collect();
    assert_eq!(reasons, ["InvalidVersion", "InvalidType"]);
}

#[test]
fn the_items_of_a_typed_list_need_no_kind() {
    let text = "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOpList\nitems:\n- metadata: {name: a}\n  spec: {helm: {repo: 'https://h', \
                chart: c, version: 1.2.3}, targets: [{clusterSelector: {}}]}\n";
    let report = validate(
        &[Input::Text("a.yaml".to_owned(), text.to_owned())],
        Options::default(),
    );
    assert_eq!((report.helmops, report.valid, report.skipped), (1, 1, 0));
}

#[test]
fn the_number_of_findings_is_limited() {
    let fields: Vec<_> = (0..300).map(|number| format!("f{number}: 1")).collect();
    let text = format!(
        "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: a}}\nspec: {{helm: {{repo: 'https://h', chart: c, \
         version: 1.2.3}}, targets: [{{clusterSelector: {{}}}}], {}}}\n",
        fields.join(", ")
    );
    let report = of_text(&text);
    assert_eq!((report.errors, report.valid), (100, 0));
    // Another error is not hidden by those before it.
    let report = of_text(&text.replace("f299: 1", "paused: 'true'"));
    assert_eq!((report.errors, report.valid), (101, 0));
    let items = vec!["5"; 300].join(", ");
    let text = text.replace("targets: [{clusterSelector: {}}]", &format!("targets: [{items}]"));
    let report = of_text(&text);
    assert_eq!(report.errors, 200);
}

#[test]
fn an_object_is_unique_in_all_files() {
    let text = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\n";
    let input = |name: &str| Input::Text(name.to_owned(), text.to_owned());
    let report = validate(&[input("a.yaml"), input("b.yaml")], Options::default());
    let [problem] = &*report.problems else {
        panic!("{report:?}")
    };
    let related = problem.related.as_ref().unwrap();
    assert_eq!(
        (
            problem.reason,
            &*problem.file,
            &*related.file,
            related.region.line
        ),
        ("DuplicateObject", "b.yaml", "a.yaml", 3)
    );
    // A HelmOp and a Policy of one name are two objects.
    let helmop = "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {name: p}\nspec: {helm: {repo: 'https://h', chart: c, \
                  version: 1.2.3}, targets: [{clusterSelector: {}}]}\n";
    let other = Input::Text("c.yaml".to_owned(), helmop.to_owned());
    let report = validate(&[input("a.yaml"), other], Options::default());
    assert_eq!((report.problems.len(), report.valid), (0, 1), "{report:?}");
}

/// A HelmOp with more fields of its spec.
fn helmop(name: &str, more: &str) -> String {
    format!(
        "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: {name}}}\nspec:\n  helm: {{repo: 'https://h', chart: c, version: \
         1.2.3}}\n  targets: [{{clusterSelector: {{}}}}]\n{more}"
    )
}

#[test]
fn a_cycle_of_dependencies_is_found_in_all_files() {
    let cycles = |files: &[(&str, String)]| {
        let inputs: Vec<_> = files
            .iter()
            .map(|(name, text)| Input::Text((*name).to_owned(), text.clone()))
            .collect();
        let report = validate(&inputs, Options::default());
        let problems = report.problems.into_iter();
        let found = problems.map(|problem| {
            let line = problem.region.unwrap().line;
            let names = problem.message.rsplit(": ").next().unwrap().to_owned();
            (problem.reason, problem.file, line, problem.field, names)
        });
        found.collect::<Vec<_>>()
    };
    let by_fleet = |name: &str, other: &str| helmop(name, &format!("  dependsOn:\n  - name: {other}\n"));
    let by_lifecycle = |name: &str, other: &str| {
        helmop(
            name,
            &format!("  lifecycle: {{dependsOn: [{{name: {other}}}]}}\n"),
        )
    };
    let found = cycles(&[
        ("a.yaml", by_lifecycle("web", "api")),
        ("b.yaml", by_fleet("api", "db")),
        ("c.yaml", by_fleet("db", "web")),
        ("d.yaml", by_fleet("user", "web")),
        ("e.yaml", by_fleet("itself", "itself")),
    ]);
    let cycle = (
        "DependencyCycle",
        "a.yaml".to_owned(),
        7,
        "spec.lifecycle.dependsOn[0].name".to_owned(),
        "web → api → db → web".to_owned(),
    );
    assert_eq!(found[0], cycle);
    assert_eq!((found.len(), found[1].0), (2, "InvalidDependency"), "{found:?}");

    // In another state than Ready it may be before it is deployed.
    let waits = "  dependsOn: [{name: web, acceptedStates: [Ready, NotReady]}]\n";
    let found = cycles(&[("a.yaml", by_fleet("web", "db")), ("b.yaml", helmop("db", waits))]);
    assert_eq!(found, []);
    for other in [
        by_fleet("db", "other"),
        // Another HelmOp, and an object.
        by_lifecycle("db", "web, namespace: other"),
        by_lifecycle("db", "web, apiVersion: v1, kind: ConfigMap"),
    ] {
        let found = cycles(&[("a.yaml", by_fleet("web", "db")), ("b.yaml", other)]);
        assert_eq!(found, []);
    }
    let across = |name: &str, namespace: &str, other: &str| {
        let own = format!("{{name: {name}, namespace: {namespace}}}");
        by_lifecycle(name, other).replace(&format!("{{name: {name}}}"), &own)
    };
    let found = cycles(&[
        ("a.yaml", across("web", "shop", "db, namespace: data")),
        ("b.yaml", across("db", "data", "web, namespace: shop")),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_null_that_kubectl_apply_drops_is_a_warning_at_its_line() {
    let values = "  values: 1\n";
    let text = helmop("web", values).replace(
        "version: 1.2.3}",
        "version: 1.2.3,\n    values: {a: 1, limits: {cpu: null,\n      memory:\n      }}}",
    );
    let report = of_text(&text.replace(values, ""));
    let found: Vec<_> = report
        .problems
        .iter()
        .map(|problem| (problem.severity, problem.region.unwrap().line, &*problem.field))
        .collect();
    assert_eq!(
        found,
        [
            (Severity::Warning, 6, "spec.helm.values.limits.cpu"),
            (Severity::Warning, 7, "spec.helm.values.limits.memory"),
        ]
    );
    assert!(report.problems[0].message.contains("kubectl apply --server-side"));
}

#[test]
fn a_field_in_the_wrong_place_has_the_right_one_as_a_fix() {
    let text = helmop("web", "").replace("version: 1.2.3}", "version: 1.2.3, pollingInterval: 1m}");
    let report = of_text(&text);
    let [problem] = &*report.problems else {
        panic!("{report:?}")
    };
    assert_eq!(
        (problem.reason, &*problem.fix),
        (
            "UnknownField",
            "move it to spec.pollingInterval if you mean that field, or else remove it"
        )
    );
}

fn marked(text: &str, region: Region) -> String {
    let line: Vec<char> = text
        .split('\n')
        .nth(region.line - 1)
        .unwrap_or_default()
        .chars()
        .collect();
    let end = if region.end_line == region.line {
        region.end_column - 1
    } else {
        line.len()
    };
    line[region.column - 1..end].iter().collect()
}

/// A step of a path.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Index(usize),
}

/// The steps of a path whose keys have neither dots nor brackets.
fn steps(path: &str) -> Vec<Step> {
    path.replace('[', ".[")
        .split('.')
        .map(
            |step| match step.strip_prefix('[').map(|step| step.trim_end_matches(']')) {
                Some(index) if index.parse::<usize>().is_ok() => Step::Index(index.parse().unwrap()),
                Some(key) => Step::Key(key.to_owned()),
                None => Step::Key(step.to_owned()),
            },
        )
        .collect()
}

fn child<'v>(value: &'v mut Value, step: &Step) -> Option<&'v mut Value> {
    match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    }
}

const SENTINEL: &str = "sentinel-of-the-test";

/// Line and column of the value at a path, or of the nearest one that exists, and the steps to it. They are found by replacing the value.
fn position_of(object: &Value, path: &str) -> (usize, usize, Vec<Step>, Value) {
    let mut changed = object.clone();
    let (mut place, mut found) = (&mut changed, Vec::new());
    for step in steps(path) {
        let exists = child(place, &step).is_some();
        if !exists {
            break;
        }
        place = child(place, &step).unwrap();
        found.push(step);
    }
    let value = std::mem::replace(place, json!(SENTINEL));
    let text = emit_exact(&changed).unwrap();
    let (line, content) = text
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(SENTINEL))
        .unwrap();
    let column = content.split(SENTINEL).next().unwrap().chars().count() + 1;
    (line + 1, column, found, value)
}

/// Asserts that an error points at its value, at the key of a list or mapping, or at the field in which something is missing.
fn assert_points_at(object: &Value, text: &str, problem: &Problem) {
    let region = problem.region.unwrap();
    let found = marked(text, region);
    let (line, column, steps_found, value) = position_of(object, &problem.field);
    let is_whole = steps_found.len() == steps(&problem.field).len();
    let about = format!("{}: {found:?} at {region:?}", problem.text());
    let is_scalar = !value.is_object() && !value.is_array() && value != json!("") && !value.is_null();
    if is_whole && is_scalar {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let at_start = region.line == line && (region.column == column || region.column == column + 1);
        let is_part = shown.contains(&found) && region.line >= line;
        assert!(at_start || is_part, "{about}; expected {line}:{column}");
        // A long text continues on the next line.
        let found = serde_json::from_str(&found).unwrap_or(found);
        let start: String = found.trim_matches(['"', '\'']).chars().take(20).collect();
        assert!(
            !found.is_empty() && (shown.contains(&start) || shown.contains('\n')),
            "{about}"
        );
        return;
    }
    if let (true, Value::Object(entries)) = (is_whole, &value)
        && problem.message.contains("not a key")
    {
        let key = found.trim_matches(['"', '\'']);
        assert!(entries.contains_key(key), "{about}");
        assert!(
            problem.message.contains(&format!("{key:?}")) || key.is_empty(),
            "{about}"
        );
        return;
    }
    if is_whole && value == json!("") {
        assert_eq!((region.line, region.column), (line, column), "{about}");
        return;
    }
    assert_eq!(region.line, line, "{about}");
    match steps_found.last().unwrap() {
        Step::Key(key) => {
            assert_eq!(&found, key, "{about}");
            assert_eq!(region.column + key.chars().count() + 2, column, "{about}");
        }
        Step::Index(_) => {
            assert_eq!(region.column, column, "{about}");
            let first = value.as_object().and_then(|entries| entries.keys().next());
            assert!(first.is_none_or(|key| found == *key) || found == "{", "{about}");
        }
    }
}

/// The errors of a report, without those that a mistake may have besides.
fn errors_of<'r>(report: &'r Report, mistake: &Mistake) -> Vec<&'r Problem> {
    let errors = report
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error);
    let is_expected = |problem: &&Problem| {
        let mut expected = mistake.errors.iter();
        !mistake.has_more || expected.any(|error| error.path == problem.field)
    };
    errors.filter(is_expected).collect()
}

fn assert_reported(report: &Report, mistake: &Mistake) {
    let errors = errors_of(report, mistake);
    let mut found: Vec<_> = errors
        .iter()
        .map(|problem| (&*problem.field, problem.reason))
        .collect();
    let mut expected: Vec<_> = mistake
        .errors
        .iter()
        .map(|error| (&*error.path, error.reason))
        .collect();
    // Problems are in the order of their lines.
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{}: {:?}", mistake.group, report.problems);
    for error in &mistake.errors {
        let mut texts = errors.iter().map(|problem| problem.text());
        let words: Vec<_> = error.words.iter().collect();
        let has_all = texts.any(|text| words.iter().all(|word| text.contains(*word)));
        assert!(has_all, "{words:?}: {:?}", report.problems);
    }
}

#[test]
fn every_mistake_of_admission_is_shown_with_its_position() {
    let mut positions = 0;
    for mistake in helmops_mistakes::all() {
        let object = mistake.manifest();
        let policies = mistake
            .policy_manifests()
            .map(|policy| format!("---\n{policy}\n"))
            .collect::<Vec<_>>()
            .concat();
        let Ok(yaml) = emit_exact(&object) else {
            continue;
        };
        let text = format!("{yaml}{policies}");
        let report = of_text(&text);
        assert_reported(&report, &mistake);
        for problem in errors_of(&report, &mistake) {
            assert_points_at(&object, &text, problem);
            positions += 1;
        }
    }
    assert!(positions > 300, "{positions}");
}

#[test]
fn every_mistake_is_found_in_json_too() {
    for mistake in helmops_mistakes::all() {
        let objects = std::iter::once(mistake.manifest()).chain(mistake.policy_manifests());
        let text = objects
            .map(|object| format!("{object:#}\n"))
            .collect::<Vec<_>>()
            .concat();
        let report = of_text(&text);
        assert_reported(&report, &mistake);
        for problem in errors_of(&report, &mistake) {
            let found = marked(&text, problem.region.unwrap());
            assert!(!found.trim().is_empty(), "{}", problem.text());
        }
    }
}

#[test]
fn what_policies_allow_is_valid() {
    for case in helmops_mistakes::allowed() {
        let objects = std::iter::once(case.manifest()).chain(case.policy_manifests());
        let text = objects
            .map(|object| format!("{object}\n"))
            .collect::<Vec<_>>()
            .concat();
        let report = of_text(&text);
        assert_eq!((report.errors, report.valid), (0, 1), "{:?}", report.problems);
    }
}

#[test]
fn syntax_errors_have_a_position_and_a_fix() {
    for (text, line, column, message, fix) in [
        (
            "a:\n\tb: 1\n",
            2,
            1,
            "a tab in the indentation",
            "replace the tab with spaces",
        ),
        ("a: b: c\n", 1, 5, "mapping values are not allowed", "in quotes"),
        ("a: 1\n---\nb:\n  c: 1\n d: 2\n", 5, 2, "", "align the key"),
        ("a: 'x\nb: 1\n", 0, 0, "", "close the quotes"),
        ("a: [1, 2\n", 0, 0, "", "close each [ and {"),
        ("a: *nope\n", 1, 4, "anchor", "define the anchor"),
        ("a: @b\n", 1, 4, "", "in quotes"),
        ("a: {{ .Values.b }}\nc: 1\n", 0, 0, "", "helm template"),
        ("--- {a: 1}\n", 1, 1, "only a comment may follow ---", "next line"),
    ] {
        let report = of_text(text);
        let [problem] = &*report.problems else {
            panic!("{text:?}: {report:?}")
        };
        let region = problem.region.unwrap();
        if line > 0 {
            assert_eq!(
                (region.line, region.column),
                (line, column),
                "{text:?}: {}",
                problem.message
            );
        }
        assert_eq!(problem.reason, "InvalidSyntax", "{text:?}");
        assert!(problem.message.contains(message), "{text:?}: {}", problem.message);
        assert!(
            problem.fix.contains(fix),
            "{text:?}: {} → {}",
            problem.message,
            problem.fix
        );
    }
}

#[test]
fn wrong_types_have_a_fix() {
    let of_spec = |spec: &str| {
        let text = format!(
            "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {{name: a}}\nspec:\n  helm: {{repo: 'https://h', chart: c, \
             version: 1.2.3}}\n  targets: [{{clusterSelector: {{}}}}]\n  {spec}\n"
        );
        let report = of_text(&text);
        let [problem] = &*report.problems else {
            panic!("{spec}: {report:?}")
        };
        let found = marked(&text, problem.region.unwrap());
        (problem.field.clone(), problem.reason, found, problem.fix.clone())
    };
    for (spec, field, found, fix) in [
        (
            "pollingInterval: 5",
            "spec.pollingInterval",
            "5",
            "write it in quotes: \"5\"",
        ),
        (
            "namespace: yes",
            "spec.namespace",
            "yes",
            "write it in quotes: \"yes\"",
        ),
        (
            "paused: 'true'",
            "spec.paused",
            "'true'",
            "write it without quotes: true",
        ),
        (
            "labels: {a: 1.0}",
            "spec.labels[a]",
            "1.0",
            "write it in quotes: \"1.0\"",
        ),
        (
            "labels: [a]",
            "spec.labels",
            "labels",
            "write key: value, without - and [ ]",
        ),
        (
            "dependsOn: {name: a}",
            "spec.dependsOn",
            "dependsOn",
            "start each item with -",
        ),
        ("dependsOn: [a]", "spec.dependsOn[0]", "a", ""),
        (
            "paused: ",
            "spec.paused",
            "paused",
            "give it a value, or leave the field out",
        ),
        ("namespaceLabels: {a: [b]}", "spec.namespaceLabels[a]", "a", ""),
    ] {
        let expected = (field.to_owned(), "InvalidType", found.to_owned(), fix.to_owned());
        assert_eq!(of_spec(spec), expected, "{spec}");
    }
    let (field, reason, found, fix) = of_spec("namespce: a");
    assert_eq!(
        (&*field, reason, &*found, &*fix),
        (
            "spec.namespce",
            "UnknownField",
            "namespce",
            "did you mean namespace?"
        )
    );
}

#[test]
fn a_missing_separator_is_one_mistake() {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let report = of_text(&object.repeat(3));
    let [problem] = &*report.problems else {
        panic!("{report:?}")
    };
    assert_eq!(
        (problem.reason, problem.region.unwrap().line),
        ("DuplicateKey", 8)
    );
    assert!(problem.fix.contains("write ---"), "{problem:?}");
}

#[test]
fn aliases_are_bounded() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let report = of_text(bomb);
    assert!(
        report.problems[0].message.contains("more than 2000000 nodes"),
        "{report:?}"
    );
}

#[test]
fn an_alias_may_be_a_key() {
    let text = "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata:\n  name: &app web\n  namespace: fleet-default\nspec:\n  \
                helm:\n    repo: https://charts.example.com\n    chart: web\n    version: 1.2.3\n    values:\n      controllers:\n        \
                *app:\n          replicas: 2\n  targets:\n  - clusterSelector: {}\n";
    let report = of_text(text);
    assert_eq!((report.problems.len(), report.valid), (0, 1), "{report:?}");
}

/// `kubectl` lets a later merge key replace what is written, against the specification.
#[test]
fn a_key_that_a_merge_key_replaces_is_found() {
    let text = "apiVersion: fleet.cattle.io/v1alpha1\nkind: HelmOp\nmetadata: {name: web}\nspec:\n  helm:\n    repo: https://a.example\n    \
                chart: web\n    <<: {chart: other, version: 1.2.3}\n  targets: [{clusterSelector: {}}]\n";
    let report = of_text(text);
    let [problem] = &*report.problems else {
        panic!("{report:?}")
    };
    assert_eq!(
        (problem.reason, problem.region.unwrap().line),
        ("DuplicateKey", 8)
    );
    let report = of_text(&text.replace("chart: other, ", ""));
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn other_objects_are_skipped() {
    let report = of_text(
        "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: kyverno.io/v1\nkind: Policy\n---\nimage: {tag: 1}\n---\n- a\n---\n# nothing\n",
    );
    assert_eq!(
        (report.skipped, report.problems.len(), report.helmops),
        (4, 0, 0),
        "{report:?}"
    );
}
