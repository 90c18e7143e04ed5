//! What Policies forbid: the webhook denies it and the controller does not deploy it. HelmOps that the webhook would deny are
//! created before their Policy.

use anyhow::ensure;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::beside_fleet::{apply, suite, until_accepted, until_refused};
use crate::harness::{SOON, helmop, until, until_version};

async fn fixture() -> (TestNamespace, ChartServer) {
    let suite = suite().await;
    let namespace = TestNamespace::create(&suite.bed, "policies").await.unwrap();
    let server = ChartServer::http(suite.charts.folder()).await.unwrap();
    (namespace, server)
}

/// A HelmOp's spec, with `over` merged over it.
#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn alpine(server: &ChartServer, over: Value) -> Value {
    let mut spec = json!({ "helm": { "repo": server.url(), "chart": "alpine", "version": "0.x" } });
    for (key, value) in over.as_object().unwrap() {
        match (spec.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(over)) => inner.extend(over.clone()),
            _ => spec[key] = value.clone(),
        }
    }
    spec
}

/// Creates or replaces the Policy `limits`.
async fn policy(namespace: &TestNamespace, fields: &Value) {
    let mut policy = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" } });
    policy
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    let applied = namespace.kubectl().apply(&policy.to_string()).await.unwrap();
    applied.ok().unwrap();
}

/// Waits until a dry run is denied, and returns what kubectl prints. The webhook observes a Policy a little later than the
/// client that creates it.
async fn until_denied(namespace: &TestNamespace, name: &str, spec: &Value) -> String {
    let dry = ["apply", "--dry-run=server", "--filename=-"];
    eventually("a denial", SOON, async || {
        let output = namespace
            .kubectl()
            .run_with_input(&dry, &helmop(name, spec))
            .await?;
        ensure!(!output.status.success(), "it was allowed: {}", output.stdout);
        Ok(output.stderr)
    })
    .await
    .unwrap()
}

/// Each field of a Policy: what it forbids is refused, and the deployed Bundle stays unchanged. What it allows is accepted.
#[tokio::test]
async fn each_policy_rule_denies_and_allows() {
    let (_, server) = fixture().await;
    for (fields, bad, good, words) in [
        (
            json!({ "requireServiceAccount": true }),
            json!({}),
            json!({ "serviceAccount": "any" }),
            "spec.serviceAccount: Required value: serviceAccount is required by Policy but is not set",
        ),
        (
            json!({ "allowedServiceAccounts": ["a", "b"] }),
            json!({ "serviceAccount": "c" }),
            json!({ "serviceAccount": "b" }),
            "spec.serviceAccount: Forbidden: \"c\": disallowed serviceAccount c: c not in allowed set [a b]",
        ),
        (
            json!({ "helmOp": { "allowedHelmSecretNames": ["charts"] } }),
            json!({ "helmSecretName": "access" }),
            json!({ "helmSecretName": "charts" }),
            "spec.helmSecretName: Forbidden: \"access\": disallowed helmSecretName access",
        ),
        (
            json!({ "helmOp": { "allowedHelmRepoPatterns": ["http://localhost:.*"] } }),
            json!({}),
            json!({ "helm": { "repo": url_by_name(&server) } }),
            "disallowed helm repo http://127.0.0.1",
        ),
        (
            json!({ "helmOp": { "allowedChartPatterns": ["^ngin.$"] } }),
            json!({}),
            json!({ "helm": { "chart": "nginx", "version": "1.1.0" } }),
            "spec.helm.chart: Forbidden: \"alpine\": disallowed helm chart alpine: alpine not in allowed set [^ngin.$]",
        ),
        (
            json!({ "allowedDependencyNamespaces": ["data-.*"] }),
            json!({ "lifecycle": { "dependsOn": [{ "name": "db", "namespace": "data" }] } }),
            json!({ "lifecycle": { "dependsOn": [{ "name": "db", "namespace": "data-1" }] } }),
            "spec.lifecycle.dependsOn[0].namespace: Forbidden: \"data\": disallowed dependency namespace data: data not in allowed set [data-.*]",
        ),
    ] {
        let (namespace, _) = fixture().await;
        // So that the first resolution needs no Secret.
        apply(&namespace, "web", &alpine(&server, json!({}))).await;
        until_version(&namespace, "web", "0.2.0").await;
        apply(&namespace, "web", &alpine(&server, bad.clone())).await;
        until_accepted(&namespace, "web").await;
        let before = namespace.kubectl().get("bundle/web").await.unwrap().unwrap();

        policy(&namespace, &fields).await;
        let message = until_refused(&namespace, "web", "PolicyViolation").await;
        assert!(message.contains(words), "{message}");
        assert!(message.contains("of Policy \"limits\""), "{message}");
        let after = namespace.kubectl().get("bundle/web").await.unwrap().unwrap();
        assert_eq!(before, after, "{fields}: the deployed Bundle stays unchanged");
        let denied = until_denied(&namespace, "new", &alpine(&server, bad)).await;
        assert!(denied.contains("of Policy \"limits\""), "{denied}");

        apply(&namespace, "web", &alpine(&server, good)).await;
        until_accepted(&namespace, "web").await;
    }
}

