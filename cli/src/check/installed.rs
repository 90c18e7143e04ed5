//! The processes that are installed: their Deployments.

use helmops_process::build_info::VERSION;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Container};
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde::Serialize;

use super::finding::{Finding, Group};
use crate::cluster::api_error;

/// The label of everything that the manifests install.
const PART_OF: &str = "app.kubernetes.io/part-of=helmops";
const NAME: &str = "app.kubernetes.io/name";
/// The namespace of the manifests.
pub const NAMESPACE: &str = "helmops-system";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    Controller,
    Webhook,
    Agent,
    /// The notifier, which is optional.
    Notifier,
    /// The receiver, which is optional.
    Receiver,
}

impl Process {
    /// As labels and commands have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Webhook => "webhook",
            Self::Agent => "agent",
            Self::Notifier => "notifier",
            Self::Receiver => "receiver",
        }
    }

    fn of(label: &str) -> Option<Self> {
        // Controllers of shards have a suffix.
        match label.strip_prefix("helmops-")? {
            "webhook" => Some(Self::Webhook),
            "agent" => Some(Self::Agent),
            "notifier" => Some(Self::Notifier),
            "receiver" => Some(Self::Receiver),
            name if name == "controller" || name.starts_with("controller-") => Some(Self::Controller),
            _ => None,
        }
    }
}

/// A Deployment of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub process: Process,
    pub namespace: String,
    pub name: String,
    /// The image of its container.
    pub image: String,
    /// Replicas that it should have.
    pub desired: i32,
    /// Replicas that are ready.
    pub ready: i32,
    /// Why replicas are missing, if Kubernetes says so.
    pub problem: String,
    /// The value of each flag that is set through an environment variable or an argument, such as `HELMOPS_CONTROLLERS`.
    settings: Vec<(String, String)>,
}

impl Installed {
    fn of(deployment: &Deployment) -> Option<Self> {
        let process = Process::of(deployment.labels().get(NAME)?)?;
        let spec = deployment.spec.as_ref()?;
        let container = spec.template.spec.as_ref()?.containers.first()?;
        let status = deployment.status.as_ref();
        let conditions = status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let mut bad = conditions.filter(|one| match one.type_.as_str() {
            "ReplicaFailure" => one.status == "True",
            "Available" | "Progressing" => one.status == "False",
            _ => false,
        });
        Some(Self {
            process,
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            image: container.image.clone().unwrap_or_default(),
            desired: spec.replicas.unwrap_or(1),
            ready: status
                .and_then(|status| status.ready_replicas)
                .unwrap_or_default(),
            problem: bad.next().and_then(|one| one.message.clone()).unwrap_or_default(),
            settings: settings(container),
        })
    }

    /// The tag of the image, which is the version if the image has the name of the manifests; `None` with a digest only.
    pub fn version(&self) -> Option<&str> {
        let name = self.image.rsplit('/').next()?;
        let (name, _digest) = name.split_once('@').unwrap_or((name, ""));
        name.split_once(':').map(|(_, tag)| tag)
    }

    /// The value of a flag, by the name of its environment variable.
    pub fn setting(&self, variable: &str, flag: &str) -> Option<&str> {
        let given = |name: &str| self.settings.iter().rev().find(|(key, _)| key == name);
        given(flag)
            .or_else(|| given(variable))
            .map(|(_, value)| value.as_str())
    }

    /// Whether it is a controller that deploys Bundles to clusters.
    pub fn delivers(&self) -> bool {
        let controllers = self
            .setting("HELMOPS_CONTROLLERS", "--controllers")
            .unwrap_or_default();
        self.process == Process::Controller && controllers.split(',').any(|one| one == "bundle")
    }

    /// Whether it is a process of notifications, which needs their CRDs.
    pub const fn notifies(&self) -> bool {
        matches!(self.process, Process::Notifier | Process::Receiver)
    }

    fn judge(&self) -> Finding {
        let Self {
            namespace,
            name,
            ready,
            desired,
            image,
            ..
        } = self;
        let object = format!("Deployment {namespace}/{name}");
        if ready < desired || *desired == 0 {
            let problem = if self.problem.is_empty() {
                String::new()
            } else {
                format!(": {}", self.problem)
            };
            let message = format!("{object}: {ready} of {desired} replicas are ready{problem}");
            let fix = if *desired == 0 {
                format!("kubectl --namespace {namespace} scale deployment {name} --replicas=1")
            } else {
                format!(
                    "kubectl --namespace {namespace} describe deployment {name}; kubectl helmop logs {}",
                    self.process.as_str()
                )
            };
            return Finding::error(Group::Processes, message, fix);
        }
        let ready = format!("{object}: {ready} of {desired} replicas are ready");
        match self.version() {
            Some(version) if version == VERSION => {
                Finding::ok(Group::Processes, format!("{ready}, version {version}"))
            }
            Some(version) => Finding::warning(
                Group::Processes,
                format!("{ready}, version {version}; this program is {VERSION}"),
                "use the kubectl-helmop of the same version, or upgrade helmops (docs/install.md#upgrade)",
            ),
            None => Finding::ok(Group::Processes, format!("{ready}, image {image}")),
        }
    }
}

