//! Whether a cluster is imported, and what is written: pure.

use helmops_api::NamespacedName;
use thiserror::Error;

use super::{
    record::ImportRecord,
    target::{Binding, Target},
};
use crate::{
    access::{ManagementServer, SECRET},
    agent_objects::NAME,
};

/// Longest name from a cluster in a message, in bytes.
const MAX_NAME: usize = 64;

/// What is imported, and for which Cluster.
#[derive(Clone, Copy, Debug)]
pub struct ImportRequest<'a> {
    /// The Cluster.
    pub cluster: &'a NamespacedName,
    /// Identifies the Cluster among all management clusters; see [`claim_of`].
    pub claim: &'a str,
    /// The UID of the namespace `kube-system` of the management cluster.
    pub management_identity: &'a str,
    /// The namespace of the BundleDeployments of the Cluster.
    pub deployment_namespace: &'a str,
    /// The namespace of the agent.
    pub agent_namespace: &'a str,
    /// What was imported before.
    pub record: &'a ImportRecord,
    /// The value of the annotation that confirms a move to another cluster.
    pub confirmed: Option<&'a str>,
    /// Where the agent reaches the management cluster.
    pub server: &'a ManagementServer,
    /// Whether everything that is desired was applied before.
    pub is_applied: bool,
    /// Whether the agent may need another token, since it does not report.
    pub needs_token: bool,
}

/// What is done with the `ClusterRoleBinding`, which says whose the agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is created: of several that try, one succeeds.
    Create,
    /// `cluster join` has created it for the same Cluster: exactly this version is claimed.
    Take {
        /// Its version.
        resource_version: String,
    },
    /// It is that of this Cluster already.
    Held,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportPlan {
    /// What is done with the `ClusterRoleBinding`.
    pub claim: Claim,
    /// Whether the objects are applied; otherwise only the Secret is written.
    pub applies: bool,
    /// Whether the Secret of the agent is written, with a new token.
    pub writes_secret: bool,
    /// The image of an agent that was installed by `cluster join`, without `spec.privateRepoURL`: its image and its flags stay. `None` for
    /// others.
    pub adopted_image: Option<String>,
    /// Whether another cluster was imported before, whose agent must lose its access.
    pub moves: bool,
}

/// Why nothing is written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The kubeconfig is that of the management cluster.
    #[error(
        "the kubeconfig leads to the management cluster itself; its agent needs no import: apply manifests/local, as docs/agent.md describes"
    )]
    ManagementCluster,
    /// The kubeconfig leads to another cluster than before.
    #[error(
        "the kubeconfig leads to another cluster than before: the UID of its namespace kube-system is {to}, and it was {from}; the agent \
         there and its releases would go on. Correct the kubeconfig, or confirm the move, which ends the access of the agent there: \
         kubectl --namespace {namespace} annotate clusters.fleet.cattle.io {name} {annotation}={to}",
        namespace = .cluster.namespace, name = .cluster.name, annotation = helmops_api::labels::IMPORT_TO
    )]
    Moved {
        /// The Cluster.
        cluster: NamespacedName,
        /// The UID before.
        from: String,
        /// The UID now.
        to: String,
    },
    /// The permissions of the agent are used from another namespace.
    #[error(
        "an agent in namespace {namespace} of the cluster uses the ClusterRoleBinding {NAME}, and this one would be in {wanted}; one agent for \
         each cluster is enough. To replace it, on the cluster: {}", remove(.namespace)
    )]
    OtherNamespace {
        /// Its namespace.
        namespace: String,
        /// That of the agent that would be installed.
        wanted: String,
    },
    /// The agent has fewer permissions than an import gives.
    #[error(
        "the agent of the cluster has no ClusterRoleBinding {NAME}, such as one of manifests/agent/namespaced, and an import would make it \
         cluster-admin. Remove spec.kubeConfigSecret of the Cluster, and it works on as it is; or if it may have all permissions, then on \
         the cluster: {}", remove(.namespace)
    )]
    RestrictedAgent {
        /// The namespace of the agent.
        namespace: String,
    },
    /// The agent was imported for another Cluster.
    #[error(
        "the agent of the cluster was imported for {owner}; one cluster is one Cluster. Delete the Cluster that is wrong, and if that is the \
         other one, then on the cluster: {}", remove(.namespace)
    )]
    Claimed {
        /// For which Cluster.
        owner: String,
        /// The namespace of the agent.
        namespace: String,
    },
    /// Fleet's agent runs on the cluster.
    #[error(
        "Fleet's agent runs on the cluster ({object}), and only one agent may keep its releases; docs/agent.md#take-over-from-fleets-agent-and-back \
         describes a takeover. To let it happen, on the cluster: kubectl --namespace {namespace} scale {object} --replicas=0"
    )]
    FleetsAgent {
        /// As kubectl names it.
        object: &'static str,
        /// Its namespace.
        namespace: String,
    },
    /// The agent has joined as another Cluster.
    #[error(
        "the agent of the cluster has joined as Cluster {cluster} (Secret {SECRET}). If it should not be that any more, on the cluster: {}",
        remove(.namespace)
    )]
    OtherCluster {
        /// The other Cluster.
        cluster: NamespacedName,
        /// The namespace of the agent.
        namespace: String,
    },
    /// The agent has joined another management cluster.
    #[error(
        "the agent of the cluster has joined another management cluster ({server}, in Secret {SECRET}). If that is an address of this one, \
         set the key apiServerURL of the Secret with the kubeconfig to it. If the agent should not be of the other one any more, on the \
         cluster: {}", remove(.namespace)
    )]
    OtherManagement {
        /// Its address, or why it is not known.
        server: String,
        /// The namespace of the agent.
        namespace: String,
    },
}

