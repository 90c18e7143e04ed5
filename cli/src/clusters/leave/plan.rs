//! What leaving needs, when it is refused, and what the user confirms: pure.

use bounded_text::listed;
use helmops_api::{Cluster, NamespacedName};
use helmops_core::status::{is_silent, last_seen};
use helmops_join::{access::SECRET, agent_objects::NAME};
use kube::api::DynamicObject;

use super::{
    agent::{LEASE, STATE},
    cluster::is_held,
};
use crate::{
    cluster::permission::Permission,
    clusters::workload::{FLEETS_AGENT, Workload},
    failure::Failure,
};

/// BundleDeployments that a warning names.
const MAX_NAMED: usize = 3;

/// Whether this is the cluster that is to leave. `context` selects the workload cluster, on which `found` is; without an agent, there
/// is none.
///
/// # Errors
/// If the agent that would be removed is not that of the Cluster, or there is nothing to remove.
pub fn admit(
    name: &NamespacedName,
    cluster: Option<&Cluster>,
    context: &str,
    found: Option<&Workload>,
) -> Result<(), Failure> {
    let joined = found.and_then(|found| found.joined.as_ref());
    if let Some(joined) = joined.filter(|joined| joined.cluster != *name) {
        let message = format!(
            "the agent on {context} is that of Cluster {}, not of {name}; nothing was changed",
            joined.cluster
        );
        return Err(Failure::negative(message)
            .with_hint("select the workload cluster of this Cluster with --to-context"));
    }
    if found.is_some_and(|found| found.has_fleets_agent) {
        return Err(Failure::negative("Fleet's agent runs on this cluster: it would uninstall all releases").with_hint(
            "to keep them, scale it to zero first: kubectl --namespace cattle-fleet-system scale deployment fleet-agent --replicas=0",
        ));
    }
    let has_reported = cluster.is_some_and(|cluster| !last_seen(&cluster.status).is_empty());
    // The Secret is deleted after the Cluster, so an interrupted run finds it.
    if found.is_some() && joined.is_none() && has_reported {
        let message = format!(
            "{context} has no agent of Cluster {name} (Secret {SECRET}), but its agent has reported from somewhere; nothing was changed"
        );
        return Err(Failure::negative(message).with_hint(
            "select its workload cluster with --to-context; if that cluster does not exist any more, use --without-agent",
        ));
    }
    let has_agent = found.is_some_and(|found| found.joined.is_some() || found.image.is_some());
    if cluster.is_none() && !has_agent {
        let message = format!("there is no Cluster {name}");
        return Err(Failure::negative(message)
            .with_hint("list those of all namespaces with: kubectl helmop cluster list --all-namespaces"));
    }
    Ok(())
}

/// The permissions that the user needs in the management cluster.
pub fn management_permissions(
    name: &NamespacedName,
    cluster: Option<&Cluster>,
    deletes_releases: bool,
) -> Vec<Permission> {
    let on_cluster = |verb: &str| {
        Permission::new(verb, "fleet.cattle.io", "clusters")
            .within(&name.namespace)
            .on(&name.name)
    };
    let mut needed = vec![on_cluster("get"), on_cluster("delete")];
    if deletes_releases || cluster.is_some_and(is_held) {
        needed.push(on_cluster("patch"));
    }
    let namespace = cluster.map_or("", |cluster| &cluster.status.namespace);
    if !namespace.is_empty() {
        needed.push(Permission::new("list", "fleet.cattle.io", "bundledeployments").within(namespace));
    }
    needed
}

/// The permissions that the user needs in the workload cluster, to see which agent works there, and to delete its objects.
pub fn workload_permissions(
    objects: &[DynamicObject],
    namespace: &str,
    deletes_releases: bool,
) -> Vec<Permission> {
    let named = |verb: &str, group: &str, resource: &str, name: &str| {
        Permission::new(verb, group, resource).within(namespace).on(name)
    };
    let mut needed = vec![
        named("get", "apps", "deployments", NAME),
        named("get", "apps", "deployments", FLEETS_AGENT),
        named("get", "apps", "statefulsets", FLEETS_AGENT),
        named("get", "", "secrets", SECRET),
        Permission::new("get", "rbac.authorization.k8s.io", "clusterrolebindings").on(NAME),
        Permission::new("list", "", "pods").within(namespace),
    ];
    needed.extend(
        objects
            .iter()
            .map(|object| Permission::on_object("delete", object)),
    );
    needed.extend(STATE.map(|name| named("delete", "", "configmaps", name)));
    needed.extend([
        named("delete", "", "secrets", SECRET),
        named("delete", "coordination.k8s.io", "leases", LEASE),
    ]);
    if deletes_releases {
        // The records of releases, which are in the namespaces of the releases.
        needed.push(Permission::new("list", "", "secrets"));
    }
    needed
}

