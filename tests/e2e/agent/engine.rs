//! Helm as the agent runs it, on a control plane that these tests share. Each test has a namespace of its own.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use helmops_agent::helm::{HelmMetrics, HelmRuns};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::shared::InUse;
use helmops_bed::test_bed::{TestBed, binary};
use helmops_bed::tools::agent_helm;
use helmops_bed::wait::eventually;
use helmops_helm::request::{Action, Deploy, Identity, Install, PostRenderers, Request, Upgrade};
use helmops_helm::run_scope::RunScope;
use helmops_helm::settings::{ActionSettings, Apply};
use helmops_helm::workspace::Workspaces;
use helmops_helm::{Failure, Helm, HelmProgram, Success};
use helmops_release::chart_metadata::Origin;
use helmops_release::names::{ReleaseKey, SetId};
use helmops_release::post_render::{CommonMetadata, PostRender};
use helmops_release::record::{Record, secret_name};
use helmops_release::scopes::{Scope, Scopes};
use kube::Client;
use prometheus::Registry;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::harness::SOON;
use crate::harness::agent::{bed, records_in};

/// The namespace of the agent.
pub const AGENT: &str = "fleet-agent-system";
/// The template of a ConfigMap with the value `msg`.
pub const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  msg: {{ .Values.msg | quote }}\n";
/// Two runs at a time, as by default.
const PROCESSES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// A namespace, and Helm for one release `web` in it.
pub struct Engine {
    pub helm: HelmRuns,
    pub namespace: TestNamespace,
    pub files: TempDir,
    pub kubeconfig: PathBuf,
    bed: InUse<TestBed>,
}

impl Engine {
    pub async fn start(prefix: &str) -> Self {
        Self::on(bed().await, prefix).await
    }

    /// The same on another control plane.
    pub async fn on(bed: InUse<TestBed>, prefix: &str) -> Self {
        let files = TempDir::new_in(&bed.directory).unwrap();
        let workspaces = Workspaces::open(&files.path().join("work")).unwrap();
        let program = agent_helm().await.unwrap();
        let metrics = HelmMetrics::register(&Registry::new()).unwrap();
        let post_renderer = binary("helmops-agent").unwrap();
        let program = HelmProgram::Engine {
            path: program,
            post_renderer,
        };
        let helm = HelmRuns::new(Helm::new(program, workspaces), PROCESSES, None, metrics);
        Self {
            helm,
            namespace: TestNamespace::create(&bed, prefix).await.unwrap(),
            files,
            kubeconfig: bed.kubeconfig.clone(),
            bed,
        }
    }

    pub fn kubectl(&self) -> &Kubectl {
        self.namespace.kubectl()
    }

    /// A client with the credentials of the administrator.
    pub async fn client(&self) -> Client {
        helmops_kube::connect("e2e", Some(&self.kubeconfig))
            .await
            .unwrap()
    }

    pub fn release(&self) -> ReleaseKey {
        ReleaseKey::new(self.namespace.name(), "web")
    }