/// The commands that remove an agent: after them nothing refuses an import.
fn remove(namespace: &str) -> String {
    format!(
        "kubectl --namespace {namespace} delete --ignore-not-found deployment/{NAME} secret/{SECRET}; \
         kubectl delete --ignore-not-found clusterrolebinding/{NAME}"
    )
}

/// Identifies a Cluster among those of all management clusters: the UID of the namespace `kube-system`, the namespace and the name.
pub fn claim_of(management_identity: &str, cluster: &NamespacedName) -> String {
    format!("{management_identity}/{}/{}", cluster.namespace, cluster.name)
}

/// What is written to a cluster.
///
/// # Errors
/// If another agent works there, or it is not certain that this is the cluster that is meant.
pub fn plan(request: &ImportRequest<'_>, target: &Target) -> Result<ImportPlan, Refusal> {
    let record = request.record;
    if target.identity == request.management_identity {
        return Err(Refusal::ManagementCluster);
    }
    let moves = !record.identity.is_empty() && record.identity != target.identity;
    if moves && request.confirmed != Some(&*target.identity) {
        return Err(Refusal::Moved {
            cluster: request.cluster.clone(),
            from: record.identity.clone(),
            to: target.identity.clone(),
        });
    }
    let claim = claim(request, target.binding.as_ref())?;
    let namespace = request.agent_namespace.to_owned();
    if let Some(object) = target.fleets_agent {
        return Err(Refusal::FleetsAgent { object, namespace });
    }
    check_secret(request, target, &claim)?;
    let is_known = record.identity == target.identity;
    let is_restricted = target
        .binding
        .as_ref()
        .is_none_or(|binding| binding.namespaces.is_empty());
    if target.agent.is_some() && is_restricted && !is_known {
        return Err(Refusal::RestrictedAgent { namespace });
    }
    let is_foreign = claim != Claim::Held;
    let adopted = target
        .agent
        .as_ref()
        .filter(|_| is_foreign || (record.is_adopted && !moves));
    Ok(ImportPlan {
        applies: !request.is_applied || is_foreign || target.agent.is_none() || moves,
        writes_secret: moves || needs_secret(request, target),
        adopted_image: adopted.map(|agent| own_image(record, &agent.image).to_owned()),
        claim,
        moves,
    })
}

/// The image of an adopted agent without the registry that an import has put in front of it. One that was changed since stays.
fn own_image<'a>(record: &'a ImportRecord, installed: &'a str) -> &'a str {
    let rest = installed.strip_suffix(&*record.image);
    let is_ours = rest.is_some_and(|registry| registry.is_empty() || registry.ends_with('/'));
    if record.image.is_empty() || !is_ours {
        installed
    } else {
        &record.image
    }
}

fn claim(request: &ImportRequest<'_>, binding: Option<&Binding>) -> Result<Claim, Refusal> {
    let Some(binding) = binding else {
        return Ok(Claim::Create);
    };
    let elsewhere = binding
        .namespaces
        .iter()
        .find(|found| *found != request.agent_namespace);
    match &binding.claim {
        Some(claim) if claim != request.claim => Err(Refusal::Claimed {
            owner: owner(claim, request.management_identity),
            namespace: elsewhere
                .map_or(request.agent_namespace, String::as_str)
                .to_owned(),
        }),
        _ if elsewhere.is_some() => Err(Refusal::OtherNamespace {
            namespace: elsewhere.cloned().unwrap_or_default(),
            wanted: request.agent_namespace.to_owned(),
        }),
        Some(_) => Ok(Claim::Held),
        None => Ok(Claim::Take {
            resource_version: binding.resource_version.clone(),
        }),
    }
}