/// What happens to the releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The agent uninstalls them.
    Uninstalled,
    /// They stay: the agent ends before it learns that their BundleDeployments are deleted.
    Kept,
    /// An earlier run has requested that they are uninstalled; those that are left stay.
    Interrupted,
    /// That of an agent that this command does not reach.
    Unknown,
}

impl Fate {
    /// From the flags, and whether an earlier run has deleted the Cluster.
    pub fn of(deletes_releases: bool, has_agent: bool, cluster: Option<&Cluster>) -> Self {
        match (has_agent, deletes_releases) {
            (false, _) => Self::Unknown,
            (true, true) => Self::Uninstalled,
            (true, false) if cluster.is_some_and(is_held) => Self::Interrupted,
            (true, false) => Self::Kept,
        }
    }

    fn text(self, count: usize) -> String {
        match self {
            Self::Uninstalled => format!("The agent UNINSTALLS its releases ({count}) first."),
            Self::Kept => format!("Its releases ({count}) stay and keep running."),
            Self::Interrupted => {
                format!("Its releases ({count}) are being uninstalled; those that are left then stay.")
            }
            Self::Unknown => {
                format!("If its agent still runs somewhere, it UNINSTALLS its releases ({count}).")
            }
        }
    }
}

/// What the user confirms. `context` is `None` without an agent.
pub fn question(name: &NamespacedName, context: Option<&str>, fate: Fate, count: usize) -> String {
    let from = context.map_or_else(String::new, |context| format!(" and the agent on {context}"));
    format!("Remove Cluster {name}{from}? {}", fate.text(count))
}

/// A warning if a Cluster is to be removed without an agent that still reports.
pub fn warning(name: &NamespacedName, cluster: Option<&Cluster>, fate: Fate) -> Option<String> {
    let status = &cluster.filter(|_| fate == Fate::Unknown)?.status;
    let last = last_seen(status);
    (!last.is_empty() && !is_silent(status)).then(|| {
        format!(
            "the agent of Cluster {name} reported at {last} and does not count as silent: if it still runs, it uninstalls its releases, \
             since their BundleDeployments are deleted"
        )
    })
}

/// A warning if releases are to be uninstalled that cannot be waited for: those of BundleDeployments that do not decode.
pub fn unknown_releases(undecoded: &[String], fate: Fate) -> Option<String> {
    (fate == Fate::Uninstalled && !undecoded.is_empty()).then(|| {
        format!(
            "not all releases are known: {}. That the agent uninstalls theirs is not waited for: afterwards, helm list \
             --all-namespaces on the workload cluster shows what is left",
            listed(undecoded, MAX_NAMED)
        )
    })
}

