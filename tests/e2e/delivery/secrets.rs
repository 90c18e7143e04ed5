//! Copies in the namespaces of clusters. N, D and H are the rows of Fleet's own tests.

use anyhow::{Context, Result, ensure};
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::standalone::{Fixture, decoded};
use crate::harness::{SOON, run};

impl Fixture {
    /// The name of the copy of a Bundle's access Secret, as in the BundleDeployment.
    async fn access_name(&self, cluster: usize, bundle: &str) -> String {
        let deployment = self.deployment(cluster, bundle).await;
        deployment["spec"]["helmChartOptions"]["helmOpSecretName"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn until_data(&self, cluster: usize, secret: &str, key: &str, text: &str) -> Value {
        self.until_on(cluster, &format!("secret/{secret}"), |found| {
            let value = decoded(found, key).context("no such key")?;
            ensure!(value == text, "it is {value}");
            Ok(())
        })
        .await
    }
}

fn access(secret: &str) -> Value {
    json!({ "helmOpOptions": { "helmOpSecretName": secret } })
}

/// N3, and what Fleet lacks: each Bundle has a copy of its own, which is updated with a new password.
#[tokio::test]
async fn the_access_secret_follows_its_source() {
    let fixture = Fixture::new("secrets", 2).await;
    fixture
        .secret("access", &json!({ "username": "u", "password": "first" }))
        .await;
    fixture.bundle("web", &access("access")).await;
    fixture.bundle("db", &access("access")).await;
    for cluster in 0..2 {
        let name = fixture.access_name(cluster, "web").await;
        let copy = fixture.until_data(cluster, &name, "password", "first").await;
        assert_eq!(copy["type"], "fleet.cattle.io/bundle-helmops-access/v1alpha1");
        assert_eq!(
            copy["metadata"]["labels"]["fleet.cattle.io/bundle-internal-secret"],
            "true"
        );
        // The copy is written before the deployment, and gets its owner after it.
        let deployment = fixture.deployment(cluster, "web").await;
        let expected = (&deployment["metadata"]["uid"], &json!(true));
        fixture
            .until_on(cluster, &format!("secret/{name}"), |copy| {
                let owner = &copy["metadata"]["ownerReferences"][0];
                ensure!((&owner["uid"], &owner["controller"]) == expected, "it is {owner}");
                Ok(())
            })
            .await;
        assert_ne!(name, fixture.access_name(cluster, "db").await);
    }
    fixture
        .secret("access", &json!({ "username": "u", "password": "second" }))
        .await;
    for cluster in 0..2 {
        for bundle in ["web", "db"] {
            let name = fixture.access_name(cluster, bundle).await;
            fixture.until_data(cluster, &name, "password", "second").await;
        }
    }
    // Deleting one copy does not affect the other.
    let (of_web, of_db) = (
        fixture.access_name(0, "web").await,
        fixture.access_name(0, "db").await,
    );
    fixture
        .kubectl(&["delete", "bundle", "web", "--timeout=30s"])
        .await;
    fixture.until_none_on(0, &format!("secret/{of_web}")).await;
    assert!(fixture.on(0, &format!("secret/{of_db}")).await.unwrap().is_some());
    // The other is deleted when nothing needs it any longer.
    fixture
        .bundle("db", &json!({ "helmOpOptions": { "helmOpSecretName": null } }))
        .await;
    fixture.until_none_on(0, &format!("secret/{of_db}")).await;
}

#[tokio::test]
async fn a_missing_secret_is_reported_and_copied_later() {
    let fixture = Fixture::new("secrets", 1).await;
    fixture.bundle("web", &access("later")).await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    let expected = format!("Secret {}/later does not exist", fixture.namespace.name());
    assert!(message.contains(&expected), "{message}");
    assert_eq!(
        fixture.clusters_of("web").await,
        [0_usize; 0],
        "nothing is deployed before its Secret exists"
    );
    fixture
        .secret("later", &json!({ "username": "u", "password": "p" }))
        .await;
    let name = fixture.access_name(0, "web").await;
    fixture.until_data(0, &name, "password", "p").await;
    // When it is deleted, clusters keep what they have.
    fixture.kubectl(&["delete", "secret", "later"]).await;
    let mut second = access("later");
    second["helm"] = json!({ "version": "2.0.0" });
    fixture.bundle("web", &second).await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(message.contains(&expected), "{message}");
    let deployment = fixture.deployment(0, "web").await;
    assert_eq!(deployment["spec"]["options"]["helm"]["version"], "1.2.3");
    fixture.until_data(0, &name, "password", "p").await;
}

/// D1 to D4.
#[tokio::test]
async fn downstream_resources_are_copied_to_the_clusters_that_name_them() {
    let fixture = Fixture::new("secrets", 2).await;
    for name in ["everywhere", "somewhere"] {
        fixture.secret(name, &json!({ "key": "first" })).await;
    }
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": "1" } });
    fixture.apply(&map).await;
    let of_all =
        json!([{ "kind": "Secret", "name": "everywhere" }, { "kind": "ConfigMap", "name": "settings" }]);
    let of_one = json!([
        { "clusterName": "c1", "downstreamResources": [{ "kind": "Secret", "name": "somewhere" }] },
        { "clusterGroup": "all" },
    ]);
    let mut spec = json!({ "downstreamResources": of_all, "targets": of_one });
    // D3: the same Secret for the chart and downstream.
    json_patch::merge(&mut spec, &access("everywhere"));
    fixture.bundle("web", &spec).await;
    for cluster in 0..2 {
        let copy = fixture.until_data(cluster, "everywhere", "key", "first").await;
        assert_eq!(copy["type"], "Opaque");
        fixture
            .until_on(cluster, "configmap/settings", |found| {
                ensure!(found["data"] == json!({ "a": "1" }), "it is {}", found["data"]);
                Ok(())
            })
            .await;
    }
    // A key that another client adds is removed.
    let more = [
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"b":"2"}}"#,
    ];
    let kubectl = fixture.suite.bed.kubectl().in_namespace(&fixture.clusters[0]);
    kubectl.run(&more).await.unwrap().ok().unwrap();
    fixture
        .until_on(0, "configmap/settings", |found| {
            ensure!(found["data"] == json!({ "a": "1" }), "it is {}", found["data"]);
            Ok(())
        })
        .await;
    fixture.until_data(1, "somewhere", "key", "first").await;
    assert!(fixture.on(0, "secret/somewhere").await.unwrap().is_none());
    fixture
        .until("bundle/web", |bundle| {
            ensure!(
                bundle["status"]["observedGeneration"] == 1,
                "{}",
                bundle["status"]
            );
            Ok(())
        })
        .await;
    let generation = async |cluster: usize| {
        let deployment = fixture.deployment(cluster, "web").await;
        deployment["spec"]["downstreamResourcesGeneration"]
            .as_i64()
            .unwrap_or_default()
    };
    assert_eq!([generation(0).await, generation(1).await], [1, 1]);
    fixture.secret("somewhere", &json!({ "key": "second" })).await;
    fixture.until_data(1, "somewhere", "key", "second").await;
    eventually("a new generation for the agent", SOON, async || {
        let found = [generation(0).await, generation(1).await];
        ensure!(found == [1, 2], "{found:?}");
        Ok(())
    })
    .await
    .unwrap();
    // Copies that no target names any longer are deleted.
    fixture
        .bundle(
            "web",
            &json!({ "downstreamResources": [] , "targets": [{ "clusterGroup": "all" }] }),
        )
        .await;
    for cluster in 0..2 {
        fixture.until_none_on(cluster, "configmap/settings").await;
        fixture.until_none_on(cluster, "secret/everywhere").await;
    }
}

