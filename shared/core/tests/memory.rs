//! The worst-case memory of templates and values. A single test, because the kernel's high-water mark is that of the process.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test whose setup fails must fail")]

use std::{fmt::Write as _, time::Duration};

use gotmpl::{Budget, Context, Delimiters, Limits, Template};
use helmops_api::{Bundle, Cluster};
use helmops_core::targeting::{Member, Target, targets};
use serde_json::{Value, json};

/// The memory of a controller (256 MiB) without watched objects, which take at most half of it, in bytes.
const MAX: u64 = 100 << 20;

/// The peak memory of this process, in bytes.
fn high_water() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

fn assert_within(start: u64, what: &str) {
    let taken = high_water() - start;
    assert!(taken < MAX, "{} MiB for {what:.200}", taken >> 20);
}

/// Templates that each produce several hundred MiB if a check is missing or follows the allocation.
fn templates() -> Vec<String> {
    let floats = "${ $l := fromJson (print \"[\" (repeat 80000 \"1.7976931348623157e308,\") \"1]\") }";
    let lists = "$l ".repeat(200);
    let within =
        "${ $m := dict }${ $big := until 180000 }${ $l := append $big $m }${ $_ := set $m \"a\" $l }";
    let before =
        "${ $m := dict }${ $big := until 180000 }${ $l := prepend $big $m }${ $_ := set $m \"a\" $l }";
    let control = format!(
        "${{ $t := repeat 2000000 \"\\x01\" }}${{ quote {} }}",
        "$t ".repeat(7)
    );
    let mut urls = "${ $u := print \"http://\" (repeat 2000000 \"x\") }${ $l := list }".to_owned();
    _ = write!(
        urls,
        "${{ range until 100 }}${{ $l = append $l (urlParse $u) }}${{ end }}"
    );
    let mut templates = vec![
        "${ regexReplaceAll \"(?s)^.*$\" (repeat 1000000 \"x\") (repeat 400 \"$0\") }".to_owned(),
        control,
        urls,
    ];
    for call in [
        "printf \"%v\" (list",
        "toStrings (list",
        "sortAlpha (list",
        "cat",
        "quote",
        "squote",
    ] {
        let end = if call.ends_with("(list") { ")" } else { "" };
        templates.push(format!("{floats}${{ {call} {lists}{end} }}"));
    }
    for start in [within, before] {
        for call in [
            "deepEqual $m $m",
            "deepCopy $m",
            "toJson $m",
            "toString $m",
            "print $m",
        ] {
            templates.push(format!("{start}${{ $_ := {call} }}"));
        }
    }
    templates
}

fn object<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// A budget without an effective limit of work, as for thousands of clusters.
fn unlimited() -> Budget {
    let limits = Limits {
        work: u64::MAX,
        retained: usize::MAX,
        ..Limits::default()
    };
    Budget::new(limits, || Duration::ZERO)
}

fn delivered<'a>(spec: &Value, clusters: &'a [Cluster], budget: &Budget) -> Vec<Target<'a>> {
    let bundle: Bundle =
        object(&json!({ "metadata": { "name": "web", "namespace": "fleet" }, "spec": spec }));
    let members = clusters.iter().map(|cluster| Member::new(cluster, []));
    targets(&bundle, members, &[], false, budget).unwrap()
}

/// The first error of a cluster without values.
fn first_error(targets: &[Target<'_>]) -> String {
    let mut errors = targets.iter().filter_map(|target| target.desired.as_ref().err());
    errors.next().unwrap().to_string()
}

fn clusters(count: usize) -> Vec<Cluster> {
    (0..count)
        .map(|index| {
            object(&json!({ "metadata": { "name": format!("c{index}"), "namespace": "fleet", "labels": { "env": "prod" } } }))
        })
        .collect()
}

#[test]
fn templates_and_values_stay_within_the_memory_limit() {
    let start = high_water();
    for template in templates() {
        let budget = unlimited();
        let context = Context::new(&json!({}), &budget).unwrap();
        let rendered = Template::parse(&template, Delimiters::new("${", "}"), &budget)
            .and_then(|template| template.render(&context, &budget));
        assert!(rendered.is_err(), "{template:.200}");
        assert_within(start, &template);
    }
    many_keys_within_every_limit();
    assert_within(start, "templateValues");
    same_values_for_all_clusters();
    assert_within(start, "shared values");
    own_options_for_each_cluster();
    assert_within(start, "own options");
}

fn many_keys_within_every_limit() {
    let keys: serde_json::Map<_, _> = (0..15)
        .map(|index| (format!("k{index}"), json!("${ repeat 20000 \"- {a: 1}\\n\" }")))
        .collect();
    let clusters = clusters(1);
    let spec = json!({ "helm": { "templateValues": keys }, "targets": [{ "clusterSelector": {} }] });
    let error = first_error(&delivered(&spec, &clusters, &unlimited()));
    assert!(error.contains("nodes together; make helm.values and"), "{error}");
}

fn same_values_for_all_clusters() {
    let clusters = clusters(1000);
    let text = "x".repeat(400_000);
    let helm = json!({ "values": { "a": text }, "templateValues": { "b": text } });
    let spec = json!({ "helm": helm, "targets": [{ "clusterSelector": {} }] });
    let targets = delivered(&spec, &clusters, &Budget::default());
    assert!(targets.iter().all(|target| target.desired.is_ok()));
}

fn own_options_for_each_cluster() {
    let clusters = clusters(1000);
    let own: Vec<_> = (0..1000)
        .map(|index| json!({ "clusterName": format!("c{index}"), "serviceAccount": format!("a{index}") }))
        .collect();
    let diff = json!({ "comparePatches": [{ "kind": "x".repeat(400_000) }] });
    let spec = json!({ "helm": {}, "diff": diff, "targets": own });
    let error = first_error(&delivered(&spec, &clusters, &Budget::default()));
    assert!(error.contains("values and options of this Bundle"), "{error}");
}
