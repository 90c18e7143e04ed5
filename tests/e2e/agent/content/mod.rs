//! Bundles with files, such as those of GitRepos.

mod recorded;

use futures::stream::{self, StreamExt};
use helmops_bed::oci_registry::OciRegistry;
use helmops_content::{Encoded, Limits, Manifest};
use helmops_release::marks;
use reqwest::Method;
use serde_json::{Value, json};

use self::recorded::{Recorded, recorded};
use crate::harness::agent::Fixture;
use crate::harness::artifact::push_bundle;
use crate::harness::until;

/// Comparisons at a time.
const AT_A_TIME: usize = 8;
const CONTENTS: &str = "apis/fleet.cattle.io/v1alpha1/contents";
const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {a: b}\n";

impl Fixture {
    /// Writes Contents that may exist already.
    async fn write_content(&self, encoded: &Encoded) {
        for object in encoded.parts().chain([encoded.head()]) {
            let name = object.metadata.name.clone().unwrap();
            if self
                .api
                .find(&format!("{CONTENTS}/{name}"))
                .await
                .unwrap()
                .is_none()
            {
                self.api
                    .call(Method::POST, CONTENTS, json!(object))
                    .await
                    .unwrap();
            }
        }
    }

    /// The spec of a BundleDeployment of content.
    fn content_spec(&self, encoded: &Encoded, over: &Value) -> Value {
        let mut spec = json!({
            "options": { "defaultNamespace": self.apps.name() },
            "deploymentID": format!("{}:1", encoded.id()),
        });
        json_patch::merge(&mut spec, over);
        spec["stagedOptions"] = spec["options"].clone();
        spec["stagedDeploymentID"] = spec["deploymentID"].clone();
        spec
    }
}

fn encoded(files: &[(&str, &[u8])]) -> Encoded {
    let files = files
        .iter()
        .map(|(name, content)| ((*name).to_owned(), content.to_vec()));
    let manifest = Manifest::of_files(files.collect(), Limits::CHART).unwrap();
    manifest.encode(Limits::CHART).unwrap()
}

/// Until the Content exists, the message says what is missing. Then the release is one like others: drift is corrected, an update removes
/// what is gone, and the deletion removes the rest.
#[tokio::test]
async fn files_are_deployed_when_they_exist_and_kept_like_a_chart() {
    let fixture = Fixture::new("content").await;
    let agent = fixture.start().await;
    let name = fixture.name("files");
    // Contents have no namespace: no other test has the same files.
    let config = format!("# {name}\n{CONFIG}");
    let (one, other) = (
        encoded(&[("a.yaml", config.as_bytes())]),
        encoded(&[("b.yaml", config.replace("plain", "other").as_bytes())]),
    );
    let correct =
        json!({ "correctDrift": { "enabled": true }, "options": { "correctDrift": { "enabled": true } } });
    fixture.put(&name, fixture.content_spec(&one, &correct)).await;
    let message = fixture
        .until_error("files", "Deployed", &["does not exist in the management cluster"])
        .await;
    assert!(message.contains(one.id().as_str()), "{message}");
    assert!(fixture.helm_runs().is_empty());

    fixture.write_content(&one).await;
    fixture.until_ready("files").await;
    fixture.kubectl(&["delete", "configmap", "plain"]).await;
    until(&fixture.apps, "configmap/plain", |_| Ok(())).await;
    fixture.until_revision("files", 1).await;

    fixture.write_content(&other).await;
    fixture.put(&name, fixture.content_spec(&other, &correct)).await;
    fixture.until_revision("files", 2).await;
    until(&fixture.apps, "configmap/other", |_| Ok(())).await;
    fixture.until_none("configmap/plain").await;

    // It is in the cache, and nothing is to be done.
    drop(agent);
    let runs = fixture.helm_runs();
    let agent = fixture.start().await;
    agent.until_reconciled(1).await;
    assert_eq!(fixture.helm_runs(), runs);
    fixture.delete("files").await;
    fixture.until_none("configmap/other").await;
}

/// More than an object has room for.
#[tokio::test]
async fn a_large_chart_is_put_together() {
    let fixture = Fixture::new("content-split").await;
    let _agent = fixture.start().await;
    let chart = "apiVersion: v2\nname: large\nversion: 1.0.0\n";
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let noise: Vec<u8> = noise.take(2 << 20).collect();
    // Helm keeps no archives of subcharts that are not used in the record, and templates render nothing.
    let encoded = encoded(&[
        ("Chart.yaml", chart.as_bytes()),
        ("charts/_noise/data", &noise),
        ("templates/a.yaml", CONFIG.as_bytes()),
    ]);
    assert!(encoded.parts().count() > 1);
    fixture.write_content(&encoded).await;
    let name = fixture.name("large");
    fixture
        .put(&name, fixture.content_spec(&encoded, &json!({})))
        .await;
    fixture.until_ready("large").await;
    until(&fixture.apps, "configmap/plain", |_| Ok(())).await;
}