/// The defaults of a Policy are set in the Bundle, not in the HelmOp, and are removed with the Policy.
#[tokio::test]
async fn defaults_follow_the_policy() {
    let (namespace, server) = fixture().await;
    apply(&namespace, "web", &alpine(&server, json!({}))).await;
    until_version(&namespace, "web", "0.2.0").await;
    let until_bundle_has = async |account: Value, secret: Value| {
        let bundle = until(&namespace, "bundle/web", |bundle| {
            let spec = &bundle["spec"];
            let found = (
                &spec["serviceAccount"],
                &spec["helmOpOptions"]["helmOpSecretName"],
            );
            ensure!(found == (&account, &secret), "it has {found:?}");
            Ok(())
        })
        .await;
        assert_eq!(bundle["spec"]["helm"]["version"], "0.2.0");
        until_accepted(&namespace, "web").await
    };
    for (account, secret) in [("first", "one"), ("second", "two")] {
        let limits = json!({
            "defaultServiceAccount": account, "defaultHelmSecretName": secret, "allowedHelmSecretNames": [secret]
        });
        policy(
            &namespace,
            &json!({ "requireServiceAccount": true, "allowedServiceAccounts": [account], "helmOp": limits }),
        )
        .await;
        let helmop = until_bundle_has(json!(account), json!(secret)).await;
        assert_eq!(helmop["spec"].get("serviceAccount"), None);
        assert_eq!(helmop["spec"].get("helmSecretName"), None);
    }
    let delete = ["delete", "policies.fleet.cattle.io/limits"];
    namespace.kubectl().run(&delete).await.unwrap().ok().unwrap();
    until_bundle_has(Value::Null, Value::Null).await;
    assert_eq!(
        server.requests("/index.yaml"),
        1,
        "none of these changes is a reason to resolve again"
    );
}

