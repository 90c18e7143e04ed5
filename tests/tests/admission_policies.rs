//! The optional rules that the API server keeps by itself.

#![expect(clippy::unwrap_used, reason = "a test fails where something is not as told")]

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use helmops_tests::helmops::{self, NAMESPACE, manifests};
use helmops_tests::kubectl::Kubectl;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

/// The API server takes up new rules within seconds.
const SOON: Duration = Duration::from_secs(30);
/// Where charts may come from: what the manifests have, and parts of a host.
const ALLOWED: [&str; 4] = [
    "https://charts.example.com",
    "oci://registry.example.com/charts",
    "https://h.example.com/team-a",
    "https://h.example.com/projects/team%2Fcharts",
];

fn helmop(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "fleet.cattle.io/v1alpha1",
        "kind": "HelmOp",
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
    .to_string()
}

fn chart(repo: &str) -> Value {
    json!({ "helm": { "repo": repo, "chart": "web", "version": "1.2.3" } })
}

/// What the API server says to a HelmOp that it refuses; nothing to one that it takes.
async fn said(kubectl: &Kubectl, name: &str, spec: &Value) -> String {
    kubectl.apply(&helmop(name, spec)).await.unwrap().stderr
}

/// What it would say. A HelmOp that it takes must not stay: the rules let alone what was there
/// before them.
async fn would_say(kubectl: &Kubectl, spec: &Value) -> String {
    let create = ["create", "--dry-run=server", "--filename=-"];
    let probe = helmop("probe", spec);
    let told = kubectl.run_with_input(&create, &probe).await;
    told.unwrap().stderr
}

#[tokio::test]
async fn they_deny_what_they_are_about() {
    let bed = helmops::control_plane(Path::new(env!("CARGO_BIN_EXE_testbed")), false)
        .await
        .unwrap();
    let kubectl = bed.kubectl();
    let insecure = json!({
        "helm": { "repo": "https://charts.example.com", "chart": "web" }, "insecureSkipTLSVerify": true,
    });
    assert_eq!(said(&kubectl, "early", &insecure).await, "");
    let folder = manifests().join("admission-policies");
    let apply = ["apply", "--server-side", "-k", folder.to_str().unwrap()];
    kubectl.run(&apply).await.unwrap().ok().unwrap();
    allow(&kubectl, &ALLOWED).await;
    eventually("the rules", SOON, async || {
        let told = would_say(&kubectl, &insecure).await;
        ensure!(
            told.contains("spec.insecureSkipTLSVerify: \"true\" is not allowed"),
            "it said {told}"
        );
        let told = would_say(&kubectl, &chart("https://elsewhere.example.com")).await;
        ensure!(
            told.contains("https://elsewhere.example.com is not allowed"),
            "it said {told}"
        );
        ensure!(
            told.contains(&format!("allowed are {} ", ALLOWED.join(", "))),
            "it said {told}"
        );
        let copies = json!({ "downstreamResources": [{ "kind": "Secret", "name": "prod-kubeconfig" }] });
        let said = would_say_to(&kubectl, "Bundle", &copies).await;
        ensure!(said.contains("may not be copied"), "it said {said}");
        Ok(())
    })
    .await
    .unwrap();
    for repo in ["https://charts.example.com", "https://charts.example.com/stable"] {
        assert_eq!(said(&kubectl, "web", &chart(repo)).await, "", "{repo}");
    }
    for foreign in [
        chart("https://charts.example.com.evil.example.org"),
        chart("https://h.example.com/team-ab"),
        json!({ "helm": { "chart": "https://elsewhere.example.com/web-1.0.0.tgz" } }),
        json!({ "helm": { "repo": "oci://registry.example.com/charts/web" },
                "targets": [{ "helm": { "repo": "https://elsewhere.example.com" } }] }),
    ] {
        let told = said(&kubectl, "foreign", &foreign).await;
        assert!(told.contains("is not allowed"), "{foreign}: {told}");
    }
    leads_nowhere_else(&kubectl).await;
    copies_what_is_listed(&kubectl).await;
    let early = ["label", "helmop/early", "team=a"];
    kubectl.run(&early).await.unwrap().ok().unwrap();
    protects(&kubectl).await;
}

/// Charts may come from these alone from now on.
async fn allow(kubectl: &Kubectl, repositories: &[&str]) {
    let change = json!({ "data": { "repositories": repositories.join("\n") } }).to_string();
    let patch = [
        "patch",
        "configmap",
        "helmops-allowed-repositories",
        "--type=merge",
        "-p",
        &change,
    ];
    let kubectl = kubectl.in_namespace(NAMESPACE);
    kubectl.run(&patch).await.unwrap().ok().unwrap();
}

