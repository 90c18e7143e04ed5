//! What exists for a request that is granted, besides the account of its agent: the token of this account, the credential for the agent, and
//! the permission to read it.

use std::collections::BTreeMap;

use helmops_api::{Cluster, ClusterRegistration, NamespacedName, labels};
use helmops_model::names::{registered_account, registered_cluster};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::Secret,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use super::request::{credential_name, registration_of};
use crate::agents::Registration;

/// The namespace of agents, which Fleet writes into their credential.
pub const AGENT_SYSTEM_NAMESPACE: &str = "cattle-fleet-system";
/// The API group of Roles.
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
/// The type of the Secret with the credential: as in Fleet.
const CREDENTIAL_TYPE: &str = "fleet.cattle.io/agent-credential";
/// The type of a Secret into which Kubernetes writes a token, and its key.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const TOKEN: &str = "token";
/// The annotations of such a Secret.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// What an agent gets.
#[derive(Clone, Debug)]
pub struct Credential<'c> {
    /// The Cluster.
    pub cluster: &'c NamespacedName,
    /// The namespace of its BundleDeployments.
    pub namespace: &'c str,
    /// The token of its account.
    pub token: &'c [u8],
    /// The namespace in which agents look for their credentials.
    pub registration_namespace: &'c str,
}

/// The Cluster of a client that is new, with its labels.
pub fn new_cluster(request: &ClusterRegistration, mut labels: BTreeMap<String, String>) -> Cluster {
    let name = registered_cluster(&request.spec.client_id);
    labels.insert(labels::CLUSTER.to_owned(), name.clone());
    let mut cluster = Cluster::default();
    cluster.metadata.name = Some(name);
    cluster.metadata.namespace.clone_from(&request.metadata.namespace);
    cluster.metadata.labels = Some(labels);
    cluster.spec.client_id.clone_from(&request.spec.client_id);
    cluster
}

/// The Secret for the token of the account of a request's agent. The account, which has this UID, owns it.
pub fn token_secret(registration: &Registration, account_uid: &str, namespace: &str) -> Secret {
    let account = registered_account(&registration.uid);
    let metadata = ObjectMeta {
        name: Some(format!("{account}-token")),
        namespace: Some(namespace.to_owned()),
        labels: Some(texts(&[(labels::MANAGED, "true")])),
        annotations: Some(registration.annotations()),
        owner_references: Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ServiceAccount".to_owned(),
            name: account.clone(),
            uid: account_uid.to_owned(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    };
    account_token(metadata, &account)
}

/// A Secret into which Kubernetes writes a token of an account.
pub(super) fn account_token(mut metadata: ObjectMeta, account: &str) -> Secret {
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT_NAME.to_owned(), account.to_owned());
    Secret {
        metadata,
        type_: Some(TOKEN_TYPE.to_owned()),
        ..Secret::default()
    }
}

/// The token that Kubernetes has written, if there is one; with `account_uid`, only if it is of that account and no earlier one of the name.
pub fn token_of<'s>(secret: &'s Secret, account_uid: Option<&str>) -> Option<&'s [u8]> {
    let is_of = labels::annotation(&secret.metadata, ACCOUNT_UID);
    if account_uid.is_some_and(|uid| is_of != Some(uid)) || secret.type_.as_deref() != Some(TOKEN_TYPE) {
        return None;
    }
    let ByteString(token) = secret.data.as_ref()?.get(TOKEN)?;
    (!token.is_empty()).then_some(&**token)
}

/// The Secret with the credential. Its name follows from texts of the request, so it says whose it is.
pub fn credential(request: &ClusterRegistration, of: &Credential<'_>) -> Secret {
    let data = [
        (TOKEN, of.token),
        ("deploymentNamespace", of.namespace.as_bytes()),
        ("clusterNamespace", of.cluster.namespace.as_bytes()),
        ("clusterName", of.cluster.name.as_bytes()),
        ("systemNamespace", AGENT_SYSTEM_NAMESPACE.as_bytes()),
    ];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.to_vec())));
    let mut metadata = of_registration(request, of.registration_namespace);
    metadata.name = Some(credential_name(request));
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(labels::CLUSTER.to_owned(), of.cluster.name.clone());
    Secret {
        metadata,
        data: Some(data.into()),
        type_: Some(CREDENTIAL_TYPE.to_owned()),
        ..Secret::default()
    }
}

/// The request that a credential is for; `None` if it is not one of this controller.
pub fn credential_owner(metadata: &ObjectMeta) -> Option<Registration> {
    Registration::of(metadata)
}

