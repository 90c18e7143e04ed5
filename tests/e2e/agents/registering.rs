//! Clusters that register themselves. The tests play Fleet's agent: they send exactly what it sends, with what Fleet's chart gives it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use helmops_api::{BundleDeployment, Cluster};
use helmops_bed::helmops::{self, Part};
use helmops_bed::kubeconfig;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::wait::eventually;
use helmops_model::names;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::standalone::{Fixture, Suite, decoded};
use crate::harness::{SOON, condition, run, until, until_none};

const SYSTEM: &str = "cattle-fleet-clusters-system";
const REGISTERED: &str = "Granted";

async fn suite() -> InUse<Suite> {
    static SUITE: Shared<Suite> = Shared::new();
    let start = async || {
        let bed = helmops::control_plane_with(&[Part::Standalone, Part::Registration], true).await?;
        let flags = [
            ("HELMOPS_CLUSTER_REGISTRATION", "true"),
            ("HELMOPS_API_SERVER_URL", "https://api.example.com:6443"),
        ];
        Suite::on(bed, &flags).await
    };
    SUITE.get(start).await.unwrap()
}

async fn fixture() -> Fixture {
    Fixture::in_suite(suite().await, "registering", 0).await
}

/// Fleet's agent: what it knows, and its access.
struct FleetAgent<'f> {
    fixture: &'f Fixture,
    kubectl: Kubectl,
    token_name: String,
}

impl<'f> FleetAgent<'f> {
    /// Installed with the values of a token that is made for it.
    async fn new(fixture: &'f Fixture, token: &str) -> Self {
        let object = json!({ "kind": "ClusterRegistrationToken", "metadata": { "name": token }, "spec": { "ttl": "1h" } });
        fixture.apply(&object).await;
        let secret = fixture.until(&format!("secret/{token}"), |_| Ok(())).await;
        assert_eq!(secret["type"], "fleet.cattle.io/cluster-registration-values");
        let values: Value = serde_saphyr::from_str(&decoded(&secret, "values").unwrap()).unwrap();
        assert_eq!(values["clusterNamespace"], fixture.namespace.name());
        assert_eq!(values["systemRegistrationNamespace"], SYSTEM);
        assert_eq!(values["apiServerURL"], "https://api.example.com:6443");
        assert_eq!(values["tokenName"], token);
        Self {
            kubectl: access(fixture, token, values["token"].as_str().unwrap()),
            fixture,
            token_name: token.to_owned(),
        }
    }

    /// What it sends, with another client ID for each cluster.
    async fn request(&self, client: &str, random: &str, over: Value) -> String {
        let mut request = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "ClusterRegistration",
            "metadata": {
                "generateName": "request-", "namespace": self.fixture.namespace.name(),
                "labels": { "fleet.cattle.io/registration-token": self.token_name },
            },
            "spec": {
                "clientID": client, "clientRandom": random,
                "clusterLabels": { "env": "prod", "fleet.cattle.io/created-by-agent-pod": "fleet-agent-0" },
            },
        });
        json_patch::merge(&mut request, &over);
        let create = ["create", "--filename=-", "--output=name"];
        let created = self
            .kubectl
            .run_with_input(&create, &request.to_string())
            .await
            .unwrap()
            .ok()
            .unwrap();
        let name = created.trim().rsplit('/').next().unwrap().to_owned();
        format!("clusterregistration/{name}")
    }

    /// The credential, as soon as it can be read.
    async fn credential(&self, client: &str, random: &str) -> Value {
        let name = names::registration_credential(client, random);
        let in_system = self.kubectl.in_namespace(SYSTEM);
        eventually("the credential", SOON, async || {
            let found = in_system
                .run(&["get", "secret", &name, "--output=json"])
                .await?
                .ok()?;
            Ok(serde_json::from_str::<Value>(&found)?)
        })
        .await
        .unwrap()
    }

    /// Does what it does with a credential: it lists BundleDeployments, and reports.
    async fn works(&self, credential: &Value) -> Kubectl {
        let name = text(credential, "clusterName");
        let path = kubeconfig_file(self.fixture, &name, &text(credential, "token"));
        eventually("the access to work", SOON, async || {
            report(&path, credential).await
        })
        .await
        .unwrap();
        self.fixture.suite.bed.kubectl().with_kubeconfig(&path)
    }
}

