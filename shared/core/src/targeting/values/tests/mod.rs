//! Values of clusters, compared with Fleet.
//!
//! `go.jsonl` was generated with the libraries that Fleet uses: `sigs.k8s.io/yaml`, `text/template` and `sprig`.

use gotmpl::Budget;
use helmops_api::{BundleDeploymentOptions, Cluster};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use std::sync::Arc;

use super::{ValuesSource, template_labels};
use crate::targeting::values::ValuesError;

/// Replaces the values in the options by those of one cluster.
fn preprocess_within(
    options: &mut BundleDeploymentOptions,
    cluster: &Cluster,
    budget: &Budget,
) -> Result<(), ValuesError> {
    let values = options.helm.as_mut().and_then(|helm| helm.values.take());
    let source = ValuesSource::new(Arc::new(options.clone()), values)?;
    let values = source.values(cluster, &template_labels(cluster), budget)?;
    if let Some(helm) = &mut options.helm {
        helm.values = values;
    }
    Ok(())
}

fn preprocess(options: &mut BundleDeploymentOptions, cluster: &Cluster) -> Result<(), ValuesError> {
    preprocess_within(options, cluster, &Budget::default())
}

#[derive(Deserialize)]
struct Case {
    values: Map<String, Value>,
    expected: Option<String>,
}

