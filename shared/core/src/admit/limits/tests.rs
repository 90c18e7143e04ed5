use helmops_api::{
    HelmOp, crds,
    limits::{self, Measure},
};
use helmops_mistakes::sized;
use helmops_model::{reason::Reason, validation::FieldErrors};
use serde_json::{Value, json};

use crate::admit::{ValidHelmOp, tests::review};

/// The schema of a HelmOp, or of a Bundle, as it is installed.
fn schema(file: &str) -> Value {
    let crds = crds::all().unwrap();
    let (_, crd) = crds.into_iter().find(|(name, _)| *name == file).unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The schema of a field.
fn field<'s>(schema: &'s Value, path: &str) -> &'s Value {
    path.split('.').fold(schema, |schema, step| {
        let field = &schema["properties"][step.trim_end_matches("[]")];
        if step.ends_with("[]") {
            &field["items"]
        } else {
            field
        }
    })
}

fn helmop(over: &Value) -> HelmOp {
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "fleet-default" },
        "spec": { "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" } }
    });
    json_patch::merge(&mut object, over);
    serde_json::from_str(&object.to_string()).unwrap()
}

fn errors(helmop: &HelmOp) -> FieldErrors {
    ValidHelmOp::try_from(helmop).err().unwrap_or_default()
}

#[test]
fn every_limit_is_in_the_crd_and_in_admission() {
    let schema = schema("helmops.yaml");
    for (path, measure, max) in limits::of_helmop() {
        let in_schema = &field(&schema, &path)[measure.keyword()];
        // Admission alone checks release names, so that its message is not hidden by that of the schema.
        let is_for_admission = path.ends_with("releaseName");
        assert_eq!(*in_schema == json!(max), !is_for_admission, "{path} in the CRD");

        let within = errors(&helmop(&sized(&path, measure, max)));
        let exceeds = within
            .reported()
            .iter()
            .any(|error| error.reason == Reason::LimitExceeded);
        assert!(!exceeds, "{path}: {within}");

        let exceeding = errors(&helmop(&sized(&path, measure, max + 1)));
        let at = path.replace("[]", "[0]");
        let error = exceeding.reported().iter().find(|error| error.path == at);
        let error = error.unwrap_or_else(|| panic!("{path} is not named: {exceeding}"));
        let message = error.message();
        assert!(message.contains(&max.to_string()), "{path}: {message}");
        if error.reason == Reason::LimitExceeded {
            let (start, count) = match measure {
                Measure::Length => ("Too long: ", format!("{} bytes", max + 1)),
                Measure::Items | Measure::Entries => ("Too many: ", format!("{} entries", max + 1)),
            };
            assert!(
                message.starts_with(start) && message.contains(&count),
                "{path}: {message}"
            );
            assert!(message.contains("are allowed; "), "{path}: no fix in {message}");
        }
    }
}

/// A list without a limit is a mistake.
#[test]
fn every_list_and_map_of_a_helmop_has_a_limit() {
    fn walk(schema: &Value, path: &str, without: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let limit = match field["type"].as_str() {
                Some("array") => &field["maxItems"],
                Some("object") if field.get("additionalProperties").is_some() => &field["maxProperties"],
                _ => &Value::Bool(true),
            };
            if limit.is_null() {
                without.push(path.clone());
            }
            walk(field, &path, without);
            walk(&field["items"], &format!("{path}[]"), without);
        }
    }

    let mut without = Vec::new();
    walk(
        &schema("helmops.yaml")["properties"]["spec"],
        "spec",
        &mut without,
    );
    // Internal to Bundles, and ignored in a HelmOp; limited by the size of the spec.
    assert_eq!(without, ["spec.resources"]);
}

#[test]
fn bundles_have_no_limits() {
    let schema = schema("bundles.yaml").to_string();
    assert!(!schema.contains("maxItems") && !schema.contains("maxProperties"));
}

#[test]
fn a_helmop_may_request_500_charts() {
    let targets = |count| {
        let target = |index| json!({ "helm": { "version": format!("1.0.{index}") } });
        helmop(&json!({ "spec": { "targets": (0..count).map(target).collect::<Vec<_>>() } }))
    };
    assert!(errors(&targets(499)).is_empty());
    let exceeding = errors(&targets(500)).to_string();
    assert!(
        exceeding.starts_with("spec.targets: Too many: 501 different charts and versions"),
        "{exceeding}"
    );
    let same = vec![json!({ "helm": { "version": "1.2.4" } }); 2_000];
    assert!(errors(&helmop(&json!({ "spec": { "targets": same } }))).is_empty());
}

