//! SARIF 2.1.0, for code scanning.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::validate::{Problem, Region, Report, explained};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// What a path in a URI may contain.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_')
    .remove(b'~');

/// The log of one run.
pub fn log(report: &Report) -> Value {
    let used: BTreeSet<&str> = report.problems.iter().map(|problem| problem.reason).collect();
    let used: Vec<&str> = used.into_iter().collect();
    let rules: Vec<Value> = used.iter().map(|name| description(name)).collect();
    let results: Vec<Value> = report
        .problems
        .iter()
        .map(|problem| result(problem, &used))
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "kubectl-helmop",
                "version": helmops_process::version(),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn description(name: &str) -> Value {
    let Some(explained) = explained().find(|explained| explained.name == name) else {
        return json!({ "id": name });
    };
    json!({
        "id": name,
        "shortDescription": { "text": explained.meaning },
        "help": { "text": explained.remedy },
    })
}

fn result(problem: &Problem, rules: &[&str]) -> Value {
    let index = rules.iter().position(|rule| *rule == problem.reason);
    let mut message = problem.text();
    if !problem.fix.is_empty() {
        message = format!("{message}; fix: {}", problem.fix);
    }
    let marked = problem
        .line
        .as_ref()
        .and_then(|line| line.text.get(line.marked.clone()));
    let mut location = json!({ "physicalLocation": physical(&problem.file, problem.region, marked) });
    if !problem.field.is_empty() {
        let field = json!([{ "fullyQualifiedName": problem.field, "kind": "member" }]);
        add(&mut location, "logicalLocations", field);
    }
    let mut result = json!({
        "ruleId": problem.reason,
        "ruleIndex": index,
        "level": problem.severity.as_str(),
        "message": { "text": message },
        "locations": [location],
    });
    if let Some(related) = &problem.related {
        let place = physical(&related.file, Some(related.region), None);
        let location = json!({ "physicalLocation": place, "message": { "text": related.message } });
        add(&mut result, "relatedLocations", json!([location]));
    }
    result
}

fn physical(file: &str, region: Option<Region>, marked: Option<&str>) -> Value {
    let uri = utf8_percent_encode(file, PATH).to_string();
    let mut location = json!({ "artifactLocation": { "uri": uri } });
    let Some(region) = region else { return location };
    let mut place = json!({
        "startLine": region.line,
        "startColumn": region.column,
        "endLine": region.end_line,
        "endColumn": region.end_column,
    });
    if let Some(marked) = marked {
        add(&mut place, "snippet", json!({ "text": marked }));
    }
    add(&mut location, "region", place);
    location
}

fn add(object: &mut Value, field: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), value);
    }
}
