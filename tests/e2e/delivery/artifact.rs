//! Files of artifacts in a real registry: which pushes release something.

use helm_archive::ArchiveWriter;
use helmops_bed::oci_registry::OciRegistry;
use serde_json::json;

use super::git::{until, until_version};
use crate::harness::artifact::push_files;
use crate::harness::standalone::Fixture;

const NAME: (&str, &str) = ("team/deploy", "main");

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = ArchiveWriter::new(Vec::new());
    for (path, content) in files {
        archive.add(path, content.as_bytes()).unwrap();
    }
    archive.finish().unwrap()
}

#[tokio::test]
async fn only_pushes_that_change_the_files_release_them() {
    let fixture = Fixture::new("artifact", 1).await;
    let registry = OciRegistry::open(&fixture.suite.bed).await.unwrap();
    let config = |text: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{a: {text}}}\n")
    };
    let push = async |text: &str, readme: &str| {
        let files = archive(&[("web/web.yaml", &config(text)), ("README.md", readme)]);
        push_files(&registry, NAME, &files, readme).await.unwrap();
    };
    let url = format!("oci://{}/team/deploy", registry.host);
    let spec = json!({
        "chartSource": { "oci": { "url": url, "ref": { "tag": "main" }, "path": "web", "insecure": true }, "manifests": {} },
        "pollingInterval": "1s",
        "targets": [{ "clusterGroup": "all" }],
    });
    fixture
        .apply(&json!({ "kind": "HelmOp", "metadata": { "name": "web" }, "spec": spec }))
        .await;
    let message = until(&fixture, "Accepted", "NoMatchingVersion").await;
    assert!(
        message.contains("check url and ref in spec.chartSource.oci"),
        "{message}"
    );

    push("one", "1").await;
    let (first, version) = until_version(&fixture, "0.0.0+", "").await;
    let bundle = fixture
        .namespace
        .kubectl()
        .get("bundle/web")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(bundle["spec"]["helm"]["repo"], format!("artifact+{url}"));

    // The same files in another manifest, and then others.
    let before = generation(&fixture).await;
    push("one", "2").await;
    push("two", "2").await;
    let (second, _) = until_version(&fixture, "0.0.0+", &version).await;
    assert_ne!(first, second);
    assert_eq!(generation(&fixture).await, before + 1);
}

async fn generation(fixture: &Fixture) -> u64 {
    let deployment = fixture.deployment(0, "web").await;
    deployment["metadata"]["generation"].as_u64().unwrap()
}
