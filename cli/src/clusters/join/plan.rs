//! What joining a cluster needs, and when it is refused: pure.

use std::collections::BTreeMap;

use helmops_api::NamespacedName;
use helmops_core::agents::ACCOUNT;
use helmops_join::access::SECRET;
use helmops_model::names::cluster_namespace;
use kube::api::DynamicObject;

use crate::{
    cluster::permission::Permission,
    clusters::workload::{FLEETS_AGENT, Workload},
    failure::Failure,
};

/// The page that describes how to replace Fleet's agent.
const TAKE_OVER: &str = "docs/agent.md#take-over-from-fleets-agent-and-back";
/// All verbs, groups or resources.
const ALL: &str = "*";

/// What is done with the Secret of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// It gets a new token.
    Write,
    /// It was written by Fleet for this Cluster, and works as it is.
    Keep,
}

/// Whether a cluster may join as `cluster`, and what happens to its Secret.
///
/// # Errors
/// If another agent works on the cluster, or it has joined as another Cluster.
pub fn admit(cluster: &NamespacedName, found: &Workload, takes_over: bool) -> Result<Credentials, Failure> {
    if let Some(namespace) = &found.other_agent {
        let message = format!(
            "an agent in namespace {namespace} of this cluster uses the ClusterRoleBinding helmops-agent"
        );
        return Err(Failure::negative(message)
            .with_hint("one agent for each cluster is enough; remove the other one first"));
    }
    if found.has_fleets_agent && !takes_over {
        let object = found.fleets_agent.map_or(FLEETS_AGENT, |agent| agent.as_str());
        let message =
            format!("Fleet's agent runs on this cluster ({object}): only one agent may keep its releases");
        let hint = format!("{TAKE_OVER} describes what happens; then add --take-over");
        return Err(Failure::negative(message).with_hint(hint));
    }
    match &found.joined {
        Some(joined) if joined.cluster != *cluster => {
            let other = &joined.cluster;
            let message = format!("this cluster has joined as Cluster {other} already (Secret {SECRET})");
            let hint = format!(
                "remove it first: kubectl helmop cluster leave {} --namespace {}",
                other.name, other.namespace
            );
            Err(Failure::negative(message).with_hint(hint))
        }
        Some(_) if found.fleets_agent.is_some() && found.image.is_none() => Ok(Credentials::Keep),
        _ => Ok(Credentials::Write),
    }
}

/// The permissions that the user needs in the management cluster.
pub fn management_permissions(cluster: &NamespacedName, exists: bool, labels: bool) -> Vec<Permission> {
    let clusters =
        |verb: &str| Permission::new(verb, "fleet.cattle.io", "clusters").within(&cluster.namespace);
    let namespace = cluster_namespace(&cluster.namespace, &cluster.name);
    let token = Permission::new("create", "", "serviceaccounts/token");
    let mut needed = vec![
        clusters("get").on(&cluster.name),
        token.within(&namespace).on(ACCOUNT),
    ];
    if !exists {
        needed.push(clusters("create"));
    } else if labels {
        needed.push(clusters("patch").on(&cluster.name));
    }
    needed
}

/// The permissions that the user needs in the workload cluster, to apply these objects, to see Fleet's agent, and to stop it.
pub fn workload_permissions(objects: &[DynamicObject], namespace: &str, stops: bool) -> Vec<Permission> {
    let of_fleet = |verb: &str, resource: &str| {
        Permission::new(verb, "apps", resource)
            .within(namespace)
            .on(FLEETS_AGENT)
    };
    let mut needed: Vec<_> = objects.iter().flat_map(to_apply).collect();
    needed.extend(["deployments", "statefulsets"].map(|resource| of_fleet("get", resource)));
    if stops {
        needed
            .extend(["deployments/scale", "statefulsets/scale"].map(|resource| of_fleet("patch", resource)));
    }
    // The agent may do everything, and only a user who may do the same can grant that.
    needed.push(Permission::new(ALL, ALL, ALL));
    needed
}

fn to_apply(object: &DynamicObject) -> [Permission; 3] {
    // The name of an object that is created by an application is known.
    ["get", "create", "patch"].map(|verb| Permission::on_object(verb, object))
}

/// The failure for permissions that are missing.
pub fn lacking(management: &[Permission], workload: &[Permission]) -> Option<Failure> {
    let section = |cluster: &str, missing: &[Permission]| {
        let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
        if missing.is_empty() {
            String::new()
        } else {
            format!("\nin the {cluster} cluster:\n  {}", names.join("\n  "))
        }
    };
    let lists = section("management", management) + &section("workload", workload);
    (!lists.is_empty()).then(|| {
        Failure::unable(format!("your users lack permissions; nothing was changed{lists}")).with_hint(
            "use contexts whose users have them; kubectl auth can-i --list shows what a user may do",
        )
    })
}

