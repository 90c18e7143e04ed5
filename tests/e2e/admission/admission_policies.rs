//! The optional `ValidatingAdmissionPolicies`, which the API server enforces without the webhook.

use anyhow::ensure;
use helmops_bed::helmops::{self, NAMESPACE, manifests};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::SOON;

/// The allowed chart sources: those of the manifests, and paths of a host.
const ALLOWED: [&str; 8] = [
    "https://charts.example.com",
    "oci://registry.example.com/charts",
    "https://h.example.com/team-a",
    "https://h.example.com/projects/team%2Fcharts",
    "git+https://git.example.com/team",
    "bucket+https://minio.example.com:9000/charts",
    "artifact+oci://registry.example.com/team",
    "configmaps+web,db",
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

/// The error of the API server for a HelmOp; empty if it accepts it.
async fn apply_error(kubectl: &Kubectl, name: &str, spec: &Value) -> String {
    kubectl.apply(&helmop(name, spec)).await.unwrap().stderr
}

/// The error for a dry run. An accepted HelmOp must not be stored: the policies do not apply to unchanged specs of existing
/// objects.
async fn dry_run_error(kubectl: &Kubectl, spec: &Value) -> String {
    dry_run_error_of(kubectl, "HelmOp", spec).await
}

#[tokio::test]
async fn admission_policies_deny_insecure_tls_foreign_repositories_copies_and_deletion() {
    let bed = helmops::control_plane(false).await.unwrap();
    let kubectl = bed.kubectl();
    let insecure = json!({
        "helm": { "repo": "https://charts.example.com", "chart": "web" }, "insecureSkipTLSVerify": true,
    });
    assert_eq!(apply_error(&kubectl, "early", &insecure).await, "");
    let folder = manifests().join("admission-policies");
    let apply = ["apply", "--server-side", "-k", folder.to_str().unwrap()];
    kubectl.run(&apply).await.unwrap().ok().unwrap();
    allow(&kubectl, &ALLOWED).await;
    eventually("the policies to be enforced", SOON, async || {
        let error = dry_run_error(&kubectl, &insecure).await;
        ensure!(
            error.contains("spec.insecureSkipTLSVerify: \"true\" is not allowed"),
            "the error is {error:?}"
        );
        let error = dry_run_error(&kubectl, &chart("https://elsewhere.example.com")).await;
        ensure!(
            error.contains("https://elsewhere.example.com is not allowed"),
            "the error is {error:?}"
        );
        ensure!(
            error.contains(&format!("allowed are {} ", ALLOWED.join(", "))),
            "the error is {error:?}"
        );
        let copies = json!({ "downstreamResources": [{ "kind": "Secret", "name": "prod-kubeconfig" }] });
        let error = dry_run_error_of(&kubectl, "Bundle", &copies).await;
        ensure!(error.contains("may not be copied"), "the error is {error:?}");
        Ok(())
    })
    .await
    .unwrap();
    for repo in ["https://charts.example.com", "https://charts.example.com/stable"] {
        assert_eq!(apply_error(&kubectl, "web", &chart(repo)).await, "", "{repo}");
    }
    for foreign in [
        chart("https://charts.example.com.evil.example.org"),
        chart("https://h.example.com/team-ab"),
        json!({ "helm": { "chart": "https://elsewhere.example.com/web-1.0.0.tgz" } }),
        json!({ "helm": { "repo": "oci://registry.example.com/charts/web" },
                "targets": [{ "helm": { "repo": "https://elsewhere.example.com" } }] }),
    ] {
        let error = apply_error(&kubectl, "foreign", &foreign).await;
        assert!(error.contains("is not allowed"), "{foreign}: {error}");
    }
    git_repositories_are_denied(&kubectl).await;
    buckets_are_denied(&kubectl).await;
    artifacts_are_denied(&kubectl).await;
    config_maps_are_denied(&kubectl).await;
    endpoints_of_gates_are_denied(&kubectl).await;
    ambiguous_paths_are_denied(&kubectl).await;
    only_listed_resources_are_copied(&kubectl).await;
    let early = ["label", "helmop/early", "team=a"];
    kubectl.run(&early).await.unwrap().ok().unwrap();
    protected_helmops_are_not_deleted(&kubectl).await;
}

/// A listed Helm repository allows no Git repository.
async fn git_repositories_are_denied(kubectl: &Kubectl) {
    for (url, is_allowed) in [
        ("https://git.example.com/team/charts.git", true),
        ("https://git.example.com/other/charts.git", false),
        ("https://git.example.com/team/../other/charts.git", false),
        ("https://git.example.com@evil.example.org/team/charts.git", false),
        ("https://charts.example.com/charts.git", false),
        ("ssh://git@git.example.com/team/charts.git", false),
        ("git@git.example.com:team/charts.git", false),
    ] {
        let spec = json!({ "chartSource": { "git": { "url": url } } });
        let error = dry_run_error_of(kubectl, "HelmOp", &spec).await;
        let denied = format!("spec.chartSource.git.url: git+{url} is not allowed");
        let is_denied = error.contains(&denied);
        assert!(
            if is_allowed { error.is_empty() } else { is_denied },
            "{url}: {error}"
        );
    }
}

/// Nor does a registry with charts allow an artifact that is none.
async fn artifacts_are_denied(kubectl: &Kubectl) {
    for (url, is_allowed) in [
        ("oci://registry.example.com/team/deploy", true),
        ("oci://registry.example.com/charts/deploy", false),
        ("oci://registry.example.com/team/../other", false),
    ] {
        let spec = json!({ "chartSource": { "oci": { "url": url } } });
        let error = dry_run_error_of(kubectl, "HelmOp", &spec).await;
        let denied = format!("spec.chartSource.oci.url: artifact+{url} is not allowed");
        let is_denied = error.contains(&denied);
        assert!(
            if is_allowed { error.is_empty() } else { is_denied },
            "{url}: {error}"
        );
    }
}

/// Their manifests come from no listed repository.
async fn config_maps_are_denied(kubectl: &Kubectl) {
    for (names, is_allowed) in [
        (&["web", "db"][..], true),
        (&["web"], false),
        (&["web", "db", "x"], false),
    ] {
        let all: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        let spec = json!({ "chartSource": { "configMaps": all, "manifests": {} } });
        let error = dry_run_error_of(kubectl, "HelmOp", &spec).await;
        let denied = format!(
            "spec.chartSource.configMaps: configmaps+{} is not allowed",
            names.join(",")
        );
        let is_denied = error.contains(&denied);
        assert!(
            if is_allowed { error.is_empty() } else { is_denied },
            "{names:?}: {error}"
        );
    }
}

/// Nor a bucket.
async fn buckets_are_denied(kubectl: &Kubectl) {
    let endpoint = "minio.example.com:9000";
    for (bucket, allowed) in [
        (json!({ "endpoint": endpoint, "bucketName": "charts" }), None),
        (
            json!({ "endpoint": "https://minio.example.com:9000/", "bucketName": "charts", "prefix": "a" }),
            None,
        ),
        (
            json!({ "endpoint": endpoint, "bucketName": "charts", "insecure": true }),
            Some("bucket+http://minio.example.com:9000/charts"),
        ),
        (
            json!({ "endpoint": endpoint, "region": null, "prefix": null, "bucketName": "charts" }),
            None,
        ),
        (
            json!({ "endpoint": endpoint, "bucketName": "other" }),
            Some("bucket+https://minio.example.com:9000/other"),
        ),
        (
            json!({ "provider": "aws", "bucketName": "charts" }),
            Some("bucket+https://s3.amazonaws.com/charts"),
        ),
        (
            json!({ "provider": "aws", "region": "cn-north-1", "bucketName": "charts" }),
            Some("bucket+https://s3.cn-north-1.amazonaws.com.cn/charts"),
        ),
        (
            json!({ "endpoint": "https://s3.amazonaws.com", "region": "eu-west-1", "bucketName": "charts" }),
            Some("bucket+https://s3.eu-west-1.amazonaws.com/charts"),
        ),
        // The controller changes no other host.
        (
            json!({ "provider": "gcp", "endpoint": "s3.amazonaws.com", "region": "eu-west-1", "bucketName": "charts" }),
            Some("bucket+https://s3.amazonaws.com/charts"),
        ),
        (
            json!({ "endpoint": "charts.s3.amazonaws.com", "region": "eu-west-1", "bucketName": "charts" }),
            Some("bucket+https://charts.s3.amazonaws.com/charts"),
        ),
        (
            json!({ "provider": "gcp", "bucketName": "charts" }),
            Some("bucket+https://storage.googleapis.com/charts"),
        ),
    ] {
        // Nulls are no sources.
        let spec = json!({ "chartSource": { "bucket": bucket, "oci": null, "configMaps": null } });
        let error = dry_run_error_of(kubectl, "HelmOp", &spec).await;
        match allowed {
            None => assert!(error.is_empty(), "{bucket}: {error}"),
            Some(url) => {
                let denied = format!("spec.chartSource.bucket: {url} is not allowed");
                assert!(error.contains(&denied), "{bucket}: {error}");
            }
        }
    }
}

/// The endpoint of a gate gets the login of a Secret, as a repository does.
async fn endpoints_of_gates_are_denied(kubectl: &Kubectl) {
    for (url, is_allowed) in [
        ("https://attacker.example/x", false),
        ("https://h.example.com/team-a/../x", false),
        ("https://h.example.com/team-a/gate", true),
    ] {
        let partitions = json!([{ "name": "a" }, { "name": "b", "gate": { "url": url } }]);
        let mut spec = chart("https://charts.example.com");
        spec["rolloutStrategy"] = json!({ "partitions": partitions });
        for kind in ["HelmOp", "Bundle"] {
            let error = dry_run_error_of(kubectl, kind, &spec).await;
            let denied = format!("spec.rolloutStrategy.partitions.gate.url: {url} is not allowed");
            let is_denied = error.contains(&denied);
            assert!(
                if is_allowed { error.is_empty() } else { is_denied },
                "{kind} {url}: {error}"
            );
        }
    }
    let elsewhere = json!({ "helm": { "repo": "https://elsewhere.example.com", "chart": "web" } });
    let error = dry_run_error_of(kubectl, "Bundle", &elsewhere).await;
    assert_eq!(error, "", "of Bundles, only gates are checked");
}

/// From now on, only these chart sources are allowed.
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

/// A URL that starts with an allowed one, but that clients resolve to another path or host, is denied.
async fn ambiguous_paths_are_denied(kubectl: &Kubectl) {
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
        // Decoded by a server once or several times, or with path parameters that it removes.
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
        // Not a folder of the host, but a query or another host.
        "https://charts.example.com?x.example.com",
        "https://charts.example.com%2f.example.org",
        "https://charts.example.com@elsewhere.example.org",
    ] {
        let archive = json!({ "helm": { "chart": format!("{elsewhere}/web-1.0.0.tgz") } });
        for spec in [chart(elsewhere), archive] {
            let error = dry_run_error(kubectl, &spec).await;
            assert!(error.contains("is not allowed"), "{spec}: {error}");
        }
    }
    for same in [
        "https://h.example.com/team-a/...//a..b/.c?d=../e",
        "https://h.example.com/team-a/a;b/..c;d?e=%2f%25",
        "https://h.example.com/team-a/with%20space/%7Euser",
        // Listed URLs are compared literally.
        "https://h.example.com/projects/team%2Fcharts",
        "https://h.example.com/projects/team%2Fcharts/stable",
    ] {
        assert_eq!(dry_run_error(kubectl, &chart(same)).await, "", "{same}");
    }
}