/// Another owner, for a message. The text is from the cluster.
fn owner(claim: &str, management_identity: &str) -> String {
    match claim.split_once('/') {
        Some((identity, cluster)) if identity == management_identity => {
            format!("Cluster {}", bounded_text::excerpt(cluster, 320))
        }
        _ => "another management cluster".to_owned(),
    }
}

fn check_secret(request: &ImportRequest<'_>, target: &Target, claim: &Claim) -> Result<(), Refusal> {
    let Some(secret) = &target.secret else {
        return Ok(());
    };
    let namespace = request.agent_namespace.to_owned();
    match &secret.joined {
        Some(joined) if joined.cluster != *request.cluster => {
            let part = |text: &str| bounded_text::excerpt(text, MAX_NAME);
            let cluster = NamespacedName::new(part(&joined.cluster.namespace), part(&joined.cluster.name));
            return Err(Refusal::OtherCluster { cluster, namespace });
        }
        _ => {}
    }
    // A CA says nothing: several management clusters may have certificates of one.
    let is_same = secret.server.trim_end_matches('/') == request.server.server.trim_end_matches('/');
    if *claim != Claim::Held && !is_same {
        let server = match &*secret.server {
            "" => "its kubeconfig cannot be read".to_owned(),
            server => bounded_text::excerpt(server, 128),
        };
        return Err(Refusal::OtherManagement { server, namespace });
    }
    Ok(())
}

