//! The agent registers with Fleet's controller, which the test plays: it makes what Fleet makes, in the same order, with the same names. The
//! control plane is both clusters. On the workload cluster, the agent has only the permissions of its Role.

use anyhow::{Context, ensure};
use helmops_bed::command;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::Part;
use helmops_bed::node;
use helmops_bed::test_bed::{TestBed, binary};
use helmops_bed::wait::eventually;
use helmops_model::names;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{SOON, run, until, until_none};

const WORKSPACE: &str = "fleet-default";
const SYSTEM: &str = "cattle-fleet-system";
/// Another one than by default.
const CREDENTIALS: &str = "credentials";
const CLUSTER: &str = "cluster-of-fleet";
const DEPLOYMENTS: &str = "cluster-fleet-default-cluster-of-fleet";

async fn apply(bed: &TestBed, objects: Value) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string();
    bed.kubectl().apply(&list).await.unwrap().ok().unwrap();
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn rbac(kind: &str, namespace: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name, "namespace": namespace },
    });
    json_patch::merge(&mut object, &fields);
    object
}

fn binding(namespace: &str, name: &str, role: &str, account: (&str, &str)) -> Value {
    rbac(
        "RoleBinding",
        namespace,
        name,
        json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "namespace": account.0, "name": account.1 }],
        }),
    )
}

/// A ServiceAccount with its token, as Fleet makes both.
async fn account(bed: &TestBed, namespace: &str, name: &str) -> String {
    let secret = format!("{name}-token");
    apply(
        bed,
        json!([
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": namespace } },
            {
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {
                    "name": secret, "namespace": namespace, "annotations": { "kubernetes.io/service-account.name": name },
                },
            },
        ]),
    )
    .await;
    let found = until(
        &bed.kubectl().in_namespace(namespace),
        &format!("secret/{secret}"),
        |found| {
            ensure!(found["data"]["token"].is_string(), "no token yet");
            Ok(())
        },
    )
    .await;
    crate::harness::standalone::decoded(&found, "token").unwrap()
}

/// What Fleet's controller makes of a token; returns the token.
async fn token(bed: &TestBed) -> String {
    apply(
        bed,
        json!([
            namespace(WORKSPACE),
            namespace(CREDENTIALS),
            namespace(DEPLOYMENTS)
        ]),
    )
    .await;
    let token = account(bed, WORKSPACE, "join-u").await;
    let rules = json!({ "rules": [{ "apiGroups": ["fleet.cattle.io"], "resources": ["clusterregistrations"], "verbs": ["create"] }] });
    apply(
        bed,
        json!([
            rbac("Role", WORKSPACE, "join-u-role", rules),
            binding(WORKSPACE, "join-u-to-role", "join-u-role", (WORKSPACE, "join-u")),
        ]),
    )
    .await;
    token
}

