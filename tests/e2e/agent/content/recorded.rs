//! What Fleet's agent makes of Bundles with files.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use bounded_text::hex;
use helmops_bed::wait::eventually;
use helmops_content::{Limits, Manifest, Resource};
use helmops_release::names::{SetId, release_name};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CONTENTS, is_own};
use crate::harness::agent::Fixture;
use crate::harness::{SOON, condition, until};

/// Recorded from Fleet's agent at commit 3b2c622ce, which had deployed these BundleDeployments on a control plane without nodes: what was
/// given to it, its record, the live objects and its conditions after each step. `@NS@` is the namespace of the releases.
const RECORDED: &str = include_str!("../../../../shared/release/tests/truth/content.jsonl");

/// Until all have the same: they are deployed at the same time.
const SETTLED: Duration = Duration::from_mins(1);

/// Those that are different on purpose, with a part of the message: docs/agent.md has the reasons.
const DIFFERENT: [(&str, &str); 1] = [(
    "plain-own-labels",
    "metadata.annotations.note of configmap.v1 pol-a is not a text",
)];

/// Those that neither agent deploys, with a part of the message: what a user has to correct.
const FAILING: [(&str, &str); 12] = [
    ("plain-namespace-cluster-scoped", "pncs-x"),
    ("plain-invalid-yaml", "did not find expected node content"),
    (
        "plain-flow-document",
        "looking for beginning of object key string",
    ),
    ("plain-json-array", "cannot unmarshal array"),
    ("plain-two-json-objects", "after top-level value"),
    ("plain-unknown-kind", "no matches for kind"),
    ("plain-unknown-field", ".spec.nope"),
    ("overlay-missing-base", "none.yaml"),
    ("chart-schema-violated", "got string, want number"),
    ("chart-broken-template", "nil pointer evaluating"),
    ("chart-invalid", "Chart.yaml"),
    ("kustomize-invalid", "absent.yaml"),
];

/// A BundleDeployment.
#[derive(Debug, Deserialize)]
pub struct Recorded {
    pub name: String,
    #[serde(default)]
    commit: String,
    pub steps: Vec<Step>,
}

/// What was deployed.
#[derive(Debug, Deserialize)]
pub struct Step {
    resources: Vec<Resource>,
    options: Value,
    expect: Expected,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    conditions: Vec<Value>,
    #[serde(default)]
    resources: Vec<Value>,
    record: Option<ExpectedRecord>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExpectedRecord {
    name: String,
    namespace: String,
    revision: u64,
    status: String,
    metadata: Map<String, Value>,
    templates: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    values: Value,
    config: Value,
    objects: Vec<Value>,
    live: Vec<Value>,
    hooks: Vec<Value>,
    apply_method: String,
}

/// All of them.
pub fn recorded() -> Vec<Recorded> {
    let lines = RECORDED.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

impl Recorded {
    pub fn release(&self) -> String {
        let options = &self.steps[0].options;
        match options["helm"]["releaseName"].as_str() {
            Some(name) => name.to_owned(),
            None => release_name(&self.name),
        }
    }

    /// Whether the last step has a release.
    pub fn is_deployed(&self) -> bool {
        let last = self.steps.last().unwrap();
        last.expect.is_deployed() && self.refused().is_none()
    }

    /// A part of the message of what Fleet's agent deploys and this one refuses.
    fn refused(&self) -> Option<&'static str> {
        let found = DIFFERENT.iter().find(|(name, _)| *name == self.name);
        found.map(|(_, message)| *message)
    }

    fn failing(&self) -> Option<&'static str> {
        let found = FAILING.iter().find(|(name, _)| *name == self.name);
        found.map(|(_, message)| *message)
    }