#[tokio::test]
async fn bundles_share_a_downstream_resource() {
    let fixture = Fixture::new("secrets", 1).await;
    fixture.secret("shared", &json!({ "key": "text" })).await;
    let spec = json!({ "downstreamResources": [{ "kind": "secret", "name": "shared" }] });
    for bundle in ["one", "other"] {
        fixture.bundle(bundle, &spec).await;
    }
    let owners = |count: usize| {
        move |secret: &Value| -> Result<()> {
            let owners = secret["metadata"]["ownerReferences"]
                .as_array()
                .context("no owner")?;
            ensure!(owners.len() == count, "{owners:?}");
            Ok(())
        }
    };
    fixture.until_on(0, "secret/shared", owners(2)).await;
    fixture.bundle("one", &json!({ "downstreamResources": [] })).await;
    let left = fixture.until_on(0, "secret/shared", owners(1)).await;
    assert_eq!(left["metadata"]["ownerReferences"][0]["name"], "other");
    fixture
        .kubectl(&["delete", "bundle", "other", "--timeout=30s"])
        .await;
    fixture.until_none_on(0, "secret/shared").await;
}

/// H1, H2: changes of a Secret with values are reverted.
#[tokio::test]
async fn modified_and_deleted_copies_are_restored() {
    let fixture = Fixture::new("secrets", 1).await;
    fixture
        .secret("access", &json!({ "username": "u", "password": "p" }))
        .await;
    let mut spec = access("access");
    spec["helm"] = json!({ "values": { "a": 1 } });
    fixture.bundle("web", &spec).await;
    let name = fixture.access_name(0, "web").await;
    fixture.until_data(0, &name, "password", "p").await;
    fixture.until_data(0, "web", "values", r#"{"a":1}"#).await;
    let kubectl = fixture.suite.bed.kubectl().in_namespace(&fixture.clusters[0]);
    let patch = async |secret: &str, data: Value| {
        let patch = json!({ "stringData": data }).to_string();
        let patched = kubectl
            .run(&["patch", "secret", secret, "--type=merge", "-p", &patch])
            .await;
        patched.unwrap().ok().unwrap();
    };
    patch("web", json!({ "values": "{}" })).await;
    fixture.until_data(0, "web", "values", r#"{"a":1}"#).await;
    patch(&name, json!({ "password": "x", "more": "y" })).await;
    fixture
        .until_on(0, &format!("secret/{name}"), |found| {
            let values = (decoded(found, "password"), decoded(found, "more"));
            ensure!(values == (Some("p".to_owned()), None), "{values:?}");
            Ok(())
        })
        .await;
    for secret in ["web", &name] {
        let deleted = kubectl.run(&["delete", "secret", secret]).await;
        deleted.unwrap().ok().unwrap();
    }
    fixture.until_data(0, "web", "values", r#"{"a":1}"#).await;
    fixture.until_data(0, &name, "password", "p").await;
    let before = fixture.deployment(0, "web").await;
    spec["helm"] = json!({ "values": { "a": 2 } });
    fixture.bundle("web", &spec).await;
    let values = fixture.until_data(0, "web", "values", r#"{"a":2}"#).await;
    let after = fixture.deployment(0, "web").await;
    let owner = &values["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&after["metadata"]["uid"], &json!(true))
    );
    assert_ne!(before["spec"]["valuesHash"], after["spec"]["valuesHash"]);
}

/// The type of a Secret is immutable.
#[tokio::test]
async fn a_copy_is_recreated_when_the_type_of_its_source_changes() {
    let fixture = Fixture::new("secrets", 1).await;
    fixture.secret("web-tls", &json!({ "key": "first" })).await;
    let spec = json!({ "downstreamResources": [{ "kind": "Secret", "name": "web-tls" }] });
    fixture.bundle("web", &spec).await;
    fixture.until_data(0, "web-tls", "key", "first").await;
    fixture.kubectl(&["delete", "secret", "web-tls"]).await;
    fixture
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "web-tls" },
            "type": "example.com/keys", "stringData": { "key": "second" },
        }))
        .await;
    let copy = fixture.until_data(0, "web-tls", "key", "second").await;
    assert_eq!(copy["type"], "example.com/keys");
}

