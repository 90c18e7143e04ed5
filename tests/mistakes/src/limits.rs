//! Sizes: each limit of a HelmOp, exceeded by one.

use helmops_api::limits::{self, Measure};
use serde_json::{Map, Value, json};

use crate::{Table, valid_spec};

/// Adds all of them.
pub fn add(table: &mut Table) {
    table.group("limits");
    for (path, measure, max) in limits::of_helmop() {
        let at = path.replace("[]", "[0]");
        // Names with a rule of their own have the reason of that rule.
        let reason = match at.rsplit('.').next().unwrap_or_default() {
            "helmSecretName" | "namespace" | "defaultNamespace" | "serviceAccount"
                if !at.contains("KeyRef") && !at.contains("drift") && !at.contains("postRenderers") =>
            {
                "InvalidName"
            }
            "releaseName" => "InvalidReleaseName",
            "name" if at.contains("downstreamResources") => "InvalidName",
            _ => "LimitExceeded",
        };
        let mut spec = valid_spec(json!({}));
        json_patch::merge(&mut spec, &sized(&path, measure, max + 1)["spec"]);
        table.spec(&spec, &at, reason, &[&max.to_string()]).has_more = true;
    }
    table.group("totals");
    let target =
        |index| json!({ "clusterName": "A", "helm": { "version": format!("not a version {index}") } });
    let targets = json!({ "targets": (0..40_000).map(target).collect::<Vec<_>>() });
    let words = &[
        "Too many: 40000 entries; at most 2000 are allowed",
        "use clusterSelector or clusterGroup",
    ];
    table.over(targets, "spec.targets", "LimitExceeded", words);
    let target = |index| json!({ "helm": { "version": format!("1.0.{index}") } });
    let targets = json!({ "targets": (0..500).map(target).collect::<Vec<_>>() });
    table.over(
        targets,
        "spec.targets",
        "LimitExceeded",
        &["Too many: 501 different charts and versions"],
    );
    let values = json!({ "helm": { "values": { "a": "x".repeat(1 << 20) } } });
    table.over(
        values,
        "spec",
        "LimitExceeded",
        &["at most 1048576 are allowed", "helm.valuesFrom"],
    );
    let target = |index| json!({ "namespaceAnnotations": { format!("a{index}"): "x".repeat(1_000) } });
    let targets = json!({ "targets": (0..300).map(target).collect::<Vec<_>>() });
    table.over(
        targets,
        "spec.targets",
        "LimitExceeded",
        &["Too long: ", "at most 262144 are allowed"],
    );
}

/// Lists of texts; the items of all others are mappings.
const TEXTS: [&str; 6] = [
    "acceptedStates",
    "jsonPointers",
    "overlays",
    "paths",
    "values",
    "valuesFiles",
];

/// A HelmOp with nothing but a field of a certain size.
pub fn sized(path: &str, measure: Measure, size: usize) -> Value {
    let value = match measure {
        Measure::Length => json!("a".repeat(size)),
        Measure::Entries => (0..size)
            .map(|index| (format!("k{index}"), json!("")))
            .collect::<Map<_, _>>()
            .into(),
        Measure::Items if is_list_of_texts(path) => vec![json!("a"); size].into(),
        Measure::Items => vec![json!({}); size].into(),
    };
    path.rsplit('.').fold(value, |value, step| {
        let depth = step.matches("[]").count();
        let value = (0..depth).fold(value, |value, _| json!([value]));
        json!({ step.trim_end_matches("[]"): value })
    })
}

fn is_list_of_texts(path: &str) -> bool {
    path.rsplit('.')
        .next()
        .is_some_and(|field| TEXTS.contains(&field))
}
