//! A cluster joins, and its agent starts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::helmops;
use helmops_bed::process::Process;
use helmops_bed::test_bed::binary;
use helmops_bed::{probe, random};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{ACCOUNT, Agent, Fixture, Permissions, Server};
use crate::harness::SOON;

/// The namespace of the agent in the manifests.
const MANIFEST_NAMESPACE: &str = "cattle-fleet-system";

const RBAC: &str = "rbac.authorization.k8s.io/v1";

impl Fixture {
    /// Applies the account of `manifests/agent`, in the namespace of this agent.
    pub(super) async fn install(&self) -> Result<()> {
        static ALL: OnceCell<Vec<Value>> = OnceCell::const_new();
        let tools = &self.bed.tools;
        let objects = match self.permissions {
            Permissions::ClusterAdmin => {
                let all = ALL
                    .get_or_try_init(async || helmops::objects(tools, "agent").await)
                    .await?;
                all.clone()
            }
            Permissions::Namespaced => {
                let mut objects = helmops::objects(tools, "agent/namespaced").await?;
                let mut role = helmops::objects(tools, "agent/namespaced/role").await?;
                for object in &mut role {
                    object["metadata"]["namespace"] = json!(self.apps.name());
                }
                objects.append(&mut role);
                objects
            }
        };
        let is_account = |object: &&Value| {
            let kind = object["kind"].as_str().unwrap_or_default();
            kind == "ServiceAccount" || kind.contains("Role")
        };
        for object in objects.iter().filter(is_account) {
            let text = object.to_string().replace(MANIFEST_NAMESPACE, self.system.name());
            let mut object: Value = serde_json::from_str(&text)?;
            if object["kind"] == "ClusterRoleBinding" {
                object["metadata"]["name"] = json!(self.system.name());
            }
            self.create(&object).await?;
        }
        Ok(())
    }

