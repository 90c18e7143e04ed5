//! Charts in a real OCI registry.

use anyhow::ensure;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::oci_registry::{LOGIN, OciRegistry};
use serde_json::{Value, json};

use crate::harness::beside_fleet::{apply, secret, suite, until_accepted, until_refused};
use crate::harness::{helmop, run, until, until_version};

const VERSIONS: [&str; 7] = [
    "0.1.0",
    "0.2.0",
    "0.10.0",
    "1.0.0",
    "1.1.0+build.5",
    "1.2.0-rc.1",
    "2.0.0-rc.1",
];

async fn apply_web(namespace: &TestNamespace, name: &str, registry: &OciRegistry, version: &str) {
    let repo = format!("oci://{}/charts/web", registry.host);
    let spec = json!({ "helm": { "repo": repo, "version": version }, "helmSecretName": "access" });
    apply(namespace, name, &spec).await;
}

fn record(helmop: &Value) -> &Value {
    &helmop["status"]["resolved"][0]
}

/// Ranges, exact versions, build metadata, the latest release: the versions that Helm itself chooses from the same registry.
#[tokio::test]
async fn versions_resolve_as_in_helm() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "registry").await.unwrap();
    let registry = OciRegistry::open(&suite.bed).await.unwrap();
    for version in VERSIONS {
        registry.push("web", version).await.unwrap();
    }
    secret(&namespace, json!({ "basicHTTP": "true" })).await;
    let versions = [
        "",
        "*",
        "0.x",
        "~0.1",
        "^1.0",
        ">=0.2 <1",
        "0.1.0",
        "1.1.0+build.5",
        "1.1.x",
        ">=1.2.0-0 <2",
        "0.1 - 0.2",
    ];
    for (number, version) in versions.into_iter().enumerate() {
        apply_web(&namespace, &format!("web{number}"), &registry, version).await;
    }
    for (number, version) in versions.into_iter().enumerate() {
        let helms = registry.resolve_with_helm("web", version).await.unwrap();
        until_version(&namespace, &format!("web{number}"), &helms).await;
        let helmop = until_accepted(&namespace, &format!("web{number}")).await;
        let record = record(&helmop);
        assert!(
            record["digest"].as_str().unwrap().starts_with("sha256:"),
            "{record}"
        );
        let tag = helms.replace('+', "_");
        assert_eq!(record["url"], format!("oci://{}/charts/web:{tag}", registry.host));
    }

    apply_web(&namespace, "none", &registry, "^7").await;
    let message = until_refused(&namespace, "none", "NoMatchingVersion").await;
    assert!(
        message.contains("could not find tag matching constraint"),
        "{message}"
    );
    apply_web(&namespace, "pre", &registry, "~1.2").await;
    let message = until_refused(&namespace, "pre", "OnlyPrereleases").await;
    assert!(message.contains("1.2.0-rc.1"), "{message}");
}

/// The newest version is on the second page, by the link that this registry sends.
#[tokio::test]
async fn a_list_of_tags_with_several_pages_is_read() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "registry").await.unwrap();
    let registry = OciRegistry::open(&suite.bed).await.unwrap();
    registry.push("web", "1.0.0").await.unwrap();
    let tags = (0..1001).map(|number| format!("1.0.0-rc.{number}"));
    let link = registry
        .tag("web", "1.0.0", tags.chain(["9.0.0".to_owned()]))
        .await;
    let link = link.unwrap().unwrap();
    assert!(link.contains("rel=\"next\""), "{link}");
    secret(&namespace, json!({ "basicHTTP": "true" })).await;
    apply_web(&namespace, "newest", &registry, ">=1").await;
    until_version(&namespace, "newest", "9.0.0").await;
}

#[tokio::test]
async fn a_login_and_a_private_ca_are_used() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "registry").await.unwrap();
    let registry = OciRegistry::private(&suite.bed).await.unwrap();
    registry.push("web", "0.1.0").await.unwrap();
    let (username, password) = LOGIN;
    // The configuration of a desktop, whose logins are kept elsewhere.
    let config = json!({ "auths": { registry.host.clone(): {} }, "credsStore": "desktop" });
    secret(
        &namespace,
        json!({ ".dockerconfigjson": config.to_string(), "cacerts": registry.ca() }),
    )
    .await;
    apply_web(&namespace, "helper", &registry, "0.x").await;
    let message = until_refused(&namespace, "helper", "Unauthorized").await;
    assert!(
        message.contains(&format!("{:?}", registry.host))
            && message.contains("credential helper (\"desktop\")"),
        "{message}"
    );
    secret(
        &namespace,
        json!({ "username": username, "password": "wrong", "cacerts": registry.ca() }),
    )
    .await;
    apply_web(&namespace, "wrong", &registry, "0.x").await;
    let message = until_refused(&namespace, "wrong", "Unauthorized").await;
    assert!(message.contains("helmSecretName"), "{message}");

    secret(
        &namespace,
        json!({ "username": username, "password": password, "cacerts": registry.ca() }),
    )
    .await;
    apply_web(&namespace, "range", &registry, "0.x").await;
    until_version(&namespace, "range", "0.1.0").await;
    apply_web(&namespace, "exact", &registry, "0.1.0").await;
    until_version(&namespace, "exact", "0.1.0").await;
    let repo = format!("oci://{}/charts/nothing", registry.host);
    let spec = json!({ "helm": { "repo": repo }, "helmSecretName": "access" });
    namespace
        .kubectl()
        .apply(&helmop("nothing", &spec))
        .await
        .unwrap()
        .ok()
        .unwrap();
    let message = until_refused(&namespace, "nothing", "RepositoryNotFound").await;
    assert!(message.contains("not found in the registry"), "{message}");
}