/// It may not read its Cluster, as kubectl does before it patches.
async fn report(kubeconfig: &Path, credential: &Value) -> Result<()> {
    let client = helmops_kube::connect("helmops-agent", Some(kubeconfig)).await?;
    let namespace = text(credential, "deploymentNamespace");
    let deployments = Api::<BundleDeployment>::namespaced(client.clone(), &namespace);
    deployments.list(&ListParams::default()).await?;
    let now = jiff::Timestamp::now().to_string();
    let report = json!({ "status": { "agent": { "lastSeen": now, "namespace": "cattle-fleet-system" } } });
    let clusters = Api::<Cluster>::namespaced(client, &text(credential, "clusterNamespace"));
    let name = text(credential, "clusterName");
    clusters
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(report))
        .await?;
    Ok(())
}

fn kubeconfig_file(fixture: &Fixture, name: &str, token: &str) -> PathBuf {
    let bed = &fixture.suite.bed;
    let path = bed
        .directory
        .join(format!("{}-{name}.kubeconfig", fixture.namespace.name()));
    std::fs::write(&path, kubeconfig::render(&bed.url, &bed.ca().unwrap(), token)).unwrap();
    path
}

fn access(fixture: &Fixture, name: &str, token: &str) -> Kubectl {
    let path = kubeconfig_file(fixture, name, token);
    fixture.suite.bed.kubectl().with_kubeconfig(&path)
}

fn text(secret: &Value, key: &str) -> String {
    decoded(secret, key).unwrap_or_default()
}