    pub async fn deploy(&self, fixture: &Fixture, at: usize) {
        let step = &self.steps[at];
        let namespace = fixture.apps.name();
        let mut resources = step.resources.clone();
        for resource in resources
            .iter_mut()
            .filter(|resource| resource.encoding.is_empty())
        {
            resource.content = resource.content.replace("@NS@", namespace);
        }
        let encoded = Manifest { resources }.encode(Limits::CHART).unwrap();
        for object in encoded.parts().chain([encoded.head()]) {
            let name = object.metadata.name.clone().unwrap();
            if fixture
                .api
                .find(&format!("{CONTENTS}/{name}"))
                .await
                .unwrap()
                .is_none()
            {
                let created = fixture.api.call(Method::POST, CONTENTS, json!(object)).await;
                created.unwrap();
            }
        }
        let options = step.options.to_string().replace("@NS@", namespace);
        let options: Value = serde_json::from_str(&options).unwrap();
        let spec = fixture.content_spec(&encoded, &json!({ "options": options }));
        let collection = format!(
            "apis/fleet.cattle.io/v1alpha1/namespaces/{}/bundledeployments",
            fixture.upstream.name()
        );
        let object = format!("{collection}/{}", self.name);
        let mut labels = json!({ "fleet.cattle.io/bundle-name": self.name, "fleet.cattle.io/bundle-namespace": "fleet-default" });
        if !self.commit.is_empty() {
            labels["fleet.cattle.io/commit"] = json!(self.commit);
        }
        let mut written = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
            "metadata": { "name": self.name, "labels": labels }, "spec": spec,
        });
        eventually("the BundleDeployment to be written", SOON, async || {
            let found = fixture.api.find(&object).await?.unwrap_or_default();
            let version = found["metadata"]["resourceVersion"].clone();
            let (method, path) = if version.is_null() {
                (Method::POST, &collection)
            } else {
                (Method::PUT, &object)
            };
            written["metadata"]["resourceVersion"] = version;
            fixture.api.call(method, path, written.clone()).await
        })
        .await
        .unwrap();
    }

    pub async fn find(&self, fixture: &Fixture) -> Value {
        until(
            &fixture.upstream,
            &format!("bundledeployment/{}", self.name),
            |_| Ok(()),
        )
        .await
    }

    /// What differs after a while.
    pub async fn problems(&self, fixture: &Fixture, at: usize) -> Vec<String> {
        let same = async || {
            let problems = self.problems_now(fixture, at).await;
            ensure!(problems.is_empty(), "{}", problems.join("\n"));
            Ok(())
        };
        let what = format!("{} {at} as by Fleet's agent", self.name);
        let different = eventually(&what, SETTLED, same).await.err();
        different.iter().map(|error| format!("{error:#}")).collect()
    }

    async fn problems_now(&self, fixture: &Fixture, at: usize) -> Vec<String> {
        let step = &self.steps[at];
        let expected = &step.expect;
        let found = self.find(fixture).await;
        let mut problems = Problems::default();
        if let Some(part) = self.refused().or_else(|| self.failing()) {
            let conditions = ["Deployed", "Installed"].map(|kind| condition(&found, kind));
            let says_so = |condition: &Value| {
                let message = condition["message"].as_str().unwrap_or_default();
                condition["status"] == "False" && message.contains(part)
            };
            let is_refused = conditions.into_iter().flatten().any(says_so);
            problems.same(part, &is_refused, &true);
            return problems.0;
        }
        problems.same("deployed by Fleet", &expected.is_deployed(), &true);
        let ids = ["spec/deploymentID", "status/appliedDeploymentID"]
            .map(|path| found.pointer(&format!("/{path}")));
        problems.same("deployment ID", &ids[1], &ids[0]);
        problems.of_conditions(&found, expected);
        if let Some(record) = &expected.record {
            self.compare(fixture, record, step.has_namespace(), &mut problems)
                .await;
        }
        problems.0
    }

    async fn compare(
        &self,
        fixture: &Fixture,
        expected: &ExpectedRecord,
        has_namespace: bool,
        problems: &mut Problems,
    ) {
        let stored = fixture.record(&expected.name, expected.revision).await;
        let Some((_, record)) = stored else {
            problems.0.push("no record".to_owned());
            return;
        };
        let namespace = fixture.apps.name();
        let metadata = record.chart["metadata"].as_object().cloned().unwrap_or_default();
        let (mut found, mut given) = (without_own(metadata), given_metadata(fixture, expected));
        if has_namespace {
            // The ID is another one.
            found.remove("version");
            given.remove("version");
        }
        problems.same("metadata", &found, &given);
        problems.same("status", record.info.status.as_str(), &*expected.status);
        problems.same(
            "templates",
            &files(&record.chart["templates"]),
            &expected.templates,
        );
        problems.same(
            "files",
            &files(&record.chart["files"]),
            &in_namespace(&expected.files, namespace),
        );
        problems.same("values", &record.chart["values"], &expected.values);
        problems.same("config", &or_empty(&record.config), &or_empty(&expected.config));
        let method = record
            .apply_method
            .map(|method| json!(method))
            .unwrap_or_default();
        problems.same("apply method", &method, &json!(expected.apply_method));
        problems.same("namespace", &json!(expected.namespace), &json!("@NS@"));
        let set = SetId::new(&self.name, fixture.system.name());
        let given = |objects: &[Value]| sorted(given_objects(fixture, &self.name, objects));
        let objects = objects_of(&record.manifest);
        problems.same("objects", &sorted(objects.clone()), &given(&expected.objects));
        let hooks = record.hooks.iter().flat_map(|hook| objects_of(&hook.manifest));
        problems.same("hooks", &sorted(hooks.collect()), &given(&expected.hooks));
        problems.same("live objects", &expected.live.len(), &expected.objects.len());
        let live = given_live(&expected.objects, &expected.live, namespace, &set);
        for (object, expected) in live {
            let found = find(fixture, &object).await;
            problems.same(&format!("live {}", object["metadata"]["name"]), &found, &expected);
        }
    }

    /// Replaces the newest record by the one of Fleet's agent, as far as that was recorded: how Helm describes hooks is the same for both.
    pub async fn write_as_fleet(&self, fixture: &Fixture) {
        let step = self.steps.last().unwrap();
        let expected = step.expect.record.as_ref().unwrap();
        let (_, mut record) = fixture.record(&expected.name, expected.revision).await.unwrap();
        let namespace = fixture.apps.name();
        let mut metadata = given_metadata(fixture, expected);
        if step.has_namespace() {
            // The ID is another one.
            metadata.insert("version".to_owned(), record.chart["metadata"]["version"].clone());
        }
        let files = |all: &BTreeMap<String, String>| {
            let file = |(name, text): (&String, &String)| {
                let text = text.replace("@NS@", namespace);
                json!({ "name": name, "data": STANDARD.encode(text) })
            };
            all.iter().map(file).collect::<Vec<_>>()
        };
        record.chart["metadata"] = metadata.into();
        record.chart["templates"] = files(&expected.templates).into();
        record.chart["files"] = files(&expected.files).into();
        record.chart["values"] = expected.values.clone();
        record.config = expected.config.clone();
        let objects = given_objects(fixture, &self.name, &expected.objects);
        let objects = objects.iter().map(|object| format!("---\n{object:#}\n"));
        record.manifest = objects.collect::<Vec<_>>().concat();
        "Install complete".clone_into(&mut record.info.description);
        fixture.write_record(&record).await;
    }
}