/// The error of a dry run for a new object of a kind.
async fn dry_run_error_of(kubectl: &Kubectl, kind: &str, spec: &Value) -> String {
    let object = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind,
        "metadata": { "name": "probe" }, "spec": spec,
    });
    kubectl.rejection(&object).await.unwrap()
}

/// HelmOps, Bundles and their targets may copy only the listed Secrets and ConfigMaps to clusters.
async fn only_listed_resources_are_copied(kubectl: &Kubectl) {
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
                let error = dry_run_error_of(kubectl, kind, &spec).await;
                match denied {
                    None => assert_eq!(error, "", "{kind} {spec}"),
                    Some(text) => assert!(
                        error.contains(&format!(
                            "downstreamResources: {text} may not be copied to clusters"
                        )),
                        "{kind} {spec}: {error}"
                    ),
                }
            }
        }
    }
}

async fn protected_helmops_are_not_deleted(kubectl: &Kubectl) {
    let run = async |arguments: &[&str]| kubectl.run(arguments).await.unwrap();
    let annotation = "helmops.fleet.cattle.io/protected";
    let protect = format!("{annotation}=true");
    run(&["annotate", "helmop/web", &protect]).await.ok().unwrap();
    eventually("the protection", SOON, async || {
        let error = run(&["delete", "helmop/web", "--dry-run=server"]).await.stderr;
        let denied = error.contains("the HelmOp is protected from deletion");
        ensure!(denied, "the error is {error:?}");
        Ok(())
    })
    .await
    .unwrap();
    let unprotect = format!("{annotation}-");
    run(&["annotate", "helmop/web", &unprotect]).await.ok().unwrap();
    run(&["delete", "helmop/web"]).await.ok().unwrap();
}