/// Whether the agent needs another Secret than the one that is there. Otherwise that stays: the agent renews its token itself.
fn needs_secret(request: &ImportRequest<'_>, target: &Target) -> bool {
    let is_incomplete = !request.record.identity.is_empty() && request.record.digest.is_empty();
    let fits = target.secret.as_ref().is_some_and(|secret| {
        let namespace = secret.joined.as_ref().map(|joined| &*joined.deployment_namespace);
        namespace == Some(request.deployment_namespace)
            && secret.server == request.server.server
            && secret.authorities == request.server.authorities
    });
    request.needs_token || is_incomplete || !fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::Joined,
        import::target::{InstalledAgent, JoinedSecret},
    };

    const NAMESPACE: &str = "cattle-fleet-system";

    fn server() -> ManagementServer {
        ManagementServer {
            server: "https://api.example.com".to_owned(),
            authorities: "CA".to_owned(),
            server_name: None,
        }
    }

    fn cluster() -> NamespacedName {
        NamespacedName::new("fleet-default", "edge")
    }

    fn run(
        target: &Target,
        record: &ImportRecord,
        confirmed: Option<&str>,
        needs_token: bool,
    ) -> Result<ImportPlan, Refusal> {
        let request = ImportRequest {
            cluster: &cluster(),
            claim: "m/fleet-default/edge",
            management_identity: "m",
            deployment_namespace: "cluster-a",
            agent_namespace: NAMESPACE,
            record,
            confirmed,
            server: &server(),
            is_applied: needs_token,
            needs_token,
        };
        plan(&request, target)
    }

    fn empty() -> Target {
        Target {
            identity: "w".to_owned(),
            ..Target::default()
        }
    }

    fn secret() -> JoinedSecret {
        JoinedSecret {
            joined: Some(Joined {
                cluster: cluster(),
                deployment_namespace: "cluster-a".to_owned(),
            }),
            server: server().server,
            authorities: server().authorities,
        }
    }

    fn binding(claim: Option<&str>, namespace: &str) -> Binding {
        Binding {
            claim: claim.map(str::to_owned),
            namespaces: vec![namespace.to_owned()],
            resource_version: "7".to_owned(),
        }
    }

    /// As an import or `cluster join` has left it.
    fn installed(claim: Option<&str>) -> Target {
        Target {
            agent: Some(InstalledAgent::default()),
            secret: Some(secret()),
            binding: Some(binding(claim, NAMESPACE)),
            ..empty()
        }
    }

    fn done() -> ImportRecord {
        ImportRecord {
            identity: "w".to_owned(),
            digest: "d".to_owned(),
            ..ImportRecord::default()
        }
    }

    const OWN: Option<&str> = Some("m/fleet-default/edge");

    #[test]
    fn an_empty_cluster_gets_everything_and_an_imported_one_keeps_its_token() {
        let first = run(&empty(), &ImportRecord::default(), None, false).unwrap();
        assert_eq!(
            (first.claim, first.writes_secret, first.adopted_image.is_some()),
            (Claim::Create, true, false)
        );
        let again = run(&installed(OWN), &done(), None, false).unwrap();
        assert_eq!(
            (again.claim, again.writes_secret, again.adopted_image.is_some()),
            (Claim::Held, false, false)
        );
        assert!(
            run(&installed(OWN), &done(), None, true).unwrap().writes_secret,
            "the agent is silent"
        );
        let incomplete = ImportRecord {
            digest: String::new(),
            ..done()
        };
        assert!(
            run(&installed(OWN), &incomplete, None, false)
                .unwrap()
                .writes_secret
        );
        for change in [
            (|secret: &mut JoinedSecret| secret.server = "https://old".to_owned()) as fn(&mut JoinedSecret),
            |secret| secret.authorities = "old".to_owned(),
            |secret| secret.joined = None,
        ] {
            let mut target = installed(OWN);
            change(target.secret.as_mut().unwrap());
            assert!(run(&target, &done(), None, false).unwrap().writes_secret);
        }
    }

    #[test]
    fn an_agent_that_only_needs_a_token_is_not_applied_again() {
        let silent = run(&installed(OWN), &done(), None, true).unwrap();
        assert!(silent.writes_secret && !silent.applies);
        let changed = run(&installed(OWN), &done(), None, false).unwrap();
        assert!(changed.applies);
        let without_agent = Target {
            agent: None,
            ..installed(OWN)
        };
        let unbound = Target {
            binding: None,
            ..installed(OWN)
        };
        for damaged in [&without_agent, &unbound, &empty()] {
            let repaired = run(damaged, &done(), None, true).unwrap();
            assert!(repaired.applies && repaired.writes_secret);
        }
        let elsewhere = ImportRecord {
            identity: "other".to_owned(),
            ..done()
        };
        assert!(run(&installed(OWN), &elsewhere, Some("w"), true).unwrap().applies);
    }

    #[test]
    fn an_agent_that_joined_as_the_same_cluster_is_adopted_as_it_is() {
        let plan = run(&installed(None), &ImportRecord::default(), None, false).unwrap();
        let resource_version = "7".to_owned();
        assert_eq!(plan.claim, Claim::Take { resource_version });
        assert!(plan.adopted_image.is_some() && !plan.writes_secret);
        let adopted = ImportRecord {
            is_adopted: true,
            ..done()
        };
        assert!(
            run(&installed(OWN), &adopted, None, false)
                .unwrap()
                .adopted_image
                .is_some()
        );
        let without_agent = Target {
            agent: None,
            ..installed(OWN)
        };
        assert!(
            run(&without_agent, &adopted, None, false)
                .unwrap()
                .adopted_image
                .is_none()
        );
    }

    #[test]
    fn a_move_needs_a_confirmation_for_exactly_this_cluster() {
        let elsewhere = ImportRecord {
            identity: "other".to_owned(),
            ..done()
        };
        for confirmed in [None, Some("other"), Some("")] {
            let refused = run(&empty(), &elsewhere, confirmed, false).unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, Refusal::Moved { .. }));
            assert!(
                text.ends_with("annotate clusters.fleet.cattle.io edge helmops.fleet.cattle.io/import-to=w"),
                "{text}"
            );
        }
        let plan = run(&empty(), &elsewhere, Some("w"), false).unwrap();
        assert!(plan.moves && plan.writes_secret);
        assert!(
            !run(&empty(), &ImportRecord::default(), Some("w"), false)
                .unwrap()
                .moves
        );
    }

    #[test]
    fn a_cluster_with_another_agent_is_refused_with_a_remedy() {
        let remedy = "delete --ignore-not-found deployment/helmops-agent secret/fleet-agent; \
                      kubectl delete --ignore-not-found clusterrolebinding/helmops-agent";
        let with = |change: &dyn Fn(&mut Target)| {
            let mut target = installed(None);
            change(&mut target);
            target
        };
        for (target, expected) in [
            (
                with(&|target| target.identity = "m".to_owned()),
                vec!["management cluster itself", "manifests/local"],
            ),
            (
                with(&|target| target.binding = Some(binding(None, "old"))),
                vec![
                    "an agent in namespace old",
                    "kubectl --namespace old delete",
                    remedy,
                ],
            ),
            (
                with(&|target| target.binding = Some(binding(OWN, "old"))),
                vec![
                    "an agent in namespace old",
                    "this one would be in cattle-fleet-system",
                    remedy,
                ],
            ),
            (
                with(&|target| target.binding = Some(binding(Some("m/team/web"), NAMESPACE))),
                vec!["imported for Cluster team/web", remedy],
            ),
            (
                with(&|target| target.binding = Some(binding(Some("other/fleet-default/edge"), NAMESPACE))),
                vec!["imported for another management cluster", remedy],
            ),
            (
                with(&|target| target.fleets_agent = Some("deployment/fleet-agent")),
                vec![
                    "Fleet's agent runs",
                    "scale deployment/fleet-agent --replicas=0",
                    "docs/agent.md#take-over",
                ],
            ),
            (
                with(&|target| {
                    let joined = target.secret.as_mut().and_then(|secret| secret.joined.as_mut());
                    joined.unwrap().cluster = NamespacedName::new("team", "web");
                }),
                vec!["has joined as Cluster team/web", remedy],
            ),
            (
                with(&|target| {
                    let secret = target.secret.as_mut().unwrap();
                    secret.server = "https://other".to_owned();
                    secret.authorities = "other".to_owned();
                }),
                vec![
                    "another management cluster (https://other, in Secret fleet-agent)",
                    remedy,
                ],
            ),
        ] {
            let text = run(&target, &ImportRecord::default(), None, false)
                .unwrap_err()
                .to_string();
            for part in expected {
                assert!(text.contains(part), "{part:?} is not in {text}");
            }
            assert!(text.len() < 1024, "a condition would cut it: {text}");
        }
    }

    /// Staging and production may have certificates of one CA, and a Cluster of one name.
    #[test]
    fn an_agent_is_of_this_management_cluster_only_if_its_address_is_the_same() {
        let with = |server: &str| {
            let mut target = installed(None);
            target.secret.as_mut().unwrap().server = server.to_owned();
            run(&target, &ImportRecord::default(), None, false)
        };
        assert!(with("https://api.example.com/").is_ok());
        for (server, expected) in [
            ("https://other", "(https://other, in Secret fleet-agent)"),
            ("", "(its kubeconfig cannot be read, in Secret fleet-agent)"),
        ] {
            let text = with(server).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("set the key apiServerURL"), "{text}");
        }
        let mut own = installed(OWN);
        own.secret.as_mut().unwrap().server = "https://old".to_owned();
        assert!(run(&own, &done(), None, false).unwrap().writes_secret);
    }

    #[test]
    fn an_agent_without_the_permissions_of_an_import_gets_none() {
        let without_subjects = Binding {
            namespaces: Vec::new(),
            ..binding(None, NAMESPACE)
        };
        let elsewhere = ImportRecord {
            identity: "other".to_owned(),
            ..done()
        };
        for binding in [None, Some(without_subjects)] {
            let target = Target {
                binding,
                ..installed(None)
            };
            for record in [&ImportRecord::default(), &elsewhere] {
                let refused = run(&target, record, Some("w"), false).unwrap_err();
                assert!(matches!(refused, Refusal::RestrictedAgent { .. }), "{refused}");
                assert!(refused.to_string().len() < 1024);
            }
            assert!(
                run(&target, &done(), None, false).is_ok(),
                "it was imported before"
            );
            let of_fleet = Target {
                agent: None,
                ..target
            };
            assert!(run(&of_fleet, &ImportRecord::default(), None, false).is_ok());
        }
    }

    #[test]
    fn the_registry_in_front_of_an_adopted_image_does_not_pile_up() {
        for (remembered, installed, expected) in [
            ("", "own:9", "own:9"),
            ("own:9", "own:9", "own:9"),
            ("own:9", "a.example/own:9", "own:9"),
            (
                "r.example/own:9",
                "b.example/a/r.example/own:9",
                "r.example/own:9",
            ),
            ("own:9", "a.example/own:10", "a.example/own:10"),
            ("own:9", "a.example/not-own:9", "a.example/not-own:9"),
        ] {
            let record = ImportRecord {
                image: remembered.to_owned(),
                ..done()
            };
            assert_eq!(
                own_image(&record, installed),
                expected,
                "{remembered} {installed}"
            );
        }
    }

    #[test]
    fn names_from_a_cluster_are_cut() {
        let mut target = installed(None);
        let joined = target.secret.as_mut().and_then(|secret| secret.joined.as_mut());
        joined.unwrap().cluster = NamespacedName::new("a".repeat(1 << 16), "b".repeat(1 << 16));
        let text = run(&target, &ImportRecord::default(), None, false)
            .unwrap_err()
            .to_string();
        assert!(text.len() < 1024, "{} bytes", text.len());
    }
}