impl Step {
    fn has_namespace(&self) -> bool {
        let mut resources = self.resources.iter();
        resources.any(|resource| resource.content.contains("@NS@"))
    }
}

impl Expected {
    fn is_deployed(&self) -> bool {
        let is_true = |condition: &Value| condition["type"] == "Installed" && condition["status"] == "True";
        self.record.is_some() && self.conditions.iter().any(is_true)
    }
}

/// What is wrong with a release.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn same<T: PartialEq + std::fmt::Debug + ?Sized>(&mut self, what: &str, found: &T, expected: &T) {
        if found != expected {
            self.0.push(format!("{what}: {found:?} instead of {expected:?}"));
        }
    }

    fn of_conditions(&mut self, found: &Value, expected: &Expected) {
        for kind in ["Installed", "Deployed", "Ready", "Monitored"] {
            let status = |conditions: Option<&Value>| conditions.map(|found| found["status"].clone());
            let expected = expected
                .conditions
                .iter()
                .find(|condition| condition["type"] == kind);
            self.same(kind, &status(condition(found, kind)), &status(expected));
        }
        let count = found["status"]["resources"].as_array().map_or(0, Vec::len);
        self.same("resources", &count, &expected.resources.len());
    }
}

fn without_own(mut metadata: Map<String, Value>) -> Map<String, Value> {
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !is_own(key));
    }
    if metadata["annotations"].is_null() {
        metadata.remove("annotations");
    }
    metadata
}

