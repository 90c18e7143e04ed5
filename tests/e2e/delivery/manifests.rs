//! Manifests in Git repositories, from the commit to the objects of clusters.

use anyhow::ensure;
use helmops_bed::git_server::GitServer;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::joined::Fixture;
use crate::harness::{SOON, helmop, run};

/// Applies a HelmOp of the manifests in the folder `deploy`, with `over` merged over its spec.
async fn apply(fixture: &Fixture, server: &GitServer, over: &Value) {
    let mut spec = json!({
        "chartSource": { "git": { "url": server.url(), "path": "deploy" }, "manifests": {} },
        "pollingInterval": "1s",
        "targets": fixture.targets(),
    });
    json_patch::merge(&mut spec, over);
    let applied = fixture
        .workspace
        .namespace
        .kubectl()
        .apply(&helmop("web", &spec))
        .await;
    applied.unwrap().ok().unwrap();
}

/// Waits until a ConfigMap of a cluster has this text under `a`.
async fn until_text(fixture: &Fixture, cluster: usize, name: &str, text: &str) {
    let apps = &fixture.clusters[cluster].apps;
    eventually("the ConfigMap", SOON, async || {
        let found = apps.kubectl().get(&format!("configmap/{name}")).await?;
        let found = found.unwrap_or_default();
        ensure!(found["data"]["a"] == text, "it is {found}");
        Ok(())
    })
    .await
    .unwrap();
}

fn config(name: &str, text: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '{text}'}}\n")
}

/// The newest revision of the release of a cluster.
async fn revision(fixture: &Fixture, cluster: usize) -> Option<u32> {
    let listed = run(
        &fixture.clusters[cluster].apps,
        &["get", "secrets", "-l", "owner=helm", "-o", "name"],
    );
    let listed = listed.await;
    let numbers = listed.lines().filter_map(|name| name.rsplit_once(".v"));
    numbers.filter_map(|(_, number)| number.parse().ok()).max()
}

/// A namespace, a CRD and its object, and a text that looks like a template; a change is one release, and that of another folder is none.
#[tokio::test]
async fn manifests_are_deployed_as_they_are_and_once() {
    let fixture = Fixture::new("manifests", 1).await;
    let server = GitServer::start().await.unwrap();
    let word = fixture.workspace.namespace.name();
    let other = format!("{word}-other");
    let group = format!("{word}.example.com");
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {other}}}\n");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": {
            "group": group,
            "names": { "kind": "Gadget", "plural": "gadgets" },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let crd = crd.to_string();
    let template = config("web", "{{ .Values.none }}");
    let in_other =
        config("inner", "b").replace("{name: inner}", &format!("{{name: inner, namespace: {other}}}"));
    let base = [
        ("deploy/web.yaml", &*template),
        ("deploy/namespace.yml", &namespace),
        ("deploy/more/crd.json", &crd),
        ("deploy/more/inner.yaml", &in_other),
        ("deploy/.hidden.yaml", "not: [yaml"),
        ("README.md", "1"),
    ];
    server.commit("main", &base);
    apply(&fixture, &server, &json!({})).await;
    until_text(&fixture, 0, "web", "{{ .Values.none }}").await;
    let kubectl = fixture.workspace.namespace.kubectl();
    let inner = kubectl.in_namespace(&other).get("configmap/inner").await.unwrap();
    assert_eq!(inner.unwrap()["data"]["a"], "b");
    let deployment = fixture.workspace.deployment(0, "web").await;
    let spec = &deployment["spec"];
    let version = spec["options"]["helm"]["version"].as_str().unwrap();
    assert!(version.starts_with("0.0.0+") && version.len() == 18, "{version}");
    assert_eq!(
        spec["options"]["helm"],
        json!({ "version": version }),
        "the files are in no folder"
    );
    assert_eq!(revision(&fixture, 0).await, Some(1));

    // A commit outside of the folder.
    let mut later = base;
    later[5].1 = "2";
    server.commit("main", &later);
    let before = server.requests();
    eventually("two more polls", SOON, async || {
        let polls = server.requests();
        ensure!(polls >= before + 2, "{polls} requests, {before} before");
        Ok(())
    })
    .await
    .unwrap();
    let unchanged = fixture.workspace.deployment(0, "web").await;
    assert_eq!(
        unchanged["metadata"]["generation"],
        deployment["metadata"]["generation"]
    );

    // The object of the CRD, which exists by now.
    let gadget = format!("apiVersion: {group}/v1\nkind: Gadget\nmetadata: {{name: one}}\n");
    let mut files = later.to_vec();
    files.push(("deploy/one.yaml", &gadget));
    server.commit("main", &files);
    let apps = &fixture.clusters[0].apps;
    eventually("the Gadget", SOON, async || {
        let found = apps.kubectl().get(&format!("gadgets.{group}/one")).await?;
        ensure!(found.is_some());
        Ok(())
    })
    .await
    .unwrap();
    fixture.workspace.until_ready_is("helmop/web", "Ready").await;
    assert_eq!(
        revision(&fixture, 0).await,
        Some(2),
        "one release for each change"
    );
    let found = fixture.workspace.plugin(&["resolve", "web"]).await;
    assert!(found.contains("0.0.0+"), "{found}");
}