fn cluster(labels: &Value, values: &Value) -> Cluster {
    let object = json!({
        "metadata": { "name": "c0", "namespace": "fleet-default", "labels": labels, "annotations": { "note": "n" } },
        "spec": { "templateValues": values }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn processed(helm: &Value, cluster: &Cluster) -> Result<Value, String> {
    let options = json!({ "helm": helm }).to_string();
    let mut options: BundleDeploymentOptions = serde_json::from_str(&options).unwrap();
    preprocess(&mut options, cluster).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(options).unwrap()["helm"].clone())
}

fn values(helm: &Value) -> Result<Value, String> {
    let cluster = cluster(&json!({ "env": "prod", "cattle.io/x": "y" }), &json!({ "n": 1 }));
    processed(helm, &cluster).map(|helm| helm["values"].clone())
}

#[test]
fn values_are_processed_as_in_fleet() {
    let context: Value =
        serde_json::from_str(include_str!("../../../../../gotmpl/tests/truth/context.json")).unwrap();
    let cluster: Cluster = serde_json::from_str(
        &json!({
            "metadata": {
                "name": context["ClusterName"], "namespace": context["ClusterNamespace"],
                "labels": context["ClusterLabels"], "annotations": context["ClusterAnnotations"]
            },
            "spec": { "templateValues": context["ClusterValues"] }
        })
        .to_string(),
    )
    .unwrap();
    for line in include_str!("go.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let helm = json!({ "helm": { "values": case.values } });
        let mut options: BundleDeploymentOptions = serde_json::from_str(&helm.to_string()).unwrap();
        let result = preprocess(&mut options, &cluster);
        match case.expected {
            Some(expected) => {
                assert_eq!(result, Ok(()), "{line}");
                assert_eq!(options.helm.unwrap().values.unwrap().as_str(), expected, "{line}");
            }
            None => assert!(result.is_err(), "{line}"),
        }
    }
}

#[test]
fn references_to_labels_are_replaced() {
    let helm = json!({ "values": {
        "env": "global.fleet.clusterLabels.env",
        "absent": "global.fleet.clusterLabels.absent",
        "tool": "global.fleet.clusterLabels.cattle.io/x",
        "within": "x global.fleet.clusterLabels.env",
        "list": ["global.fleet.clusterLabels.env", { "env": "global.fleet.clusterLabels.env" }],
        "lists": [[{ "env": "global.fleet.clusterLabels.env" }]],
        "map": { "map": { "env": "global.fleet.clusterLabels.env" } }
    } });
    assert_eq!(
        values(&helm).unwrap(),
        json!({
            "env": "prod",
            "absent": "",
            "tool": "",
            "within": "x global.fleet.clusterLabels.env",
            "list": ["global.fleet.clusterLabels.env", { "env": "prod" }],
            "lists": [[{ "env": "global.fleet.clusterLabels.env" }]],
            "map": { "map": { "env": "prod" } }
        })
    );
}

#[test]
fn template_values_replace_values_and_are_read_as_yaml() {
    let helm = json!({
        "values": { "a": { "b": 1 }, "c": "${ .ClusterName }" },
        "templateValues": { "a": "count: ${ .ClusterValues.n }\nn: 1", "d": "- ${ .ClusterLabels.env }" }
    });
    assert_eq!(
        values(&helm).unwrap(),
        // In YAML 1.1 `n` is the boolean false, and Fleet converts the key to a string.
        json!({ "a": { "count": 1, "false": 1 }, "c": "c0", "d": ["prod"] })
    );
}

#[test]
fn values_without_templates_change_only_in_the_sign_of_zero() {
    let helm = json!({ "values": { "a": -0.0, "b": [-0.0, { "c": -0.0 }], "d": -1.5, "e": 9_007_199_254_740_993_u64 } });
    let cluster = cluster(&json!({ "env": "prod" }), &json!({}));
    let mut options: BundleDeploymentOptions =
        serde_json::from_str(&json!({ "helm": helm }).to_string()).unwrap();
    preprocess(&mut options, &cluster).unwrap();
    assert_eq!(
        options.helm.unwrap().values.unwrap().as_str(),
        r#"{"a":0,"b":[0,{"c":0}],"d":-1.5,"e":9007199254740992}"#
    );
    // A text here, and no merge key.
    let helm = json!({ "values": { "<<": 1 } });
    assert_eq!(values(&helm).unwrap(), helm["values"]);
}

#[test]
fn disable_pre_process_keeps_templates_and_replaces_labels() {
    let helm = json!({
        "disablePreProcess": true,
        "values": { "a": "${ nosuch }", "b": "global.fleet.clusterLabels.env" },
        "templateValues": { "c": "${" }
    });
    assert_eq!(values(&helm).unwrap(), json!({ "a": "${ nosuch }", "b": "prod" }));
}

#[test]
fn values_of_a_cluster_without_labels_are_not_processed() {
    let helm = json!({ "values": { "a": "${ .ClusterName }", "b": "global.fleet.clusterLabels.env" } });
    for labels in [
        json!(null),
        json!({ "kubectl.kubernetes.io/x": "y", "objectset.rio.cattle.io/hash": "z" }),
    ] {
        let processed = processed(&helm, &cluster(&labels, &json!(null))).unwrap();
        assert_eq!(processed, helm);
    }
    for label in [
        "fleet.cattle.io/tier",
        "management.cattle.io/cluster-display-name",
    ] {
        let cluster = cluster(&json!({ label: "1" }), &json!(null));
        assert_eq!(processed(&helm, &cluster).unwrap()["values"]["a"], "c0");
    }
}

#[test]
fn a_chart_without_values_has_empty_values() {
    assert_eq!(values(&json!({ "chart": "web" })).unwrap(), json!({}));
}

#[test]
fn errors_contain_the_path_of_the_value() {
    for (helm, expected) in [
        (
            json!({ "values": { "a": 1, "image": [{ "tag": "v${ .ClusterValues.tag }" }] } }),
            "helm.values.image[0].tag: the template cannot be rendered: at <.ClusterValues.tag>: map has no entry for key",
        ),
        (
            json!({ "values": { "${ nosuch }": 1 } }),
            "helm.values.${ nosuch }: the template cannot be rendered: at <nosuch>: function \"nosuch\" not defined",
        ),
        (
            json!({ "templateValues": { "a": "b: ${ \"c: d\" }" } }),
            "helm.templateValues.a: the template does not render to valid YAML: ",
        ),
        (
            json!({ "values": { "a": 1, "b": "${ printf \"x%s y\" \":\" }" } }),
            "helm.values.b: the template does not render to valid YAML: ",
        ),
        (
            json!({ "values": { "a": "${ \"\\nx\\n\" }", "b": 1 } }),
            "helm.values.a: the template does not render to valid YAML: ",
        ),
    ] {
        let error = values(&helm).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_depth_of_label_substitution_is_limited() {
    let mut nested = json!({ "x": "${ .ClusterName }" });
    for _ in 0..60 {
        nested = json!({ "x": nested });
    }
    let error = values(&json!({ "values": nested })).unwrap_err();
    assert!(error.contains("more than 50 deep"), "{error}");
}

const SECRET: &str = "hunter2-geheim";

/// Values of a Cluster may be secrets of another team, and many can read statuses and logs.
#[test]
fn errors_do_not_contain_values_of_the_cluster() {
    let own = json!({
        "s": SECRET, "yaml": format!("{SECRET}: {SECRET}: x"), "tab": format!("\t{SECRET}"), "list": [SECRET], "map": { SECRET: SECRET },
        "pattern": format!("({SECRET}"), "umlaut": format!("{SECRET}ä"), "json": format!("{{\"{SECRET}\"}}"),
        "url": format!("http://[{SECRET}"), "host": format!("http://{SECRET}:port{SECRET}/"), "percent": format!("http://x/%zz{SECRET}"),
        "anchor": format!("*{SECRET}"), "tag": format!("!!int {SECRET}"), "format": format!("{SECRET}%*d"),
        "merge": format!("<<: {SECRET}"), "directive": format!("%{SECRET}"), "handle": format!("!{SECRET}!x {SECRET}"),
    });
    let cluster = cluster(&json!({ "env": "prod" }), &own);
    for template in [
        "range .ClusterValues.s",
        "eq .ClusterValues.list .ClusterValues.list",
        "eq .ClusterValues.map .ClusterValues.map",
        "eq .ClusterValues.s 1",
        "add1f .ClusterValues.s | index .ClusterValues.list",
        "index .ClusterValues.list .ClusterValues.s",
        "index .ClusterValues.s 100",
        "index .ClusterValues.map .ClusterValues.list",
        "trunc 15 .ClusterValues.umlaut",
        "substr 0 15 .ClusterValues.umlaut",
        "substr 9 4 .ClusterValues.s",
        "b64dec .ClusterValues.s",
        "b32dec .ClusterValues.s",
        "mustFromJson .ClusterValues.json",
        "mustFromJson .ClusterValues.s",
        "mustRegexMatch .ClusterValues.pattern \"x\"",
        "regexFind .ClusterValues.pattern \"x\"",
        "semver .ClusterValues.s",
        "semverCompare .ClusterValues.s \"1.0.0\"",
        "semverCompare \"1.0.0\" .ClusterValues.s",
        "urlParse .ClusterValues.url",
        "urlParse .ClusterValues.host",
        "urlParse .ClusterValues.percent",
        "urlJoin (dict \"userinfo\" .ClusterValues.yaml)",
        "dig .ClusterValues.s \"a\" 1 (dict .ClusterValues.s 1)",
        "printf .ClusterValues.format 1",
        "upper .ClusterValues.list",
        "merge .ClusterValues.s",
        "first .ClusterValues.s",
        ".ClusterValues.s.x",
        "print .ClusterValues.yaml",
        "print \"a: \" .ClusterValues.yaml",
        "print .ClusterValues.tab",
        "print .ClusterValues.anchor",
        "print .ClusterValues.tag",
        "print .ClusterValues.merge",
        "print .ClusterValues.directive",
        "print .ClusterValues.handle",
        "print \"x: [\" .ClusterValues.s",
        "print \"'\" .ClusterValues.s",
    ] {
        let body = if template.starts_with("range") {
            format!("${{ {template} }}${{ end }}")
        } else {
            format!("${{ {template} }}")
        };
        let helm = json!({ "templateValues": { "a": body } });
        if let Err(error) = processed(&helm, &cluster) {
            assert!(
                !error.contains("hunter2") && !error.contains("geheim"),
                "{template}: {error}"
            );
        } else {
            assert!(
                ["print", "urlParse", "semver"]
                    .iter()
                    .any(|name| template.starts_with(name)),
                "{template}"
            );
        }
        let helm = json!({ "values": { "a": 1, "b": { "c": format!("x{body}") } } });
        if let Err(error) = processed(&helm, &cluster) {
            assert!(
                !error.contains("hunter2") && !error.contains("geheim"),
                "{template}: {error}"
            );
            assert!(error.starts_with("helm.values.b.c: "), "{error}");
        }
    }
}

#[test]
fn invalid_yaml_is_reported_with_the_line_of_the_template() {
    let cluster = cluster(&json!({ "env": "prod" }), &json!({ "s": "x: y: z" }));
    let helm = json!({ "templateValues": { "a": "b: 1\nc: ${ .ClusterValues.s }\nd: 2" } });
    let error = processed(&helm, &cluster).unwrap_err();
    assert!(
        error.contains("in line 2 of the result, written by <c: ${ .ClusterValues.s }>; quote"),
        "{error}"
    );
}

#[test]
fn values_that_nest_too_deep_are_an_error() {
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let text = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let plain = cluster(&json!(null), &json!(null));
    let labelled = cluster(&json!({ "env": "prod" }), &json!(null));
    for cluster in [&plain, &labelled] {
        let error = processed(&json!({ "values": { "a": nested(110) } }), cluster).unwrap_err();
        assert!(
            error.contains("helm.values: lists and mappings nest 111 levels deep"),
            "{error}"
        );
        assert!(processed(&json!({ "values": { "a": nested(99) } }), cluster).is_ok());
    }
    let own = cluster(&json!({ "env": "prod" }), &json!({ "a": nested(110) }));
    let error = processed(&json!({ "templateValues": { "a": "${ 1 }" } }), &own).unwrap_err();
    assert!(
        error.contains("Cluster: spec.templateValues: lists and mappings nest 111 levels deep"),
        "{error}"
    );
    for (levels, is_allowed) in [(99, true), (100, false)] {
        let result = processed(&json!({ "templateValues": { "a": text(levels) } }), &labelled);
        assert_eq!(result.is_ok(), is_allowed, "{result:?}");
    }
}

#[test]
fn long_paths_and_deep_indentation_do_not_exceed_memory() {
    let many = vec![json!("${ 1 }"); 50_000];
    let nested = (0..90).fold(json!(vec![1; 100_000]), |inner, _| json!([inner]));
    assert!(values(&json!({ "values": { "k".repeat(300_000): many } })).is_err());
    let error = values(&json!({ "values": { "a": "${ 1 }", "b": nested } })).unwrap_err();
    assert!(error.contains("bytes as YAML"), "{error}");
}

#[test]
fn clusters_after_an_exceeded_limit_report_it() {
    use crate::targeting::{Member, targets, values::limits};
    use gotmpl::Limits;
    use std::time::Duration;

    let clusters: Vec<_> = (0..5)
        .map(|index| {
            let mut cluster = cluster(
                &json!({ "env": "prod" }),
                &json!({ "loops": if index == 2 { 10_000_000 } else { 1 } }),
            );
            cluster.metadata.name = Some(format!("c{index}"));
            cluster
        })
        .collect();
    let bundle = json!({
        "metadata": { "name": "web", "namespace": "fleet-default" },
        "spec": {
            "helm": { "templateValues": { "a": "${ range int .ClusterValues.loops }${ end }1" } },
            "targets": [{ "clusterSelector": {} }]
        }
    });
    let bundle = serde_json::from_str(&bundle.to_string()).unwrap();
    let members = || clusters.iter().map(|cluster| Member::new(cluster, []));
    let errors = |limits| -> Vec<_> {
        let budget = Budget::new(limits, || Duration::ZERO);
        let targets = targets(&bundle, members(), &[], false, &budget).unwrap();
        targets
            .into_iter()
            .map(|target| target.desired.map_err(|error| error.to_string()).err())
            .collect()
    };
    let found = errors(limits(Duration::from_secs(2)));
    let has = |index: usize, words: &str| found[index].as_ref().is_some_and(|error| error.contains(words));
    assert!(found[0].is_none() && found[1].is_none(), "{found:?}");
    assert!(
        has(
            2,
            "helm.templateValues.a: the templates of this Bundle take more work"
        ),
        "{found:?}"
    );
    for index in [3, 4] {
        assert!(
            has(index, "values were not rendered for this cluster") && has(index, "more work than"),
            "{found:?}"
        );
    }
    let found = errors(Limits {
        retained: 10,
        retained_per_item: 0,
        ..limits(Duration::MAX)
    });
    assert!(
        found[0]
            .as_ref()
            .is_some_and(|error| error.contains("have more than 10 bytes together")),
        "{found:?}"
    );
}

#[test]
fn the_output_of_all_templates_of_a_cluster_is_limited() {
    let long = "${ repeat 1200000 \"x\" }";
    for helm in [
        json!({ "templateValues": { "a": long, "b": long } }),
        json!({ "values": { "a": long }, "templateValues": { "b": long } }),
    ] {
        let error = values(&helm).unwrap_err();
        assert!(
            error.starts_with("helm.templateValues.b: ")
                && error.contains("more than 2097152 bytes together"),
            "{error}"
        );
    }
    assert!(values(&json!({ "templateValues": { "a": long } })).is_ok());
    let many = "${ repeat 40000 \"- {a: 1}\\n\" }";
    let error = values(&json!({ "templateValues": { "a": many, "b": many } })).unwrap_err();
    assert!(
        error.starts_with(
            "helm.templateValues.b: the values of the cluster have more than 200000 nodes together; make"
        ),
        "{error}"
    );
    assert!(values(&json!({ "templateValues": { "a": many } })).is_ok());
    let aliases = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a,".repeat(100));
    assert_eq!(
        values(&json!({ "templateValues": { "a": aliases } })).unwrap_err(),
        "helm.templateValues.a: the scalars of the cluster's values, with aliases expanded, have more than 4194304 bytes \
         together; make helm.values and helm.templateValues smaller"
    );
}

#[test]
fn an_unsupported_function_is_an_error_with_a_remedy() {
    assert_eq!(
        values(&json!({ "values": { "id": "a ${ uuidv4 }" } })).unwrap_err(),
        "helm.values.id: the template cannot be rendered: at <uuidv4>: function \"uuidv4\" returns another result each time, so \
         it would deploy again and again; put the result into the values, or into templateValues of the Cluster; fix it, add \
         what it needs to the Cluster, or set helm.disablePreProcess"
    );
}

/// The context of a Cluster can be large.
#[test]
fn the_context_is_converted_once_and_only_for_templates() {
    let cluster = cluster(&json!({ "env": "prod" }), &json!({ "long": "x".repeat(500_000) }));
    let used = |keys: usize, text: &str| {
        let keys: Map<_, _> = (0..keys)
            .map(|index| (format!("k{index}"), json!(text)))
            .collect();
        let mut options: BundleDeploymentOptions =
            serde_json::from_str(&json!({ "helm": { "templateValues": keys } }).to_string()).unwrap();
        let budget = Budget::default();
        preprocess_within(&mut options, &cluster, &budget).unwrap();
        budget.used()
    };
    assert!(used(100, "1") < 100_000);
    let (one, many) = (used(1, "${ 1 }"), used(100, "${ 1 }"));
    assert!(
        one > 1_000_000 && many < 2 * one,
        "{one} units for one key, {many} for 100"
    );
}

/// A typical Bundle on 2,000 clusters.
#[test]
fn a_typical_bundle_for_two_thousand_clusters_is_within_the_limits() {
    let mut values = Map::new();
    for index in 0..40 {
        values.insert(format!("service-{index}"), json!({
            "host": format!("s{index}.${{ .ClusterName }}.${{ .ClusterLabels.env }}.example.com"),
            "replicas": 3,
            "image": { "repository": "registry.example.com/team/service", "tag": "${ .ClusterValues.tag | default \"1.2.3\" | quote }" },
            "zone": "${ if eq .ClusterLabels.env \"prod\" }${ upper .ClusterValues.zone }${ else }none${ end }",
            "isMatch": "${ regexMatch \"^[a-z]+-[0-9]{1,3}$\" .ClusterValues.zone }"
        }));
    }
    let helm =
        json!({ "values": values, "templateValues": { "list": "${ range until 20 }- ${ . }\n${ end }" } });
    let cluster = cluster(
        &json!({ "env": "prod" }),
        &json!({ "zone": "eu-1", "tag": "2.0", "more": vec!["text"; 50] }),
    );
    let options = json!({ "helm": helm }).to_string();
    let budget = Budget::default();
    // The limits grow with the number of clusters, so a tenth of them is sufficient.
    for _ in 0..200 {
        let mut options: BundleDeploymentOptions = serde_json::from_str(&options).unwrap();
        preprocess_within(&mut options, &cluster, &budget).unwrap();
    }
    assert!(
        budget.used() / 200 < 3_500_000,
        "{} units for each cluster",
        budget.used() / 200
    );
}
