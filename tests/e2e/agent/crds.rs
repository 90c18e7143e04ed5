//! CRDs of charts that the agent applies. They belong to the whole cluster, so each test has a group of its own.

use std::path::{Path, PathBuf};

use helmops_agent::crds::{Applied, ChartCrds};
use helmops_bed::random;
use helmops_helm::request::Action;
use helmops_helm::run_scope::RunScope;
use helmops_helm::{Failure, FailureReason};
use helmops_release::lifecycle::CrdPolicy;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::engine::{CONFIG_MAP, Engine, install, upgrade};
use crate::harness::run;

struct Charts {
    engine: Engine,
    group: String,
}

impl Charts {
    async fn start(prefix: &str) -> Self {
        let engine = Engine::start(prefix).await;
        let group = format!("{}.example.com", random::word());
        Self { engine, group }
    }

    /// A CRD of the group with these versions, of which the last one is stored.
    fn crd(&self, plural: &str, versions: &[&str]) -> Value {
        let last = versions.last();
        let versions: Vec<_> = versions
            .iter()
            .map(|version| {
                let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
                json!({
                    "name": version, "served": true, "storage": Some(version) == last,
                    "schema": { "openAPIV3Schema": schema },
                })
            })
            .collect();
        let kind = kind(plural);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{}", self.group), "labels": { "of": "chart" } },
            "spec": {
                "group": self.group, "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
                "versions": versions,
            },
        })
    }

    fn object(&self, plural: &str, version: &str) -> String {
        let kind = kind(plural);
        format!(
            "apiVersion: {}/{version}\nkind: {kind}\nmetadata: {{name: one}}\n",
            self.group
        )
    }

    async fn live(&self, plural: &str) -> Option<Value> {
        self.engine.object(&format!("crd/{plural}.{}", self.group)).await
    }

    async fn versions(&self, plural: &str) -> Vec<String> {
        let live = self.live(plural).await.unwrap();
        let versions = live["spec"]["versions"].as_array().unwrap();
        let name = |version: &Value| version["name"].as_str().unwrap().to_owned();
        versions.iter().map(name).collect()
    }

    async fn apply(&self, policy: CrdPolicy, chart: &Path, values: &str) -> Result<Applied, Failure> {
        let client = self.engine.client().await;
        let crds = ChartCrds {
            helm: &self.engine.helm,
            client: &client,
            release: &self.engine.release(),
            stop: &RunScope::of_agent(&CancellationToken::new(), ""),
        };
        crds.apply(policy, chart, &[values.as_bytes().to_vec()]).await
    }

    fn names(&self, plurals: &[&str]) -> Vec<String> {
        plurals
            .iter()
            .map(|plural| format!("{plural}.{}", self.group))
            .collect()
    }

    /// A chart with this CRD, and an object of its kind.
    async fn widgets(&self, version: &str, versions: &[&str]) -> PathBuf {
        let crd = self.crd("widgets", versions).to_string();
        let object = self.object("widgets", versions.last().unwrap());
        let files = [("crds/widgets.yaml", &*crd), ("templates/one.yaml", &*object)];
        self.engine.chart(version, &files).await
    }

    async fn delete(&self, plurals: &[&str]) {
        for name in self.names(plurals) {
            let arguments = ["delete", "crd", &name, "--ignore-not-found", "--wait=false"];
            self.engine.run_kubectl(&arguments).await;
        }
    }
}

/// `widgets` → `Widget`
fn kind(plural: &str) -> String {
    let (first, rest) = plural.trim_end_matches('s').split_at(1);
    first.to_uppercase() + rest
}