/// They are watched, so nothing is polled.
#[tokio::test]
async fn config_maps_are_deployed_whenever_they_change() {
    let fixture = Fixture::new("config-maps", 1).await;
    let kubectl = fixture.workspace.namespace.kubectl();
    let source = |name: &str, keys: &Value| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": keys })
            .to_string()
    };
    let put = async |name: &str, keys: Value| {
        kubectl.apply(&source(name, &keys)).await.unwrap().ok().unwrap();
    };
    put("one", json!({ "web.yaml": config("web", "first") })).await;
    let spec = json!({
        "chartSource": { "configMaps": [{ "name": "one" }, { "name": "two" }], "manifests": {} },
        "targets": fixture.targets(),
    });
    kubectl.apply(&helmop("web", &spec)).await.unwrap().ok().unwrap();
    let refused = async |reason: &str| {
        crate::harness::until_reason(&fixture.workspace.namespace, "web", "Accepted", reason).await
    };
    let message = refused("ChartNotFound").await;
    assert!(message.contains("ConfigMap two does not exist"), "{message}");
    put("two", json!({ "web.yaml": config("db", "b") })).await;
    let message = refused("InvalidChart").await;
    assert!(
        message.contains("in ConfigMap one and in ConfigMap two"),
        "{message}"
    );
    put("two", json!({ "db.yaml": config("db", "b") })).await;
    until_text(&fixture, 0, "web", "first").await;
    until_text(&fixture, 0, "db", "b").await;

    // Another version of the object with the same keys.
    let label = ["label", "configmap/one", "team=a"];
    kubectl.run(&label).await.unwrap().ok().unwrap();
    put("one", json!({ "web.yaml": config("web", "second") })).await;
    until_text(&fixture, 0, "web", "second").await;
    assert_eq!(revision(&fixture, 0).await, Some(2));
}

#[tokio::test]
async fn each_target_has_its_own_kustomization_or_overlays() {
    let fixture = Fixture::new("manifests", 2).await;
    let server = GitServer::start().await.unwrap();
    let overlay = |prefix: &str| format!("namePrefix: {prefix}-\nresources: [../../base]\n");
    let (dev, prod, web) = (overlay("dev"), overlay("prod"), config("web", "b"));
    server.commit(
        "main",
        &[
            ("deploy/base/kustomization.yaml", "resources: [web.yaml]\n"),
            ("deploy/base/web.yaml", &web),
            ("deploy/sites/dev/kustomization.yaml", &dev),
            ("deploy/sites/prod/kustomization.yaml", &prod),
        ],
    );
    let mut targets = fixture.targets();
    for (target, dir) in targets.iter_mut().zip(["sites/dev", "sites/prod"]) {
        target["kustomize"] = json!({ "dir": dir });
    }
    apply(&fixture, &server, &json!({ "targets": targets })).await;
    until_text(&fixture, 0, "dev-web", "b").await;
    until_text(&fixture, 1, "prod-web", "b").await;

    // Plain manifests with an overlay for one cluster.
    let (all, one) = (config("plain", "all"), config("plain", "one"));
    server.commit(
        "main",
        &[
            ("deploy/plain.yaml", &*all),
            ("deploy/overlays/one/plain.yaml", &one),
        ],
    );
    let mut targets = fixture.targets();
    targets[1]["yaml"] = json!({ "overlays": ["one"] });
    apply(&fixture, &server, &json!({ "targets": targets })).await;
    until_text(&fixture, 0, "plain", "all").await;
    until_text(&fixture, 1, "plain", "one").await;
}