/// The values Secret of the Bundle has the same name, so one would overwrite the other.
#[tokio::test]
async fn a_downstream_secret_with_the_name_of_the_bundle_is_reported() {
    let fixture = Fixture::new("secrets", 1).await;
    fixture.secret("web", &json!({ "key": "text" })).await;
    let spec = json!({ "downstreamResources": [{ "kind": "Secret", "name": "web" }], "helm": { "values": { "a": 1 } } });
    fixture.bundle("web", &spec).await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(
        message.contains("Secret web has the name of the Bundle"),
        "{message}"
    );
}

/// Until the rollout reaches a cluster, it keeps the resources of its current deployment.
#[tokio::test]
async fn a_waiting_cluster_keeps_its_downstream_resources() {
    let fixture = Fixture::new("secrets", 1).await;
    for name in ["old", "new"] {
        fixture.secret(name, &json!({ "key": "first" })).await;
    }
    let named = |name: &str| json!({ "downstreamResources": [{ "kind": "Secret", "name": name }] });
    fixture.bundle("web", &named("old")).await;
    fixture.until_data(0, "old", "key", "first").await;
    let mut paused = named("new");
    paused["paused"] = json!(true);
    fixture.bundle("web", &paused).await;
    fixture.until_data(0, "new", "key", "first").await;
    assert!(fixture.on(0, "secret/old").await.unwrap().is_some());
    fixture.bundle("web", &named("new")).await;
    fixture.until_none_on(0, "secret/old").await;
}

