//! The account of a cluster's agent: a ServiceAccount, and the roles that are bound to it.
//!
//! | object | in | allows |
//! |---|---|---|
//! | ServiceAccount, and RoleBinding to ClusterRole `helmops-agent` | the namespace of the cluster | what that ClusterRole lists, there |
//! | Role and RoleBinding | the namespace of the Cluster | to read this Cluster, and to write its status |
//! | ClusterRoleBinding to ClusterRole `helmops-agent-contents` | | to get Contents, by their names |
//!
//! An agent that has registered itself has such an account of its own, named by the UID of its ClusterRegistration, with ClusterRole
//! `helmops-registered-agent`: its token does not expire, so it may not create others.
//!
//! The first role is the same for all clusters, so it is a ClusterRole of the manifests: the controller needs no permission to
//! write its rules, only to bind it. The second one names its Cluster, and allows nothing that the controller itself may not do.

use std::{collections::BTreeMap, fmt};

use helmops_api::{NamespacedName, PermissionObject, labels};
use helmops_model::names::{agent_role, registered_account};
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// Name of the ServiceAccount of an agent, and of the ClusterRole in the manifests that it has in the namespace of its cluster.
pub const ACCOUNT: &str = "helmops-agent";

/// Name of the ClusterRole in the manifests that an agent that has registered itself has in the namespace of its cluster.
pub const REGISTERED_ROLE: &str = "helmops-registered-agent";

/// Name of the ClusterRole in the manifests that every agent has in the whole management cluster: Contents have no namespace, and their
/// names are digests.
pub const CONTENTS_ROLE: &str = "helmops-agent-contents";

const GROUP: &str = "fleet.cattle.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The kind of an object of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// ServiceAccount.
    ServiceAccount,
    /// `Role`.
    Role,
    /// RoleBinding.
    RoleBinding,
    /// ClusterRoleBinding.
    ClusterRoleBinding,
}

/// Identifies an object of an account. The order is that in which they are created.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Its kind.
    pub kind: Kind,
    /// Its name. That of a ClusterRoleBinding has no namespace.
    pub name: NamespacedName,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.namespace.is_empty() {
            return write!(f, "{:?} {}", self.kind, self.name.name);
        }
        write!(f, "{:?} {}", self.kind, self.name)
    }
}

/// An object of an account, as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum AccountObject {
    /// ServiceAccount.
    ServiceAccount(ServiceAccount),
    /// `Role`.
    Role(Role),
    /// RoleBinding.
    RoleBinding(RoleBinding),
    /// ClusterRoleBinding.
    ClusterRoleBinding(ClusterRoleBinding),
}

impl AccountObject {
    /// Its identity.
    pub fn id(&self) -> ObjectId {
        let (kind, metadata) = match self {
            Self::ServiceAccount(account) => (Kind::ServiceAccount, &account.metadata),
            Self::Role(role) => (Kind::Role, &role.metadata),
            Self::RoleBinding(binding) => (Kind::RoleBinding, &binding.metadata),
            Self::ClusterRoleBinding(binding) => (Kind::ClusterRoleBinding, &binding.metadata),
        };
        let name = NamespacedName::of(metadata);
        ObjectId { kind, name }
    }

    /// What is observed of it when it exists.
    pub fn observed(&self) -> ObservedObject {
        match self {
            Self::ServiceAccount(account) => Content {
                automount: account.automount_service_account_token,
                ..Content::of(&account.metadata)
            },
            Self::Role(role) => Content {
                rules: role.rules.as_deref().unwrap_or_default(),
                ..Content::of(&role.metadata)
            },
            Self::RoleBinding(RoleBinding {
                metadata,
                role_ref,
                subjects,
            })
            | Self::ClusterRoleBinding(ClusterRoleBinding {
                metadata,
                role_ref,
                subjects,
            }) => Content {
                role: Some(role_ref),
                subjects: subjects.as_deref().unwrap_or_default(),
                ..Content::of(metadata)
            },
        }
        .observed()
    }
}

impl From<ServiceAccount> for AccountObject {
    fn from(account: ServiceAccount) -> Self {
        Self::ServiceAccount(account)
    }
}

impl From<Role> for AccountObject {
    fn from(role: Role) -> Self {
        Self::Role(role)
    }
}

impl From<RoleBinding> for AccountObject {
    fn from(binding: RoleBinding) -> Self {
        Self::RoleBinding(binding)
    }
}

