//! From a Cluster to a kubeconfig for its agent, with only the commands in docs/agent.md; and what it permits.

use helmops_bed::kubectl::Kubectl;
use helmops_model::names;

use crate::harness::standalone::{Fixture, decoded};
use crate::install::readme::{commands, shell};

/// Joins the first cluster of a fixture, in a control plane that is both clusters, and returns kubectl with the kubeconfig of the agent.
async fn join(fixture: &Fixture) -> Kubectl {
    let script = commands("docs/agent.md", "### Join a cluster by hand");
    let workspace = format!("workspace={}", fixture.namespace.name());
    let script = script
        .replace("workspace=fleet-default", &workspace)
        .replace("cluster=edge-1", "cluster=c0")
        .replace("=--context=management", "=--context=testbed")
        .replace("=--context=edge-1", "=--context=testbed");
    assert!(
        script.contains("cluster=c0") && script.contains("workload=--context=testbed"),
        "{script}"
    );
    let bed = &fixture.suite.bed;
    // The second time, as after an outage, the Secret exists.
    for _ in 0..2 {
        shell(bed, &script).await;
    }
    let secret = bed
        .kubectl()
        .in_namespace("cattle-fleet-system")
        .get("secret/fleet-agent")
        .await;
    let secret = secret.unwrap().unwrap();
    let expected = [
        ("deploymentNamespace", &*fixture.clusters[0]),
        ("clusterNamespace", fixture.namespace.name()),
        ("clusterName", "c0"),
    ];
    for (key, value) in expected {
        assert_eq!(decoded(&secret, key).as_deref(), Some(value), "{key}");
    }
    let path = bed.directory.join(format!("{}.kubeconfig", fixture.clusters[0]));
    std::fs::write(&path, decoded(&secret, "kubeconfig").unwrap()).unwrap();
    bed.kubectl().with_kubeconfig(&path)
}

/// What an agent may do in the namespace of its cluster, and nowhere else.
const ALLOWED: [&str; 7] = [
    "get bundledeployments",
    "list bundledeployments",
    "watch bundledeployments",
    "patch bundledeployments --subresource=status",
    "get secrets",
    "get configmaps",
    "create serviceaccounts/helmops-agent --subresource=token",
];

/// What it may not do there either.
const DENIED: [&str; 15] = [
    "create serviceaccounts/default --subresource=token",
    "create serviceaccounts --subresource=token",
    "patch bundledeployments",
    "update bundledeployments --subresource=status",
    "create bundledeployments",
    "delete bundledeployments",
    "list secrets",
    "watch secrets",
    "create secrets",
    "update secrets",
    "list configmaps",
    "get serviceaccounts",
    "create rolebindings",
    "create leases",
    "get clusters",
];

#[tokio::test]
async fn the_agent_of_a_joined_cluster_has_exactly_its_permissions() {
    let fixture = Fixture::new("joining", 2).await;
    let workspace = fixture.namespace.name();
    // The last object of the account.
    let last = format!("clusterrolebinding/{}", names::agent_role(workspace, "c0"));
    fixture.until(&last, |_| Ok(())).await;
    let agent = join(&fixture).await;
    let who = agent
        .run(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
        .await;
    let who = who.unwrap().ok().unwrap();
    assert_eq!(
        who,
        format!("system:serviceaccount:{}:helmops-agent", fixture.clusters[0])
    );

    let [own, other] = [&*fixture.clusters[0], &*fixture.clusters[1]];
    let mut expected = Vec::new();
    expected.extend(ALLOWED.map(|action| (action, own, true)));
    expected.extend(DENIED.map(|action| (action, own, false)));
    for elsewhere in [other, workspace] {
        expected.extend(ALLOWED.map(|action| (action, elsewhere, false)));
    }
    expected.extend([
        ("get clusters/c0", workspace, false),
        ("patch clusters/c0 --subresource=status", workspace, true),
        ("get clusters/c1", workspace, false),
        ("patch clusters/c1 --subresource=status", workspace, false),
        ("patch clusters/c0", workspace, false),
        ("delete clusters/c0", workspace, false),
        ("list clusters", workspace, false),
        ("get secrets", "kube-system", false),
        // They have no namespace.
        ("get contents", own, true),
        ("list contents", own, false),
        ("watch contents", own, false),
        ("create contents", own, false),
    ]);
    for (action, namespace, may) in expected {
        let mut arguments = vec!["auth", "can-i", "--namespace", namespace];
        arguments.extend(action.split(' '));
        let output = agent.run(&arguments).await.unwrap();
        let allowed = match output.stdout.trim() {
            "yes" => true,
            "no" => false,
            _ => panic!("{action}: {}", output.stderr),
        };
        assert_eq!(allowed, may, "{action} in {namespace}");
    }
    // The namespace itself, and no other one: `can-i` cannot say this of a namespace.
    let get = async |namespace: &str| {
        agent
            .run(&["get", "namespace", namespace])
            .await
            .unwrap()
            .status
            .success()
    };
    assert!(get(own).await);
    assert!(!get(other).await && !get(workspace).await);

    // The next token, before the first one ends.
    let renew = ["create", "token", "helmops-agent", "--namespace", own];
    let token = agent.run(&renew).await.unwrap().ok().unwrap();
    assert_eq!(token.split('.').count(), 3, "a JSON Web Token");
}
