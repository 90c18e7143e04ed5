//! Charts in artifacts of registries: which requests a poll sends, what of a push releases something, and what is refused.

use std::sync::{Arc, Mutex};

use helm_archive::{ArchiveWriter, Limits, files};
use helmops_chart::Strategy;
use helmops_model::{
    chart::{
        artifact::{ArtifactChart, ArtifactFields},
        digest::sha256_hex,
        resolved::ChartVersion,
    },
    reason::Reason,
};
use helmops_process::lock;
use helmops_runtime::error_class::{Class, ClassifiedError};
use serde_json::json;

use super::{
    fixture::{TestResolver, anonymous, over_plain_http},
    server::{Reply, RequestHead, Server, response},
};
use crate::{access::Access, artifact::ArtifactError, poll::DeployedChart};

const FLUX: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

/// What was pushed: manifests and archives by their digests, and the digests of tags.
#[derive(Default)]
struct Pushed {
    blobs: Vec<(String, Vec<u8>)>,
    tags: Vec<(String, String)>,
}

/// A registry that artifacts are pushed to while it runs.
struct Registry {
    pushed: Arc<Mutex<Pushed>>,
    server: Server,
}

impl Registry {
    async fn start() -> Self {
        let pushed: Arc<Mutex<Pushed>> = Arc::default();
        let shared = Arc::clone(&pushed);
        let server = Server::http(move |head| reply(&lock(&shared), head)).await;
        Self { pushed, server }
    }

    /// Pushes files as the artifact of a tag.
    fn push(&self, tag: &str, all: &[(&str, &str)]) {
        let mut archive = ArchiveWriter::new(Vec::new());
        for (path, content) in all {
            archive.add(path, content.as_bytes()).unwrap();
        }
        self.push_layer(tag, archive.finish().unwrap(), FLUX);
    }

    fn push_layer(&self, tag: &str, layer: Vec<u8>, media_type: &str) {
        let mut pushed = lock(&self.pushed);
        let layer = pushed.add(layer);
        let manifest = json!({
            "schemaVersion": 2,
            // As Flux has the time of the push in it.
            "annotations": { "number": pushed.blobs.len().to_string() },
            "config": { "mediaType": "application/vnd.cncf.flux.config.v1+json", "digest": layer, "size": 2 },
            "layers": [{ "mediaType": media_type, "digest": layer, "size": 7 }],
        });
        let digest = pushed.add(manifest.to_string().into_bytes());
        pushed.tags.retain(|(other, _)| other != tag);
        pushed.tags.push((tag.to_owned(), digest));
    }

    fn chart(&self, fields: ArtifactFields<'_>, strategy: Strategy) -> ArtifactChart {
        let url = format!("oci://{}/team/web", self.server.host());
        ArtifactChart::parse(ArtifactFields { url: &url, ..fields }, strategy, true).unwrap()
    }

    /// The requests since the last call.
    fn requests(&self, seen: &mut usize) -> Vec<String> {
        let lines = self.server.lines();
        let new = lines[*seen..].iter().map(|line| {
            let (method, path) = line.split_once(' ').unwrap();
            let kind = path.trim_start_matches("/v2/team/web/").split('/').next();
            format!("{method} {}", kind.unwrap_or_default())
        });
        let new = new.collect();
        *seen = lines.len();
        new
    }
}

impl Pushed {
    fn add(&mut self, blob: Vec<u8>) -> String {
        let digest = format!("sha256:{}", sha256_hex(&blob));
        self.blobs.push((digest.clone(), blob));
        digest
    }
}

fn reply(pushed: &Pushed, head: &RequestHead) -> Reply {
    let name = head
        .target
        .split('?')
        .next()
        .and_then(|path| path.rsplit('/').next())
        .unwrap_or_default();
    if name == "list" {
        let tags: Vec<_> = pushed.tags.iter().map(|(tag, _)| tag).collect();
        return response(200, &[], json!({ "name": "team/web", "tags": tags }).to_string());
    }
    let of_tag = pushed.tags.iter().find(|(tag, _)| tag == name);
    let digest = of_tag.map_or(name, |(_, digest)| digest);
    let blob = pushed.blobs.iter().find(|(other, _)| other == digest);
    match blob {
        None => {
            let body = json!({ "errors": [{ "code": "MANIFEST_UNKNOWN" }] }).to_string();
            response(404, &[("Content-Type", "application/json")], body)
        }
        Some((digest, _)) if head.method == "HEAD" => response(200, &[("Docker-Content-Digest", digest)], ""),
        Some((digest, blob)) => response(200, &[("Docker-Content-Digest", digest)], blob.clone()),
    }
}

fn access() -> Access {
    over_plain_http(anonymous())
}

fn deployed(version: &ChartVersion) -> DeployedChart<'_> {
    DeployedChart {
        version: Some(version),
        changed_digest: "",
    }
}

const CHART: (&str, &str) = ("charts/web/Chart.yaml", "name: web\nversion: 1.0.0\n");