#[tokio::test]
async fn create_leaves_a_crd_of_others_alone_where_helm_fails() {
    let charts = Charts::start("agent-crds-create").await;
    let mut others = charts.crd("widgets", &["v1"]);
    others["metadata"]["labels"]["of"] = json!("others");
    others["spec"]["names"]["shortNames"] = json!(["wi"]);
    let applied = charts.engine.kubectl().apply(&others.to_string()).await.unwrap();
    applied.ok().unwrap();
    // The API server writes the status of a new CRD, which changes its version.
    let established = "--for=condition=Established";
    let name = format!("crd/widgets.{}", charts.group);
    run(charts.engine.kubectl(), &["wait", established, &name]).await;
    let before = charts.live("widgets").await.unwrap();
    let chart = charts.widgets("1.0.0", &["v1"]).await;
    let failure = charts
        .engine
        .run(Action::Install(install(&chart)))
        .await
        .unwrap_err();
    assert_eq!(failure.reason, FailureReason::Conflict, "Helm itself: {failure}");

    let applied = charts.apply(CrdPolicy::Create, &chart, "").await.unwrap();
    let expected = Applied {
        kept: charts.names(&["widgets"]),
        ..Applied::default()
    };
    assert_eq!(applied, expected);
    let after = charts.live("widgets").await.unwrap();
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    let mut install = install(&chart);
    install.deploy.skips_crds = true;
    charts.engine.run(Action::Install(install)).await.unwrap();
    charts.delete(&["widgets"]).await;
}

#[tokio::test]
async fn create_creates_what_is_missing_and_create_replace_brings_a_new_version() {
    let charts = Charts::start("agent-crds-replace").await;
    let first = charts.widgets("1.0.0", &["v1"]).await;
    let applied = charts.apply(CrdPolicy::Create, &first, "").await.unwrap();
    assert_eq!(applied.created, charts.names(&["widgets"]));
    let live = charts.live("widgets").await.unwrap();
    assert_eq!(live["metadata"]["labels"], json!({ "of": "chart" }));
    let mut install = install(&first);
    install.deploy.skips_crds = true;
    charts.engine.run(Action::Install(install)).await.unwrap();

    let second = charts.widgets("2.0.0", &["v1", "v2"]).await;
    let kept = charts.apply(CrdPolicy::Create, &second, "").await.unwrap();
    assert_eq!(kept.kept, charts.names(&["widgets"]));
    assert_eq!(charts.versions("widgets").await, ["v1"]);
    let skipped = charts.apply(CrdPolicy::Skip, &second, "").await.unwrap();
    assert_eq!(skipped, Applied::default());
    // Another client has changed the CRD.
    let name = charts.names(&["widgets"]).remove(0);
    let edit = [
        "label",
        "crd",
        &name,
        "of=others",
        "--overwrite",
        "--field-manager=by-hand",
    ];
    charts.engine.run_kubectl(&edit).await;
    let replaced = charts.apply(CrdPolicy::CreateReplace, &second, "").await.unwrap();
    assert_eq!(replaced.replaced, charts.names(&["widgets"]));
    assert_eq!(charts.versions("widgets").await, ["v1", "v2"]);
    let live = charts.live("widgets").await.unwrap();
    assert_eq!(live["metadata"]["labels"]["of"], "chart");
    // The upgrade has an object of the new version.
    charts
        .engine
        .run(Action::Upgrade(upgrade(&second)))
        .await
        .unwrap();
    let again = charts.apply(CrdPolicy::CreateReplace, &second, "").await.unwrap();
    assert_eq!(again.kept, charts.names(&["widgets"]), "nothing has changed");
    charts.delete(&["widgets"]).await;
}

#[tokio::test]
async fn a_stored_version_is_not_removed_and_nothing_else_is_written() {
    let charts = Charts::start("agent-crds-stored").await;
    let first = charts.widgets("1.0.0", &["v1"]).await;
    charts.apply(CrdPolicy::Create, &first, "").await.unwrap();
    let gadgets = charts.crd("gadgets", &["v1"]).to_string();
    let widgets = charts.crd("widgets", &["v2"]).to_string();
    let files = [("crds/gadgets.json", &*gadgets), ("crds/widgets.yaml", &*widgets)];
    let second = charts.engine.chart("2.0.0", &files).await;
    let failure = charts
        .apply(CrdPolicy::CreateReplace, &second, "")
        .await
        .unwrap_err();
    assert_eq!(failure.reason, FailureReason::CrdRefused);
    let expected = format!(
        "CustomResourceDefinition widgets.{}: the chart removes version v1, in which objects may be stored",
        charts.group
    );
    assert!(failure.message.starts_with(&expected), "{failure}");
    assert_eq!(charts.versions("widgets").await, ["v1"]);
    assert!(charts.live("gadgets").await.is_none());
    charts.delete(&["widgets", "gadgets"]).await;
}