/// What Fleet's controller makes of a request.
async fn grant(bed: &TestBed, request: &Value) {
    let name = request["metadata"]["name"].as_str().unwrap();
    let uid = request["metadata"]["uid"].as_str().unwrap();
    let spec = |field: &str| request["spec"][field].as_str().unwrap();
    let secret = names::registration_credential(spec("clientID"), spec("clientRandom"));
    apply(
        bed,
        json!([{
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": CLUSTER, "namespace": WORKSPACE, "labels": request["spec"]["clusterLabels"] },
            "spec": { "clientID": spec("clientID") },
        }]),
    )
    .await;
    let own = names::fleets_account(name, uid);
    let token = account(bed, DEPLOYMENTS, &own).await;
    let status = json!({ "rules": [{
        "apiGroups": ["fleet.cattle.io"], "resources": ["clusters/status"], "resourceNames": [CLUSTER], "verbs": ["patch"],
    }] });
    let deployments = json!({ "rules": [
        { "apiGroups": ["fleet.cattle.io"], "resources": ["bundledeployments"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["fleet.cattle.io"], "resources": ["bundledeployments/status"], "verbs": ["update", "patch"] },
        { "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"] },
    ] });
    let read = json!({ "rules": [{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"] }] });
    let granted = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "fleet.cattle.io/agent-credential",
        "metadata": { "name": secret, "namespace": CREDENTIALS },
        "stringData": {
            "token": token, "deploymentNamespace": DEPLOYMENTS, "clusterNamespace": WORKSPACE, "clusterName": CLUSTER,
            "systemNamespace": SYSTEM,
        },
    });
    let creds = names::safe_concat(&[name, "creds"]);
    apply(
        bed,
        json!([
            granted,
            rbac("Role", WORKSPACE, name, status),
            binding(WORKSPACE, name, name, (DEPLOYMENTS, &own)),
            rbac("Role", DEPLOYMENTS, name, deployments),
            binding(DEPLOYMENTS, name, name, (DEPLOYMENTS, &own)),
            rbac("Role", CREDENTIALS, &creds, read),
            binding(CREDENTIALS, &creds, &creds, (WORKSPACE, "join-u")),
        ]),
    )
    .await;
}

#[tokio::test]
async fn the_agent_registers_with_fleets_controller() {
    let options = Options {
        manifests: Part::paths(&[Part::Base, Part::Standalone]),
        nodes: true,
        audit_log: true,
        ..Options::default()
    };
    let bed = TestBed::start(&options).await.unwrap();
    let values = json!({
        "clusterNamespace": WORKSPACE, "apiServerURL": bed.url, "apiServerCA": bed.ca().unwrap(), "token": token(&bed).await,
        "systemRegistrationNamespace": CREDENTIALS, "tokenName": "join",
    });
    let encoded = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(values.to_string())
    };
    let mut register = Command::new(binary("kubectl-helmop").unwrap());
    register
        .args([
            "cluster",
            "register",
            "--client-id=edge",
            "--labels=env=prod",
            "--timeout=0s",
            "--token",
            &encoded,
        ])
        .env("KUBECONFIG", &bed.kubeconfig);
    command::run(register, "", SOON).await.unwrap().ok().unwrap();
    // The Role of its own namespace is enough to register.
    run(&bed.kubectl(), &["delete", "clusterrolebinding", "helmops-agent"]).await;
    let command = |program: &std::path::Path| bed.command(program);
    let agent = node::run_agent_pod(&bed, SYSTEM, "agent-0", &command)
        .await
        .unwrap();

    let workspace = bed.kubectl().in_namespace(WORKSPACE);
    let request = eventually("a request", SOON, async || {
        let found = workspace
            .run(&["get", "clusterregistrations", "--output=json"])
            .await?
            .ok()?;
        let found: Value = serde_json::from_str(&found)?;
        found["items"].get(0).cloned().context("there is none")
    })
    .await
    .unwrap();
    assert_eq!(
        request["metadata"]["labels"]["fleet.cattle.io/registration-token"],
        "join"
    );
    assert_eq!(request["spec"]["clientID"], "edge");
    assert_eq!(request["spec"]["clusterLabels"]["env"], "prod");
    let system = bed.kubectl().in_namespace(SYSTEM);
    assert!(system.get("secret/fleet-agent").await.unwrap().is_none());
    grant(&bed, &request).await;

    let access = until(&system, "secret/fleet-agent", |_| Ok(())).await;
    let decoded = crate::harness::standalone::decoded;
    assert_eq!(decoded(&access, "clusterName").as_deref(), Some(CLUSTER));
    assert_eq!(
        decoded(&access, "deploymentNamespace").as_deref(),
        Some(DEPLOYMENTS)
    );
    until_none(&system, "secret/fleet-agent-bootstrap").await;
    until(&workspace, &format!("cluster/{CLUSTER}"), |found| {
        ensure!(
            found["status"]["agent"]["lastSeen"].is_string(),
            "it has not reported"
        );
        Ok(())
    })
    .await;
    drop(agent);
}
