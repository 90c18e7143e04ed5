//! The workload cluster, and what is on it already.

use helmops_join::{
    access::{Joined, SECRET},
    agent_objects::NAME,
};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{Namespace, Secret},
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, Client};

use crate::{
    cluster::{Cluster, ClusterArgs, api_error},
    failure::Failure,
};

/// The name of Fleet's agent: of its Deployment, and in older versions of its StatefulSet.
pub const FLEETS_AGENT: &str = "fleet-agent";

/// The flags that select the workload cluster.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Workload cluster")]
pub struct WorkloadArgs {
    /// Context of the workload cluster
    #[arg(long, value_name = "NAME")]
    pub to_context: Option<String>,
    /// Kubeconfig file with this context; by default the same as for the management cluster
    #[arg(long, value_name = "FILE")]
    pub to_kubeconfig: Option<std::path::PathBuf>,
}

impl WorkloadArgs {
    /// The same as for another command. `management` has the default of the file.
    pub async fn connect(&self, management: &ClusterArgs) -> Result<Cluster, Failure> {
        let kubeconfig = self.to_kubeconfig.as_ref().or(management.kubeconfig.as_ref());
        let selected = ClusterArgs {
            namespace: None,
            context: self.to_context.clone(),
            kubeconfig: kubeconfig.cloned(),
        };
        selected.connect().await
    }

    /// As it is written in a command.
    pub fn shown(&self) -> String {
        match &self.to_context {
            Some(context) => format!("context {context}"),
            None => "the current context of --to-kubeconfig".to_owned(),
        }
    }
}

/// What is on the workload cluster already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Whether Fleet's agent runs: it has replicas.
    pub has_fleets_agent: bool,
    /// The kind of the object of Fleet's agent, if there is one.
    pub fleets_agent: Option<FleetsAgent>,
    /// The Secret `fleet-agent`, if there is one: which Cluster it is for.
    pub joined: Option<Joined>,
    /// The image of this agent, if it is installed.
    pub image: Option<String>,
    /// The namespace of another agent that uses the same permissions, such as that of the management cluster itself.
    pub other_agent: Option<String>,
}

/// How Fleet's agent is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetsAgent {
    Deployment,
    StatefulSet,
}

impl FleetsAgent {
    /// As kubectl takes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "deployment/fleet-agent",
            Self::StatefulSet => "statefulset/fleet-agent",
        }
    }
}

/// Reads what is on the workload cluster. `namespace` is that of the agent.
///
/// # Errors
/// If an object cannot be read.
pub async fn observe(client: &Client, namespace: &str) -> Result<Workload, Failure> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let stateful_sets = Api::<StatefulSet>::namespaced(client.clone(), namespace);
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    let read = tokio::join!(
        deployments.get_opt(NAME),
        deployments.get_opt(FLEETS_AGENT),
        stateful_sets.get_opt(FLEETS_AGENT),
        secrets.get_opt(SECRET),
        bindings.get_opt(NAME),
    );
    let attempt = |object: &str| format!("cannot read {object} of the workload cluster");
    let error = |object: String| move |error: kube::Error| api_error::failed(attempt(&object), &error);
    let own = read.0.map_err(error(format!("Deployment {namespace}/{NAME}")))?;
    let deployment = read
        .1
        .map_err(error(format!("Deployment {namespace}/{FLEETS_AGENT}")))?;
    let set = read
        .2
        .map_err(error(format!("StatefulSet {namespace}/{FLEETS_AGENT}")))?;
    let secret = read.3.map_err(error(format!("Secret {namespace}/{SECRET}")))?;
    let binding = read.4.map_err(error(format!("ClusterRoleBinding {NAME}")))?;
    let runs = |replicas: Option<i32>| replicas.unwrap_or(1) > 0;
    let deployment_runs = deployment
        .as_ref()
        .map(|found| runs(found.spec.as_ref().and_then(|spec| spec.replicas)));
    let set_runs = set
        .as_ref()
        .map(|found| runs(found.spec.as_ref().and_then(|spec| spec.replicas)));
    Ok(Workload {
        has_fleets_agent: deployment_runs == Some(true) || set_runs == Some(true),
        fleets_agent: match (deployment_runs, set_runs) {
            (None, None) => None,
            (_, Some(true)) | (None, _) => Some(FleetsAgent::StatefulSet),
            (Some(_), _) => Some(FleetsAgent::Deployment),
        },
        joined: secret.as_ref().and_then(Joined::of),
        image: own.as_ref().and_then(image).map(str::to_owned),
        other_agent: binding.and_then(|binding| elsewhere(&binding, namespace)),
    })
}

/// The image of the first container of a Deployment.
pub fn image(deployment: &Deployment) -> Option<&str> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.as_deref()
}

/// The namespace of a subject in another namespace.
fn elsewhere(binding: &ClusterRoleBinding, namespace: &str) -> Option<String> {
    let subjects = binding.subjects.iter().flatten();
    let mut namespaces = subjects.filter_map(|subject| subject.namespace.clone());
    namespaces.find(|found| found != namespace)
}

/// The identity of a cluster, as other tools have it: the UID of the namespace `kube-system`. `None` if it cannot be read.
pub async fn identity(client: &Client) -> Option<String> {
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.get_metadata("kube-system").await.ok()?.metadata.uid
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn permissions_of_an_agent_in_another_namespace_are_recognized() {
        let binding = |namespace: &str| -> ClusterRoleBinding {
            let subject =
                json!({ "kind": "ServiceAccount", "name": "helmops-agent", "namespace": namespace });
            serde_json::from_value(json!({ "subjects": [subject], "roleRef": { "name": "cluster-admin" } }))
                .unwrap()
        };
        assert_eq!(elsewhere(&binding("a"), "a"), None);
        assert_eq!(
            elsewhere(&binding("cattle-fleet-local-system"), "a").as_deref(),
            Some("cattle-fleet-local-system")
        );
    }
}
