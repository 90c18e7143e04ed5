use std::collections::HashMap;

use serde_json::json;

use super::*;

/// Namespaces and Clusters of a test.
#[derive(Default)]
struct TestNamespaces {
    namespaces: HashMap<String, NamespaceOwner>,
    clusters: Vec<NamespacedName>,
}

impl Namespaces for TestNamespaces {
    fn namespace_owner(&self, namespace: &str) -> Option<NamespaceOwner> {
        self.namespaces.get(namespace).cloned()
    }

    fn rival(&self, namespace: &str, cluster: &NamespacedName) -> Option<NamespacedName> {
        let is_rival = |other: &&NamespacedName| {
            *other != cluster && cluster_namespace(&other.namespace, &other.name) == namespace
        };
        self.clusters.iter().find(is_rival).cloned()
    }

    fn is_own(&self, namespace: &str) -> bool {
        namespace == "helmops-system"
    }
}

impl TestNamespaces {
    fn with(mut self, namespace: &str, owner: NamespaceOwner) -> Self {
        self.namespaces.insert(namespace.to_owned(), owner);
        self
    }

    fn of(&self, cluster: &Cluster) -> Result<String, NamespaceRefused> {
        namespace_of(cluster, self)
    }
}

/// The metadata of a namespace that Fleet creates.
fn owned_by(cluster: &str) -> NamespaceOwner {
    let (namespace, name) = cluster.split_once('/').unwrap();
    NamespaceOwner {
        is_managed: true,
        cluster_namespace: Some(namespace.to_owned()),
        cluster: Some(name.to_owned()),
    }
}

fn managed() -> NamespaceOwner {
    NamespaceOwner {
        is_managed: true,
        ..NamespaceOwner::default()
    }
}