#[cfg(test)]
mod tests {
    use helmops_api::labels::LEAVE_FINALIZER;
    use helmops_join::{
        access::Joined,
        agent_objects::{AgentOptions, objects},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::clusters::workload::FleetsAgent;

    fn name() -> NamespacedName {
        NamespacedName::new("fleet-default", "edge")
    }

    fn cluster(last_seen: &str, finalizers: &Value) -> Cluster {
        serde_json::from_value(json!({
            "metadata": { "name": "edge", "namespace": "fleet-default", "finalizers": finalizers },
            "status": { "namespace": "cluster-edge", "agent": { "lastSeen": last_seen } },
        }))
        .unwrap()
    }

    fn texts(permissions: &[Permission]) -> Vec<String> {
        permissions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn releases_that_cannot_be_waited_for_are_a_warning_before_they_are_uninstalled() {
        let undecoded =
            ["BundleDeployment \"odd\" in namespace \"c1\" does not decode: it is odd".to_owned()];
        let warning = unknown_releases(&undecoded, Fate::Uninstalled).unwrap();
        assert!(warning.contains(&undecoded[0]), "{warning}");
        assert_eq!(unknown_releases(&undecoded, Fate::Kept), None);
        assert_eq!(unknown_releases(&[], Fate::Uninstalled), None);
    }

    #[test]
    fn only_the_agent_of_the_cluster_is_removed() {
        let joined = |name: &str| Workload {
            joined: Some(Joined {
                cluster: NamespacedName::new("fleet-default", name),
                deployment_namespace: "a".to_owned(),
            }),
            ..Workload::default()
        };
        let (own, other, none) = (joined("edge"), joined("web"), Workload::default());
        let fleet = Workload {
            has_fleets_agent: true,
            fleets_agent: Some(FleetsAgent::Deployment),
            ..joined("edge")
        };
        let reported = cluster("2026-01-01T12:00:00Z", &json!([]));
        let new = cluster("", &json!([]));
        for (cluster, found, expected) in [
            (Some(&reported), Some(&own), ""),
            (None, Some(&own), ""),
            (Some(&new), Some(&none), ""),
            (Some(&reported), None, ""),
            (
                Some(&reported),
                Some(&other),
                "is that of Cluster fleet-default/web",
            ),
            (Some(&reported), Some(&fleet), "Fleet's agent runs"),
            (
                Some(&reported),
                Some(&none),
                "context x has no agent of Cluster fleet-default/edge",
            ),
            (None, Some(&none), "there is no Cluster fleet-default/edge"),
            (None, None, "there is no Cluster fleet-default/edge"),
        ] {
            match admit(&name(), cluster, "context x", found) {
                Ok(()) => assert_eq!(expected, "", "{found:?}"),
                Err(failure) => assert!(
                    !expected.is_empty() && failure.message.contains(expected),
                    "{expected:?}: {}",
                    failure.message
                ),
            }
        }
    }

    #[test]
    fn every_step_needs_permissions() {
        let held = cluster("", &json!([LEAVE_FINALIZER]));
        let needed =
            |cluster: Option<&Cluster>, deletes| texts(&management_permissions(&name(), cluster, deletes));
        let of_cluster =
            |verb: &str| format!("{verb} clusters.fleet.cattle.io edge in namespace fleet-default");
        let list = "list bundledeployments.fleet.cattle.io in namespace cluster-edge".to_owned();
        let [get, delete, patch] = ["get", "delete", "patch"].map(of_cluster);
        let (held, free) = (Some(&held), cluster("", &json!([])));
        assert_eq!(needed(None, false), [&*get, &delete]);
        assert_eq!(needed(Some(&free), false), [&*get, &delete, &list]);
        assert_eq!(needed(Some(&free), true), [&*get, &delete, &patch, &list]);
        assert_eq!(needed(held, false), [&*get, &delete, &patch, &list]);

        let objects = objects(&AgentOptions::default()).unwrap();
        let needed = |deletes| texts(&workload_permissions(&objects, "cattle-fleet-system", deletes));
        let kept = needed(false);
        for expected in [
            "get clusterrolebindings.rbac.authorization.k8s.io helmops-agent",
            "list pods in namespace cattle-fleet-system",
            "delete deployments.apps helmops-agent in namespace cattle-fleet-system",
            "delete clusterrolebindings.rbac.authorization.k8s.io helmops-agent",
            "delete leases.coordination.k8s.io fleet-agent in namespace cattle-fleet-system",
        ] {
            assert!(
                kept.iter().any(|one| one == expected),
                "{expected} is not in {kept:#?}"
            );
        }
        let all = "list secrets".to_owned();
        assert!(!kept.contains(&all) && needed(true).contains(&all));
    }

    #[test]
    fn the_question_promises_nothing_without_an_agent() {
        let held = cluster("", &json!([LEAVE_FINALIZER]));
        for (deletes, context, cluster, expected) in [
            (
                false,
                Some("context x"),
                None,
                "Remove Cluster fleet-default/edge and the agent on context x? Its releases (2) stay and keep running.",
            ),
            (
                true,
                Some("context x"),
                Some(&held),
                "Remove Cluster fleet-default/edge and the agent on context x? The agent UNINSTALLS its releases (2) first.",
            ),
            (
                false,
                Some("context x"),
                Some(&held),
                "Remove Cluster fleet-default/edge and the agent on context x? Its releases (2) are being uninstalled; those that are left \
                 then stay.",
            ),
            (
                false,
                None,
                None,
                "Remove Cluster fleet-default/edge? If its agent still runs somewhere, it UNINSTALLS its releases (2).",
            ),
        ] {
            let fate = Fate::of(deletes, context.is_some(), cluster);
            assert_eq!(question(&name(), context, fate, 2), expected);
        }
    }

    #[test]
    fn an_agent_that_still_reports_is_warned_of() {
        let reported = cluster("2026-01-01T12:00:00Z", &json!([]));
        let warned = |cluster: &Cluster, fate| warning(&name(), Some(cluster), fate);
        let text = warned(&reported, Fate::Unknown).unwrap();
        assert!(text.contains("reported at 2026-01-01T12:00:00Z"), "{text}");
        assert_eq!(warned(&reported, Fate::Kept), None);
        assert_eq!(warned(&cluster("", &json!([])), Fate::Unknown), None);
    }
}
