//! Agents on a control plane that tests share. It is both clusters: the management cluster, where the agent has the permissions that
//! the controller gives to the agent of a cluster, and the workload cluster, where it has those of `manifests/agent`. No controller
//! runs; the tests write the BundleDeployments. Each test has namespaces, an agent and a chart repository of its own.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::api::Api;
use helmops_bed::api_proxy::ApiProxy;
use helmops_bed::audit::{self, Write};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::control_plane::Options;
use helmops_bed::helm::Helm;
use helmops_bed::helmops::{self, manifests};
use helmops_bed::metrics::Metrics;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::process::Process;
use helmops_bed::test_bed::{TestBed, binary};
use helmops_bed::tools::agent_helm;
use helmops_bed::wait::eventually;
use helmops_bed::{probe, random};
use helmops_core::targeting::identity::values_hash;
use helmops_release::record::{Record, secret_name};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::{SOON, condition, run, until, until_none};

/// The namespace of the agent in the manifests.
const MANIFEST_NAMESPACE: &str = "cattle-fleet-system";
/// The account of the agent, in both clusters.
pub const ACCOUNT: &str = "helmops-agent";
const GROUP: &str = "apis/fleet.cattle.io/v1alpha1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// The template of a ConfigMap `RELEASE-config` with the value `msg`.
pub const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  msg: {{ .Values.msg | quote }}\n";
/// A Deployment that never gets a pod: there are no nodes.
pub const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: late}\nspec:\n  selector: {matchLabels: {app: late}}\n  template:\n    metadata: {labels: {app: late}}\n    spec: {containers: [{name: a, image: a}]}\n";
/// A Pod that no node runs.
pub const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: late}\nspec: {containers: [{name: a, image: a}]}\n";

/// The control plane; the first call starts it.
pub async fn bed() -> &'static TestBed {
    static BED: OnceCell<TestBed> = OnceCell::const_new();
    BED.get_or_try_init(start_bed).await.unwrap()
}

/// A control plane for agents, with an audit log.
pub async fn start_bed() -> Result<TestBed> {
    start_bed_with(false).await
}

/// The same, with a simulated node that runs pods if there are to be `nodes`.
pub async fn start_bed_with(nodes: bool) -> Result<TestBed> {
    let options = Options {
        audit_log: true,
        nodes,
        crds: vec![manifests().join("standalone/crds")],
        ..Options::default()
    };
    let bed = TestBed::start(&options).await?;
    helmops::apply_standalone(&bed.kubectl()).await?;
    Ok(bed)
}

/// What the agent may do on the workload cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// Everything: `manifests/agent`.
    ClusterAdmin,
    /// Everything in the namespace of the releases, and nothing outside of it: `manifests/agent/namespaced`.
    Namespaced,
}

/// Where an API server is: a control plane, or a proxy in front of it.
#[derive(Clone, Debug)]
pub struct Server {
    pub url: String,
    /// The CA certificate to trust (PEM).
    pub ca: String,
}

impl Server {
    pub fn of(proxy: &ApiProxy) -> Self {
        Self {
            url: proxy.url(),
            ca: proxy.ca().to_owned(),
        }
    }
}

/// The Cluster of an agent, in the management cluster.
#[derive(Clone, Debug)]
pub struct Membership {
    pub namespace: String,
    pub name: String,
}

/// A cluster of a test.
pub struct Fixture {
    pub bed: &'static TestBed,
    pub api: Api,
    /// The namespace of the cluster in the management cluster, with its BundleDeployments.
    pub upstream: TestNamespace,
    cluster: Membership,
    /// The namespace of the agent.
    pub system: TestNamespace,
    /// The namespace of the releases.
    pub apps: TestNamespace,
    pub charts: Charts,
    /// Where the agent reaches the management cluster and the workload cluster.
    pub management: Server,
    pub workload: Server,
    /// In the names of BundleDeployments, since labels with these names are of the whole cluster.
    word: String,
    permissions: Permissions,
    files: TempDir,
    helm: PathBuf,
}