impl From<ClusterRoleBinding> for AccountObject {
    fn from(binding: ClusterRoleBinding) -> Self {
        Self::ClusterRoleBinding(binding)
    }
}

/// A ClusterRegistration whose agent has an account of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// Its name.
    pub name: NamespacedName,
    /// Its UID.
    pub uid: String,
}

impl Registration {
    /// The annotations of what exists for it, in whichever namespace that is.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        map(&[
            (labels::REGISTRATION_NAMESPACE, &self.name.namespace),
            (labels::REGISTRATION, &self.name.name),
            (labels::REGISTRATION_UID, &self.uid),
        ])
    }

    /// The one that the annotations of an object name.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let annotation = |key: &str| labels::annotation(metadata, key).map(str::to_owned);
        Some(Self {
            name: NamespacedName {
                namespace: annotation(labels::REGISTRATION_NAMESPACE)?,
                name: annotation(labels::REGISTRATION)?,
            },
            uid: annotation(labels::REGISTRATION_UID)?,
        })
    }
}

/// What is known of an existing object: small, since there are five for each cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedObject {
    /// The Cluster that its annotations name.
    pub cluster: Option<NamespacedName>,
    /// The ClusterRegistration whose agent it is for; `None` if it is for every agent of the Cluster.
    pub registration: Option<Registration>,
    /// Its UID.
    pub uid: Option<String>,
    /// A hash of everything that this module sets.
    pub(super) content: u64,
    /// A hash of the role of a binding, which cannot be changed.
    pub(super) role: u64,
}

impl ObservedObject {
    /// Reads an object.
    pub fn of<K>(object: &PermissionObject<K>) -> Self {
        Content {
            automount: object.automount_service_account_token,
            rules: object.rules.as_deref().unwrap_or_default(),
            role: object.role_ref.as_ref(),
            subjects: object.subjects.as_deref().unwrap_or_default(),
            ..Content::of(&object.metadata)
        }
        .observed()
    }
}

/// Everything of an object that this module sets.
struct Content<'o> {
    metadata: &'o ObjectMeta,
    automount: Option<bool>,
    rules: &'o [PolicyRule],
    role: Option<&'o RoleRef>,
    subjects: &'o [Subject],
}

impl<'o> Content<'o> {
    /// Of an object with nothing but metadata.
    const fn of(metadata: &'o ObjectMeta) -> Self {
        Self {
            metadata,
            automount: None,
            rules: &[],
            role: None,
            subjects: &[],
        }
    }

    fn observed(&self) -> ObservedObject {
        let metadata = self.metadata;
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        let cluster = annotation(labels::CLUSTER_NAMESPACE)
            .zip(annotation(labels::CLUSTER))
            .map(|(namespace, name)| NamespacedName { namespace, name });
        let registration = Registration::of(metadata);
        let content = (
            labels::of(metadata, labels::AGENT_ACCOUNT),
            registration.as_ref().map(Registration::annotations),
            cluster
                .as_ref()
                .map(|cluster| (&cluster.namespace, &cluster.name)),
            metadata.owner_references.as_deref().unwrap_or_default(),
            self.automount,
            self.rules,
            self.subjects,
        );
        ObservedObject {
            uid: metadata.uid.clone(),
            content: hash(&content),
            role: hash(&self.role),
            cluster,
            registration,
        }
    }
}

fn hash(content: &impl Serialize) -> u64 {
    let text = serde_json::to_vec(content).unwrap_or_default();
    let digest = digest(&SHA256, &text);
    let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(first)
}

/// The objects of the account of a Cluster, in the order in which they are created. `uid` is that of the Cluster, and `namespace` that
/// of its BundleDeployments.
pub fn account(cluster: &NamespacedName, uid: &str, namespace: &str) -> Vec<AccountObject> {
    let own = agent_role(&cluster.namespace, &cluster.name);
    let names = Names {
        account: ACCOUNT,
        role: ACCOUNT,
        beside_cluster: &own,
    };
    objects(cluster, uid, namespace, &names, None)
}

/// The objects of the account of the agent that has registered itself with a ClusterRegistration.
pub fn registered(
    cluster: &NamespacedName,
    uid: &str,
    namespace: &str,
    registration: &Registration,
) -> Vec<AccountObject> {
    let own = registered_account(&registration.uid);
    let names = Names {
        account: &own,
        role: REGISTERED_ROLE,
        beside_cluster: &own,
    };
    objects(cluster, uid, namespace, &names, Some(registration))
}

