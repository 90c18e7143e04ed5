//! Kinds that come, go and change their versions while releases have objects of them. Each test has an API group of its own.

use anyhow::{Context, ensure};
use helmops_bed::{random, wait::eventually};
use serde_json::{Value, json};

use super::lifecycle::attempts::INVALID;
use super::safety::uid;
use crate::harness::agent::{CONFIG, Fixture, Permissions, start_bed};
use crate::harness::{SOON, until_none};

/// A fixture with a kind `Widget`.
struct Widgets {
    fixture: Fixture,
    group: String,
}

impl Widgets {
    async fn new(prefix: &str) -> Self {
        Self {
            fixture: Fixture::new(prefix).await,
            group: format!("{}.example.com", random::word()),
        }
    }

    fn resource(&self) -> String {
        format!("widgets.{}", self.group)
    }

    /// The CRD with these served versions, of which the last one is stored.
    fn crd(&self, versions: &[&str]) -> String {
        let last = versions.last();
        let versions = versions.iter().map(|version| {
            let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            json!({
                "name": version, "served": true, "storage": Some(version) == last,
                "schema": { "openAPIV3Schema": schema },
            })
        });
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": self.resource() },
            "spec": {
                "group": self.group, "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" },
                "versions": versions.collect::<Vec<_>>(),
            },
        });
        crd.to_string()
    }

    /// Applies the CRD, and waits until its versions are served and no others.
    async fn serve(&self, versions: &[&str]) {
        let (crd, kubectl) = (self.crd(versions), self.fixture.bed.kubectl());
        kubectl.apply(&crd).await.unwrap().ok().unwrap();
        let path = format!("apis/{}", self.group);
        let mut expected = versions.to_vec();
        expected.sort_unstable();
        eventually("the versions of the kind", SOON, async || {
            let found = self.fixture.api.get(&path).await?;
            let found = found["versions"].as_array().into_iter().flatten();
            let mut found: Vec<_> = found.filter_map(|version| version["version"].as_str()).collect();
            found.sort_unstable();
            ensure!(found == expected, "it is {found:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn delete_crd(&self) {
        let name = self.resource();
        let kubectl = self.fixture.bed.kubectl();
        let arguments = ["delete", "crd", &name, "--ignore-not-found", "--wait=false"];
        kubectl.run(&arguments).await.unwrap().ok().unwrap();
        until_none(&kubectl, &format!("crd/{name}")).await;
    }

    fn widget(&self, version: &str) -> String {
        let group = &self.group;
        format!("apiVersion: {group}/{version}\nkind: Widget\nmetadata: {{name: one}}\nspec: {{size: 1}}\n")
    }

    /// The widget of the chart, as an object of the namespace.
    fn one(&self) -> String {
        format!("{}/one", self.resource())
    }

    async fn chart(&self, version: &str, api_version: &str, more: &[(&str, &str)]) {
        let widget = self.widget(api_version);
        let templates = [&[("config", CONFIG), ("widget", &*widget)][..], more].concat();
        self.fixture.charts.web(version, &templates).await;
    }

    /// A registration (`APIService`) for the group, whose server does not exist.
    fn without_server(&self) -> String {
        let namespace = self.fixture.apps.name();
        let service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": format!("v1.{}", self.group) },
            "spec": {
                "group": self.group, "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
                "insecureSkipTLSVerify": true, "service": { "namespace": namespace, "name": "none" },
            },
        });
        service.to_string()
    }

    async fn until_uninstalled(&self, revision: u64) {
        let release = self.fixture.name("web");
        let record = format!("secret/sh.helm.release.v1.{release}.v{revision}");
        self.fixture.until_none(&record).await;
        self.fixture
            .until_none(&format!("configmap/{release}-config"))
            .await;
    }
}

#[tokio::test]
async fn a_release_whose_kind_is_gone_is_not_ready_and_is_uninstalled() {
    let widgets = Widgets::new("kinds-gone").await;
    let fixture = &widgets.fixture;
    widgets.serve(&["v1"]).await;
    widgets.chart("2.0.0", "v1", &[]).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    widgets.delete_crd().await;
    let missing = format!("widget.{} {}/one missing", widgets.group, fixture.apps.name());
    fixture.until_error("web", "Ready", &[&missing]).await;
    fixture.delete("web").await;
    widgets.until_uninstalled(1).await;
}