fn cluster(name: &str, claimed: &str) -> Cluster {
    let (namespace, name) = name.split_once('/').unwrap();
    let object = json!({
        "metadata": { "namespace": namespace, "name": name }, "status": { "namespace": claimed }
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

fn own(cluster: &str) -> String {
    let (namespace, name) = cluster.split_once('/').unwrap();
    cluster_namespace(namespace, name)
}

/// Two Clusters whose names give the same namespace. A tenant can find such a pair: beyond 63 bytes, the name is cut to five
/// digits of a hash.
fn colliding_clusters() -> [String; 2] {
    let prefix = "a".repeat(44);
    let mut found = HashMap::new();
    for number in 0_u32..4_000_000 {
        let (namespace, name) = ("fleet", format!("{prefix}{number}"));
        if let Some(before) = found.insert(cluster_namespace(namespace, &name), name.clone()) {
            return [format!("{namespace}/{before}"), format!("{namespace}/{name}")];
        }
    }
    panic!("no colliding pair found");
}

#[test]
fn a_namespace_created_by_fleet_is_used() {
    let known = TestNamespaces::default().with(&own("fleet/lab"), owned_by("fleet/lab"));
    for claimed in ["", &own("fleet/lab")] {
        assert_eq!(known.of(&cluster("fleet/lab", claimed)), Ok(own("fleet/lab")));
    }
    // Older versions of Fleet used another name, or an administrator chose one.
    let known = TestNamespaces::default().with("cluster-lab", owned_by("fleet/lab"));
    let claimed = cluster("fleet/lab", "cluster-lab");
    assert_eq!(known.of(&claimed), Ok("cluster-lab".to_owned()));
}

#[test]
fn the_computed_namespace_is_used_if_the_claimed_one_does_not_exist() {
    for claimed in ["", &own("fleet/lab"), "gone", "kube-system", "Not a valid name"] {
        let found = TestNamespaces::default().of(&cluster("fleet/lab", claimed));
        assert_eq!(found, Ok(own("fleet/lab")), "{claimed}");
    }
}

#[test]
fn the_namespace_of_another_cluster_is_never_used() {
    let (lab, prod) = (own("fleet/lab"), own("fleet/prod"));
    let known = TestNamespaces::default()
        .with(&lab, owned_by("fleet/lab"))
        .with(&prod, owned_by("fleet/prod"));
    assert_eq!(known.of(&cluster("fleet/lab", &prod)), Ok(lab.clone()));
    assert_eq!(known.of(&cluster("fleet/prod", &prod)), Ok(prod.clone()));
    let known = TestNamespaces::default().with(&prod, owned_by("fleet/prod"));
    assert_eq!(
        known.of(&cluster("fleet/lab", &prod)),
        Ok(lab),
        "it is created again"
    );
}

#[test]
fn system_namespaces_are_never_used() {
    for namespace in [
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "default",
        "helmops-system",
    ] {
        for owner in [NamespaceOwner::default(), owned_by("fleet/lab")] {
            let known = TestNamespaces::default().with(namespace, owner);
            let found = known.of(&cluster("fleet/lab", namespace));
            assert_eq!(found, Ok(own("fleet/lab")), "{namespace}");
        }
    }
}

#[test]
fn a_claimed_namespace_that_names_no_cluster_is_refused() {
    let claimed = cluster("fleet/lab", "cluster-lab");
    for owner in [NamespaceOwner::default(), managed()] {
        let refused = TestNamespaces::default().with("cluster-lab", owner).of(&claimed);
        let message = refused.unwrap_err().to_string();
        for part in [
            "Cluster fleet/lab",
            "\"cluster-lab\"",
            "kubectl annotate namespace cluster-lab fleet.cattle.io/cluster-namespace=fleet fleet.cattle.io/cluster=lab",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
    let unlabelled = NamespaceOwner {
        is_managed: false,
        ..owned_by("fleet/lab")
    };
    let refused = TestNamespaces::default()
        .with("cluster-lab", unlabelled)
        .of(&claimed);
    assert!(
        matches!(refused, Err(NamespaceRefused::Unproven { .. })),
        "{refused:?}"
    );
    // If the computed namespace exists, no deployment can be lost.
    let known = TestNamespaces::default()
        .with("tenant", managed())
        .with(&own("fleet/lab"), owned_by("fleet/lab"));
    assert_eq!(known.of(&cluster("fleet/lab", "tenant")), Ok(own("fleet/lab")));
}

#[test]
fn a_namespace_that_already_exists_without_the_label_is_refused() {
    let lab = cluster("fleet/lab", "");
    let refused = TestNamespaces::default()
        .with(&own("fleet/lab"), NamespaceOwner::default())
        .of(&lab);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("fleet.cattle.io/managed=true"), "{message}");
    assert!(message.contains("kubectl label namespace"), "{message}");
    let known = TestNamespaces::default().with(&own("fleet/lab"), managed());
    assert_eq!(known.of(&lab), Ok(own("fleet/lab")), "the label is enough");
    let known = TestNamespaces::default().with(&own("fleet/lab"), owned_by("fleet/other"));
    let message = known.of(&lab).unwrap_err().to_string();
    assert!(
        message.contains("belongs to Cluster fleet/other") && message.contains("not to Cluster fleet/lab"),
        "{message}"
    );
}

#[test]
fn of_two_clusters_with_one_namespace_the_annotated_one_keeps_it() {
    let [one, other] = colliding_clusters();
    let namespace = own(&one);
    assert_eq!(namespace, own(&other));
    let clusters = [&one, &other].map(|name| {
        let (namespace, name) = name.split_once('/').unwrap();
        NamespacedName::new(namespace, name)
    });
    let known = |owner: Option<NamespaceOwner>| TestNamespaces {
        namespaces: owner
            .map(|owner| (namespace.clone(), owner))
            .into_iter()
            .collect(),
        clusters: clusters.to_vec(),
    };
    for owner in [None, Some(managed())] {
        for (name, rival) in [(&one, &other), (&other, &one)] {
            let refused = known(owner.clone()).of(&cluster(name, &namespace)).unwrap_err();
            assert!(matches!(refused, NamespaceRefused::Shared { .. }), "{refused:?}");
            let message = refused.to_string();
            assert!(
                message.contains(name.as_str()) && message.contains(rival.as_str()),
                "{message}"
            );
        }
    }
    let known = known(Some(owned_by(&one)));
    assert_eq!(known.of(&cluster(&one, &namespace)), Ok(namespace.clone()));
    let refused = known.of(&cluster(&other, &namespace));
    assert!(
        matches!(refused, Err(NamespaceRefused::Foreign { .. })),
        "{refused:?}"
    );
}

#[test]
fn annotations_in_messages_are_truncated() {
    let owner = NamespaceOwner {
        cluster: Some("x".repeat(10_000)),
        ..owned_by("fleet/lab")
    };
    let known = TestNamespaces::default().with(&own("fleet/lab"), owner);
    let message = known.of(&cluster("fleet/lab", "")).unwrap_err().to_string();
    assert!(message.len() < 1000, "{}", message.len());
}
