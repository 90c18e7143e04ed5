//! What is copied into the namespaces of clusters. N, D and H are the rows of Fleet's own tests.

use anyhow::{Context, Result, ensure};
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

use crate::bed::{SOON, Setting, decoded};

impl Setting {
    /// The name that the copy of a Bundle's access Secret has, as its deployment tells the agent.
    async fn access_name(&self, cluster: usize, bundle: &str) -> String {
        let deployment = self.deployment(cluster, bundle).await;
        deployment["spec"]["helmChartOptions"]["helmOpSecretName"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn until_data(&self, cluster: usize, secret: &str, key: &str, text: &str) -> Value {
        self.until_on(cluster, &format!("secret/{secret}"), |found| {
            let told = decoded(found, key).context("no such key")?;
            ensure!(told == text, "it is {told}");
            Ok(())
        })
        .await
    }
}

fn access(secret: &str) -> Value {
    json!({ "helmOpOptions": { "helmOpSecretName": secret } })
}

/// N3, and what Fleet lacks: a copy for each Bundle, which a new password reaches.
#[tokio::test]
async fn the_access_secret_follows_its_source() {
    let setting = Setting::new("secrets", 2).await;
    setting
        .secret("access", &json!({ "username": "u", "password": "first" }))
        .await;
    setting.bundle("web", &access("access")).await;
    setting.bundle("db", &access("access")).await;
    for cluster in 0..2 {
        let name = setting.access_name(cluster, "web").await;
        let copy = setting.until_data(cluster, &name, "password", "first").await;
        assert_eq!(copy["type"], "fleet.cattle.io/bundle-helmops-access/v1alpha1");
        assert_eq!(
            copy["metadata"]["labels"]["fleet.cattle.io/bundle-internal-secret"],
            "true"
        );
        let owner = &copy["metadata"]["ownerReferences"][0];
        let deployment = setting.deployment(cluster, "web").await;
        assert_eq!(
            (&owner["uid"], &owner["controller"]),
            (&deployment["metadata"]["uid"], &json!(true))
        );
        assert_ne!(name, setting.access_name(cluster, "db").await);
    }
    setting
        .secret("access", &json!({ "username": "u", "password": "second" }))
        .await;
    for cluster in 0..2 {
        for bundle in ["web", "db"] {
            let name = setting.access_name(cluster, bundle).await;
            setting.until_data(cluster, &name, "password", "second").await;
        }
    }
    // One that goes takes nothing from the other.
    let (of_web, of_db) = (
        setting.access_name(0, "web").await,
        setting.access_name(0, "db").await,
    );
    setting
        .kubectl(&["delete", "bundle", "web", "--timeout=30s"])
        .await;
    setting.until_none_on(0, &format!("secret/{of_web}")).await;
    assert!(setting.on(0, &format!("secret/{of_db}")).await.unwrap().is_some());
    // Nor is it left behind when nothing needs it.
    setting
        .bundle("db", &json!({ "helmOpOptions": { "helmOpSecretName": null } }))
        .await;
    setting.until_none_on(0, &format!("secret/{of_db}")).await;
}

#[tokio::test]
async fn a_missing_secret_is_told_of_and_comes_later() {
    let setting = Setting::new("secrets", 1).await;
    setting.bundle("web", &access("later")).await;
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    let expected = format!("Secret {}/later does not exist", setting.namespace.name());
    assert!(told.contains(&expected), "{told}");
    assert_eq!(
        setting.places("web").await,
        [0_usize; 0],
        "nothing before its Secret"
    );
    setting
        .secret("later", &json!({ "username": "u", "password": "p" }))
        .await;
    let name = setting.access_name(0, "web").await;
    setting.until_data(0, &name, "password", "p").await;
    // When it goes, clusters keep what they have.
    setting.kubectl(&["delete", "secret", "later"]).await;
    let mut second = access("later");
    second["helm"] = json!({ "version": "2.0.0" });
    setting.bundle("web", &second).await;
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    assert!(told.contains(&expected), "{told}");
    let deployment = setting.deployment(0, "web").await;
    assert_eq!(deployment["spec"]["options"]["helm"]["version"], "1.2.3");
    setting.until_data(0, &name, "password", "p").await;
}

/// D1 to D4.
#[tokio::test]
async fn downstream_resources_go_where_they_are_named() {
    let setting = Setting::new("secrets", 2).await;
    for name in ["everywhere", "somewhere"] {
        setting.secret(name, &json!({ "key": "first" })).await;
    }
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": "1" } });
    setting.apply(&map).await;
    let of_all =
        json!([{ "kind": "Secret", "name": "everywhere" }, { "kind": "ConfigMap", "name": "settings" }]);
    let of_one = json!([
        { "clusterName": "c1", "downstreamResources": [{ "kind": "Secret", "name": "somewhere" }] },
        { "clusterGroup": "all" },
    ]);
    let mut spec = json!({ "downstreamResources": of_all, "targets": of_one });
    // D3: the same Secret for the chart and downstream.
    json_patch::merge(&mut spec, &access("everywhere"));
    setting.bundle("web", &spec).await;
    for cluster in 0..2 {
        let copy = setting.until_data(cluster, "everywhere", "key", "first").await;
        assert_eq!(copy["type"], "Opaque");
        setting
            .until_on(cluster, "configmap/settings", |found| {
                ensure!(found["data"] == json!({ "a": "1" }), "it is {}", found["data"]);
                Ok(())
            })
            .await;
    }
    // What somebody puts beside it goes.
    let more = [
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"b":"2"}}"#,
    ];
    let kubectl = setting.suite.bed.kubectl().in_namespace(&setting.clusters[0]);
    kubectl.run(&more).await.unwrap().ok().unwrap();
    setting
        .until_on(0, "configmap/settings", |found| {
            ensure!(found["data"] == json!({ "a": "1" }), "it is {}", found["data"]);
            Ok(())
        })
        .await;
    setting.until_data(1, "somewhere", "key", "first").await;
    assert!(setting.on(0, "secret/somewhere").await.unwrap().is_none());
    setting
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
        let deployment = setting.deployment(cluster, "web").await;
        deployment["spec"]["downstreamResourcesGeneration"]
            .as_i64()
            .unwrap_or_default()
    };
    assert_eq!([generation(0).await, generation(1).await], [1, 1]);
    setting.secret("somewhere", &json!({ "key": "second" })).await;
    setting.until_data(1, "somewhere", "key", "second").await;
    eventually("the agent to be told", SOON, async || {
        let found = [generation(0).await, generation(1).await];
        ensure!(found == [1, 2], "{found:?}");
        Ok(())
    })
    .await
    .unwrap();
    // What is named no more goes.
    setting
        .bundle(
            "web",
            &json!({ "downstreamResources": [] , "targets": [{ "clusterGroup": "all" }] }),
        )
        .await;
    for cluster in 0..2 {
        setting.until_none_on(cluster, "configmap/settings").await;
        setting.until_none_on(cluster, "secret/everywhere").await;
    }
}