/// Fleet does not check targets, archives and registries.
#[tokio::test]
async fn targets_archives_and_registries_cannot_bypass_a_policy() {
    let (namespace, server) = fixture().await;
    let archive = format!("{}/alpine-0.1.0.tgz", server.url());
    let oci = "oci://127.0.0.1:1/charts/web";
    let target = |target: Value| alpine(&server, json!({ "targets": [{ "clusterSelector": {} }, target] }));
    for (name, spec) in [
        ("archive", json!({ "helm": { "chart": archive } })),
        ("registry", json!({ "helm": { "repo": oci, "version": "1.2.3" } })),
        (
            "chart",
            target(json!({ "clusterName": "a", "helm": { "chart": "nginx", "version": "1.1.0" } })),
        ),
        (
            "repo",
            target(json!({ "clusterName": "a", "helm": { "repo": url_by_name(&server) } })),
        ),
        (
            "account",
            target(json!({ "clusterName": "a", "serviceAccount": "root" })),
        ),
        (
            "allowed",
            target(
                json!({ "clusterName": "a", "serviceAccount": "deployer", "helm": { "version": "0.1.x" } }),
            ),
        ),
    ] {
        apply(&namespace, name, &spec).await;
    }
    let expected = [
        ("archive", "Accepted"),
        ("registry", "ConnectionFailed"),
        ("chart", "Accepted"),
        ("repo", "Accepted"),
        ("account", "Accepted"),
        ("allowed", "Accepted"),
    ];
    for (name, reason) in expected {
        until_reason(&namespace, name, reason).await;
    }

    let limits = json!({
        "allowedServiceAccounts": ["deployer"],
        "helmOp": { "allowedHelmRepoPatterns": ["http://127.0.0.1:[0-9]+"], "allowedChartPatterns": ["alpine"] },
    });
    policy(&namespace, &limits).await;
    for (name, words) in [
        (
            "archive",
            &[
                "spec.helm.chart: Forbidden:",
                "disallowed helm repo http",
                "disallowed helm chart http",
            ][..],
        ),
        (
            "registry",
            &[
                "spec.helm.repo: Forbidden:",
                "disallowed helm repo oci",
                "disallowed helm chart oci",
            ],
        ),
        (
            "chart",
            &["spec.targets[1].helm.chart: Forbidden: \"nginx\": disallowed helm chart nginx"],
        ),
        (
            "repo",
            &[
                "spec.targets[1].helm.repo: Forbidden:",
                "disallowed helm repo http",
            ],
        ),
        (
            "account",
            &["spec.targets[1].serviceAccount: Forbidden: \"root\": disallowed serviceAccount root"],
        ),
    ] {
        let message = until_refused(&namespace, name, "PolicyViolation").await;
        for words in words {
            assert!(message.contains(words), "{name}: {message}");
        }
    }
    until_accepted(&namespace, "allowed").await;

    let wider = json!({
        "helmOp": {
            "allowedHelmRepoPatterns": ["http://(localhost|127.0.0.1):[0-9]+(/.*)?", "oci://127.0.0.1:1/.*"],
            "allowedChartPatterns": ["alpine", "nginx", r".*/alpine-.*\.tgz", "web"],
        },
        "allowedServiceAccounts": ["deployer", "root"],
    });
    policy(&namespace, &wider).await;
    for (name, reason) in expected {
        until_reason(&namespace, name, reason).await;
    }
}

/// Neither a refusal nor its end changes what is deployed or sends a request to the repository.
#[tokio::test]
async fn a_policy_change_applies_immediately_and_changes_no_version() {
    let suite = suite().await;
    let (namespace, _) = fixture().await;
    let folder = tempfile::TempDir::new().unwrap();
    let versions: &[(&str, &[&str])] = &[("alpine", &["0.1.0"])];
    let charts = ChartRepo::build(&suite.bed.tools, folder.path(), versions)
        .await
        .unwrap();
    let server = ChartServer::http(charts.folder()).await.unwrap();
    apply(&namespace, "web", &alpine(&server, json!({}))).await;
    until_version(&namespace, "web", "0.1.0").await;
    let generation = until_accepted(&namespace, "web").await["metadata"]["generation"].clone();
    charts.add_version("alpine", "0.5.0").await.unwrap();

    let chart = |pattern: &str| json!({ "helmOp": { "allowedChartPatterns": [pattern] } });
    policy(&namespace, &chart("db")).await;
    until_refused(&namespace, "web", "PolicyViolation").await;
    policy(&namespace, &chart("alp.*")).await;
    until_accepted(&namespace, "web").await;
    policy(&namespace, &chart("db-(")).await;
    let message = until_refused(&namespace, "web", "PolicyViolation").await;
    assert!(
        message.contains("policy failed to compile regex \"db-(\"")
            && message.contains("of Policy \"limits\""),
        "{message}"
    );
    let delete = ["delete", "policies.fleet.cattle.io/limits"];
    namespace.kubectl().run(&delete).await.unwrap().ok().unwrap();
    let helmop = until_accepted(&namespace, "web").await;
    assert_eq!(
        (&helmop["metadata"]["generation"], &helmop["status"]["version"]),
        (&generation, &json!("0.1.0")),
        "no client changed it, and its version is the same"
    );
    until_version(&namespace, "web", "0.1.0").await;
    assert_eq!(server.requests("/index.yaml"), 1);
}

