//! Permissions in some namespaces instead of permissions in the whole cluster.

use anyhow::{Context, ensure};
use helmops_bed::helmops;
use helmops_bed::service_account::may;
use helmops_bed::wait::eventually;
use serde_json::json;

use crate::harness::own::{Fixture, start_controller};
use crate::harness::{SOON, until_reason, until_version};

const FLAGS: [(&str, &str); 2] = [
    ("HELMOPS_WATCH_NAMESPACES", "team-a,team-b"),
    ("HELMOPS_MIN_POLLING_INTERVAL", "1s"),
];

impl Fixture {
    /// Replaces the permissions in the whole cluster by Roles in two of three namespaces.
    async fn restrict_permissions(&mut self) {
        self.stop_controller().await;
        for kind in ["clusterrolebinding", "clusterrole"] {
            self.run(&["delete", kind, "helmops-controller"]).await;
        }
        let roles = helmops::manifests().join("namespaced");
        for namespace in ["team-a", "team-b", "team-c"] {
            self.run(&["create", "namespace", namespace]).await;
            if namespace != "team-c" {
                let apply = ["apply", "--namespace", namespace, "-k", roles.to_str().unwrap()];
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
async fn permissions_in_some_namespaces_are_sufficient() {
    let mut fixture = Fixture::start(None).await.unwrap();
    fixture.restrict_permissions().await;
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
            fixture.may(what, namespace).await,
            expected,
            "{what} in {namespace}"
        );
    }

    let [a, b, c] = ["team-a", "team-b", "team-c"].map(|name| fixture.kubectl.in_namespace(name));
    fixture.server.require_login("user", "geheim");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "access" },
        "stringData": { "username": "user", "password": "geheim" },
    });
    let helmop = fixture.helmop(
        "web",
        &json!({ "helmSecretName": "access", "pollingInterval": "1s" }),
    );
    for kubectl in [&a, &b, &c] {
        for object in [&secret.to_string(), &helmop] {
            kubectl.apply(object).await.unwrap().ok().unwrap();
        }
    }
    // This returns when the controller is ready.
    fixture.controller = start_controller(&fixture.bed, "namespaced", &FLAGS)
        .await
        .unwrap();
    for kubectl in [&a, &b] {
        until_version(kubectl, "web", "0.2.0").await;
    }
    fixture.charts.add_version("alpine", "0.3.0").await.unwrap();
    for kubectl in [&a, &b] {
        until_version(kubectl, "web", "0.3.0").await;
    }

    // An edited or deleted Bundle is restored, as with permissions in the whole cluster.
    let edit = [
        "patch",
        "bundle/web",
        "--type=merge",
        "-p",
        r#"{"spec":{"helm":{"version":"0.1.0"}}}"#,
    ];
    a.run(&edit).await.unwrap().ok().unwrap();
    b.run(&["delete", "bundle/web"]).await.unwrap().ok().unwrap();
    for kubectl in [&a, &b] {
        until_version(kubectl, "web", "0.3.0").await;
    }
    // The finalizer of Fleet's own controller does not block a deletion.
    let finalizer = r#"{"metadata":{"finalizers":["fleet.cattle.io/helmop-finalizer"]}}"#;
    for arguments in [
        &["patch", "helmop/web", "--type=merge", "-p", finalizer][..],
        &["delete", "helmop/web", "--timeout=30s"],
    ] {
        b.run(arguments).await.unwrap().ok().unwrap();
    }
    b.apply(&helmop).await.unwrap().ok().unwrap();
    until_reason(&b, "web", "Accepted", "Accepted").await;
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

    // A Policy applies to its namespace.
    let policy = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Policy", "metadata": { "name": "limits" },
        "requireServiceAccount": true,
    });
    a.apply(&policy.to_string()).await.unwrap().ok().unwrap();
    until_reason(&a, "web", "Accepted", "PolicyViolation").await;
    let values =
        json!({ "values": { "a": 1 }, "repo": fixture.server.url(), "chart": "alpine", "version": "0.1.0" });
    let changed = fixture.helmop("web", &json!({ "helmSecretName": "access", "helm": values }));
    b.apply(&changed).await.unwrap().ok().unwrap();
    until_version(&b, "web", "0.1.0").await;

    let ignored = c.get("helmop/web").await.unwrap().unwrap();
    // The default of the CRD.
    let unobserved = json!({ "observedGeneration": -1 });
    assert_eq!(ignored["status"], unobserved, "{ignored}");
    assert_eq!(c.get("bundle/web").await.unwrap(), None);
    // The controller sends no request that it has no permission for.
    let log = fixture.controller.process.log();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}