#[test]
fn values_of_900_kilobytes_are_allowed() {
    let values =
        |size: usize| helmop(&json!({ "spec": { "helm": { "values": { "a": "x".repeat(size) } } } }));
    assert!(errors(&values(900 << 10)).is_empty());
    let exceeding = errors(&values(1 << 20)).to_string();
    assert!(
        exceeding.starts_with("spec: Too long: ")
            && exceeding.contains("at most 1048576 are allowed")
            && exceeding.contains("helm.valuesFrom"),
        "{exceeding}"
    );
}

#[test]
fn a_long_url_does_not_show_its_credentials() {
    let repo = format!("https://user:geheim@charts.example.com/{}", "a".repeat(3_000));
    let error = errors(&helmop(&json!({ "spec": { "helm": { "repo": repo } } }))).to_string();
    assert!(
        error.starts_with("spec.helm.repo: Too long: ") && error.len() < 400,
        "{error}"
    );
    assert!(!error.contains("geheim"), "{error}");
}

#[test]
fn a_stored_helmop_that_exceeds_a_limit_stays_editable() {
    let many = |more: Value| {
        let mut over = json!({ "spec": { "targets": vec![json!({ "clusterSelector": {} }); 3_000] } });
        json_patch::merge(&mut over, &more);
        helmop(&over)
    };
    let stored = many(json!({}));
    let paused = review(&many(json!({ "spec": { "paused": true } })), Some(&stored));
    assert!(paused.errors.is_empty(), "{paused:?}");
    assert!(paused.warnings[0].starts_with("not new, but still wrong: spec.targets: Too many"));
    let longer = many(json!({ "spec": { "helm": { "repo": "a".repeat(3_000) } } }));
    let fewer = helmop(&json!({}));
    assert!(!review(&longer, Some(&fewer)).errors.is_empty());
    assert!(review(&fewer, Some(&stored)).errors.is_empty());
}

#[test]
fn errors_that_a_limit_error_hid_do_not_deny_a_smaller_helmop() {
    let targets = |count: usize, more: Value| {
        let mut over =
            json!({ "spec": { "labels": { "not a key": "x" }, "targets": vec![json!({}); count] } });
        json_patch::merge(&mut over, &more);
        helmop(&over)
    };
    let stored = targets(3_000, json!({}));
    let smaller = review(&targets(1_500, json!({})), Some(&stored));
    assert!(smaller.errors.is_empty(), "{:?}", smaller.errors);
    let warnings = smaller.warnings.join("\n");
    assert!(
        warnings.contains("not new, but still wrong: spec.labels"),
        "{warnings}"
    );

    let long = json!({ "spec": { "helm": { "repo": "a".repeat(3_000) } } });
    let other = review(&targets(1_500, long), Some(&stored));
    assert_eq!(
        other.errors.reason(),
        Some(Reason::LimitExceeded),
        "exceeding another limit is a new error"
    );
    let within = targets(1_500, json!({}));
    let worse = review(
        &targets(1_500, json!({ "spec": { "labels": { "b c": "x" } } })),
        Some(&within),
    );
    assert_eq!(worse.errors.reported().len(), 1, "{:?}", worse.errors);
}

#[test]
fn namespace_metadata_of_all_targets_is_limited_together() {
    let target = |index| json!({ "namespaceAnnotations": { format!("a{index}"): "x".repeat(1_000) } });
    let targets =
        |count| helmop(&json!({ "spec": { "targets": (0..count).map(target).collect::<Vec<_>>() } }));
    assert!(errors(&targets(200)).is_empty());
    let exceeding = errors(&targets(300)).to_string();
    assert!(
        exceeding.starts_with("spec.targets: Too long: ") && exceeding.contains("at most 262144 are allowed"),
        "{exceeding}"
    );
}

#[test]
fn errors_about_long_texts_are_short() {
    let long = "A".repeat(500_000);
    for over in [
        json!({ "labels": { &*long: "x" } }),
        json!({ "labels": { "x": long } }),
        json!({ "namespace": long }),
        json!({ "helm": { "version": long } }),
        json!({ "helm": { "repo": long } }),
        json!({ "targets": [{ "clusterSelector": { "matchExpressions": [{ "key": long, "operator": long }] } }] }),
        json!({ "rolloutStrategy": { "maxUnavailable": long } }),
    ] {
        let errors = errors(&helmop(&json!({ "spec": over }))).to_string();
        assert!(
            (20..6_000).contains(&errors.len()),
            "{} bytes: {errors}",
            errors.len()
        );
    }
}