/// The permission to read the credential of a request and nothing else, for accounts of its namespace.
pub fn reader(
    request: &ClusterRegistration,
    accounts: &[String],
    registration_namespace: &str,
) -> (Role, RoleBinding) {
    let name = registered_account(request.metadata.uid.as_deref().unwrap_or_default());
    let mut metadata = of_registration(request, registration_namespace);
    metadata.name = Some(name.clone());
    let one = |text: &str| Some(vec![text.to_owned()]);
    let role = Role {
        metadata: metadata.clone(),
        rules: Some(vec![PolicyRule {
            api_groups: one(""),
            resources: one("secrets"),
            resource_names: Some(vec![credential_name(request)]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        }]),
    };
    let subjects = accounts.iter().map(|account| Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.clone(),
        namespace: request.metadata.namespace.clone(),
        ..Subject::default()
    });
    let binding = RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "Role".to_owned(),
            name,
        },
        subjects: Some(subjects.collect()),
    };
    (role, binding)
}

/// The metadata of what exists for a request in the namespace of credentials, without a name.
fn of_registration(request: &ClusterRegistration, namespace: &str) -> ObjectMeta {
    let registration = registration_of(request);
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        labels: Some(texts(&[
            (labels::MANAGED, "true"),
            (labels::REGISTERED_IN, &registration.name.namespace),
        ])),
        annotations: Some(registration.annotations()),
        ..ObjectMeta::default()
    }
}

pub(super) fn texts(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let entries = entries
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()));
    entries.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> ClusterRegistration {
        let metadata = json!({ "namespace": "w", "name": "request-a", "uid": "u-1" });
        serde_json::from_value(
            json!({ "metadata": metadata, "spec": { "clientID": "a", "clientRandom": "b" } }),
        )
        .unwrap()
    }

    #[test]
    fn a_new_cluster_has_the_name_and_the_client_of_its_agent() {
        let cluster = new_cluster(&request(), texts(&[("env", "prod")]));
        assert_eq!(cluster.metadata.name.as_deref(), Some("cluster-ca978112ca1b"));
        assert_eq!(
            (cluster.metadata.namespace.as_deref(), &*cluster.spec.client_id),
            (Some("w"), "a")
        );
        let labels = cluster.metadata.labels.as_ref().unwrap();
        assert_eq!(
            (&*labels["env"], &*labels[labels::CLUSTER]),
            ("prod", "cluster-ca978112ca1b")
        );
    }

    #[test]
    fn the_credential_says_whose_it_is_and_only_it_can_be_read() {
        let cluster = NamespacedName::new("w", "c");
        let of = Credential {
            cluster: &cluster,
            namespace: "cluster-c",
            token: b"secret",
            registration_namespace: "system",
        };
        let secret = credential(&request(), &of);
        assert_eq!(
            secret.metadata.name.as_deref(),
            Some("c-fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620")
        );
        assert_eq!(
            credential_owner(&secret.metadata),
            Some(registration_of(&request()))
        );
        // The same texts, in another workspace.
        let mut other = request();
        other.metadata.namespace = Some("v".to_owned());
        let theirs = credential(&other, &of);
        assert_eq!(secret.metadata.name, theirs.metadata.name);
        assert_ne!(
            credential_owner(&secret.metadata),
            credential_owner(&theirs.metadata)
        );
        assert_eq!(credential_owner(&ObjectMeta::default()), None);

        let (role, binding) = reader(&request(), &["registration-t".to_owned()], "system");
        let allowed = &role.rules.as_ref().unwrap()[0];
        assert_eq!(
            (&allowed.verbs, allowed.resource_names.as_ref()),
            (
                &vec!["get".to_owned()],
                secret.metadata.name.map(|name| vec![name]).as_ref()
            )
        );
        let subject = &binding.subjects.as_ref().unwrap()[0];
        assert_eq!(
            (&*subject.name, subject.namespace.as_deref()),
            ("registration-t", Some("w"))
        );
        assert_eq!(
            role.metadata.name.as_deref(),
            Some("request-u-1"),
            "no text of the request is in it"
        );
        assert_eq!(
            (binding.metadata.name.as_ref(), &binding.role_ref.name),
            (role.metadata.name.as_ref(), role.metadata.name.as_ref().unwrap())
        );
    }

    #[test]
    fn a_token_of_an_earlier_account_is_none() {
        let mut secret = token_secret(&registration_of(&request()), "u-9", "cluster-c");
        assert_eq!(
            secret.metadata.annotations.as_ref().unwrap()[ACCOUNT_NAME],
            "request-u-1"
        );
        assert_eq!(token_of(&secret, None), None, "not written yet");
        secret.data = Some([("token".to_owned(), ByteString(b"x".to_vec()))].into());
        secret
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(ACCOUNT_UID.to_owned(), "u-9".to_owned());
        assert_eq!(token_of(&secret, Some("u-9")), Some(&b"x"[..]));
        assert_eq!(token_of(&secret, Some("u-8")), None);
    }
}