struct Names<'n> {
    /// The ServiceAccount, and its RoleBinding in the namespace of the cluster.
    account: &'n str,
    /// The ClusterRole of this RoleBinding.
    role: &'n str,
    /// The Role beside the Cluster, its RoleBinding, and the ClusterRoleBinding.
    beside_cluster: &'n str,
}

fn objects(
    cluster: &NamespacedName,
    uid: &str,
    namespace: &str,
    names: &Names<'_>,
    registration: Option<&Registration>,
) -> Vec<AccountObject> {
    let mut annotations = map(&[
        (labels::CLUSTER_NAMESPACE, &cluster.namespace),
        (labels::CLUSTER, &cluster.name),
    ]);
    annotations.extend(registration.into_iter().flat_map(Registration::annotations));
    let metadata = |namespace: &str, name: &str, owners| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(map(&[(labels::AGENT_ACCOUNT, "true")])),
        annotations: Some(annotations.clone()),
        owner_references: owners,
        ..ObjectMeta::default()
    };
    // An owner is in the same namespace, so the Cluster owns only what is beside it.
    let beside_cluster = |name| metadata(&cluster.namespace, name, Some(vec![owner(cluster, uid)]));
    let in_namespace = metadata(namespace, names.account, None);
    let subjects = Some(vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: names.account.to_owned(),
        namespace: Some(namespace.to_owned()),
        ..Subject::default()
    }]);
    let binding = |metadata, kind: &str, role: &str| {
        AccountObject::RoleBinding(RoleBinding {
            metadata,
            role_ref: role_ref(kind, role),
            subjects: subjects.clone(),
        })
    };
    let own = names.beside_cluster;
    let without_namespace = ObjectMeta {
        namespace: None,
        ..metadata("", own, None)
    };
    vec![
        AccountObject::ServiceAccount(ServiceAccount {
            metadata: in_namespace.clone(),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        }),
        binding(in_namespace, "ClusterRole", names.role),
        AccountObject::Role(Role {
            metadata: beside_cluster(own),
            rules: Some(vec![rule("clusters/status", &cluster.name, "patch")]),
        }),
        binding(beside_cluster(own), "Role", own),
        AccountObject::ClusterRoleBinding(ClusterRoleBinding {
            metadata: without_namespace,
            role_ref: role_ref("ClusterRole", CONTENTS_ROLE),
            subjects: subjects.clone(),
        }),
    ]
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn rule(resource: &str, name: &str, verb: &str) -> PolicyRule {
    let one = |text: &str| Some(vec![text.to_owned()]);
    PolicyRule {
        api_groups: one(GROUP),
        resources: one(resource),
        resource_names: one(name),
        verbs: vec![verb.to_owned()],
        ..PolicyRule::default()
    }
}

