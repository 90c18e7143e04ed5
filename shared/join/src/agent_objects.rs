//! The objects of the agent: `manifests/agent`, which are part of this program.

use kube::api::DynamicObject;
use serde_json::{Value, json};
use thiserror::Error;

/// The namespace of the agent, unless the Cluster names another one.
pub const NAMESPACE: &str = "cattle-fleet-system";
/// The name of the Deployment, of its ServiceAccount, and of its permissions.
pub const NAME: &str = "helmops-agent";
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
        let text = file.replace(NAMESPACE, options.namespace());
        let documents = helmops_release::manifest::objects(&text).map_err(|error| invalid(&error))?;
        for mut document in documents {
            if is_deployment(&document) {
                configure(&mut document, options);
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

fn is_deployment(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Deployment")
}

fn configure(deployment: &mut Value, options: &AgentOptions) {
    let Some(container) = deployment.pointer_mut("/spec/template/spec/containers/0") else {
        return;
    };
    if !options.image.is_empty()
        && let Some(image) = container.pointer_mut("/image")
    {
        *image = json!(options.image);
    }
    if let Some(arguments) = container.pointer_mut("/args").and_then(Value::as_array_mut) {
        arguments.extend(options.flags.iter().map(|flag| json!(flag)));
    }
    let variables = container.pointer_mut("/env").and_then(Value::as_array_mut);
    for variable in variables.into_iter().flatten() {
        if variable.get("name").and_then(Value::as_str) == Some("AGENT_SCOPE")
            && let Some(variable) = variable.as_object_mut()
        {
            variable.insert("value".to_owned(), json!(options.scope));
        }
    }
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
            flags: vec!["--workers=5".to_owned()],
        };
        let deployment = deployment(&options);
        assert_eq!(deployment["metadata"]["namespace"], "edge-system");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "registry.example.com/helmops-agent:1");
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