/// Environment variables and `--flag=value` arguments.
fn settings(container: &Container) -> Vec<(String, String)> {
    let variables = container.env.iter().flatten();
    let variables = variables.filter_map(|one| Some((one.name.clone(), one.value.clone()?)));
    let arguments = container.args.iter().flatten();
    let arguments = arguments.filter_map(|one| {
        let (flag, value) = one.split_once('=')?;
        Some((flag.to_owned(), value.to_owned()))
    });
    variables.chain(arguments).collect()
}

/// The Deployments on the cluster. If not all namespaces can be read, those of the manifests' namespace.
///
/// # Errors
/// If none can be read.
pub async fn find(client: &Client) -> Result<Vec<Installed>, kube::Error> {
    let params = ListParams::default().labels(PART_OF);
    let found = match Api::<Deployment>::all(client.clone()).list(&params).await {
        Err(error) if api_error::is_forbidden(&error) => {
            Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
                .list(&params)
                .await?
        }
        found => found?,
    };
    let mut installed: Vec<_> = found.items.iter().filter_map(Installed::of).collect();
    installed.sort_by(|one, other| {
        (one.process, &one.namespace, &one.name).cmp(&(other.process, &other.namespace, &other.name))
    });
    Ok(installed)
}

/// Judges the Deployments.
pub fn check(installed: &[Installed]) -> Vec<Finding> {
    let mut findings: Vec<_> = installed.iter().map(Installed::judge).collect();
    for process in [Process::Controller, Process::Webhook] {
        if !installed.iter().any(|one| one.process == process) {
            let message = format!("no Deployment of the {} found", process.as_str());
            findings.push(Finding::error(
                Group::Processes,
                message,
                "install helmops (docs/install.md), or select its cluster with --context",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Level;
    use serde_json::{Value, json};

    fn deployment(name: &str, image: &str, ready: i32, more: &Value) -> Installed {
        let container = json!({ "name": "a", "image": image, "env": [{ "name": "HELMOPS_CONTROLLERS", "value": "helmop,bundle" }], "args": more });
        let deployment = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "helmops-system", "labels": { NAME: name } },
            "spec": { "replicas": 2, "selector": {}, "template": { "spec": { "containers": [container] } } },
            "status": { "readyReplicas": ready, "conditions": [
                { "type": "Available", "status": if ready < 2 { "False" } else { "True" }, "message": "no minimum availability" },
            ] },
        }));
        Installed::of(&deployment.unwrap()).unwrap()
    }

    #[test]
    fn deployments_are_judged_by_their_replicas_and_versions() {
        let own = format!("registry.example.com:5000/helmops:{VERSION}");
        for (image, ready, level, text) in [
            (&*own, 2, Level::Ok, "2 of 2 replicas are ready, version "),
            (
                &own,
                1,
                Level::Error,
                "1 of 2 replicas are ready: no minimum availability",
            ),
            (
                "helmops:0.0.1",
                2,
                Level::Warning,
                "version 0.0.1; this program is",
            ),
            (
                "registry.example.com/helmops@sha256:abc",
                2,
                Level::Ok,
                "image registry.example.com/helmops@sha256:abc",
            ),
        ] {
            let finding = deployment("helmops-controller", image, ready, &json!([])).judge();
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
    }

    #[test]
    fn a_missing_process_is_an_error() {
        let controller = deployment("helmops-controller-blue", "a", 2, &json!([]));
        assert_eq!(controller.process, Process::Controller);
        let findings = check(&[controller]);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[1].message, "no Deployment of the webhook found");
        assert_eq!(findings[1].level, Level::Error);
    }

    #[test]
    fn optional_processes_are_judged_if_they_are_installed() {
        for (name, process) in [
            ("helmops-notifier", Process::Notifier),
            ("helmops-receiver", Process::Receiver),
        ] {
            let installed = deployment(name, "a", 1, &json!([]));
            assert_eq!((installed.process, installed.notifies()), (process, true));
            let findings = check(&[installed]);
            assert_eq!(findings[0].level, Level::Error, "{findings:?}");
            assert!(findings[0].message.contains("1 of 2 replicas"), "{findings:?}");
            // Those that are missing are the processes that every installation has.
            assert_eq!(findings.len(), 3);
        }
    }

    #[test]
    fn arguments_take_precedence_over_the_environment() {
        let controller = deployment("helmops-controller", "a", 2, &json!([]));
        assert!(controller.delivers());
        let controller = deployment("helmops-controller", "a", 2, &json!(["--controllers=helmop"]));
        assert!(!controller.delivers());
    }
}