#[tokio::test]
async fn a_docker_config_is_used() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "registry").await.unwrap();
    let registry = OciRegistry::private(&suite.bed).await.unwrap();
    registry.push("web", "0.1.0").await.unwrap();
    let (username, password) = LOGIN;
    let host = &registry.host;
    let config = json!({ "auths": { host: { "username": username, "password": password } } });
    secret(
        &namespace,
        json!({ ".dockerconfigjson": config.to_string(), "cacerts": registry.ca() }),
    )
    .await;
    apply_web(&namespace, "web", &registry, "0.x").await;
    until_version(&namespace, "web", "0.1.0").await;
}

/// A tag that moves is followed. A version that is published again is held and reported, until the HelmOp follows it.
#[tokio::test]
async fn another_digest_is_followed_or_held() {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "registry").await.unwrap();
    let registry = OciRegistry::open(&suite.bed).await.unwrap();
    let published = async |version: &str, tag: &str| {
        let tags = std::iter::once(tag.to_owned());
        registry.tag("web", version, tags).await.unwrap();
    };
    registry.push("web", "1.0.0").await.unwrap();
    registry.push("web", "2.0.0").await.unwrap();
    published("1.0.0", "latest").await;
    published("1.0.0", "1.5.0").await;
    secret(&namespace, json!({ "basicHTTP": "true" })).await;
    let apply = async |name: &str, reference: &str, version: &str, policy: &str| {
        let repo = format!("oci://{}/charts/web{reference}", registry.host);
        let helm = json!({ "repo": repo, "version": version });
        let spec = json!({ "helm": helm, "helmSecretName": "access", "onDigestChange": policy });
        apply(&namespace, name, &spec).await;
    };
    apply("latest", ":latest", "", "").await;
    apply("held", "", "1.5.0", "Hold").await;
    until_version(&namespace, "latest", "1.0.0").await;
    until_version(&namespace, "held", "1.5.0").await;
    let before = until_accepted(&namespace, "held").await;
    let digest = record(&before)["digest"].clone();
    let pinned = format!("@{}", digest.as_str().unwrap());
    apply("pinned", &pinned, "", "").await;
    until_version(&namespace, "pinned", "1.0.0").await;

    published("2.0.0", "latest").await;
    published("2.0.0", "1.5.0").await;
    for name in ["latest", "held"] {
        let poll = "helmops.fleet.cattle.io/poll-requested-at=1";
        run(&namespace, &["annotate", &format!("helmop/{name}"), poll]).await;
    }
    until_version(&namespace, "latest", "2.0.0").await;
    let is_held = |helmop: &Value| {
        let conditions = helmop["status"]["conditions"].as_array();
        let changed = conditions.and_then(|all| all.iter().find(|one| one["type"] == "DigestChanged"));
        let record = record(helmop);
        ensure!(changed.is_some_and(|one| one["status"] == "True"), "{changed:?}");
        ensure!(
            record["digest"] == digest && record["changedDigest"] != digest,
            "{record}"
        );
        Ok(())
    };
    until(&namespace, "helmop/held", is_held).await;

    apply("held", "", "1.5.0", "Follow").await;
    run(
        &namespace,
        &[
            "annotate",
            "--overwrite",
            "helmop/held",
            "helmops.fleet.cattle.io/poll-requested-at=2",
        ],
    )
    .await;
    let is_followed = |helmop: &Value| {
        let record = record(helmop);
        ensure!(
            record["digest"] != digest && record["version"] == "1.5.0",
            "{record}"
        );
        ensure!(
            record["onDigestChange"] == "Follow" && record["changedDigest"].is_null(),
            "{record}"
        );
        ensure!(
            !helmop["status"]["conditions"]
                .to_string()
                .contains("DigestChanged"),
            "{helmop}"
        );
        Ok(())
    };
    until(&namespace, "helmop/held", is_followed).await;
}
