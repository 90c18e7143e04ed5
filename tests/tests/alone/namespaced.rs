//! Rights in some namespaces in place of rights in the whole cluster.

use anyhow::{Context, ensure};
use helmops_tests::helmops;
use helmops_tests::service_account::may;
use helmops_tests::wait::eventually;
use serde_json::json;

use crate::bed::{Alone, SOON, start_controller, until, until_version};

const FLAGS: [(&str, &str); 2] = [
    ("HELMOPS_WATCH_NAMESPACES", "team-a,team-b"),
    ("HELMOPS_MIN_POLLING_INTERVAL", "1s"),
];

impl Alone {
    /// Takes the rights in the whole cluster away, and gives some in two of three namespaces.
    async fn narrow(&mut self) {
        self.stop_controller().await;
        for kind in ["clusterrolebinding", "clusterrole"] {
            self.run(&["delete", kind, "helmops-controller"]).await;
        }
        let rights = helmops::manifests().join("namespaced");
        for namespace in ["team-a", "team-b", "team-c"] {
            self.run(&["create", "namespace", namespace]).await;
            if namespace != "team-c" {
                let apply = ["apply", "--namespace", namespace, "-k", rights.to_str().unwrap()];
                self.run(&apply).await;
            }
        }
    }

    async fn may(&self, what: &str, namespace: &str) -> bool {
        let kubectl = self.kubectl.in_namespace(namespace);
        may(&kubectl, "helmops-controller", what).await.unwrap()
    }
}

#[tokio::test]
async fn rights_in_some_namespaces_will_do() {
    let mut alone = Alone::start(None).await.unwrap();
    alone.narrow().await;
    for (what, namespace, expected) in [
        ("get secrets", "team-a", true),
        ("get secrets", "team-c", false),
        ("list helmops", "team-c", false),
        ("list helmops --all-namespaces", "team-a", false),
        ("update helmops", "team-a", false),
        ("update policies", "team-a", false),
        ("list bundledeployments.fleet.cattle.io", "team-a", false),
        ("create leases", "team-a", false),
        ("update secrets", "team-a", false),
    ] {
        assert_eq!(
            alone.may(what, namespace).await,
            expected,
            "{what} in {namespace}"
        );
    }

    let [a, b, c] = ["team-a", "team-b", "team-c"].map(|name| alone.kubectl.in_namespace(name));
    alone.server.require_login("user", "geheim");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "access" },
        "stringData": { "username": "user", "password": "geheim" },
    });
    let helmop = alone.helmop(
        "web",
        &json!({ "helmSecretName": "access", "pollingInterval": "1s" }),
    );
    for kubectl in [&a, &b, &c] {
        for object in [&secret.to_string(), &helmop] {
            kubectl.apply(object).await.unwrap().ok().unwrap();
        }
    }
    // It returns when the controller is ready.
    alone.controller = start_controller(&alone.bed, "namespaced", &FLAGS).await.unwrap();
    for kubectl in [&a, &b] {
        until_version(kubectl, "web", "0.2.0").await;
    }
    alone.charts.add_version("alpine", "0.3.0").await.unwrap();
    for kubectl in [&a, &b] {
        until_version(kubectl, "web", "0.3.0").await;
    }

    // What somebody spoils or deletes is repaired, as it is in the whole cluster.
    let spoil = [
        "patch",
        "bundle/web",
        "--type=merge",
        "-p",
        r#"{"spec":{"helm":{"version":"0.1.0"}}}"#,
    ];
    a.run(&spoil).await.unwrap().ok().unwrap();
    b.run(&["delete", "bundle/web"]).await.unwrap().ok().unwrap();
    for kubectl in [&a, &b] {
        until_version(kubectl, "web", "0.3.0").await;
    }
    // What Fleet's own controller left on a HelmOp does not hold it up.
    let finalizer = r#"{"metadata":{"finalizers":["fleet.cattle.io/helmop-finalizer"]}}"#;
    for arguments in [
        &["patch", "helmop/web", "--type=merge", "-p", finalizer][..],
        &["delete", "helmop/web", "--timeout=30s"],
    ] {
        b.run(arguments).await.unwrap().ok().unwrap();
    }
    b.apply(&helmop).await.unwrap().ok().unwrap();
    until(&b, "web", "Accepted", "Accepted").await;
    eventually("an event", SOON, async || {
        let events = a.get("events.events.k8s.io").await?.context("no list")?;
        let mut events = events["items"].as_array().context("no list")?.iter();
        ensure!(
            events.any(|event| event["reason"] == "GotNewChartVersion"),
            "not yet"
        );
        Ok(())
    })
    .await
    .unwrap();

    // A Policy speaks for its namespace.
    let policy = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" },
        "requireServiceAccount": true,
    });
    a.apply(&policy.to_string()).await.unwrap().ok().unwrap();
    until(&a, "web", "Accepted", "PolicyViolation").await;
    let values =
        json!({ "values": { "a": 1 }, "repo": alone.server.url(), "chart": "alpine", "version": "0.1.0" });
    let changed = alone.helmop("web", &json!({ "helmSecretName": "access", "helm": values }));
    b.apply(&changed).await.unwrap().ok().unwrap();
    until_version(&b, "web", "0.1.0").await;

    let left_alone = c.get("helmop/web").await.unwrap().unwrap();
    assert_eq!(left_alone.get("status"), None, "{left_alone}");
    assert_eq!(c.get("bundle/web").await.unwrap(), None);
    // It asks for nothing that it may not have.
    let log = alone.controller.process.log();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}
