use std::collections::HashMap;

use serde_json::json;

use super::*;

/// What a test knows of namespaces and Clusters.
#[derive(Default)]
struct Known {
    namespaces: HashMap<String, NamespaceOwner>,
    clusters: Vec<NamespacedName>,
}

impl Namespaces for Known {
    fn marks(&self, namespace: &str) -> Option<NamespaceOwner> {
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

impl Known {
    fn with(mut self, namespace: &str, marks: NamespaceOwner) -> Self {
        self.namespaces.insert(namespace.to_owned(), marks);
        self
    }

    fn of(&self, cluster: &Cluster) -> Result<String, NamespaceRefused> {
        namespace_of(cluster, self)
    }
}

/// A namespace as Fleet makes it.
fn made_for(cluster: &str) -> NamespaceOwner {
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

/// Two Clusters whose names give one namespace, as anybody can search for: beyond 63 bytes the name is cut to five digits of a
/// hash.
fn colliding() -> [String; 2] {
    let prefix = "a".repeat(44);
    let mut seen = HashMap::new();
    for number in 0_u32..4_000_000 {
        let (home, name) = ("fleet", format!("{prefix}{number}"));
        if let Some(before) = seen.insert(cluster_namespace(home, &name), name.clone()) {
            return [format!("{home}/{before}"), format!("{home}/{name}")];
        }
    }
    panic!("no pair was found");
}

#[test]
fn a_namespace_that_fleet_made_is_used() {
    let known = Known::default().with(&own("fleet/lab"), made_for("fleet/lab"));
    for claimed in ["", &own("fleet/lab")] {
        assert_eq!(known.of(&cluster("fleet/lab", claimed)), Ok(own("fleet/lab")));
    }
    // As versions of Fleet named it otherwise, or an administrator chose it.
    let known = Known::default().with("cluster-lab", made_for("fleet/lab"));
    let claimed = cluster("fleet/lab", "cluster-lab");
    assert_eq!(known.of(&claimed), Ok("cluster-lab".to_owned()));
}

#[test]
fn a_namespace_that_does_not_exist_is_the_computed_one() {
    for claimed in ["", &own("fleet/lab"), "gone", "kube-system", "No name at all"] {
        let found = Known::default().of(&cluster("fleet/lab", claimed));
        assert_eq!(found, Ok(own("fleet/lab")), "{claimed}");
    }
}

#[test]
fn the_namespace_of_another_cluster_is_never_used() {
    let (lab, prod) = (own("fleet/lab"), own("fleet/prod"));
    let known = Known::default()
        .with(&lab, made_for("fleet/lab"))
        .with(&prod, made_for("fleet/prod"));
    assert_eq!(known.of(&cluster("fleet/lab", &prod)), Ok(lab.clone()));
    assert_eq!(known.of(&cluster("fleet/prod", &prod)), Ok(prod.clone()));
    let known = Known::default().with(&prod, made_for("fleet/prod"));
    assert_eq!(known.of(&cluster("fleet/lab", &prod)), Ok(lab), "it is made anew");
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
        for marks in [NamespaceOwner::default(), made_for("fleet/lab")] {
            let known = Known::default().with(namespace, marks);
            let found = known.of(&cluster("fleet/lab", namespace));
            assert_eq!(found, Ok(own("fleet/lab")), "{namespace}");
        }
    }
}

#[test]
fn a_namespace_that_names_no_cluster_is_neither_used_nor_left() {
    let claimed = cluster("fleet/lab", "cluster-lab");
    for marks in [NamespaceOwner::default(), managed()] {
        let refused = Known::default().with("cluster-lab", marks).of(&claimed);
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
        ..made_for("fleet/lab")
    };
    let refused = Known::default().with("cluster-lab", unlabelled).of(&claimed);
    assert!(
        matches!(refused, Err(NamespaceRefused::Unproven { .. })),
        "{refused:?}"
    );
    // Where the cluster has its namespace, there is nothing to lose.
    let known = Known::default()
        .with("tenant", managed())
        .with(&own("fleet/lab"), made_for("fleet/lab"));
    assert_eq!(known.of(&cluster("fleet/lab", "tenant")), Ok(own("fleet/lab")));
}

#[test]
fn a_namespace_that_somebody_made_beforehand_is_refused() {
    let lab = cluster("fleet/lab", "");
    let refused = Known::default()
        .with(&own("fleet/lab"), NamespaceOwner::default())
        .of(&lab);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("fleet.cattle.io/managed=true"), "{message}");
    assert!(message.contains("kubectl label namespace"), "{message}");
    let known = Known::default().with(&own("fleet/lab"), managed());
    assert_eq!(known.of(&lab), Ok(own("fleet/lab")), "the label is enough");
    let known = Known::default().with(&own("fleet/lab"), made_for("fleet/other"));
    let message = known.of(&lab).unwrap_err().to_string();
    assert!(
        message.contains("belongs to Cluster fleet/other") && message.contains("not to Cluster fleet/lab"),
        "{message}"
    );
}

#[test]
fn of_two_clusters_with_one_namespace_the_annotated_one_keeps_it() {
    let [one, other] = colliding();
    let namespace = own(&one);
    assert_eq!(namespace, own(&other));
    let clusters = [&one, &other].map(|name| {
        let (namespace, name) = name.split_once('/').unwrap();
        NamespacedName::new(namespace, name)
    });
    let known = |marks: Option<NamespaceOwner>| Known {
        namespaces: marks
            .map(|marks| (namespace.clone(), marks))
            .into_iter()
            .collect(),
        clusters: clusters.to_vec(),
    };
    for marks in [None, Some(managed())] {
        for (name, rival) in [(&one, &other), (&other, &one)] {
            let refused = known(marks.clone()).of(&cluster(name, &namespace)).unwrap_err();
            assert!(matches!(refused, NamespaceRefused::Shared { .. }), "{refused:?}");
            let message = refused.to_string();
            assert!(
                message.contains(name.as_str()) && message.contains(rival.as_str()),
                "{message}"
            );
        }
    }
    let known = known(Some(made_for(&one)));
    assert_eq!(known.of(&cluster(&one, &namespace)), Ok(namespace.clone()));
    let refused = known.of(&cluster(&other, &namespace));
    assert!(
        matches!(refused, Err(NamespaceRefused::Foreign { .. })),
        "{refused:?}"
    );
}

#[test]
fn what_annotations_say_is_cut() {
    let marks = NamespaceOwner {
        cluster: Some("x".repeat(10_000)),
        ..made_for("fleet/lab")
    };
    let known = Known::default().with(&own("fleet/lab"), marks);
    let message = known.of(&cluster("fleet/lab", "")).unwrap_err().to_string();
    assert!(message.len() < 1000, "{}", message.len());
}