/// A running agent.
pub struct Agent {
    pub process: Process,
    /// Base URL of its admin port.
    pub admin: String,
}

impl Fixture {
    /// A cluster that has joined, with the chart `web` 1.0.0 in its repository: the ConfigMap [`CONFIG`].
    pub async fn new(prefix: &str) -> Self {
        Self::with_permissions(prefix, Permissions::ClusterAdmin).await
    }

    pub async fn with_permissions(prefix: &str, permissions: Permissions) -> Self {
        Self::on(bed().await, prefix, permissions).await.unwrap()
    }

    /// The same on another control plane.
    pub async fn on(bed: &'static TestBed, prefix: &str, permissions: Permissions) -> Result<Self> {
        let upstream = TestNamespace::create(bed, &format!("{prefix}-cluster")).await?;
        let cluster = Membership {
            namespace: upstream.name().to_owned(),
            name: "edge".to_owned(),
        };
        let fixture = Self::installed(bed, prefix, permissions, upstream, cluster).await?;
        fixture.join().await?;
        Ok(fixture)
    }

    /// A cluster that the controller has given a namespace and an account.
    pub async fn of_cluster(
        bed: &'static TestBed,
        prefix: &str,
        cluster: Membership,
        deployments: &str,
    ) -> Result<Self> {
        let upstream = TestNamespace::existing(bed, deployments);
        let fixture = Self::installed(bed, prefix, Permissions::ClusterAdmin, upstream, cluster).await?;
        eventually("the account of the cluster", SOON, async || {
            fixture.join_namespace(deployments).await
        })
        .await?;
        Ok(fixture)
    }

    async fn installed(
        bed: &'static TestBed,
        prefix: &str,
        permissions: Permissions,
        upstream: TestNamespace,
        cluster: Membership,
    ) -> Result<Self> {
        let files = TempDir::new_in(&bed.directory)?;
        let server = Server {
            url: bed.url.clone(),
            ca: bed.ca()?,
        };
        let namespace = async |kind: &str| TestNamespace::create(bed, &format!("{prefix}-{kind}")).await;
        let fixture = Self {
            api: Api::new(bed)?,
            upstream,
            cluster,
            system: namespace("agent").await?,
            apps: namespace("apps").await?,
            charts: Charts::start(bed, &files).await?,
            management: server.clone(),
            workload: server,
            word: random::word(),
            permissions,
            helm: helm_that_counts(files.path()).await?,
            files,
            bed,
        };
        fixture.install().await?;
        fixture
            .charts
            .add("web", "1.0.0", &[("templates/config.yaml", CONFIG)])
            .await;
        Ok(fixture)
    }