#[tokio::test]
async fn bundles_share_a_downstream_resource() {
    let setting = Setting::new("secrets", 1).await;
    setting.secret("shared", &json!({ "key": "text" })).await;
    let spec = json!({ "downstreamResources": [{ "kind": "secret", "name": "shared" }] });
    for bundle in ["one", "other"] {
        setting.bundle(bundle, &spec).await;
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
    setting.until_on(0, "secret/shared", owners(2)).await;
    setting.bundle("one", &json!({ "downstreamResources": [] })).await;
    let left = setting.until_on(0, "secret/shared", owners(1)).await;
    assert_eq!(left["metadata"]["ownerReferences"][0]["name"], "other");
    setting
        .kubectl(&["delete", "bundle", "other", "--timeout=30s"])
        .await;
    setting.until_none_on(0, "secret/shared").await;
}

/// H1, H2: what somebody does to a Secret with values is undone.
#[tokio::test]
async fn copies_that_were_changed_are_mended() {
    let setting = Setting::new("secrets", 1).await;
    setting
        .secret("access", &json!({ "username": "u", "password": "p" }))
        .await;
    let mut spec = access("access");
    spec["helm"] = json!({ "values": { "a": 1 } });
    setting.bundle("web", &spec).await;
    let name = setting.access_name(0, "web").await;
    setting.until_data(0, &name, "password", "p").await;
    setting.until_data(0, "web", "values", r#"{"a":1}"#).await;
    let kubectl = setting.suite.bed.kubectl().in_namespace(&setting.clusters[0]);
    let patch = async |secret: &str, data: Value| {
        let patch = json!({ "stringData": data }).to_string();
        let patched = kubectl
            .run(&["patch", "secret", secret, "--type=merge", "-p", &patch])
            .await;
        patched.unwrap().ok().unwrap();
    };
    patch("web", json!({ "values": "{}" })).await;
    setting.until_data(0, "web", "values", r#"{"a":1}"#).await;
    patch(&name, json!({ "password": "x", "more": "y" })).await;
    setting
        .until_on(0, &format!("secret/{name}"), |found| {
            let told = (decoded(found, "password"), decoded(found, "more"));
            ensure!(told == (Some("p".to_owned()), None), "{told:?}");
            Ok(())
        })
        .await;
    for secret in ["web", &name] {
        let deleted = kubectl.run(&["delete", "secret", secret]).await;
        deleted.unwrap().ok().unwrap();
    }
    setting.until_data(0, "web", "values", r#"{"a":1}"#).await;
    setting.until_data(0, &name, "password", "p").await;
    let before = setting.deployment(0, "web").await;
    spec["helm"] = json!({ "values": { "a": 2 } });
    setting.bundle("web", &spec).await;
    setting.until_data(0, "web", "values", r#"{"a":2}"#).await;
    let after = setting.deployment(0, "web").await;
    assert_ne!(before["spec"]["valuesHash"], after["spec"]["valuesHash"]);
}

/// The type of a Secret cannot be changed.
#[tokio::test]
async fn a_secret_that_is_of_another_type_now_is_made_anew() {
    let setting = Setting::new("secrets", 1).await;
    setting.secret("web-tls", &json!({ "key": "first" })).await;
    let spec = json!({ "downstreamResources": [{ "kind": "Secret", "name": "web-tls" }] });
    setting.bundle("web", &spec).await;
    setting.until_data(0, "web-tls", "key", "first").await;
    setting.kubectl(&["delete", "secret", "web-tls"]).await;
    setting
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "web-tls" },
            "type": "example.com/keys", "stringData": { "key": "second" },
        }))
        .await;
    let copy = setting.until_data(0, "web-tls", "key", "second").await;
    assert_eq!(copy["type"], "example.com/keys");
}

/// Two that would overwrite one another are told of.
#[tokio::test]
async fn a_name_that_is_taken_is_told_of() {
    let setting = Setting::new("secrets", 1).await;
    setting.secret("web", &json!({ "key": "text" })).await;
    let spec = json!({ "downstreamResources": [{ "kind": "Secret", "name": "web" }], "helm": { "values": { "a": 1 } } });
    setting.bundle("web", &spec).await;
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    assert!(told.contains("Secret web has the name of the Bundle"), "{told}");
}

/// Until its turn comes, a cluster keeps what it deploys with now.
#[tokio::test]
async fn who_waits_keeps_its_downstream_resources() {
    let setting = Setting::new("secrets", 1).await;
    for name in ["old", "new"] {
        setting.secret(name, &json!({ "key": "first" })).await;
    }
    let named = |name: &str| json!({ "downstreamResources": [{ "kind": "Secret", "name": name }] });
    setting.bundle("web", &named("old")).await;
    setting.until_data(0, "old", "key", "first").await;
    let mut held = named("new");
    held["paused"] = json!(true);
    setting.bundle("web", &held).await;
    setting.until_data(0, "new", "key", "first").await;
    assert!(setting.on(0, "secret/old").await.unwrap().is_some());
    setting.bundle("web", &named("new")).await;
    setting.until_none_on(0, "secret/old").await;
}

/// What somebody else has in the namespace of a cluster is not overwritten.
#[tokio::test]
async fn a_foreign_secret_is_left_alone() {
    let setting = Setting::new("secrets", 1).await;
    let kubectl = setting.suite.bed.kubectl().in_namespace(&setting.clusters[0]);
    let create = [
        "create",
        "secret",
        "generic",
        "theirs",
        "--from-literal=key=theirs",
    ];
    kubectl.run(&create).await.unwrap().ok().unwrap();
    setting.secret("theirs", &json!({ "key": "ours" })).await;
    setting
        .bundle(
            "web",
            &json!({ "downstreamResources": [{ "kind": "Secret", "name": "theirs" }] }),
        )
        .await;
    let told = setting.until_ready_is("bundle/web", "NotReady").await;
    assert!(told.contains("Secret theirs of somebody else's"), "{told}");
    setting.until_data(0, "theirs", "key", "theirs").await;
    kubectl
        .run(&["delete", "secret", "theirs"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    setting.until_data(0, "theirs", "key", "ours").await;
}

/// A Secret that is a login to a cluster is never copied: in `kube-system` it would be a login to this one.
#[tokio::test]
async fn a_login_to_a_cluster_is_never_copied() {
    let setting = Setting::new("secrets", 1).await;
    setting
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "bootstrap-token-abcdef" },
            "type": "bootstrap.kubernetes.io/token", "stringData": { "token-id": "abcdef" },
        }))
        .await;
    let named = json!([{ "kind": "Secret", "name": "bootstrap-token-abcdef" }]);
    setting
        .bundle("web", &json!({ "downstreamResources": named }))
        .await;
    setting.bundle("db", &access("bootstrap-token-abcdef")).await;
    for bundle in ["web", "db"] {
        let told = setting
            .until_ready_is(&format!("bundle/{bundle}"), "NotReady")
            .await;
        assert!(told.contains("bootstrap.kubernetes.io/token"), "{told}");
        assert!(setting.places(bundle).await.is_empty());
    }
    assert_eq!(
        setting.on(0, "secret/bootstrap-token-abcdef").await.unwrap(),
        None
    );
}