/// The metadata of the chart, for this agent.
fn given_metadata(fixture: &Fixture, expected: &ExpectedRecord) -> Map<String, Value> {
    let text = Value::from(expected.metadata.clone()).to_string();
    let text = text.replace("@AGENT@", fixture.system.name());
    serde_json::from_str(&text).unwrap()
}

/// Objects, for this agent.
fn given_objects(fixture: &Fixture, name: &str, objects: &[Value]) -> Vec<Value> {
    let set = SetId::new(name, fixture.system.name());
    let text = json!(objects).to_string().replace("@NS@", fixture.apps.name());
    let text = text.replace("@HASH@", &set.hash()).replace("@ID@", set.as_str());
    serde_json::from_str(&text).unwrap()
}

fn or_empty(values: &Value) -> Value {
    if values.is_null() {
        json!({})
    } else {
        values.clone()
    }
}

/// The files of a chart as texts.
fn files(all: &Value) -> BTreeMap<String, String> {
    let all = all.as_array().into_iter().flatten();
    let text = |file: &Value| {
        let data = STANDARD
            .decode(file["data"].as_str().unwrap_or_default())
            .unwrap();
        let name = file["name"].as_str().unwrap_or_default().to_owned();
        let text = String::from_utf8(data);
        (name, text.unwrap_or_else(|error| hex(error.as_bytes())))
    };
    all.map(text).collect()
}

fn in_namespace(files: &BTreeMap<String, String>, namespace: &str) -> BTreeMap<String, String> {
    let replaced = files
        .iter()
        .map(|(name, text)| (name.clone(), text.replace("@NS@", namespace)));
    replaced.collect()
}

fn objects_of(manifest: &str) -> Vec<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
    objects.into_iter().filter(Value::is_object).collect()
}

fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(ToString::to_string);
    objects
}

/// The objects, and the metadata that each of them has on the cluster.
fn given_live<'o>(
    objects: &'o [Value],
    live: &'o [Value],
    namespace: &'o str,
    set: &'o SetId,
) -> impl Iterator<Item = (Value, Value)> + 'o {
    objects.iter().zip(live).map(move |(object, live)| {
        let text = json!([object, live]).to_string().replace("@NS@", namespace);
        let text = text.replace("@HASH@", &set.hash()).replace("@ID@", set.as_str());
        let [object, live]: [Value; 2] = serde_json::from_str(&text).unwrap();
        (object, live)
    })
}

/// The labels, annotations and the namespace of a live object.
async fn find(fixture: &Fixture, object: &Value) -> Value {
    let kind = object["kind"].as_str().context("no kind").unwrap();
    let group = object["apiVersion"].as_str().unwrap().split_once('/');
    let resource = group.map_or_else(
        || kind.to_lowercase(),
        |(group, _)| format!("{}.{group}", kind.to_lowercase()),
    );
    let name = object["metadata"]["name"].as_str().unwrap();
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .unwrap_or(fixture.apps.name());
    let get = [
        "get",
        &resource,
        name,
        "--namespace",
        namespace,
        "--output=json",
        "--ignore-not-found",
    ];
    let text = crate::harness::run(&fixture.apps, &get).await;
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    if found.is_null() {
        return Value::Null;
    }
    let metadata = &found["metadata"];
    let or_none = |field: &str| {
        if metadata[field].is_null() {
            json!({})
        } else {
            metadata[field].clone()
        }
    };
    json!({ "labels": or_none("labels"), "annotations": or_none("annotations"), "namespace": metadata["namespace"].as_str().unwrap_or_default() })
}