#[tokio::test]
async fn only_a_push_that_changes_the_chart_is_another_version() {
    let (registry, resolver, access) = (Registry::start().await, TestResolver::new(), access());
    let chart = registry.chart(
        ArtifactFields {
            path: "charts/web",
            ..ArtifactFields::default()
        },
        Strategy::Revision,
    );
    let version = async |deployed| {
        resolver
            .artifact_version(&access, &chart, deployed)
            .await
            .unwrap()
    };
    registry.push("latest", &[CHART, ("README.md", "a")]);
    let mut seen = 0;
    let first = version(DeployedChart::default()).await;
    assert!(first.version.starts_with("1.0.0+"), "{first:?}");
    assert_eq!(
        registry.requests(&mut seen),
        ["HEAD manifests", "GET manifests", "GET blobs"]
    );
    // The same manifest.
    assert_eq!(version(deployed(&first)).await, first);
    assert_eq!(registry.requests(&mut seen), ["HEAD manifests"]);
    // Another one, in which the chart is the same.
    registry.push("latest", &[("README.md", "b"), CHART]);
    for requests in [
        &["HEAD manifests", "GET manifests", "GET blobs"][..],
        &["HEAD manifests"],
    ] {
        assert_eq!(version(deployed(&first)).await, first);
        assert_eq!(registry.requests(&mut seen), requests);
    }
    registry.push("latest", &[CHART, ("charts/web/values.yaml", "a: 1")]);
    let second = version(deployed(&first)).await;
    assert_ne!(
        (&first.version, &first.digest, &first.url),
        (&second.version, &second.digest, &second.url)
    );
    for version in [&first, &second] {
        let packed = resolver.artifact_archive(&access, &chart, version).await.unwrap();
        assert_eq!(packed.version, version.version);
        let all = files(&*packed.archive, Limits::HELM, helm_archive::Layout::Chart).unwrap();
        assert!(all.iter().all(|(path, _)| path != "README.md"), "{all:?}");
    }
}

#[tokio::test]
async fn a_range_and_a_digest_name_an_artifact() {
    let (registry, resolver, access) = (Registry::start().await, TestResolver::new(), access());
    let of = |number| format!("name: web\nversion: {number}.0.0\n");
    for (tag, number) in [("1.0.0", 1), ("1.2.0", 2), ("2.0.0", 3), ("main", 4)] {
        registry.push(tag, &[("Chart.yaml", &of(number))]);
    }
    let digest = lock(&registry.pushed).tags[3].1.clone();
    for (semver, digest, tag, expected) in [
        ("1.x", "", "", "2.0.0"),
        ("", &*digest, "", "4.0.0"),
        ("", "", "1.0.0", "1.0.0"),
    ] {
        let fields = ArtifactFields {
            semver,
            digest,
            tag,
            ..ArtifactFields::default()
        };
        let chart = registry.chart(fields, Strategy::ChartVersion);
        let found = resolver
            .artifact_version(&access, &chart, DeployedChart::default())
            .await;
        assert_eq!(found.unwrap().version, expected);
    }
}

#[tokio::test]
async fn a_deleted_manifest_is_replaced_by_one_with_the_same_chart() {
    let (registry, resolver, access) = (Registry::start().await, TestResolver::new(), access());
    let chart = registry.chart(ArtifactFields::default(), Strategy::Manifests);
    registry.push("latest", &[("web.yaml", "a: 1")]);
    let first = resolver
        .artifact_version(&access, &chart, DeployedChart::default())
        .await
        .unwrap();
    assert!(first.version.starts_with("0.0.0+"), "{first:?}");
    lock(&registry.pushed).blobs.clear();
    registry.push("latest", &[("web.yaml", "a: 1")]);
    let again = resolver.artifact_archive(&access, &chart, &first).await;
    assert_eq!(again.unwrap().content.to_string(), first.digest);
    lock(&registry.pushed).blobs.clear();
    registry.push("latest", &[("web.yaml", "a: 2")]);
    let error = resolver
        .artifact_archive(&access, &chart, &first)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_deployed_is_named() {
    let (registry, resolver, access) = (Registry::start().await, TestResolver::new(), access());
    let failure = async |fields: ArtifactFields<'_>, strategy| {
        let chart = registry.chart(fields, strategy);
        let found = resolver
            .artifact_version(&access, &chart, DeployedChart::default())
            .await;
        let error: ArtifactError = found.unwrap_err();
        (error.classify(), error.to_string())
    };
    registry.push("latest", &[("web.yaml", "a: 1")]);
    registry.push_layer("text", b"a: 1".to_vec(), "text/plain");
    registry.push_layer("damaged", b"a: 1".to_vec(), FLUX);
    let tag = |tag| ArtifactFields {
        tag,
        ..ArtifactFields::default()
    };
    let below = ArtifactFields {
        path: "charts/web",
        ..ArtifactFields::default()
    };
    for (fields, strategy, reason, words) in [
        (
            tag("other"),
            Strategy::Revision,
            Reason::NoMatchingVersion,
            "no such artifact; check url and ref in spec.chartSource.oci",
        ),
        (
            tag("latest"),
            Strategy::Revision,
            Reason::ChartNotFound,
            "Chart.yaml",
        ),
        (
            below,
            Strategy::Revision,
            Reason::ChartNotFound,
            "is not in the artifact",
        ),
        (
            tag("text"),
            Strategy::Revision,
            Reason::InvalidChart,
            "flux push artifact",
        ),
        (
            tag("damaged"),
            Strategy::Manifests,
            Reason::InvalidChart,
            "not an archive (tar+gzip)",
        ),
    ] {
        let (class, text) = failure(fields, strategy).await;
        assert_eq!((class.reason, class.class), (reason, Class::Absent), "{text}");
        assert!(text.contains(words), "{text}");
        for word in ["Git", "commit", "helm.repo", "helm package", "helm.version"] {
            assert!(!text.contains(word), "{text}");
        }
    }
}