/// Deployments as Fleet's own controller leaves them: no record of what was copied, and copies without a label. None is deployed
/// again, unless a source has changed meanwhile.
#[tokio::test]
async fn taking_over_from_fleet_releases_nothing_again() {
    let setting = Setting::new("secrets", 1).await;
    for name in ["same", "changed"] {
        let source = format!("{name}-source");
        setting.secret(&source, &json!({ "key": "text" })).await;
        let named = json!({ "downstreamResources": [{ "kind": "Secret", "name": source }] });
        setting.bundle(name, &json!({})).await;
        let deployment = setting.deployment(0, name).await;
        let text = if name == "same" { "text" } else { "before" };
        setting.made_by_fleet(&deployment, &source, text).await;
        setting.bundle(name, &named).await;
    }
    let taken = async |name: &str| {
        let object = format!("bundledeployment/{name}");
        setting
            .until_on(0, &object, |found| {
                let record = &found["metadata"]["annotations"]["helmops.fleet.cattle.io/copied-from"];
                ensure!(record.is_string(), "no record");
                Ok(())
            })
            .await
    };
    let same = taken("same").await;
    assert_eq!(same["spec"]["downstreamResourcesGeneration"], json!(null));
    let copy = setting.until_data(0, "same-source", "key", "text").await;
    assert_eq!(
        copy["metadata"]["labels"],
        json!(null),
        "its agent would deploy again"
    );
    assert_eq!(copy["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    let changed = taken("changed").await;
    assert_eq!(changed["spec"]["downstreamResourcesGeneration"], 1);
    setting.until_data(0, "changed-source", "key", "text").await;
    // From now on its source is followed.
    setting.secret("same-source", &json!({ "key": "second" })).await;
    setting.until_data(0, "same-source", "key", "second").await;
    setting
        .until_on(0, "bundledeployment/same", |found| {
            let number = &found["spec"]["downstreamResourcesGeneration"];
            ensure!(*number == 1, "it is {number}");
            Ok(())
        })
        .await;
}

/// Deployments that share a copy: it is written for one of them, and all of them are deployed again.
#[tokio::test]
async fn a_change_before_the_takeover_is_released_to_each_deployment_that_shares_a_copy() {
    let setting = Setting::new("secrets", 1).await;
    setting.secret("shared", &json!({ "key": "changed" })).await;
    let bundles = ["one", "two", "three"];
    for name in bundles {
        setting.bundle(name, &json!({})).await;
    }
    let deployment = setting.deployment(0, bundles[0]).await;
    setting.made_by_fleet(&deployment, "shared", "before").await;
    let named = json!({ "downstreamResources": [{ "kind": "Secret", "name": "shared" }] });
    for name in bundles {
        setting.bundle(name, &named).await;
    }
    for name in bundles {
        let object = format!("bundledeployment/{name}");
        let released = |found: &Value| {
            let number = &found["spec"]["downstreamResourcesGeneration"];
            ensure!(*number == 1, "{name}: it is {number}");
            Ok(())
        };
        setting.until_on(0, &object, released).await;
    }
}

impl Setting {
    /// Puts a copy on the cluster as Fleet's own controller does.
    async fn made_by_fleet(&self, deployment: &Value, source: &str, text: &str) {
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

/// Two namespaces that share a cluster keep each its own copies.
#[tokio::test]
async fn namespaces_that_share_a_cluster_do_not_overwrite_each_other() {
    let (home, other) = (Setting::new("secrets", 1).await, Setting::new("secrets", 0).await);
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
    let told = other.until_ready_is("bundle/db", "NotReady").await;
    assert!(told.contains("Secret shared") && told.contains(label), "{told}");
    home.until_data(0, "shared", "key", "home").await;
}