async fn until_reason(fixture: &Fixture, request: &str, reason: &str) -> String {
    let found = fixture
        .until(request, |found| {
            let granted = condition(found, REGISTERED).context("no condition")?;
            ensure!(granted["reason"] == reason, "it is {granted}");
            Ok(())
        })
        .await;
    condition(&found, REGISTERED).unwrap()["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

async fn may(kubectl: &Kubectl, namespace: &str, action: &str) -> bool {
    let mut arguments = vec!["auth", "can-i", "--namespace", namespace];
    arguments.extend(action.split(' '));
    kubectl.run(&arguments).await.unwrap().stdout.trim() == "yes"
}

async fn events(fixture: &Fixture, reason: &str) -> String {
    eventually("an Event", SOON, async || {
        let get = [
            "get",
            "events",
            "--output=jsonpath={range .items[*]}{.reason} {.message}{\"\\n\"}{end}",
        ];
        let all = fixture.namespace.kubectl().run(&get).await?.ok()?;
        let found = all.lines().find(|line| line.starts_with(reason));
        found
            .map(str::to_owned)
            .with_context(|| format!("there are {all}"))
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn fleets_agent_registers_and_may_do_what_it_needs() {
    let fixture = fixture().await;
    let workspace = fixture.namespace.name();
    let agent = FleetAgent::new(&fixture, "join").await;
    for action in [
        "list clusterregistrations",
        "get clusterregistrations",
        "list secrets",
        "create clusters",
        "get clusters",
    ] {
        assert!(!may(&agent.kubectl, workspace, action).await, "{action}");
    }
    let labels = json!({ "spec": { "clusterLabels": {
        "fleet.cattle.io/cluster": "other", "management.cattle.io/cluster-display-name": "other",
    } } });
    let request = agent.request("edge-1", "permitted", labels).await;
    let credential = agent.credential("edge-1", "permitted").await;
    assert_eq!(credential["type"], "fleet.cattle.io/agent-credential");
    let name = names::registered_cluster("edge-1");
    assert_eq!(
        (
            text(&credential, "clusterName"),
            text(&credential, "clusterNamespace")
        ),
        (name.clone(), workspace.to_owned())
    );
    assert_eq!(text(&credential, "systemNamespace"), "cattle-fleet-system");
    agent.works(&credential).await;
    until_reason(&fixture, &request, "Registered").await;
    let found = fixture.until(&request, |_| Ok(())).await;
    assert_eq!(
        (&found["status"]["granted"], &found["status"]["clusterName"]),
        (&json!(true), &json!(name))
    );
    let cluster = fixture.until(&format!("cluster/{name}"), |_| Ok(())).await;
    assert_eq!(
        cluster["metadata"]["labels"],
        json!({ "env": "prod", "fleet.cattle.io/created-by-agent-pod": "fleet-agent-0", "fleet.cattle.io/cluster": name })
    );
    assert_eq!(cluster["spec"]["clientID"], "edge-1");
    let dropped = events(&fixture, "LabelsDropped").await;
    assert!(
        dropped.contains("management.cattle.io/cluster-display-name"),
        "{dropped}"
    );

    // Its account may use its own namespace and Cluster, and no others. It makes no tokens.
    let own = access(&fixture, "own", &text(&credential, "token"));
    let namespace = text(&credential, "deploymentNamespace");
    for (action, expected) in [
        ("watch bundledeployments", true),
        ("patch bundledeployments --subresource=status", true),
        ("get secrets", true),
        ("list secrets", false),
        ("get contents", true),
        ("list contents", false),
        ("create serviceaccounts --subresource=token", false),
        ("create serviceaccounts/helmops-agent --subresource=token", false),
    ] {
        assert_eq!(may(&own, &namespace, action).await, expected, "{action}");
    }
    assert!(!may(&own, workspace, "patch clusters/other --subresource=status").await);
    // Another token does not read the credential of this one.
    let other = FleetAgent::new(&fixture, "other").await;
    let secret = names::registration_credential("edge-1", "permitted");
    assert!(may(&agent.kubectl, SYSTEM, &format!("get secrets/{secret}")).await);
    assert!(!may(&other.kubectl, SYSTEM, &format!("get secrets/{secret}")).await);
}

#[tokio::test]
async fn values_and_agents_of_older_fleet_work() {
    let fixture = fixture().await;
    let agent = FleetAgent::new(&fixture, "join").await;
    for (client, labels) in [
        ("edge-1", json!(null)),
        ("edge-2", json!({ "fleet.cattle.io/registration-token": "" })),
    ] {
        agent
            .request(client, "older", json!({ "metadata": { "labels": labels } }))
            .await;
        let credential = agent.credential(client, "older").await;
        agent.works(&credential).await;
    }
}

/// An agent that works keeps its Cluster, and one that is replaced loses its access.
#[tokio::test]
async fn a_takeover_waits_for_the_agent_is_visible_and_ends_the_access_before() {
    let fixture = fixture().await;
    let agent = FleetAgent::new(&fixture, "join").await;
    let first = agent.request("edge-1", "before", json!({})).await;
    let credential = agent.credential("edge-1", "before").await;
    agent.works(&credential).await;
    let file = kubeconfig_file(&fixture, "before", &text(&credential, "token"));
    let before = fixture.suite.bed.kubectl().with_kubeconfig(&file);
    until_reason(&fixture, &first, "Registered").await;

    // One that cannot be granted supersedes nothing.
    let gone = json!({ "metadata": { "labels": { "fleet.cattle.io/registration-token": "gone" } } });
    let refused = agent.request("edge-1", "refused", gone).await;
    let message = until_reason(&fixture, &refused, "RegistrationRefused").await;
    assert!(message.contains("ClusterRegistrationToken \"gone\""), "{message}");
    let second = agent.request("edge-1", "after", json!({})).await;
    let message = until_reason(&fixture, &second, "AgentReports").await;
    report(&file, &credential).await.unwrap();
    let (_, command) = message.split_once("kubectl ").unwrap();
    let command: Vec<_> = command.split(' ').collect();
    fixture.kubectl(&command).await;

    let credential = agent.credential("edge-1", "after").await;
    agent.works(&credential).await;
    let event = events(&fixture, "ClusterTakenOver").await;
    assert!(event.contains("has taken this Cluster over"), "{event}");
    until_none(&fixture.namespace, &first).await;
    eventually("the end of the access before", SOON, async || {
        let output = before.run(&["auth", "whoami"]).await?;
        ensure!(
            output.stderr.contains("Unauthorized") || output.stderr.contains("logged in"),
            "{}{}",
            output.stdout,
            output.stderr
        );
        Ok(())
    })
    .await
    .unwrap();
}

/// The registration of Fleet's controller, whose account has another name.
#[tokio::test]
async fn the_account_of_a_registration_that_fleet_has_made_ends_too() {
    let fixture = fixture().await;
    let workspace = fixture.namespace.name();
    fixture
        .apply(
            &json!({ "kind": "Cluster", "metadata": { "name": "edge" }, "spec": { "clientID": "edge-1" } }),
        )
        .await;
    let cluster = fixture
        .until("cluster/edge", |found| {
            ensure!(found["status"]["namespace"].is_string(), "no namespace");
            Ok(())
        })
        .await;
    let namespace = cluster["status"]["namespace"].as_str().unwrap();
    fixture
        .apply(&json!({
            "kind": "ClusterRegistration", "metadata": { "name": "request-old" },
            "spec": { "clientID": "edge-1", "clientRandom": "old" },
        }))
        .await;
    let status = json!({ "status": { "granted": true, "clusterName": "edge" } }).to_string();
    fixture
        .kubectl(&[
            "patch",
            "clusterregistration",
            "request-old",
            "--subresource=status",
            "--type=merge",
            "--patch",
            &status,
        ])
        .await;
    let old = fixture.until("clusterregistration/request-old", |_| Ok(())).await;
    let account = names::fleets_account("request-old", old["metadata"]["uid"].as_str().unwrap());
    let in_cluster = fixture.suite.bed.kubectl().in_namespace(namespace);
    let fleets = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": account, "annotations": {
            "fleet.cattle.io/cluster": "edge", "fleet.cattle.io/cluster-registration": "request-old",
            "fleet.cattle.io/cluster-registration-namespace": workspace,
        } },
    });
    in_cluster.apply(&fleets.to_string()).await.unwrap().ok().unwrap();
    let agent = FleetAgent::new(&fixture, "join").await;
    let request = agent.request("edge-1", "of-fleet", json!({})).await;
    agent.works(&agent.credential("edge-1", "of-fleet").await).await;
    until_reason(&fixture, &request, "Registered").await;
    until_none(&in_cluster, &format!("serviceaccount/{account}")).await;
    until_none(&fixture.namespace, "clusterregistration/request-old").await;
    let names = run(&fixture.namespace, &["get", "clusters", "--output=name"]).await;
    assert_eq!(
        names.trim(),
        "cluster.fleet.cattle.io/edge",
        "it is the existing Cluster"
    );
}

/// Both texts of a request are chosen by its author, and the name of the credential follows from them.
#[tokio::test]
async fn a_credential_of_another_workspace_is_never_overwritten() {
    let (fixture, other) = (fixture().await, fixture().await);
    let agent = FleetAgent::new(&fixture, "join").await;
    agent.request("edge-1", "collision", json!({})).await;
    let credential = agent.credential("edge-1", "collision").await;
    agent.works(&credential).await;
    let attacker = FleetAgent::new(&other, "join").await;
    for (client, random) in [("edge-1", "collision"), ("edge-1c", "ollision")] {
        let request = attacker.request(client, random, json!({})).await;
        let message = until_reason(&other, &request, "RegistrationRefused").await;
        assert!(
            message.contains("belongs to another ClusterRegistration"),
            "{message}"
        );
        let found = other.until(&request, |_| Ok(())).await;
        assert!(
            found["status"]
                .get("granted")
                .is_none_or(|granted| granted == false),
            "{found}"
        );
    }
    let name = names::registration_credential("edge-1", "collision");
    assert!(!may(&attacker.kubectl, SYSTEM, &format!("get secrets/{name}")).await);
    let system = fixture.suite.bed.kubectl().in_namespace(SYSTEM);
    let after = until(&system, &format!("secret/{name}"), |_| Ok(())).await;
    assert_eq!(after["data"], credential["data"]);
}

#[tokio::test]
async fn the_validity_of_a_token_can_be_changed_and_its_account_ends_with_it() {
    let fixture = fixture().await;
    let agent = FleetAgent::new(&fixture, "join").await;
    let expires = async |ttl: &str| {
        fixture
            .patch(
                "clusterregistrationtoken/join",
                &json!({ "spec": { "ttl": ttl } }),
            )
            .await;
        let found = fixture.until("clusterregistrationtoken/join", |_| Ok(())).await;
        let created: jiff::Timestamp = found["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let hours: i64 = ttl.trim_end_matches('h').parse().unwrap();
        let expected = created.as_second() + hours * 3600;
        fixture
            .until("clusterregistrationtoken/join", |found| {
                let expires = found["status"]["expires"].as_str().context("none")?;
                let expires: jiff::Timestamp = expires.parse()?;
                ensure!(expires.as_second() == expected, "it is {expires}");
                Ok(())
            })
            .await;
    };
    expires("5h").await;
    expires("2h").await;
    fixture
        .patch(
            "clusterregistrationtoken/join",
            &json!({ "spec": { "ttl": "1s" } }),
        )
        .await;
    until_none(&fixture.namespace, "clusterregistrationtoken/join").await;
    until_none(&fixture.namespace, "secret/join").await;
    eventually("the end of the token", SOON, async || {
        let output = agent.kubectl.run(&["auth", "whoami"]).await?;
        ensure!(!output.status.success(), "{}", output.stdout);
        Ok(())
    })
    .await
    .unwrap();
}

/// The Secret has the name of the token, which its author chooses.
#[tokio::test]
async fn a_secret_that_is_not_that_of_a_token_is_left_alone() {
    let fixture = fixture().await;
    fixture.secret("password", &json!({ "password": "x" })).await;
    fixture
        .apply(&json!({ "kind": "ClusterRegistrationToken", "metadata": { "name": "password" }, "spec": { "ttl": "1h" } }))
        .await;
    let event = events(&fixture, "RegistrationRefused").await;
    assert!(event.contains("is left as it is"), "{event}");
    let secret = fixture.until("secret/password", |_| Ok(())).await;
    assert_eq!(decoded(&secret, "password").as_deref(), Some("x"));
    assert!(secret["data"].get("values").is_none());
}

/// Those who delete a registration end the access of its agent.
#[tokio::test]
async fn the_account_ends_with_the_registration_and_with_the_cluster() {
    let fixture = fixture().await;
    let agent = FleetAgent::new(&fixture, "join").await;
    for (client, delete_cluster) in [("edge-1", false), ("edge-2", true)] {
        let request = agent.request(client, "ended", json!({})).await;
        let credential = agent.credential(client, "ended").await;
        agent.works(&credential).await;
        until_reason(&fixture, &request, "Registered").await;
        let found = fixture.until(&request, |_| Ok(())).await;
        let account = names::registered_account(found["metadata"]["uid"].as_str().unwrap());
        let object = if delete_cluster {
            format!("cluster/{}", names::registered_cluster(client))
        } else {
            request.clone()
        };
        fixture.kubectl(&["delete", &object]).await;
        let in_cluster = fixture
            .suite
            .bed
            .kubectl()
            .in_namespace(&text(&credential, "deploymentNamespace"));
        until_none(&in_cluster, &format!("serviceaccount/{account}")).await;
        until_none(&fixture.namespace, &format!("rolebinding/{account}")).await;
        until_none(&fixture.namespace, &request).await;
        let system = fixture.suite.bed.kubectl().in_namespace(SYSTEM);
        until_none(
            &system,
            &format!("secret/{}", names::registration_credential(client, "ended")),
        )
        .await;
        until_none(&system, &format!("rolebinding/{account}")).await;
    }
}

#[tokio::test]
async fn two_requests_of_a_client_at_a_time_end_in_one_agent() {
    let fixture = fixture().await;
    let agent = FleetAgent::new(&fixture, "join").await;
    let requests = ["a", "b", "c", "d"];
    let made = requests.map(|random| agent.request("edge-1", random, json!({})));
    let made = futures::future::join_all(made).await;
    eventually("one registration", SOON, async || {
        let found = run(
            &fixture.namespace,
            &["get", "clusterregistrations", "--output=json"],
        )
        .await;
        let found: Value = serde_json::from_str(&found)?;
        let items = found["items"].as_array().context("no items")?;
        ensure!(
            items.len() == 1 && items[0]["status"]["granted"] == true,
            "{items:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(made.len(), 4);
    let kept = run(
        &fixture.namespace,
        &[
            "get",
            "clusterregistrations",
            "--output=jsonpath={.items[0].spec.clientRandom}",
        ],
    )
    .await;
    agent.works(&agent.credential("edge-1", kept.trim()).await).await;
}