/// The Secret beside the BundleDeployment names the registry. What it has under the ID is verified.
#[tokio::test]
async fn files_in_a_registry_are_deployed_if_they_have_the_id() {
    let fixture = Fixture::new("content-registry").await;
    let registry = OciRegistry::open(&fixture.bed).await.unwrap();
    let _agent = fixture.start().await;
    // The ID depends on the order of the fields.
    let json = |text: &str| {
        let text = json!(text);
        format!("{{\"resources\":[{{\"name\":\"a.yaml\",\"content\":{text}}}]}}\n")
    };
    let encoded = encoded(&[("a.yaml", CONFIG.as_bytes())]);
    let id = encoded.id().as_str();
    let name = fixture.name("files");
    let spec = fixture.content_spec(&encoded, &json!({ "ociContents": true }));
    fixture.put(&name, spec).await;
    let missing = format!("Secret {}/{id} with the registry", fixture.upstream.name());
    fixture.until_error("files", "Deployed", &[&missing]).await;

    push_bundle(&registry, id, &json("kind: Other\n")).await.unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "fleet.cattle.io/bundle-oci-storage/v1alpha1", "metadata": { "name": id },
        "stringData": { "reference": format!("{}/fleet", registry.host), "basicHTTP": "true" },
    });
    let applied = fixture.upstream.kubectl().apply(&secret.to_string()).await;
    applied.unwrap().ok().unwrap();
    fixture.until_error("files", "Deployed", &["SHA-256 sum"]).await;
    assert!(fixture.helm_runs().is_empty());

    push_bundle(&registry, id, &json(CONFIG)).await.unwrap();
    fixture.until_ready("files").await;
    until(&fixture.apps, "configmap/plain", |_| Ok(())).await;
}

/// It would be installed over this agent.
#[tokio::test]
async fn the_bundle_of_fleets_own_agent_is_left_alone() {
    let fixture = Fixture::new("content-agent").await;
    let _agent = fixture.start().await;
    let encoded = encoded(&[("a.yaml", CONFIG.as_bytes())]);
    fixture.write_content(&encoded).await;
    let name = fixture.name("fleet-agent-edge");
    fixture
        .put(&name, fixture.content_spec(&encoded, &json!({})))
        .await;
    fixture
        .until_error("fleet-agent-edge", "Deployed", &["deploys Fleet's agent"])
        .await;
    assert!(fixture.helm_runs().is_empty());
}

/// What was recorded from Fleet's agent: the same charts, objects and marks, and then nothing to deploy for a cluster that comes from there.
#[tokio::test]
async fn bundles_are_deployed_as_by_fleets_agent_and_pass_from_one_to_the_other() {
    let fixture = Fixture::new("content-fleet").await;
    let all = recorded();
    assert!(all.len() >= 60, "{}", all.len());
    let agent = fixture.start().await;
    for at in 0..2 {
        let steps: Vec<_> = all.iter().filter(|one| one.steps.len() > at).collect();
        for one in &steps {
            one.deploy(&fixture, at).await;
        }
        assert_same(&fixture, steps.iter().map(|one| (*one, at)).collect()).await;
    }
    drop(agent);

    let deployed: Vec<_> = all.iter().filter(|one| one.is_deployed()).collect();
    for one in &deployed {
        one.write_as_fleet(&fixture).await;
    }
    let state = ["configmap", "helmops-agent", "helmops-agent-releases"];
    let delete = [&["delete", "--ignore-not-found"], &state[..]].concat();
    crate::harness::run(&fixture.system, &delete).await;
    let before = (
        runs_of(&fixture, &deployed),
        records_of(&fixture, &deployed).await,
    );
    let agent = fixture.start().await;
    agent.until_reconciled(u16::try_from(all.len()).unwrap()).await;
    until(&fixture.system, "configmap/helmops-agent-releases", |_| Ok(())).await;
    let after = (
        runs_of(&fixture, &deployed),
        records_of(&fixture, &deployed).await,
    );
    assert_eq!(after, before, "nothing is deployed again");
    let last = |one: &&Recorded| one.steps.len() - 1;
    assert_same(&fixture, deployed.iter().map(|one| (*one, last(one))).collect()).await;
}

/// Whether steps have led to the same as with Fleet's agent.
async fn assert_same(fixture: &Fixture, steps: Vec<(&Recorded, usize)>) {
    let problems = stream::iter(steps).map(|(one, at)| one.problems(fixture, at));
    let problems: Vec<_> = problems.buffered(AT_A_TIME).collect().await;
    let problems = problems.concat();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn runs_of(fixture: &Fixture, all: &[&Recorded]) -> Vec<Vec<String>> {
    let runs = all.iter().map(|one| fixture.helm_runs_of(&one.release()));
    runs.collect()
}

async fn records_of(fixture: &Fixture, all: &[&Recorded]) -> Vec<String> {
    let mut records = fixture.records().await;
    records.retain(|record| {
        let is_of = |one: &&Recorded| record.contains(&format!(".v1.{}.v", one.release()));
        all.iter().any(is_of)
    });
    records
}

/// Whether a key is one of this agent only.
fn is_own(key: &str) -> bool {
    key.starts_with("helmops.") || key == marks::ATTEMPT
}