#[tokio::test]
async fn a_secret_that_helmops_does_not_manage_is_not_overwritten() {
    let fixture = Fixture::new("secrets", 1).await;
    let kubectl = fixture.suite.bed.kubectl().in_namespace(&fixture.clusters[0]);
    let create = [
        "create",
        "secret",
        "generic",
        "theirs",
        "--from-literal=key=theirs",
    ];
    kubectl.run(&create).await.unwrap().ok().unwrap();
    fixture.secret("theirs", &json!({ "key": "ours" })).await;
    fixture
        .bundle(
            "web",
            &json!({ "downstreamResources": [{ "kind": "Secret", "name": "theirs" }] }),
        )
        .await;
    let message = fixture.until_ready_is("bundle/web", "NotReady").await;
    assert!(
        message.contains("Secret theirs that helmops does not manage"),
        "{message}"
    );
    fixture.until_data(0, "theirs", "key", "theirs").await;
    run(&kubectl, &["delete", "secret", "theirs"]).await;
    fixture.until_data(0, "theirs", "key", "ours").await;
}

/// Such a Secret is a login to a cluster: in `kube-system` it would be a login to this one.
#[tokio::test]
async fn bootstrap_tokens_are_never_copied() {
    let fixture = Fixture::new("secrets", 1).await;
    fixture
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "bootstrap-token-abcdef" },
            "type": "bootstrap.kubernetes.io/token", "stringData": { "token-id": "abcdef" },
        }))
        .await;
    let named = json!([{ "kind": "Secret", "name": "bootstrap-token-abcdef" }]);
    fixture
        .bundle("web", &json!({ "downstreamResources": named }))
        .await;
    fixture.bundle("db", &access("bootstrap-token-abcdef")).await;
    for bundle in ["web", "db"] {
        let message = fixture
            .until_ready_is(&format!("bundle/{bundle}"), "NotReady")
            .await;
        assert!(message.contains("bootstrap.kubernetes.io/token"), "{message}");
        assert!(fixture.clusters_of(bundle).await.is_empty());
    }
    assert_eq!(
        fixture.on(0, "secret/bootstrap-token-abcdef").await.unwrap(),
        None
    );
}