/// It knows no kinds yet, and Helm deletes nothing if the API server does not have the kind of one object.
#[tokio::test]
async fn a_new_agent_uninstalls_a_release_whose_kind_is_gone() {
    let widgets = Widgets::new("kinds-new").await;
    let fixture = &widgets.fixture;
    widgets.serve(&["v1"]).await;
    widgets.chart("2.0.0", "v1", &[]).await;
    let mut agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    agent.process.kill().await.unwrap();
    widgets.delete_crd().await;
    fixture.delete("web").await;
    let _agent = fixture.start().await;
    widgets.until_uninstalled(1).await;
    let (reason, note) = fixture.event("ObjectsKept").await;
    assert!(
        note.contains("of a kind that the cluster does not have any more"),
        "{reason} {note}"
    );
}

/// An operator is installed again, or late.
#[tokio::test]
async fn a_kind_that_comes_back_is_noticed() {
    let widgets = Widgets::new("kinds-back").await;
    let fixture = &widgets.fixture;
    widgets.serve(&["v1"]).await;
    widgets.chart("2.0.0", "v1", &[]).await;
    let _agent = fixture.start().await;
    let corrected = json!({ "correctDrift": { "enabled": true } });
    fixture.deploy("web", "2.0.0", &corrected).await;
    fixture.until_ready("web").await;
    widgets.delete_crd().await;
    fixture.until_error("web", "Ready", &["cannot be created"]).await;
    widgets.serve(&["v1"]).await;
    fixture.until_ready("web").await;
    assert!(fixture.object(&widgets.one()).await.is_some());
    widgets.delete_crd().await;
}

/// Helm does not get it for the upgrade, which makes no revision, so that this record is the one of the release again.
#[tokio::test]
async fn an_object_whose_kind_is_gone_stays_missing_after_an_upgrade_that_failed() {
    let widgets = Widgets::new("kinds-failed").await;
    let fixture = &widgets.fixture;
    widgets.serve(&["v1"]).await;
    widgets.chart("2.0.0", "v1", &[]).await;
    fixture
        .charts
        .web("3.0.0", &[("config", "{{ fail \"no\" }}")])
        .await;
    let mut agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    widgets.delete_crd().await;
    fixture.deploy("web", "3.0.0", &json!({})).await;
    eventually("the object to be left out", SOON, async || {
        let (_, record) = fixture.record(&release, 1).await.context("no record")?;
        ensure!(record.manifest.contains("/left-out: {"), "{}", record.manifest);
        Ok(())
    })
    .await
    .unwrap();
    fixture.deploy("web", "2.0.0", &json!({})).await;
    agent.process.kill().await.unwrap();
    let _agent = fixture.start().await;
    let missing = format!("widget.{} {}/one missing", widgets.group, fixture.apps.name());
    fixture.until_error("web", "Ready", &[&missing]).await;
}