    /// Applies the account of `manifests/agent`, in the namespace of this agent.
    async fn install(&self) -> Result<()> {
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
        self.system.kubectl().apply(&secret.to_string()).await?.ok()?;
        Ok(())
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

    /// The Events of the agent in the namespace of the releases: reason and text.
    pub async fn events(&self) -> Vec<(String, String)> {
        let get = ["get", "events.events.k8s.io", "--output=json"];
        let list: Value = serde_json::from_str(&self.kubectl(&get).await).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = list["items"].as_array().unwrap().iter();
        events
            .filter(|event| event["reportingController"] == ACCOUNT)
            .map(|event| (text(&event["reason"]), text(&event["note"])))
            .collect()
    }

    /// The runs of Helm so far, such as `install web`.
    pub fn helm_runs(&self) -> Vec<String> {
        let runs = std::fs::read_to_string(self.files.path().join("runs")).unwrap_or_default();
        runs.lines()
            .filter(|run| !run.starts_with("version"))
            .map(str::to_owned)
            .collect()
    }

    /// The runs of Helm for a release, such as `install`.
    pub fn helm_runs_of(&self, release: &str) -> Vec<String> {
        let runs = self.helm_runs();
        let runs = runs
            .iter()
            .filter_map(|run| run.strip_suffix(&format!(" {release}")));
        runs.map(str::to_owned).collect()
    }

    /// Lets each run of an action of Helm take longer.
    pub fn delay_helm(&self, action: &str, seconds: u8) {
        let file = self.files.path().join(format!("{DELAY}-{action}"));
        std::fs::write(file, format!("{seconds}\n")).unwrap();
    }

    /// The writes of the agent to the workload cluster, without its Leases.
    pub fn downstream_writes(&self) -> Vec<Write> {
        let mut writes = audit::writes_of(&self.bed.audit_log(), &user(self.system.name())).unwrap();
        writes.retain(|write| write.resource != "leases");
        writes
    }

    /// The writes of the agent to the management cluster, without its heartbeat.
    pub fn upstream_writes(&self) -> Vec<Write> {
        let mut writes = audit::writes_of(&self.bed.audit_log(), &user(self.upstream.name())).unwrap();
        writes.retain(|write| write.resource != "clusters");
        writes
    }

    /// The name of a BundleDeployment of this test, which is also that of its release.
    pub fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.word)
    }

    /// The spec of a BundleDeployment of the chart `web`, with `over` merged over it. The deployment ID follows from the options, unless
    /// `over` has one.
    pub fn spec(&self, version: &str, over: &Value) -> Value {
        let mut spec = json!({
            "options": {
                "defaultNamespace": self.apps.name(),
                "helm": { "repo": self.charts.url(), "chart": "web", "version": version },
            },
            "helmChartOptions": {},
        });
        json_patch::merge(&mut spec, over);
        let mut options = spec["options"].clone();
        for field in ["correctDrift", "diff", "ignore"] {
            options.as_object_mut().unwrap().remove(field);
        }
        let mut hasher = DefaultHasher::new();
        (options.to_string(), spec["valuesHash"].to_string()).hash(&mut hasher);
        let id = format!(":{:016x}", hasher.finish());
        for field in ["deploymentID", "stagedDeploymentID"] {
            if spec[field].is_null() {
                spec[field] = json!(id);
            }
        }
        spec["stagedOptions"] = spec["options"].clone();
        spec
    }

    /// Creates or replaces a BundleDeployment of a version of the chart `web`.
    pub async fn deploy(&self, name: &str, version: &str, over: &Value) {
        self.put(&self.name(name), self.spec(version, over)).await;
    }

    /// Creates or replaces a BundleDeployment.
    pub async fn put(&self, name: &str, spec: Value) {
        let collection = format!("{GROUP}/namespaces/{}/bundledeployments", self.upstream.name());
        let object = format!("{collection}/{name}");
        eventually("the BundleDeployment to be written", SOON, async || {
            let labels = json!({ "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": "fleet-default" });
            let mut written = json!({
                "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
                "metadata": { "name": name, "labels": labels }, "spec": spec,
            });
            match self.api.find(&object).await? {
                Some(found) => {
                    let version = &found["metadata"]["resourceVersion"];
                    written["metadata"]["resourceVersion"] = version.clone();
                    // The status is not changed by this.
                    self.api.call(Method::PUT, &object, written).await
                }
                None => self.api.call(Method::POST, &collection, written).await,
            }
        })
        .await
        .unwrap();
    }

    /// Writes the values of a BundleDeployment, and returns their hash for its spec.
    pub async fn values(&self, name: &str, values: &str) -> String {
        let data = json!({ "values": STANDARD.encode(values), "stagedValues": STANDARD.encode(values) });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": self.name(name) }, "data": data });
        self.upstream
            .kubectl()
            .apply(&secret.to_string())
            .await
            .unwrap()
            .ok()
            .unwrap();
        values_hash(values.as_bytes(), values.as_bytes())
    }

    /// Deletes a BundleDeployment.
    pub async fn delete(&self, name: &str) {
        let name = self.name(name);
        self.api
            .delete(self.upstream.name(), "bundledeployments", &name)
            .await
            .unwrap();
    }

    /// Waits until `check` accepts a BundleDeployment.
    pub async fn until(&self, name: &str, check: impl Fn(&Value) -> Result<()>) -> Value {
        until(
            &self.upstream,
            &format!("bundledeployment/{}", self.name(name)),
            check,
        )
        .await
    }

    /// Waits until what is wanted is deployed and ready, and returns the BundleDeployment.
    pub async fn until_ready(&self, name: &str) -> Value {
        self.until(name, |found| {
            is_applied(found)?;
            let ready = condition(found, "Ready").context("no condition Ready")?;
            ensure!(ready["status"] == "True", "it is {ready}");
            Ok(())
        })
        .await
    }

    /// Waits until what is wanted is deployed as this revision.
    pub async fn until_revision(&self, name: &str, revision: u64) -> Value {
        let release = format!("{}/{}:{revision}", self.apps.name(), self.name(name));
        self.until(name, |found| {
            is_applied(found)?;
            ensure!(
                found["status"]["release"] == release,
                "it is {}",
                found["status"]["release"]
            );
            Ok(())
        })
        .await
    }

    /// Waits until a condition is `False` with a message that contains all of these, and returns the message.
    pub async fn until_error(&self, name: &str, r#type: &str, parts: &[&str]) -> String {
        let found = self
            .until(name, |found| {
                let condition = condition(found, r#type).context("no such condition")?;
                ensure!(condition["status"] == "False", "it is {condition}");
                let message = condition["message"].as_str().unwrap_or_default();
                let missing = parts.iter().find(|part| !message.contains(**part));
                ensure!(missing.is_none(), "{missing:?} is not in {message}");
                Ok(())
            })
            .await;
        super::message(&found, r#type)
    }

    /// The value `msg` in the ConfigMap of a release of the chart `web`.
    pub async fn msg(&self, release: &str) -> Option<String> {
        let found = self.object(&format!("configmap/{release}-config")).await?;
        Some(found["data"]["msg"].as_str()?.to_owned())
    }

    /// Waits until the ConfigMap of a release has this value.
    pub async fn until_msg(&self, release: &str, expected: &str) {
        eventually(&format!("msg {expected}"), SOON, async || {
            let msg = self.msg(release).await;
            ensure!(msg.as_deref() == Some(expected), "it is {msg:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// An object of the namespace of the releases.
    pub async fn object(&self, object: &str) -> Option<Value> {
        self.apps.kubectl().get(object).await.unwrap()
    }

    /// Waits until there is no such object in the namespace of the releases.
    pub async fn until_none(&self, object: &str) {
        until_none(&self.apps, object).await;
    }

    /// kubectl in the namespace of the releases.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        run(&self.apps, arguments).await
    }

    /// The Secret of a record, with the record.
    pub async fn record(&self, release: &str, revision: u64) -> Option<(Value, Record)> {
        let secret = self
            .object(&format!("secret/{}", secret_name(release, revision)))
            .await?;
        let data = STANDARD.decode(secret["data"]["release"].as_str()?).ok()?;
        Some((secret, Record::decode(&data).ok()?))
    }

    /// Waits until a revision has this status.
    pub async fn until_status(&self, release: &str, revision: u64, status: &str) -> Record {
        eventually(
            &format!("revision {revision} of {release} to be {status}"),
            SOON,
            async || {
                let (_, record) = self.record(release, revision).await.context("no such record")?;
                let found = record.info.status;
                ensure!(found.as_str() == status, "it is {found}");
                Ok(record)
            },
        )
        .await
        .unwrap()
    }

    /// Replaces the content of a record.
    pub async fn write_record(&self, record: &Record) {
        let name = record.secret_name();
        let data = String::from_utf8(record.encode().unwrap()).unwrap();
        let labels = record.labels(&[].into(), 1_700_000_000);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": { "name": name, "labels": labels }, "stringData": { "release": data },
        });
        let applied = self.apps.kubectl().apply(&secret.to_string()).await;
        applied.unwrap().ok().unwrap();
    }

    /// The names of the Secrets of all records.
    pub async fn records(&self) -> Vec<String> {
        let arguments = ["get", "secrets", "--selector=owner=helm", "--output=name"];
        let names = self.kubectl(&arguments).await;
        names.lines().map(str::to_owned).collect()
    }

    /// Deploys something else and waits for it: a change before this has been handled, or will not be.
    pub async fn barrier(&self) {
        let name = self.barrier_without_removal().await;
        self.delete(&name).await;
        let secret = format!("secret/{}", secret_name(&self.name(&name), 1));
        self.until_none(&secret).await;
    }

    /// The same where nothing is uninstalled.
    pub async fn barrier_without_removal(&self) -> String {
        let name = format!("barrier-{}", random::word());
        self.deploy(&name, "1.0.0", &json!({})).await;
        self.until_ready(&name).await;
        name
    }
}

impl Agent {
    /// Waits until it has reconciled as many BundleDeployments: after a start, each of them at least once.
    pub async fn until_reconciled(&self, deployments: u16) {
        eventually("all reconciliations", SOON, async || {
            let metrics = Metrics::scrape(&format!("{}/metrics", self.admin)).await?;
            let reconciled = metrics.sum("helmops_reconcile_total", &[]).unwrap_or_default();
            ensure!(
                reconciled >= f64::from(deployments),
                "{reconciled} of {deployments}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// The user name of the agent.
pub fn user(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{ACCOUNT}")
}

fn is_applied(found: &Value) -> Result<()> {
    let (wanted, applied) = (
        &found["spec"]["deploymentID"],
        &found["status"]["appliedDeploymentID"],
    );
    ensure!(
        wanted == applied,
        "{applied} is deployed instead of {wanted}: {}",
        found["status"]["conditions"]
    );
    Ok(())
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

/// The file with the delay of an action of Helm in seconds, before the name of the action.
const DELAY: &str = "delay";

/// A program that writes the action and the release of each run to the file `runs`, and then is Helm, after a delay if there is one.
async fn helm_that_counts(folder: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let (program, runs) = (folder.join("helm"), folder.join("runs"));
    let helm = agent_helm().await?;
    let script = format!(
        "#!/bin/sh\necho \"$1 $2\" >> '{}'\nif read -r delay 2> /dev/null < '{}'-\"$1\"; then sleep \"$delay\"; fi\nexec '{}' \"$@\"\n",
        runs.display(),
        folder.join(DELAY).display(),
        helm.display()
    );
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

/// A chart repository.
pub struct Charts {
    helm: Helm,
    server: ChartServer,
    /// The served folder.
    folder: PathBuf,
}

impl Charts {
    async fn start(bed: &TestBed, files: &TempDir) -> Result<Self> {
        let folder = files.path().join("charts");
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            helm: Helm::new(&bed.tools, &folder),
            server: ChartServer::http(&folder).await?,
            folder,
        })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Adds a version of a chart with these files, or replaces it.
    pub async fn add(&self, chart: &str, version: &str, files: &[(&str, &str)]) {
        let all = [&[("values.yaml", "msg: hello\n")], files].concat();
        self.helm.publish(chart, version, &all).await.unwrap();
    }

    /// Serves a file, in place of one of the repository if there is one.
    pub fn file(&self, path: &str, content: &[u8]) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Adds a version of the chart `web` with these templates.
    pub async fn web(&self, version: &str, templates: &[(&str, &str)]) {
        let files: Vec<_> = templates
            .iter()
            .map(|(name, text)| (format!("templates/{name}.yaml"), *text))
            .collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        self.add("web", version, &files).await;
    }

    /// Adds version 2.0.0 of the chart `web`, with an object that does not become ready by itself.
    pub async fn late(&self, object: &str) {
        self.web("2.0.0", &[("config", CONFIG), ("late", object)]).await;
    }
}