    /// Runs kubectl, which must succeed.
    pub async fn run_kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl().run(arguments).await.unwrap().ok().unwrap()
    }

    /// Packages a chart `web` with these files.
    pub async fn chart(&self, version: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.files.path().join(format!("charts/{version}/web"));
        let metadata = format!("apiVersion: v2\nname: web\nversion: {version}\n");
        // A previous chart of this version.
        let _ = std::fs::remove_dir_all(&folder);
        let defaults = [("Chart.yaml", metadata.as_str()), ("values.yaml", "msg: hello\n")];
        for (path, content) in defaults.iter().chain(files) {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let helm = helmops_bed::helm::Helm::new(&self.bed.tools, folder.parent().unwrap());
        helm.run(&["package", "web"]).await.unwrap();
        folder.parent().unwrap().join(format!("web-{version}.tgz"))
    }

    pub fn request(&self, action: Action) -> Request {
        Request {
            release: self.release(),
            identity: Identity::Agent,
            action,
            hook_timeout: SOON,
        }
    }

    pub async fn run(&self, action: Action) -> Result<Success, Failure> {
        self.run_request(self.request(action), &CancellationToken::new())
            .await
    }

    pub async fn run_request(&self, request: Request, stop: &CancellationToken) -> Result<Success, Failure> {
        let kubeconfig = std::fs::read(&self.kubeconfig).unwrap();
        let outcome = self
            .helm
            .run(request, kubeconfig, &RunScope::of_agent(stop, ""))
            .await;
        let left = std::fs::read_dir(self.files.path().join("work")).unwrap().count();
        assert_eq!(left, 0, "the files of a run are removed");
        outcome
    }

    /// Installs a chart, which must succeed.
    pub async fn installed(&self, archive: &Path) {
        self.run(Action::Install(install(archive))).await.unwrap();
    }

    /// A file with the chart of one ConfigMap, version 1.0.0.
    pub async fn simple_chart(&self) -> PathBuf {
        self.chart("1.0.0", &[("templates/config.yaml", CONFIG_MAP)])
            .await
    }

    pub async fn record(&self, revision: u64) -> Option<Record> {
        let name = format!("secret/{}", secret_name("web", revision));
        let secret = self.kubectl().get(&name).await.unwrap()?;
        let data = STANDARD.decode(secret["data"]["release"].as_str().unwrap());
        Some(Record::decode(&data.unwrap()).unwrap())
    }

    /// The Secrets of all records.
    pub async fn records(&self) -> Vec<String> {
        records_in(&self.kubectl().api().unwrap(), self.namespace.name()).await
    }

    /// An object, if it exists.
    pub async fn object(&self, name: &str) -> Option<Value> {
        self.kubectl().get(name).await.unwrap()
    }

    /// Waits until a revision has this status.
    pub async fn until_status(&self, revision: u64, status: &str) -> Record {
        eventually(&format!("revision {revision} to be {status}"), SOON, async || {
            let record = self.record(revision).await.context("no such record")?;
            let found = record.info.status;
            ensure!(found.as_str() == status, "it is {found}");
            Ok(record)
        })
        .await
        .unwrap()
    }
}

/// How the agent deploys an archive.
pub fn deploy(archive: &Path) -> Deploy {
    let mut scopes = Scopes::default();
    scopes.insert("", "ConfigMap", Scope::Namespaced);
    scopes.insert("rbac.authorization.k8s.io", "ClusterRole", Scope::Cluster);
    Deploy {
        archive: archive.to_owned(),
        origin: Origin {
            bundle_deployment: "web-bundle".to_owned(),
            agent_namespace: AGENT.to_owned(),
            ..Origin::default()
        },
        values: Vec::new(),
        post_renderers: PostRenderers::default(),
        post_render: PostRender {
            common: CommonMetadata::default(),
            set: SetId::new("web-bundle", "").as_str().to_owned(),
            namespace: None,
            deletes_crds: false,
            scopes,
        },
        secrets: helmops_helm::outcome::SecretTexts::default(),
        enables_dns: true,
        skips_schema: false,
        description: String::new(),
        skips_crds: false,
        on_delete: None,
        acceptance: None,
    }
}

/// An installation with the defaults.
pub fn install(archive: &Path) -> Install {
    Install {
        deploy: deploy(archive),
        settings: ActionSettings {
            apply: Apply::Server,
            takes_ownership: false,
            ..ActionSettings::default()
        },
        replaces: false,
    }
}

/// An upgrade with the defaults.
pub fn upgrade(archive: &Path) -> Upgrade {
    Upgrade {
        deploy: deploy(archive),
        settings: ActionSettings::default(),
        max_history: 2,
    }
}

/// A hook that never completes: nothing runs its pods.
pub const ENDLESS_HOOK: &str = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}\nspec:\n  template:\n    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}\n";

/// Shorter than any test waits.
pub const SHORT: Duration = Duration::from_secs(2);