#[tokio::test]
async fn an_api_version_that_was_removed_does_not_block_an_upgrade() {
    let widgets = Widgets::new("kinds-upgrade").await;
    let fixture = &widgets.fixture;
    widgets.serve(&["v1beta1", "v1"]).await;
    widgets.chart("2.0.0", "v1beta1", &[]).await;
    widgets.chart("3.0.0", "v1", &[]).await;
    let _agent = fixture.start().await;
    fixture.deploy("web", "2.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    let before = uid(fixture, &widgets.one()).await;
    widgets.serve(&["v1"]).await;
    fixture.deploy("web", "3.0.0", &json!({})).await;
    fixture.until_ready("web").await;
    assert_eq!(uid(fixture, &widgets.one()).await, before);
    // The next version does not have it any more.
    fixture.charts.web("4.0.0", &[("config", CONFIG)]).await;
    fixture.deploy("web", "4.0.0", &json!({})).await;
    fixture.until_none(&widgets.one()).await;
    widgets.delete_crd().await;
}

#[tokio::test]
async fn an_api_version_that_was_removed_does_not_block_a_rollback_or_an_uninstallation() {
    let widgets = Widgets::new("kinds-rollback").await;
    let fixture = &widgets.fixture;
    widgets.serve(&["v1beta1", "v1"]).await;
    widgets.chart("2.0.0", "v1beta1", &[]).await;
    fixture
        .charts
        .web("3.0.0", &[("config", CONFIG), ("invalid", INVALID)])
        .await;
    let _agent = fixture.start().await;
    let atomic = json!({ "options": { "helm": { "atomic": true } } });
    fixture.deploy("web", "2.0.0", &atomic).await;
    fixture.until_ready("web").await;
    let before = uid(fixture, &widgets.one()).await;
    widgets.serve(&["v1"]).await;
    // It does not have the widget, but fails before it is deleted.
    fixture.deploy("web", "3.0.0", &atomic).await;
    fixture.until_error("web", "Deployed", &["rolled back"]).await;
    assert_eq!(uid(fixture, &widgets.one()).await, before);
    let newest = fixture.name("web");
    fixture.until_status(&newest, 3, "deployed").await;
    fixture.delete("web").await;
    widgets.until_uninstalled(3).await;
    assert_eq!(fixture.object(&widgets.one()).await, None);
    widgets.delete_crd().await;
}

/// As of a release that was deployed before the cluster was upgraded.
#[tokio::test]
async fn an_object_of_a_kind_that_kubernetes_has_moved_is_upgraded_and_deleted() {
    const INGRESS: &str = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\n\
        spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n";
    let fixture = Fixture::new("kinds-moved").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    for version in ["2.0.0", "3.0.0"] {
        fixture
            .charts
            .web(version, &[("config", CONFIG), ("ingress", INGRESS)])
            .await;
    }
    let mut before = None;
    for (revision, version) in [(1, "2.0.0"), (2, "3.0.0"), (3, "1.0.0")] {
        fixture.deploy("web", version, &json!({})).await;
        fixture.until_revision("web", revision).await;
        fixture.until_ready("web").await;
        if version == "1.0.0" {
            break;
        }
        let found = uid(&fixture, "ingress/web").await;
        assert_eq!(*before.get_or_insert(found.clone()), found, "{version}");
        let (_, mut record) = fixture.record(&release, revision).await.unwrap();
        record.manifest = record
            .manifest
            .replace("networking.k8s.io/v1", "extensions/v1beta1");
        fixture.write_record(&record).await;
    }
    fixture.until_none("ingress/web").await;
}

/// The agent has read the versions of the kind for the version of the chart before, less than a second ago.
#[tokio::test]
async fn an_object_in_a_new_version_of_its_crd_is_ready_long_before_the_end_of_the_wait() {
    let widgets = Widgets::new("kinds-version").await;
    let fixture = &widgets.fixture;
    for (version, versions) in [("2.0.0", &["v1"][..]), ("3.0.0", &["v1", "v2"])] {
        let (crd, widget) = (
            widgets.crd(versions),
            widgets.widget(versions.last().unwrap_or(&"")),
        );
        let files = [
            ("crds/widgets.yaml", &*crd),
            ("templates/config.yaml", CONFIG),
            ("templates/widget.yaml", &*widget),
        ];
        fixture.charts.add("web", version, &files).await;
    }
    let _agent = fixture.start().await;
    // The tests of the harness wait for less time.
    let lifecycle = json!({ "lifecycle": {
        "install": { "crds": "Create" }, "upgrade": { "crds": "CreateReplace" }, "wait": { "timeout": "30m" },
    } });
    fixture.deploy("web", "2.0.0", &lifecycle).await;
    fixture.until_ready("web").await;
    fixture.deploy("web", "3.0.0", &lifecycle).await;
    fixture.until_ready("web").await;
    widgets.delete_crd().await;
}

/// The API is served by a service that does not exist, so its kinds are not known.
#[tokio::test]
async fn an_object_that_cannot_be_read_does_not_keep_the_others_from_being_deleted() {
    const HOOK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations: {helm.sh/hook: pre-delete}\n";
    // Without all kinds, the API server deletes no namespaces, which other tests wait for.
    let bed = start_bed().await.unwrap();
    let fixture = Fixture::on(bed.into(), "kinds-unread", Permissions::ClusterAdmin).await;
    let widgets = Widgets {
        fixture: fixture.unwrap(),
        group: format!("{}.example.com", random::word()),
    };
    let fixture = &widgets.fixture;
    fixture
        .charts
        .web("1.1.0", &[("config", CONFIG), ("hook", HOOK)])
        .await;
    let agent = fixture.start().await;
    let release = fixture.name("web");
    fixture.deploy("web", "1.1.0", &json!({})).await;
    fixture.until_ready("web").await;
    let kubectl = fixture.bed.kubectl();
    let service = widgets.without_server();
    kubectl.apply(&service).await.unwrap().ok().unwrap();
    let (_, mut record) = fixture.record(&release, 1).await.unwrap();
    record.manifest.push_str("\n---\n");
    record.manifest.push_str(&widgets.widget("v1"));
    fixture.write_record(&record).await;
    fixture.delete("web").await;
    fixture.until_none(&format!("configmap/{release}-config")).await;
    let failed = fixture.event("APIError").await.1;
    assert!(failed.contains("could not read"), "{failed}");
    let record = fixture.until_status(&release, 1, "uninstalled").await;
    let unread = "\n# helmops.fleet.cattle.io/unread: {";
    assert!(record.manifest.contains(unread), "{}", record.manifest);
    let hook = async || {
        let name = format!("{release}-hook");
        let path = format!("api/v1/namespaces/{}/configmaps/{name}", fixture.apps.name());
        fixture.api.get(&path).await.unwrap()["metadata"]["uid"].clone()
    };
    let before = hook().await;
    let name = format!("apiservice/v1.{}", widgets.group);
    kubectl.run(&["delete", &name]).await.unwrap().ok().unwrap();
    widgets.until_uninstalled(1).await;
    // It may need what is deleted.
    assert_eq!(hook().await, before, "the hook has run again");
    drop(agent);
}

#[tokio::test]
async fn a_release_is_installed_and_upgraded_while_an_api_has_no_server() {
    let bed = start_bed().await.unwrap();
    let fixture = Fixture::on(bed.into(), "kinds-server", Permissions::ClusterAdmin).await;
    let widgets = Widgets {
        fixture: fixture.unwrap(),
        group: format!("{}.example.com", random::word()),
    };
    let fixture = &widgets.fixture;
    let kubectl = fixture.bed.kubectl();
    let service = widgets.without_server();
    kubectl.apply(&service).await.unwrap().ok().unwrap();
    fixture.charts.web("2.0.0", &[("config", CONFIG)]).await;
    let _agent = fixture.start().await;
    for version in ["1.0.0", "2.0.0"] {
        fixture.deploy("web", version, &json!({})).await;
        fixture.until_ready("web").await;
    }
}

/// Such names are valid for the kinds of RBAC.
#[tokio::test]
async fn an_object_whose_name_is_no_part_of_a_url_is_one_like_others() {
    const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: \"{{ .Release.Name }}:team ü?\"}\n\
        rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}]\n";
    let fixture = Fixture::new("kinds-names").await;
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("role", ROLE)])
        .await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let corrected = json!({ "correctDrift": { "enabled": true } });
    fixture.deploy("web", "2.0.0", &corrected).await;
    fixture.until_ready("web").await;
    let roles = async || {
        let path = format!(
            "apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
            fixture.apps.name()
        );
        let found = fixture.api.get(&path).await.unwrap();
        let all = found["items"].as_array().cloned().unwrap_or_default();
        all.into_iter()
            .find(|role| role["metadata"]["name"] == format!("{release}:team ü?"))
    };
    let before = roles().await.unwrap();
    fixture.kubectl(&["delete", "roles", "--all"]).await;
    eventually("the Role to be created again", SOON, async || {
        let after = roles().await.unwrap_or_default();
        let is_new = !after.is_null() && after["metadata"]["uid"] != before["metadata"]["uid"];
        ensure!(is_new, "it is {after}");
        Ok(())
    })
    .await
    .unwrap();
    fixture.until_ready("web").await;
    fixture.delete("web").await;
    fixture
        .until_none(&format!("secret/sh.helm.release.v1.{release}.v1"))
        .await;
    assert_eq!(roles().await, None::<Value>);
}
