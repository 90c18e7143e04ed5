//! The objects of the agent: `manifests/agent`, which are part of this program.

use helmops_api::labels;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::customization::{AgentCustomization, Priority};

/// The namespace of the agent, unless the Cluster names another one.
pub const NAMESPACE: &str = "cattle-fleet-system";
/// The name of the Deployment, of its ServiceAccount, and of its permissions.
pub const NAME: &str = "helmops-agent";
/// The field manager of `cluster join`.
pub const JOIN_MANAGER: &str = "kubectl-helmop";
/// The label of the agent's pods.
pub const SELECTOR: &str = "app.kubernetes.io/name=helmops-agent";

/// In the order in which they are created. What needs no permissions and no Secret comes first.
const FILES: [&str; 5] = [
    include_str!("../../../manifests/agent/base/namespace.yaml"),
    include_str!("../../../manifests/agent/base/rbac.yaml"),
    include_str!("../../../manifests/agent/cluster-admin/clusterrolebinding.yaml"),
    include_str!("../../../manifests/agent/base/networkpolicy.yaml"),
    include_str!("../../../manifests/agent/base/agent.yaml"),
];

/// What is different from the manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentOptions {
    /// `spec.agentNamespace` of the Cluster: the namespace of the agent, and a part of the identity of all objects. Empty by default.
    pub scope: String,
    /// The image, with registry and tag or digest; empty for that of the manifests.
    pub image: String,
    /// Additional flags.
    pub flags: Vec<String>,
    /// What the Cluster says about its agent.
    pub customization: AgentCustomization,
    /// Whom the agent was imported for: an annotation of what exists once in a cluster. Empty without an import.
    pub claim: String,
    /// Leave the number of pods as it is, since there is a Deployment already.
    pub keeps_replicas: bool,
}

impl AgentOptions {
    /// Nothing but a scope.
    pub fn in_scope(scope: &str) -> Self {
        Self {
            scope: scope.to_owned(),
            ..Self::default()
        }
    }

    pub fn namespace(&self) -> &str {
        if self.scope.is_empty() {
            NAMESPACE
        } else {
            &self.scope
        }
    }
}

/// The manifests in this program do not decode: it was built from others than its tests.
#[derive(Debug, Error)]
#[error("the manifests in this program are invalid: {0}")]
pub struct InvalidManifests(String);

/// The objects, in the order in which they are created: the Deployment comes last, so that its pods find everything.
///
/// # Errors
/// See [`InvalidManifests`].
pub fn objects(options: &AgentOptions) -> Result<Vec<DynamicObject>, InvalidManifests> {
    let invalid = |error: &dyn std::error::Error| InvalidManifests(error.to_string());
    let mut objects = Vec::new();
    for file in FILES {
        let documents = helmops_release::manifest::objects(file).map_err(|error| invalid(&error))?;
        for mut document in documents {
            relocate(&mut document, options.namespace());
            match kind(&document) {
                "Deployment" => configure(&mut document, options),
                "PodDisruptionBudget" => set_budget(&mut document, options.customization.budget.as_ref()),
                "ClusterRoleBinding" => annotate(&mut document, &options.claim),
                _ => {}
            }
            let object = serde_json::from_value(document).map_err(|error| invalid(&error))?;
            objects.push(object);
        }
    }
    objects.sort_by_key(|object: &DynamicObject| {
        object
            .types
            .as_ref()
            .is_some_and(|types| types.kind == "Deployment")
    });
    Ok(objects)
}

/// The `PriorityClass` of the agent, if the Cluster has one. It exists once in a cluster, so it is not among the other objects.
///
/// # Errors
/// Never in practice: it is made of what JSON has.
pub fn priority_class(options: &AgentOptions) -> Result<Option<DynamicObject>, InvalidManifests> {
    let Some(Priority {
        value,
        preemption_policy,
    }) = &options.customization.priority
    else {
        return Ok(None);
    };
    let mut class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": NAME, "labels": { "app.kubernetes.io/part-of": "helmops" } },
        "value": value,
        "description": "The agent of helmops",
    });
    if let Some(policy) = preemption_policy {
        set(&mut class, "", "preemptionPolicy", json!(policy));
    }
    annotate(&mut class, &options.claim);
    let object = serde_json::from_value(class);
    object
        .map(Some)
        .map_err(|error| InvalidManifests(error.to_string()))
}

fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// Puts an object into the namespace of the agent.
fn relocate(object: &mut Value, namespace: &str) {
    if kind(object) == "Namespace" {
        set(object, "/metadata", "name", json!(namespace));
        return;
    }
    if object.pointer("/metadata/namespace").is_some() {
        set(object, "/metadata", "namespace", json!(namespace));
    }
    let subjects = object.pointer_mut("/subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        set(subject, "", "namespace", json!(namespace));
    }
}

fn annotate(object: &mut Value, claim: &str) {
    if !claim.is_empty() {
        set(
            object,
            "/metadata",
            "annotations",
            json!({ labels::IMPORTED_BY: claim }),
        );
    }
}

/// Sets a field of the object at a path, if there is one.
fn set(object: &mut Value, path: &str, key: &str, value: Value) {
    if let Some(object) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        object.insert(key.to_owned(), value);
    }
}

fn set_budget(object: &mut Value, budget: Option<&(&'static str, Value)>) {
    let spec = object.pointer_mut("/spec").and_then(Value::as_object_mut);
    if let (Some(spec), Some((field, value))) = (spec, budget) {
        spec.remove("maxUnavailable");
        spec.insert((*field).to_owned(), value.clone());
    }
}

fn configure(deployment: &mut Value, options: &AgentOptions) {
    const POD: &str = "/spec/template/spec";
    let custom = &options.customization;
    if let (true, Some(spec)) = (
        options.keeps_replicas,
        deployment.pointer_mut("/spec").and_then(Value::as_object_mut),
    ) {
        spec.remove("replicas");
    }
    if let Some(container) = deployment.pointer_mut("/spec/template/spec/containers/0") {
        configure_container(container, options);
    }
    if !custom.tolerations.is_empty() {
        set(deployment, POD, "tolerations", json!(custom.tolerations));
    }
    if let Some(affinity) = &custom.affinity {
        set(deployment, POD, "affinity", affinity.clone());
    }
    if !custom.pull_secrets.is_empty() {
        set(deployment, POD, "imagePullSecrets", json!(custom.pull_secrets));
    }
    if custom.priority.is_some() {
        set(deployment, POD, "priorityClassName", json!(NAME));
    }
    if custom.host_network {
        set(deployment, POD, "hostNetwork", json!(true));
        set(deployment, POD, "dnsPolicy", json!("ClusterFirstWithHostNet"));
        // Two pods would need the same ports of one node. Unlike Recreate, this can be applied over what the API server has filled in.
        let one_at_a_time =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
        set(deployment, "/spec", "strategy", one_at_a_time);
    }
}

fn configure_container(container: &mut Value, options: &AgentOptions) {
    let custom = &options.customization;
    if let Some(image) = container.pointer_mut("/image") {
        if !options.image.is_empty() {
            *image = json!(options.image);
        }
        let own = image.as_str().unwrap_or_default();
        *image = json!(in_registry(&custom.registry, own));
    }
    if let Some(arguments) = container.pointer_mut("/args").and_then(Value::as_array_mut) {
        // Flags that an installed agent has include those of the manifests.
        let new = options.flags.iter().map(|flag| json!(flag));
        let new: Vec<_> = new.filter(|flag| !arguments.contains(flag)).collect();
        arguments.extend(new);
    }
    if let Some(resources) = &custom.resources {
        set(container, "", "resources", resources.clone());
    }
    if let Some(variables) = container.pointer_mut("/env").and_then(Value::as_array_mut) {
        configure_environment(variables, &options.scope, &custom.environment);
    }
}

/// The API server accepts one variable of a name only.
fn configure_environment(variables: &mut Vec<Value>, scope: &str, additional: &[Map<String, Value>]) {
    let name = |variable: &Value| variable.get("name").and_then(Value::as_str).map(str::to_owned);
    for variable in &mut *variables {
        if name(variable).as_deref() == Some("AGENT_SCOPE") {
            set(variable, "", "value", json!(scope));
        }
    }
    for variable in additional {
        let variable = Value::Object(variable.clone());
        let own = name(&variable);
        variables.retain(|other| name(other) != own);
        variables.push(variable);
    }
}

/// An image in another registry, unless it is there already.
fn in_registry(registry: &str, image: &str) -> String {
    if registry.is_empty()
        || image
            .strip_prefix(registry)
            .is_some_and(|rest| rest.starts_with('/'))
    {
        return image.to_owned();
    }
    format!("{registry}/{image}")
}

/// The image of the Deployment.
///
/// # Errors
/// See [`InvalidManifests`].
pub fn image(options: &AgentOptions) -> Result<String, InvalidManifests> {
    let deployment = objects(options)?.pop();
    let image = deployment.and_then(|deployment| {
        let image = deployment
            .data
            .pointer("/spec/template/spec/containers/0/image")?;
        image.as_str().map(str::to_owned)
    });
    Ok(image.unwrap_or_default())
}

/// The image of the agent beside that of the controller: the same registry, folder and tag. `None` if the names do not follow the
/// manifests, or there is a digest, which says nothing of the other image.
pub fn image_beside(controller: &str) -> Option<String> {
    let (path, name) = match controller.rsplit_once('/') {
        Some((path, name)) => (format!("{path}/"), name),
        None => (String::new(), controller),
    };
    let (name, tag) = name.split_once(':')?;
    (name == "helmops" && !tag.contains('@')).then(|| format!("{path}helmops-agent:{tag}"))
}

/// Whether an image names its registry: container runtimes complete others with one that is not yours.
pub fn has_registry(image: &str) -> bool {
    let host = image.split_once('/').map_or("", |(host, _)| host);
    host.contains(['.', ':']) || host == "localhost"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{as_json, name_of};

    fn deployment(options: &AgentOptions) -> Value {
        let all = objects(options).unwrap();
        as_json(all.last().unwrap())
    }

    #[test]
    fn the_objects_are_those_of_the_manifests_and_the_deployment_comes_last() {
        let names: Vec<_> = objects(&AgentOptions::default())
            .unwrap()
            .iter()
            .map(name_of)
            .collect();
        assert_eq!(
            names,
            [
                "Namespace cattle-fleet-system",
                "ServiceAccount cattle-fleet-system/helmops-agent",
                "Role cattle-fleet-system/helmops-agent",
                "RoleBinding cattle-fleet-system/helmops-agent",
                "ClusterRoleBinding helmops-agent",
                "NetworkPolicy cattle-fleet-system/helmops-agent",
                "Service cattle-fleet-system/helmops-agent",
                "PodDisruptionBudget cattle-fleet-system/helmops-agent",
                "Deployment cattle-fleet-system/helmops-agent",
            ]
        );
    }

    #[test]
    fn the_image_the_flags_and_the_scope_are_set() {
        let options = AgentOptions {
            scope: "edge-system".to_owned(),
            image: "registry.example.com/helmops-agent:1".to_owned(),
            flags: vec!["--workers=5".to_owned(), "--work-dir=/work".to_owned()],
            ..AgentOptions::default()
        };
        let deployment = deployment(&options);
        assert_eq!(deployment["metadata"]["namespace"], "edge-system");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "registry.example.com/helmops-agent:1");
        assert_eq!(image(&options).unwrap(), "registry.example.com/helmops-agent:1");
        assert_eq!(
            container["args"].as_array().unwrap().last().unwrap(),
            "--workers=5"
        );
        let scope = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == "AGENT_SCOPE");
        assert_eq!(scope.unwrap()["value"], "edge-system");
        let arguments = container["args"].as_array().unwrap();
        let count = |flag: &str| arguments.iter().filter(|one| *one == flag).count();
        assert_eq!((count("--work-dir=/work"), count("--workers=5")), (1, 1));
    }

    #[test]
    fn all_objects_are_in_the_namespace_of_the_agent_and_no_text_becomes_a_part_of_them() {
        let options = AgentOptions::in_scope("edge\nkind: Secret");
        for object in objects(&options).unwrap() {
            let namespace = object.metadata.namespace.or(object.metadata.name);
            assert!(
                namespace.as_deref() == Some("edge\nkind: Secret") || namespace.as_deref() == Some(NAME),
                "{namespace:?}"
            );
            assert!(!object.data.to_string().contains(NAMESPACE), "{}", object.data);
        }
    }

    #[test]
    fn the_cluster_decides_about_its_agent() {
        let customization = AgentCustomization {
            environment: vec![
                json!({ "name": "CHECKIN_INTERVAL", "value": "1m" })
                    .as_object()
                    .unwrap()
                    .clone(),
                json!({ "name": "HTTPS_PROXY", "value": "http://proxy" })
                    .as_object()
                    .unwrap()
                    .clone(),
            ],
            tolerations: vec![json!({ "key": "a" })],
            affinity: Some(json!({ "nodeAffinity": {} })),
            resources: Some(json!({ "limits": { "memory": "1Gi" } })),
            host_network: true,
            pull_secrets: vec![json!({ "name": "login" })],
            registry: "registry.example.com".to_owned(),
            priority: Some(Priority {
                value: 1000,
                preemption_policy: Some("Never".to_owned()),
            }),
            budget: Some(("minAvailable", json!(1))),
        };
        let options = AgentOptions {
            customization,
            claim: "m/a/b".to_owned(),
            ..AgentOptions::default()
        };
        let all: Vec<_> = objects(&options).unwrap().iter().map(as_json).collect();
        let of = |kind: &str| all.iter().find(|object| object["kind"] == kind).unwrap();
        assert_eq!(
            of("ClusterRoleBinding")["metadata"]["annotations"][labels::IMPORTED_BY],
            "m/a/b"
        );
        let budget = &of("PodDisruptionBudget")["spec"];
        assert_eq!(
            (&budget["minAvailable"], &budget["maxUnavailable"]),
            (&json!(1), &Value::Null)
        );
        let spec = &of("Deployment")["spec"];
        assert_eq!(spec["strategy"]["rollingUpdate"]["maxSurge"], 0);
        let pod = &spec["template"]["spec"];
        assert_eq!(
            (
                &pod["hostNetwork"],
                &pod["priorityClassName"],
                &pod["imagePullSecrets"][0]["name"]
            ),
            (&json!(true), &json!("helmops-agent"), &json!("login"))
        );
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "registry.example.com/helmops-agent:0.1.0");
        assert_eq!(container["resources"], json!({ "limits": { "memory": "1Gi" } }));
        let variables = container["env"].as_array().unwrap();
        let named = |name: &str| {
            variables
                .iter()
                .filter(|one| one["name"] == name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            named("CHECKIN_INTERVAL"),
            [&json!({ "name": "CHECKIN_INTERVAL", "value": "1m" })]
        );
        assert_eq!(named("HTTPS_PROXY").len(), 1);
        let class = as_json(&priority_class(&options).unwrap().unwrap());
        assert_eq!(
            (&class["value"], &class["preemptionPolicy"]),
            (&json!(1000), &json!("Never"))
        );
        assert_eq!(class["metadata"]["annotations"][labels::IMPORTED_BY], "m/a/b");
        assert!(priority_class(&AgentOptions::default()).unwrap().is_none());
    }

    #[test]
    fn the_number_of_pods_stays_if_there_is_a_deployment() {
        assert_eq!(deployment(&AgentOptions::default())["spec"]["replicas"], 1);
        let options = AgentOptions {
            keeps_replicas: true,
            ..AgentOptions::default()
        };
        assert_eq!(deployment(&options)["spec"].get("replicas"), None);
    }

    #[test]
    fn an_image_is_put_into_a_registry_once() {
        for (registry, image, expected) in [
            ("", "a/b:1", "a/b:1"),
            ("r.example.com", "b:1", "r.example.com/b:1"),
            ("r.example.com", "r.example.com/b:1", "r.example.com/b:1"),
            (
                "r.example.com",
                "r.example.com.other/b:1",
                "r.example.com/r.example.com.other/b:1",
            ),
        ] {
            assert_eq!(in_registry(registry, image), expected);
        }
    }

    #[test]
    fn an_image_with_a_registry_is_recognized() {
        for (image, expected) in [
            ("registry.example.com/helmops-agent:1", true),
            ("registry:5000/helmops-agent", true),
            ("localhost/helmops-agent", true),
            ("helmops-agent:1", false),
            ("library/helmops-agent", false),
            ("", false),
        ] {
            assert_eq!(has_registry(image), expected, "{image}");
        }
    }

    #[test]
    fn the_image_is_beside_that_of_the_controller() {
        for (controller, expected) in [
            (
                "registry.example.com:5000/a/helmops:0.2.0",
                Some("registry.example.com:5000/a/helmops-agent:0.2.0"),
            ),
            ("helmops:0.1.0", Some("helmops-agent:0.1.0")),
            ("registry.example.com/mirror/other:0.2.0", None),
            ("registry.example.com/helmops@sha256:abc", None),
            ("registry.example.com/helmops:1@sha256:abc", None),
            ("helmops", None),
        ] {
            assert_eq!(image_beside(controller).as_deref(), expected, "{controller}");
        }
    }
}