/// A chart whose subcharts are enabled by a condition, a tag, and under an alias; one of them has a subchart of its own.
async fn with_subcharts(charts: &Charts) -> PathBuf {
    let crd = |plural| charts.crd(plural, &["v1"]).to_string();
    let (own, cache, queue, deep) = (crd("owns"), crd("caches"), crd("queues"), crd("deeps"));
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n\
        - {name: cache, version: 1.x, condition: cache.enabled}\n\
        - {name: queue, version: 1.x, alias: bus, tags: [messaging]}\n";
    let cache_chart = "apiVersion: v2\nname: cache\nversion: 1.2.0\ndependencies:\n\
        - {name: deep, version: '*', condition: deep.enabled}\n";
    let files = [
        ("Chart.yaml", chart),
        (
            "values.yaml",
            "cache: {enabled: false}\ntags: {messaging: false}\n",
        ),
        ("crds/own.yaml", &*own),
        ("crds/readme.md", "no CRD"),
        (
            "crds/config.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: none}\n",
        ),
        ("templates/config.yaml", CONFIG_MAP),
        (
            "templates/fails.yaml",
            "{{ fail \"templates are not rendered\" }}",
        ),
        ("values.schema.json", r#"{"required":["nothing"]}"#),
        ("charts/cache/Chart.yaml", cache_chart),
        ("charts/cache/values.yaml", "deep: {enabled: false}\n"),
        ("charts/cache/crds/cache.yaml", &*cache),
        (
            "charts/cache/charts/deep/Chart.yaml",
            "apiVersion: v2\nname: deep\nversion: 0.1.0\n",
        ),
        ("charts/cache/charts/deep/crds/deep.yml", &*deep),
        (
            "charts/queue/Chart.yaml",
            "apiVersion: v1\nname: queue\nversion: 1.0.0\n",
        ),
        ("charts/queue/crds/queue.yaml", &*queue),
        ("charts/queue/templates/fails.yaml", "{{ fail \"neither\" }}"),
    ];
    charts.engine.chart("1.0.0", &files).await
}

#[tokio::test]
async fn crds_of_disabled_subcharts_stay_away() {
    let charts = Charts::start("agent-crds-sub").await;
    let chart = with_subcharts(&charts).await;
    let all = ["owns", "caches", "queues", "deeps"];
    let table: [(&str, &[&str]); 4] = [
        ("{}", &["owns"]),
        ("cache: {enabled: true}", &["caches"]),
        ("cache: {enabled: true, deep: {enabled: true}}", &["deeps"]),
        ("tags: {messaging: true}", &["queues"]),
    ];
    for (values, created) in table {
        let applied = charts.apply(CrdPolicy::Create, &chart, values).await.unwrap();
        assert_eq!(applied.created, charts.names(created), "{values}");
    }
    for plural in all {
        assert!(charts.live(plural).await.is_some());
    }
    charts.delete(&all).await;
}

#[tokio::test]
async fn a_chart_for_another_cluster_writes_nothing() {
    let charts = Charts::start("agent-crds-version").await;
    let crd = charts.crd("widgets", &["v1"]).to_string();
    let metadata = "apiVersion: v2\nname: web\nversion: 1.0.0\nkubeVersion: '>=99'\n";
    let files = [("Chart.yaml", metadata), ("crds/widgets.yaml", &*crd)];
    let chart = charts.engine.chart("1.0.0", &files).await;
    let failure = charts.apply(CrdPolicy::Create, &chart, "").await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::KubeVersion, "{failure}");
    let files = [("crds/broken.yaml", "a: [")];
    let chart = charts.engine.chart("1.0.1", &files).await;
    let failure = charts.apply(CrdPolicy::Create, &chart, "").await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::ChartInvalid, "{failure}");
    let chart = charts.engine.simple_chart().await;
    let applied = charts.apply(CrdPolicy::Create, &chart, "").await.unwrap();
    assert_eq!(applied, Applied::default());
    assert!(charts.live("widgets").await.is_none());
}
