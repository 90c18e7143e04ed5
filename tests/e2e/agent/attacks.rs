//! What a tenant of a workload cluster does to the releases of others: objects in its own namespace, charts and hooks. Beside each attack, an
//! honest release becomes ready as usual, and the agent stays below the memory limit of its manifests.

use std::{collections::BTreeMap, io::Write as _, time::Duration};

use anyhow::{Context as _, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use helmops_bed::{namespace::TestNamespace, wait::eventually};
use helmops_release::marks;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::engine::ENDLESS_HOOK;
use crate::harness::{
    SOON,
    agent::{Agent, CONFIG, DEPLOYMENT, Fixture},
};

/// Deeper than `serde_json` reads.
const DEPTH: usize = 150;
/// What the memory of an agent may be, in KiB: without optimization, it needs more than a release build.
const MAX_MEMORY: usize = 250 << 10;
/// After this time, a run of Helm counts as one that waits, and leaves its permit to others.
const HELM_WORKS: Duration = Duration::from_secs(40);
/// How long a small release takes at most, also on a busy machine.
const USUAL: Duration = Duration::from_secs(20);

fn deep_metadata(name: &str, labels: &Value) -> Value {
    let mut fields = json!({});
    for _ in 0..DEPTH {
        fields = json!({ "f:data": fields });
    }
    let entry = json!({
        "manager": "tenant", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    json!({ "name": name, "labels": labels, "managedFields": [entry] })
}

async fn create(fixture: &Fixture, namespace: &TestNamespace, resource: &str, object: Value) {
    let path = format!("api/v1/namespaces/{}/{resource}", namespace.name());
    fixture.api.call(Method::POST, &path, object).await.unwrap();
}

/// A Secret that has the labels and the type of a record.
fn record(name: &str, release: &Value, metadata: &Value) -> Value {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(release.to_string().as_bytes()).unwrap();
    let data = STANDARD.encode(packed.finish().unwrap());
    let mut object =
        json!({ "metadata": metadata, "type": "helm.sh/release.v1", "stringData": { "release": data } });
    object["metadata"]["name"] = json!(format!("sh.helm.release.v1.{name}.v1"));
    object["metadata"]["labels"] =
        json!({ "owner": "helm", "name": name, "status": "deployed", "version": "1" });
    object
}

/// Deploys a release and a new version of it, and removes it.
async fn assert_honest_works(fixture: &Fixture, name: &str) {
    let start = Instant::now();
    fixture.deploy(name, "1.0.0", &json!({})).await;
    fixture.until_ready(name).await;
    let elapsed = start.elapsed();
    assert!(elapsed < USUAL, "{name} took {elapsed:?}");
    let changed = json!({ "options": { "helm": { "values": { "msg": "changed" } } } });
    fixture.deploy(name, "1.0.0", &changed).await;
    fixture.until_ready(name).await;
    fixture.delete(name).await;
    fixture
        .until_none(&format!("configmap/{}-config", fixture.name(name)))
        .await;
}

fn assert_memory(agent: &Agent) {
    let pid = agent.process.pid().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: usize = line.split_whitespace().next().unwrap().parse().unwrap();
    assert!(peak < MAX_MEMORY, "the agent took {peak} KiB");
}

#[tokio::test]
async fn objects_that_a_strict_decoder_refuses_concern_no_release() {
    let fixture = Fixture::new("deep").await;
    let attacker = TestNamespace::create(&fixture.bed, "attacker").await.unwrap();
    let agent = fixture.start().await;
    fixture.deploy("first", "1.0.0", &json!({})).await;
    fixture.until_ready("first").await;
    let deep_record = || record("deep", &json!({ "name": "deep" }), &deep_metadata("", &json!({})));
    create(&fixture, &attacker, "secrets", deep_record()).await;
    let objects = [
        ("marked", json!({ marks::SET_HASH: "x" })),
        (
            "copy",
            json!({ "fleet.cattle.io/bundledeployment": fixture.name("second") }),
        ),
    ];
    for (name, labels) in objects {
        let object = json!({ "metadata": deep_metadata(name, &labels) });
        create(&fixture, &attacker, "configmaps", object).await;
    }
    assert_honest_works(&fixture, "second").await;
    // A new agent lists everything again.
    drop(agent);
    let agent = fixture
        .start_with("again", &["--leader-elect=false"])
        .await
        .unwrap();
    assert_honest_works(&fixture, "third").await;
    fixture.until_ready("first").await;
    assert_memory(&agent);
}

/// With the label of releases they are watched. Decoded, an entry takes ten times as much memory as its text.
#[tokio::test]
async fn large_objects_with_the_label_of_releases_are_not_decoded_together() {
    let fixture = Fixture::new("large").await;
    let attacker = TestNamespace::create(&fixture.bed, "attacker").await.unwrap();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}\n";
    fixture
        .charts
        .web("1.0.0", &[("config", CONFIG), ("secret", secret)])
        .await;
    let data: BTreeMap<String, &str> = (0..40_000).map(|number| (format!("{number:05}"), "")).collect();
    for number in 0..24 {
        let metadata = json!({ "name": format!("large{number}"), "labels": { marks::SET_HASH: "x" } });
        let object = json!({ "metadata": metadata, "data": data });
        for resource in ["configmaps", "secrets"] {
            create(&fixture, &attacker, resource, object.clone()).await;
        }
    }
    let agent = fixture.start().await;
    // The API server needs its time for the objects as well.
    fixture.deploy("honest", "1.0.0", &json!({})).await;
    fixture.until_ready("honest").await;
    assert_memory(&agent);
}

#[tokio::test]
async fn a_record_that_takes_much_memory_is_not_decoded() {
    let fixture = Fixture::new("bomb").await;
    let attacker = TestNamespace::create(&fixture.bed, "attacker").await.unwrap();
    for number in 0..3 {
        let name = format!("bomb{number}");
        let release = json!({ "name": name, "config": { "a": vec![0; 14_000_000] } });
        create(
            &fixture,
            &attacker,
            "secrets",
            record(&name, &release, &json!({})),
        )
        .await;
    }
    let agent = fixture.start().await;
    assert_honest_works(&fixture, "honest").await;
    assert_memory(&agent);
}

/// Of the limit, a run of Helm gets 96 MiB here.
#[tokio::test]
async fn a_template_that_takes_all_memory_ends_its_helm_alone() {
    let fixture = Fixture::new("greedy").await;
    let greedy = "{{ $l := until 60000000 }}{{ len $l }}";
    fixture.charts.web("2.0.0", &[("greedy", greedy)]).await;
    let agent = fixture
        .start_with("agent", &["--leader-elect=false", "--memory-limit=400Mi"])
        .await
        .unwrap();
    fixture.deploy("greedy", "2.0.0", &json!({})).await;
    let message = fixture.until_error("greedy", "Deployed", &["of memory"]).await;
    assert_eq!(
        message.lines().collect::<Vec<_>>(),
        [
            "Helm needs more than 96 MiB of memory for this release",
            "Make the chart or its values smaller, or give the agent a larger memory limit (--memory-limit).",
        ]
    );
    assert_honest_works(&fixture, "honest").await;
    assert_memory(&agent);
}

/// Deploys four releases of a tenant, each in a namespace of its own, whose hooks never end. Returns the namespaces: they exist as long.
async fn deploy_hanging(fixture: &Fixture, tenant: &str) -> Vec<TestNamespace> {
    let hangs = json!({ "options": { "helm": { "timeoutSeconds": 5400 } } });
    let mut namespaces = Vec::new();
    for number in 0..4 {
        let namespace = TestNamespace::create(&fixture.bed, "hanging").await.unwrap();
        let mut spec = fixture.spec("2.0.0", &hangs);
        spec["options"]["defaultNamespace"] = json!(namespace.name());
        let name = fixture.name(&format!("{tenant}{number}"));
        fixture.put_of(tenant, &name, spec).await;
        namespaces.push(namespace);
    }
    namespaces
}

/// Waits until this number of hooks run in these namespaces.
async fn until_hooks(fixture: &Fixture, namespaces: &[TestNamespace], number: usize) {
    eventually("the hooks to run", SOON, async || {
        let mut jobs = 0;
        for namespace in namespaces {
            let path = format!("apis/batch/v1/namespaces/{}/jobs/hook", namespace.name());
            jobs += usize::from(fixture.api.find(&path).await?.is_some());
        }
        ensure!(jobs == number, "{jobs} of {number}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn hooks_that_hang_leave_helm_to_other_tenants() {
    let fixture = Fixture::new("hanging").await;
    fixture.charts.web("2.0.0", &[("hook", ENDLESS_HOOK)]).await;
    let _agent = fixture.start().await;
    let hanging = deploy_hanging(&fixture, "hostile").await;
    // It has two runs; the others of it wait.
    until_hooks(&fixture, &hanging, 2).await;
    for name in ["one", "two"] {
        assert_honest_works(&fixture, name).await;
    }
    until_hooks(&fixture, &hanging, 2).await;
}

/// Together, two tenants have more runs than the agent starts at a time. They have all of them until it is known that they wait.
#[tokio::test]
async fn hooks_that_hang_in_two_namespaces_delay_others_once() {
    let fixture = Fixture::new("two").await;
    fixture.charts.web("2.0.0", &[("hook", ENDLESS_HOOK)]).await;
    let _agent = fixture.start().await;
    let mut hanging = deploy_hanging(&fixture, "hostile-a").await;
    hanging.extend(deploy_hanging(&fixture, "hostile-b").await);
    until_hooks(&fixture, &hanging, 3).await;
    fixture.deploy("one", "1.0.0", &json!({})).await;
    let config = format!("configmap/{}-config", fixture.name("one"));
    eventually(&config, HELM_WORKS + USUAL, async || {
        fixture.object(&config).await.context("there is none")
    })
    .await
    .unwrap();
    for name in ["two", "three"] {
        assert_honest_works(&fixture, name).await;
    }
}

#[tokio::test]
async fn a_chart_does_not_decide_what_becomes_of_its_namespace() {
    let fixture = Fixture::new("chart").await;
    let chart = "apiVersion: v2\nname: web\nversion: 2.0.0\nannotations:\n  helmops.fleet.cattle.io/delete-namespace: 'true'\n";
    let files = [("Chart.yaml", chart), ("templates/config.yaml", CONFIG)];
    fixture.charts.add("web", "2.0.0", &files).await;
    let _agent = fixture.start().await;
    fixture.deploy("honest", "1.0.0", &json!({})).await;
    fixture.until_ready("honest").await;
    fixture.deploy("hostile", "2.0.0", &json!({})).await;
    fixture.until_ready("hostile").await;
    let (_, mut record) = fixture.record(&fixture.name("hostile"), 1).await.unwrap();
    let annotations = &mut record.chart["metadata"]["annotations"];
    assert_eq!(
        annotations["helmops.fleet.cattle.io/delete-namespace"],
        Value::Null
    );
    // An account that may write Secrets can write that too.
    annotations["helmops.fleet.cattle.io/delete-namespace"] = json!("true");
    fixture.delete("honest").await;
    fixture
        .until_none(&format!("configmap/{}-config", fixture.name("honest")))
        .await;
    fixture.write_record(&record).await;
    fixture.delete("hostile").await;
    fixture
        .until_none(&format!("configmap/{}-config", fixture.name("hostile")))
        .await;
    let namespace = fixture
        .object(&format!("namespace/{}", fixture.apps.name()))
        .await;
    assert_eq!(namespace.unwrap()["metadata"]["deletionTimestamp"], Value::Null);
}

/// A restore without the Secrets of Helm, or `kubectl delete secret -l owner=helm`.
#[tokio::test]
async fn a_release_whose_records_are_lost_is_not_uninstalled_when_its_next_attempt_fails() {
    let fixture = Fixture::new("lost").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("late", DEPLOYMENT)])
        .await;
    let _agent = fixture.start().await;
    for (name, options) in [
        (
            "atomic",
            json!({ "options": { "helm": { "atomic": true, "timeoutSeconds": 3 } } }),
        ),
        (
            "remediated",
            json!({ "lifecycle": { "install": { "remediation": "uninstall" }, "wait": { "timeout": "3s" } } }),
        ),
    ] {
        let config = format!("configmap/{}-config", fixture.name(name));
        fixture.deploy(name, "1.0.0", &options).await;
        fixture.until_ready(name).await;
        let before = fixture.object(&config).await.unwrap();
        fixture.deploy(name, "2.0.0", &json!({ "paused": true })).await;
        fixture
            .kubectl(&[
                "delete",
                "secret",
                "-l",
                &format!("owner=helm,name={}", fixture.name(name)),
            ])
            .await;
        fixture.deploy(name, "2.0.0", &options).await;
        let message = fixture.until_error(name, "Deployed", &["not uninstalled"]).await;
        assert!(message.contains("existed before this attempt"), "{message}");
        let after = fixture.object(&config).await.unwrap();
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        fixture.delete(name).await;
        fixture.until_none(&config).await;
    }
}

#[tokio::test]
async fn values_of_secrets_are_in_no_message() {
    const SECRET: &str = "hunter2-very-secret";
    let fixture = Fixture::new("secret").await;
    let schema = r#"{"type":"object","properties":{"password":{"type":"string","pattern":"^[0-9]+$"}}}"#;
    let invalid = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Values.password | quote }}\ndata:\n  \"a b\": {{ .Values.password | quote }}\n";
    let files = [("values.schema.json", schema), ("templates/config.yaml", CONFIG)];
    fixture.charts.add("web", "2.0.0", &files).await;
    let failing = "{{ fail (printf \"no such password: %s\" .Values.password) }}";
    fixture.charts.web("3.0.0", &[("fail", failing)]).await;
    fixture
        .charts
        .web(
            "4.0.0",
            &[(
                "invalid",
                &invalid.replace(
                    "{{ .Values.password | quote }}",
                    "{{ printf \"A %s\" .Values.password | quote }}",
                ),
            )],
        )
        .await;
    let secret = json!({
        "metadata": { "name": "login" }, "stringData": { "values.yaml": format!("password: {SECRET}\n") },
    });
    create(&fixture, &fixture.apps, "secrets", secret).await;
    let agent = fixture.start().await;
    let reference = json!({ "name": "login", "key": "values.yaml" });
    let options = json!({ "options": { "helm": { "valuesFrom": [{ "secretKeyRef": reference }] } } });
    for (name, version, part) in [
        (
            "schema",
            "2.0.0",
            "at '/password': the value does not match pattern '^[0-9]+$'",
        ),
        ("fail", "3.0.0", "no such password: …"),
        ("invalid", "4.0.0", "…"),
    ] {
        fixture.deploy(name, version, &options).await;
        let message = fixture.until_error(name, "Deployed", &[part]).await;
        assert!(!message.contains(SECRET), "{message}");
        let status = fixture.until(name, |_| Ok(())).await["status"].to_string();
        assert!(!status.contains(SECRET), "{status}");
        if let Some((_, record)) = fixture.record(&fixture.name(name), 1).await {
            assert!(
                !record.info.description.contains(SECRET),
                "{}",
                record.info.description
            );
        }
    }
    let log = agent.process.log();
    assert!(
        log.contains("the value does not match") && !log.contains(SECRET),
        "{log}"
    );
}

#[tokio::test]
async fn copies_create_no_namespace_that_the_options_do_not_allow() {
    let fixture = Fixture::new("copies").await;
    let source = json!({ "metadata": { "name": "login" }, "stringData": { "a": "b" } });
    create(&fixture, &fixture.upstream, "secrets", source).await;
    let account = json!({ "metadata": { "name": "deployer" } });
    create(&fixture, &fixture.system, "serviceaccounts", account).await;
    let _agent = fixture.start().await;
    let brand_new = fixture.name("brand-new");
    let options = |over: Value| {
        let mut options = json!({ "defaultNamespace": brand_new, "downstreamResources": [{ "kind": "Secret", "name": "login" }] });
        json_patch::merge(&mut options, &over);
        json!({ "options": options })
    };
    fixture
        .deploy("without", "1.0.0", &options(json!({ "createNamespace": false })))
        .await;
    fixture
        .until_error("without", "Deployed", &["namespaces", &brand_new, "not found"])
        .await;
    fixture
        .deploy(
            "account",
            "1.0.0",
            &options(json!({ "serviceAccount": "deployer" })),
        )
        .await;
    fixture
        .until_error("account", "Deployed", &["secrets", "forbidden", "deployer"])
        .await;
    let in_system =
        json!({ "serviceAccount": "deployer", "defaultNamespace": "kube-system", "createNamespace": false });
    fixture.deploy("system", "1.0.0", &options(in_system)).await;
    fixture
        .until_error("system", "Deployed", &["secrets", "forbidden", "deployer"])
        .await;
    assert_eq!(fixture.object(&format!("namespace/{brand_new}")).await, None);
}