/// Deployments as Fleet's own controller leaves them have no record of what was copied, and copies without a label. They are
/// deployed again only where a source has changed meanwhile.
#[tokio::test]
async fn a_takeover_from_fleet_redeploys_only_changed_sources() {
    let fixture = Fixture::new("secrets", 1).await;
    for name in ["same", "changed"] {
        let source = format!("{name}-source");
        fixture.secret(&source, &json!({ "key": "text" })).await;
        let named = json!({ "downstreamResources": [{ "kind": "Secret", "name": source }] });
        fixture.bundle(name, &json!({})).await;
        let deployment = fixture.deployment(0, name).await;
        let text = if name == "same" { "text" } else { "before" };
        fixture.copy_as_fleet(&deployment, &source, text).await;
        fixture.bundle(name, &named).await;
    }
    let until_taken_over = async |name: &str| {
        let object = format!("bundledeployment/{name}");
        fixture
            .until_on(0, &object, |found| {
                let record = &found["metadata"]["annotations"]["helmops.fleet.cattle.io/copied-from"];
                ensure!(record.is_string(), "no record");
                Ok(())
            })
            .await
    };
    let same = until_taken_over("same").await;
    assert_eq!(same["spec"]["downstreamResourcesGeneration"], json!(null));
    let copy = fixture.until_data(0, "same-source", "key", "text").await;
    assert_eq!(
        copy["metadata"]["labels"],
        json!(null),
        "its agent would deploy again"
    );
    assert_eq!(copy["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    let changed = until_taken_over("changed").await;
    assert_eq!(changed["spec"]["downstreamResourcesGeneration"], 1);
    fixture.until_data(0, "changed-source", "key", "text").await;
    // From now on the copy follows its source.
    fixture.secret("same-source", &json!({ "key": "second" })).await;
    fixture.until_data(0, "same-source", "key", "second").await;
    fixture
        .until_on(0, "bundledeployment/same", |found| {
            let number = &found["spec"]["downstreamResourcesGeneration"];
            ensure!(*number == 1, "it is {number}");
            Ok(())
        })
        .await;
}

/// The shared copy is written for one of the deployments, and all of them are deployed again.
#[tokio::test]
async fn a_change_before_the_takeover_redeploys_each_deployment_that_shares_the_copy() {
    let fixture = Fixture::new("secrets", 1).await;
    fixture.secret("shared", &json!({ "key": "changed" })).await;
    let bundles = ["one", "two", "three"];
    for name in bundles {
        fixture.bundle(name, &json!({})).await;
    }
    let deployment = fixture.deployment(0, bundles[0]).await;
    fixture.copy_as_fleet(&deployment, "shared", "before").await;
    let named = json!({ "downstreamResources": [{ "kind": "Secret", "name": "shared" }] });
    for name in bundles {
        fixture.bundle(name, &named).await;
    }
    for name in bundles {
        let object = format!("bundledeployment/{name}");
        let is_redeployed = |found: &Value| {
            let number = &found["spec"]["downstreamResourcesGeneration"];
            ensure!(*number == 1, "{name}: it is {number}");
            Ok(())
        };
        fixture.until_on(0, &object, is_redeployed).await;
    }
}

impl Fixture {
    /// Puts a copy on the cluster as Fleet's own controller does.
    async fn copy_as_fleet(&self, deployment: &Value, source: &str, text: &str) {
        let owner = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment", "controller": true, "blockOwnerDeletion": true,
            "name": deployment["metadata"]["name"], "uid": deployment["metadata"]["uid"],
        });
        let copy = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": { "key": text },
            "metadata": { "name": source, "ownerReferences": [owner] },
        });
        let kubectl = self.suite.bed.kubectl().in_namespace(&self.clusters[0]);
        let created = kubectl
            .run_with_input(&["create", "-f", "-"], &copy.to_string())
            .await;
        created.unwrap().ok().unwrap();
    }
}

/// Each namespace keeps its own copies.
#[tokio::test]
async fn namespaces_that_share_a_cluster_do_not_overwrite_each_other() {
    let (home, other) = (Fixture::new("secrets", 1).await, Fixture::new("secrets", 0).await);
    let label = home.namespace.name();
    other
        .apply(&json!({
            "kind": "BundleNamespaceMapping", "metadata": { "name": "to-home" }, "bundleSelector": {},
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": label } },
        }))
        .await;
    home.secret("shared", &json!({ "key": "home" })).await;
    other.secret("shared", &json!({ "key": "other" })).await;
    let mut spec = json!({ "downstreamResources": [{ "kind": "Secret", "name": "shared" }] });
    home.bundle("web", &spec).await;
    home.until_data(0, "shared", "key", "home").await;
    spec["targets"] = json!([{ "clusterSelector": {} }]);
    other.bundle("db", &spec).await;
    let message = other.until_ready_is("bundle/db", "NotReady").await;
    assert!(
        message.contains("Secret shared") && message.contains(label),
        "{message}"
    );
    home.until_data(0, "shared", "key", "home").await;
}