/// The labels of `wanted` that differ from those of the Cluster.
pub fn label_changes(
    wanted: &BTreeMap<String, String>,
    existing: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let differs = |(key, value): &(&String, &String)| existing.and_then(|all| all.get(*key)) != Some(*value);
    let changed = wanted.iter().filter(differs);
    changed.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use helmops_join::{
        access::Joined,
        agent_objects::{AgentOptions, objects},
    };

    use super::*;
    use crate::clusters::workload::FleetsAgent;

    fn cluster() -> NamespacedName {
        NamespacedName::new("fleet-default", "edge")
    }

    fn joined(name: &str) -> Joined {
        Joined {
            cluster: NamespacedName::new("fleet-default", name),
            deployment_namespace: "a".to_owned(),
        }
    }

    #[test]
    fn a_cluster_with_another_agent_is_refused_and_fleets_secret_is_kept() {
        let fleet = Workload {
            has_fleets_agent: true,
            fleets_agent: Some(FleetsAgent::Deployment),
            joined: Some(joined("edge")),
            ..Workload::default()
        };
        let stopped = Workload {
            has_fleets_agent: false,
            ..fleet.clone()
        };
        let both = Workload {
            image: Some("a".to_owned()),
            ..stopped.clone()
        };
        let own = Workload {
            joined: Some(joined("edge")),
            image: Some("a".to_owned()),
            ..Workload::default()
        };
        let other = Workload {
            joined: Some(joined("web")),
            ..Workload::default()
        };
        let elsewhere = Workload {
            joined: Some(Joined {
                cluster: NamespacedName::new("team", "edge"),
                deployment_namespace: "a".to_owned(),
            }),
            ..Workload::default()
        };
        let local = Workload {
            other_agent: Some("cattle-fleet-local-system".to_owned()),
            ..Workload::default()
        };
        for (found, takes_over, expected) in [
            (&Workload::default(), false, Ok(Credentials::Write)),
            (&own, false, Ok(Credentials::Write)),
            (&fleet, false, Err("deployment/fleet-agent")),
            (&fleet, true, Ok(Credentials::Keep)),
            (&stopped, false, Ok(Credentials::Keep)),
            (&both, false, Ok(Credentials::Write)),
            (&other, false, Err("Cluster fleet-default/web already")),
            (&other, true, Err("Cluster fleet-default/web already")),
            (&elsewhere, false, Err("Cluster team/edge already")),
            (&local, true, Err("cattle-fleet-local-system")),
        ] {
            match (admit(&cluster(), found, takes_over), expected) {
                (Ok(credentials), expected) => assert_eq!(Ok(credentials), expected, "{found:?}"),
                (Err(failure), Err(text)) => {
                    assert!(failure.message.contains(text), "{}", failure.message);
                }
                (Err(failure), Ok(_)) => panic!("{found:?}: {}", failure.message),
            }
        }
        let failure = admit(&cluster(), &fleet, false).unwrap_err();
        assert!(failure.hint.contains(TAKE_OVER) && failure.hint.contains("--take-over"));
    }

    #[test]
    fn every_object_needs_permissions_and_so_does_the_token() {
        let objects = objects(&AgentOptions::default()).unwrap();
        let needed: Vec<_> = workload_permissions(&objects, "cattle-fleet-system", true)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(needed.len(), 3 * objects.len() + 5);
        for expected in [
            "create namespaces cattle-fleet-system",
            "patch clusterrolebindings.rbac.authorization.k8s.io helmops-agent",
            "create networkpolicies.networking.k8s.io helmops-agent in namespace cattle-fleet-system",
            "patch poddisruptionbudgets.policy helmops-agent in namespace cattle-fleet-system",
            "patch deployments/scale.apps fleet-agent in namespace cattle-fleet-system",
        ] {
            assert!(
                needed.iter().any(|one| one == expected),
                "{expected} is not in {needed:#?}"
            );
        }
        let needed = management_permissions(&cluster(), false, true);
        let needed: Vec<_> = needed.iter().map(ToString::to_string).collect();
        assert_eq!(
            needed[0],
            "get clusters.fleet.cattle.io edge in namespace fleet-default"
        );
        assert!(needed[1].starts_with(
            "create serviceaccounts/token helmops-agent in namespace cluster-fleet-default-edge-"
        ));
        assert_eq!(
            needed[2],
            "create clusters.fleet.cattle.io in namespace fleet-default"
        );
        let of_existing = |labels| {
            let needed = management_permissions(&cluster(), true, labels);
            needed.get(2).map(ToString::to_string)
        };
        assert_eq!(
            of_existing(true).as_deref(),
            Some("patch clusters.fleet.cattle.io edge in namespace fleet-default")
        );
        assert_eq!(of_existing(false), None);
    }

    #[test]
    fn all_missing_permissions_are_listed_by_cluster() {
        assert!(lacking(&[], &[]).is_none());
        let [a, b] = ["get", "patch"].map(|verb| Permission::new(verb, "", "secrets").within("x"));
        let failure = lacking(&[a], &[b, Permission::new(ALL, ALL, ALL)]).unwrap();
        assert_eq!(
            failure.message,
            "your users lack permissions; nothing was changed\n\
             in the management cluster:\n  get secrets in namespace x\n\
             in the workload cluster:\n  patch secrets in namespace x\n  * *.*"
        );
    }

    #[test]
    fn only_labels_that_differ_are_written() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let wanted = map(&[("env", "prod"), ("zone", "eu")]);
        let existing = map(&[("env", "prod"), ("team", "a")]);
        assert_eq!(label_changes(&wanted, Some(&existing)), map(&[("zone", "eu")]));
        assert_eq!(label_changes(&wanted, None), wanted);
    }
}