fn owner(cluster: &NamespacedName, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: format!("{GROUP}/v1alpha1"),
        kind: "Cluster".to_owned(),
        name: cluster.name.clone(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let entries = entries
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()));
    entries.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn objects() -> Vec<Value> {
        let cluster = NamespacedName::new("fleet-default", "edge-1");
        let objects = account(&cluster, "u-1", "cluster-edge");
        let json = objects.iter().map(|object| match object {
            AccountObject::ServiceAccount(object) => serde_json::to_value(object),
            AccountObject::Role(object) => serde_json::to_value(object),
            AccountObject::RoleBinding(object) => serde_json::to_value(object),
            AccountObject::ClusterRoleBinding(object) => serde_json::to_value(object),
        });
        json.map(Result::unwrap).collect()
    }

    #[test]
    fn the_account_may_use_its_namespace_and_the_status_of_its_cluster() {
        let [account, binding, role, status_binding, contents] = &objects()[..] else {
            panic!("five objects");
        };
        assert_eq!(account["metadata"]["namespace"], "cluster-edge");
        assert_eq!(account["automountServiceAccountToken"], false);
        assert_eq!(binding["metadata"]["namespace"], "cluster-edge");
        assert_eq!(
            (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]),
            (&json!("ClusterRole"), &json!("helmops-agent"))
        );
        assert_eq!(role["metadata"]["namespace"], "fleet-default");
        for rule in role["rules"].as_array().unwrap() {
            assert_eq!(rule["resourceNames"], json!(["edge-1"]), "only its own Cluster");
        }
        assert_eq!(status_binding["roleRef"]["name"], role["metadata"]["name"]);
        assert_eq!(contents["metadata"]["namespace"], Value::Null);
        assert_eq!(contents["metadata"]["name"], role["metadata"]["name"]);
        assert_eq!(contents["roleRef"]["name"], "helmops-agent-contents");
        for binding in [binding, status_binding, contents] {
            let subject =
                json!([{ "kind": "ServiceAccount", "name": "helmops-agent", "namespace": "cluster-edge" }]);
            assert_eq!(binding["subjects"], subject);
        }
    }

    /// Its token does not expire, so it must not open more than itself.
    #[test]
    fn an_agent_that_has_registered_itself_has_an_account_of_its_own() {
        let cluster = NamespacedName::new("fleet-default", "edge-1");
        let registration = Registration {
            name: NamespacedName::new("fleet-default", "request-x"),
            uid: "u-7".to_owned(),
        };
        let objects = registered(&cluster, "u-1", "cluster-edge", &registration);
        for object in &objects {
            assert_eq!(object.id().name.name, "request-u-7");
            assert_eq!(object.observed().registration.as_ref(), Some(&registration));
            assert_eq!(object.observed().cluster.as_ref(), Some(&cluster));
        }
        let AccountObject::RoleBinding(binding) = &objects[1] else {
            panic!("{objects:?}");
        };
        assert_eq!(
            (&*binding.role_ref.kind, &*binding.role_ref.name),
            ("ClusterRole", REGISTERED_ROLE)
        );
        let subject = &binding.subjects.as_ref().unwrap()[0];
        assert_eq!(
            (&*subject.name, subject.namespace.as_deref()),
            ("request-u-7", Some("cluster-edge"))
        );
        let AccountObject::Role(role) = &objects[2] else {
            panic!("{objects:?}");
        };
        let rules = role.rules.as_ref().unwrap();
        assert_eq!(rules[0].resource_names, Some(vec!["edge-1".to_owned()]));
        assert_eq!(rules[0].verbs, ["patch"]);
    }

    #[test]
    fn the_cluster_owns_what_is_in_its_namespace() {
        for object in objects() {
            let owners = &object["metadata"]["ownerReferences"];
            if object["metadata"]["namespace"] == "fleet-default" {
                assert_eq!(
                    (&owners[0]["name"], &owners[0]["uid"]),
                    (&json!("edge-1"), &json!("u-1"))
                );
            } else {
                assert!(owners.is_null(), "the garbage collector would delete it");
            }
        }
    }

    #[test]
    fn an_object_is_observed_as_the_api_server_returns_it() {
        let cluster = NamespacedName::new("fleet-default", "edge-1");
        for object in account(&cluster, "u-1", "cluster-edge") {
            let desired = object.observed();
            assert_eq!(desired.cluster.as_ref(), Some(&cluster));
            let (mut json, change): (Value, fn(&mut Value)) = match &object {
                AccountObject::ServiceAccount(object) => (serde_json::to_value(object).unwrap(), |json| {
                    json["automountServiceAccountToken"] = json!(true);
                }),
                AccountObject::Role(object) => (serde_json::to_value(object).unwrap(), |json| {
                    json["rules"][0]["resourceNames"] = json!(["edge-2"]);
                }),
                AccountObject::RoleBinding(object) => (serde_json::to_value(object).unwrap(), |json| {
                    json["subjects"][0]["namespace"] = json!("default");
                }),
                AccountObject::ClusterRoleBinding(object) => {
                    (serde_json::to_value(object).unwrap(), |json| {
                        json["subjects"][0]["namespace"] = json!("default");
                    })
                }
            };
            json["metadata"]["uid"] = json!("u-2");
            json["metadata"]["resourceVersion"] = json!("7");
            json["metadata"]["labels"]["team"] = json!("a");
            let read = |json: &Value| {
                let object: PermissionObject<Role> = serde_json::from_str(&json.to_string()).unwrap();
                ObservedObject::of(&object)
            };
            let same = read(&json);
            assert_eq!((same.content, same.role), (desired.content, desired.role));
            assert_eq!(same.uid.as_deref(), Some("u-2"));
            change(&mut json);
            assert_ne!(read(&json).content, desired.content, "{json}");
        }
    }
}
