//! Kinds that come, go and change their versions while releases have objects of them. Each test has an API group of its own.

use anyhow::ensure;
use helmops_bed::{random, wait::eventually};
use serde_json::{Value, json};

use crate::harness::agent::{CONFIG, Fixture};
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

    /// A version of the chart with a widget in this version of its API.
    async fn chart(&self, version: &str, api_version: &str, more: &[(&str, &str)]) {
        let widget = self.widget(api_version);
        let templates = [&[("config", CONFIG), ("widget", &*widget)][..], more].concat();
        self.fixture.charts.web(version, &templates).await;
    }
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