/// What is below an allowed URL as it is written, and somewhere else as clients read it, is refused.
async fn leads_nowhere_else(kubectl: &Kubectl) {
    for elsewhere in [
        "https://h.example.com/team-a/../team-b",
        "https://h.example.com/team-a/..",
        "https://h.example.com/team-a/..?x=y",
        "https://h.example.com/team-a/%2e%2E/team-b",
        "https://h.example.com/team-a/.%2e/team-b",
        "https://h.example.com/team-a/./web",
        r"https://h.example.com/team-a/..\team-b",
        r"https://h.example.com/team-a/\..\team-b",
        "oci://registry.example.com/charts/../private/web",
        // Decoded by a server, once or more often, or with parameters that it cuts off.
        "https://h.example.com/team-a/%2e%2e%2fteam-b",
        "https://h.example.com/team-a%2F..%2Fteam-b",
        "https://h.example.com/team-a/..%5cteam-b",
        "https://h.example.com/team-a/%252e%252e/team-b",
        "https://h.example.com/team-a/%%32%65%%32%65/team-b",
        "https://h.example.com/team-a/..;/team-b",
        "https://h.example.com/team-a/.%2e%3ba=b/team-b",
        "https://h.example.com/team-a/..%00/team-b",
        "https://h.example.com/team-a/..%20/team-b",
        "https://h.example.com/team-a/%c0%ae%c0%ae/team-b",
        "https://h.example.com/projects/team%2Fcharts/..%2fother",
        "https://h.example.com/projects/team%2fcharts",
        // No folder of the host, but a query or another host.
        "https://charts.example.com?x.example.com",
        "https://charts.example.com%2f.example.org",
        "https://charts.example.com@elsewhere.example.org",
    ] {
        let archive = json!({ "helm": { "chart": format!("{elsewhere}/web-1.0.0.tgz") } });
        for spec in [chart(elsewhere), archive] {
            let told = would_say(kubectl, &spec).await;
            assert!(told.contains("is not allowed"), "{spec}: {told}");
        }
    }
    for same in [
        "https://h.example.com/team-a/...//a..b/.c?d=../e",
        "https://h.example.com/team-a/a;b/..c;d?e=%2f%25",
        "https://h.example.com/team-a/with%20space/%7Euser",
        // What is listed counts as it is written.
        "https://h.example.com/projects/team%2Fcharts",
        "https://h.example.com/projects/team%2Fcharts/stable",
    ] {
        assert_eq!(would_say(kubectl, &chart(same)).await, "", "{same}");
    }
}

/// What the API server would say to a new object of a kind.
async fn would_say_to(kubectl: &Kubectl, kind: &str, spec: &Value) -> String {
    let object = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind,
        "metadata": { "name": "probe", "namespace": "default" }, "spec": spec,
    });
    let create = ["create", "--dry-run=server", "--filename=-"];
    let said = kubectl.run_with_input(&create, &object.to_string()).await;
    said.unwrap().stderr
}

/// Only the Secrets and ConfigMaps of the list may be copied to clusters, by HelmOps, by Bundles and by their targets.
async fn copies_what_is_listed(kubectl: &Kubectl) {
    let resource = |kind: &str, name: &str| json!({ "kind": kind, "name": name });
    let listed = [resource("secret", "pull-a"), resource("ConfigMap", "settings")];
    let kubeconfig = [
        resource("Secret", "pull-a"),
        resource("SECRET", "prod-kubeconfig"),
    ];
    for (resources, denied) in [
        (&listed[..], None),
        (&kubeconfig[..], Some("default/Secret/prod-kubeconfig")),
        (
            &[resource("ConfigMap", "coredns")],
            Some("default/ConfigMap/coredns"),
        ),
        (
            &[resource("ConfigMap", "pull-a")],
            Some("default/ConfigMap/pull-a"),
        ),
    ] {
        for kind in ["HelmOp", "Bundle"] {
            let helm = json!({ "repo": "https://charts.example.com", "chart": "web" });
            for spec in [
                json!({ "helm": helm, "downstreamResources": resources }),
                json!({ "helm": helm, "targets": [{}, { "downstreamResources": resources }] }),
            ] {
                let said = would_say_to(kubectl, kind, &spec).await;
                match denied {
                    None => assert_eq!(said, "", "{kind} {spec}"),
                    Some(text) => assert!(
                        said.contains(&format!(
                            "downstreamResources: {text} may not be copied to clusters"
                        )),
                        "{kind} {spec}: {said}"
                    ),
                }
            }
        }
    }
}

async fn protects(kubectl: &Kubectl) {
    let run = async |arguments: &[&str]| kubectl.run(arguments).await.unwrap();
    let annotation = "helmops.fleet.cattle.io/protected";
    let protect = format!("{annotation}=true");
    run(&["annotate", "helmop/web", &protect]).await.ok().unwrap();
    eventually("the protection", SOON, async || {
        let told = run(&["delete", "helmop/web", "--dry-run=server"]).await.stderr;
        let denied = told.contains("the HelmOp is protected from deletion");
        ensure!(denied, "it said {told}");
        Ok(())
    })
    .await
    .unwrap();
    let release = format!("{annotation}-");
    run(&["annotate", "helmop/web", &release]).await.ok().unwrap();
    run(&["delete", "helmop/web"]).await.ok().unwrap();
}