/// kubectl shows the field, its text, the Policy and the fix.
#[tokio::test]
async fn a_denial_names_the_field_the_policy_and_the_fix() {
    let (namespace, _) = fixture().await;
    let limits = json!({
        "requireServiceAccount": true,
        "allowedServiceAccounts": ["deployer", "tester"],
        "helmOp": { "allowedHelmSecretNames": ["charts"], "allowedHelmRepoPatterns": ["oci://.*"] },
    });
    policy(&namespace, &limits).await;
    let spec = json!({
        "helm": { "repo": "https://charts.example.com/stable", "chart": "web", "version": "1.2.3" },
        "helmSecretName": "mine",
    });
    let message = until_denied(&namespace, "refused", &spec).await;
    let lines: Vec<_> = message.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "The HelmOp \"refused\" is invalid:",
            "* spec.serviceAccount: Required value: serviceAccount is required by Policy but is not set; name one of \
             [deployer tester], for requireServiceAccount of Policy \"limits\"",
            "* spec.helmSecretName: Forbidden: \"mine\": disallowed helmSecretName mine: mine not in allowed set [charts]; use \
             one of these, or have it added to helmOp.allowedHelmSecretNames of Policy \"limits\"",
            "* spec.helm.repo: Forbidden: \"https://charts.example.com/stable\": disallowed helm repo \
             https://charts.example.com/stable: https://charts.example.com/stable not in allowed set [oci://.*]; use one that \
             is, or have it added to helmOp.allowedHelmRepoPatterns of Policy \"limits\"",
        ],
        "{message}"
    );
}

#[tokio::test]
async fn a_stored_helmop_that_violates_a_policy_stays_editable() {
    let (namespace, server) = fixture().await;
    apply(&namespace, "web", &alpine(&server, json!({}))).await;
    until_version(&namespace, "web", "0.2.0").await;
    policy(
        &namespace,
        &json!({ "helmOp": { "allowedChartPatterns": ["db"] } }),
    )
    .await;
    until_refused(&namespace, "web", "PolicyViolation").await;
    until_denied(&namespace, "new", &alpine(&server, json!({}))).await;

    let label = ["label", "helmop/web", "team=a"];
    namespace.kubectl().run(&label).await.unwrap().ok().unwrap();
    let paused = alpine(&server, json!({ "paused": true }));
    let edited = namespace.kubectl().apply(&helmop("web", &paused)).await.unwrap();
    assert!(edited.status.success(), "{}", edited.stderr);
    assert!(
        edited
            .stderr
            .contains("not new, but still wrong: spec.helm.chart: Forbidden: \"alpine\""),
        "{}",
        edited.stderr
    );
    let worse = alpine(
        &server,
        json!({ "helm": { "chart": "nginx", "version": "1.1.0" } }),
    );
    let message = until_denied(&namespace, "web", &worse).await;
    assert!(message.contains("disallowed helm chart nginx"), "{message}");
    // Pausing the Bundle would change what is deployed.
    let bundle = namespace.kubectl().get("bundle/web").await.unwrap().unwrap();
    assert_eq!(bundle["spec"].get("paused"), None);
    let delete = ["delete", "helmop/web"];
    namespace.kubectl().run(&delete).await.unwrap().ok().unwrap();
}

/// Another URL of the same server.
fn url_by_name(server: &ChartServer) -> String {
    server.url().replace("127.0.0.1", "localhost")
}

/// Waits until a HelmOp is accepted, or refused for this reason, in its current generation.
async fn until_reason(namespace: &TestNamespace, name: &str, reason: &str) {
    if reason == "Accepted" {
        until_accepted(namespace, name).await;
    } else {
        until_refused(namespace, name, reason).await;
    }
}