    /// Creates an object; one without a namespace is in that of the cluster.
    async fn create(&self, object: &Value) -> Result<()> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (version, kind) = (text("/apiVersion"), text("/kind"));
        let (version, kind) = (version.context("no apiVersion")?, kind.context("no kind")?);
        let root = if version.contains('/') { "apis" } else { "api" };
        let namespace = text("/metadata/namespace").unwrap_or(self.upstream.name());
        let resource = format!("{}s", kind.to_lowercase());
        let path = match kind {
            "ClusterRoleBinding" => format!("{root}/{version}/{resource}"),
            _ => format!("{root}/{version}/namespaces/{namespace}/{resource}"),
        };
        self.api.call(Method::POST, &path, object.clone()).await?;
        Ok(())
    }

    /// Creates the Cluster with its account, as the controller does, and the Secret with the access.
    pub async fn join(&self) -> Result<()> {
        let namespace = self.upstream.name();
        let cluster = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster", "metadata": { "name": "edge" } });
        let account =
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": ACCOUNT } });
        let subjects = json!([{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace }]);
        let binding = |name: &str, kind: &str, role: &str| {
            json!({
                "apiVersion": RBAC, "kind": "RoleBinding", "metadata": { "name": name }, "subjects": subjects,
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            })
        };
        let permission = |resource: &str, verb: &str| json!({ "apiGroups": ["fleet.cattle.io"], "resources": [resource], "resourceNames": ["edge"], "verbs": [verb] });
        let role = json!({
            "apiVersion": RBAC, "kind": "Role", "metadata": { "name": "helmops-agent-edge" },
            "rules": [permission("clusters/status", "patch")],
        });
        let mut contents = binding(namespace, "ClusterRole", "helmops-agent-contents");
        contents["kind"] = json!("ClusterRoleBinding");
        let objects = [
            cluster,
            account,
            binding(ACCOUNT, "ClusterRole", ACCOUNT),
            role,
            binding("helmops-agent-edge", "Role", "helmops-agent-edge"),
        ];
        for object in &objects {
            self.create(object).await?;
        }
        // It stays when the namespace is deleted.
        let path = format!("apis/{RBAC}/clusterrolebindings/{namespace}");
        if self.api.find(&path).await?.is_none() {
            self.create(&contents).await?;
        }
        let status = json!({ "status": { "namespace": namespace } });
        let clusters = vec![("edge".to_owned(), status)];
        self.api.patch_status(namespace, "clusters", clusters).await?;
        self.join_namespace(namespace).await
    }

    /// Creates or changes the Secret with the access to a namespace in the management cluster.
    pub async fn join_namespace(&self, namespace: &str) -> Result<()> {
        let token = self.token(self.upstream.name(), 3600).await?;
        self.write_access(namespace, &token).await
    }

    /// A token of the agent in a namespace of the management or the workload cluster.
    pub async fn token(&self, namespace: &str, seconds: u64) -> Result<String> {
        let path = format!("api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token");
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": seconds } });
        let created = self.api.call(Method::POST, &path, request).await?;
        let created: Value = serde_json::from_str(&created)?;
        let token = created["status"]["token"].as_str();
        Ok(token.context("no token")?.to_owned())
    }

    pub async fn write_access(&self, namespace: &str, token: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fleet-agent" },
            "stringData": {
                "deploymentNamespace": namespace, "clusterNamespace": self.cluster.namespace, "clusterName": self.cluster.name,
                "kubeconfig": kubeconfig(&self.management, token, namespace),
            },
        });
        let applied = self.system.kubectl().apply(&secret.to_string()).await?;
        applied.ok().map(drop)
    }

    /// Starts the only replica of the agent, which needs no Lease.
    pub async fn start(&self) -> Agent {
        self.start_with("agent", &["--leader-elect=false"]).await.unwrap()
    }

    /// Starts a replica with additional flags, and waits until its caches are synced.
    pub async fn start_with(&self, name: &str, flags: &[&str]) -> Result<Agent> {
        self.start_within(&[], name, flags).await
    }

    /// The same, with a program and its arguments before those of the agent.
    pub async fn start_within(&self, wrapper: &[&str], name: &str, flags: &[&str]) -> Result<Agent> {
        let token = self.token(self.system.name(), 3600).await?;
        let file = self.files.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&file, kubeconfig(&self.workload, &token, "default"))?;
        let [work, cache] = ["work", "cache"].map(|kind| self.folder(name, kind));
        for folder in [&work, &cache] {
            std::fs::create_dir_all(folder)?;
        }
        let program = binary("helmops-agent")?;
        let local = |port: u16| format!("127.0.0.1:{port}");
        let (process, [admin, _]) = Process::start_on_ports(
            name,
            &self.files.path().join(format!("{name}-{}.log", random::word())),
            |[admin, probes]| {
                let mut command = match wrapper {
                    [] => self.bed.command(&program),
                    [wrapper, arguments @ ..] => {
                        let mut command = self.bed.command(Path::new(wrapper));
                        command.args(arguments).arg(&program);
                        command
                    }
                };
                command
                    .args([
                        "--log-format",
                        "text",
                        "--allow-cidrs",
                        "127.0.0.0/8",
                        "--pod-name",
                        name,
                    ])
                    .args([
                        "--metrics-bind-address",
                        &local(admin),
                        "--health-probe-bind-address",
                        &local(probes),
                    ])
                    .args([
                        "--namespace",
                        self.system.name(),
                        "--agent-scope",
                        self.system.name(),
                    ])
                    .arg("--kubeconfig")
                    .arg(&file)
                    .arg("--helm")
                    .arg(&self.helm)
                    .arg("--work-dir")
                    .arg(&work)
                    .arg("--cache-dir")
                    .arg(&cache);
                if self.permissions == Permissions::Namespaced {
                    command.args(["--release-namespaces", self.apps.name()]);
                }
                command.args(flags);
                command
            },
            async |[admin, _]| {
                let client = probe::client(None)?;
                probe::ready(&client, &format!("http://{}/readyz", local(admin)), SOON).await
            },
        )
        .await?;
        Ok(Agent {
            process,
            admin: format!("http://{}", local(admin)),
        })
    }

    /// The folder `work` or `cache` of an agent.
    pub fn folder(&self, agent: &str, kind: &str) -> PathBuf {
        self.files.path().join(format!("{agent}-{kind}"))
    }

    /// The Helm of the agent.
    pub fn helm(&self) -> &Path {
        &self.helm
    }
}

pub fn kubeconfig(server: &Server, token: &str, namespace: &str) -> String {
    let cluster = json!({ "server": server.url, "certificate-authority-data": STANDARD.encode(&server.ca) });
    let context = json!({ "cluster": "c", "user": "u", "namespace": namespace });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": cluster }],
        "contexts": [{ "name": "c", "context": context }],
        "users": [{ "name": "u", "user": { "token": token } }],
    })
    .to_string()
}
