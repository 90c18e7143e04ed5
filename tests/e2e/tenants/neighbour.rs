//! The tenant who is attacked: a namespace with a private repository, its password, and a cluster.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use helmops_bed::api::{Api, value_at};
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::kubectl::Kubectl;
use helmops_bed::random;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::attack::SOON;
use crate::environment::{FLEET, Mode};
use crate::write_latency;

/// The namespace of the tenant.
pub const NAMESPACE: &str = "neighbour";
/// The Secret with the login of its repository.
pub const ACCESS: &str = "access";
/// The version that its HelmOps get.
const VERSION: &str = "1.2.0";
/// A fiftieth of what is asserted.
const POLL: Duration = Duration::from_millis(40);

/// The tenant. Each of its HelmOps has a repository of its own, so that no cache and no kept connection helps.
pub struct Neighbour {
    /// The base URL of its repositories, with the name of the host, so that DNS is included.
    pub repo: String,
    /// The index of the repository.
    pub index: String,
    /// The password of the repository.
    pub password: String,
    _server: ChartServer,
    mode: Mode,
    helmops: u32,
    folder: PathBuf,
    /// The namespace of its cluster, in the mode that deploys to clusters.
    cluster: String,
}

impl Neighbour {
    /// Creates the namespace and its objects.
    pub async fn create(bed: &TestBed, api: &Api, mode: Mode, charts: &ChartRepo) -> Result<Self> {
        let server = ChartServer::http(charts.folder()).await?;
        let password = random::word();
        server.require_login("reader", &password);
        let kubectl = bed.kubectl();
        kubectl.run(&["create", "namespace", NAMESPACE]).await?.ok()?;
        let kubectl = kubectl.in_namespace(NAMESPACE);
        write_access(&kubectl, ACCESS, &password).await?;
        write_latency::create(api).await?;
        let mut neighbour = Self {
            repo: server.url().replace("127.0.0.1", "localhost"),
            index: std::fs::read_to_string(charts.folder().join("index.yaml"))?,
            password,
            _server: server,
            mode,
            helmops: 0,
            folder: charts.folder().to_owned(),
            cluster: String::new(),
        };
        if mode == Mode::Standalone {
            neighbour.cluster = create_cluster(api, NAMESPACE, "prod", SOON).await?;
        }
        Ok(neighbour)
    }

    /// Creates a HelmOp with a chart of a repository below this URL, and returns its name.
    pub async fn create_helmop(&mut self, api: &Api, repo: &str, secret: &str) -> Result<String> {
        self.helmops += 1;
        let name = format!("web-{}", self.helmops);
        let link = self.folder.join(&name);
        if !link.exists() {
            // The same charts at another URL.
            symlink(&self.folder, link)?;
        }
        let repo = format!("{repo}/{name}");
        let helmop = json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "HelmOp", "metadata": { "name": name },
            "spec": {
                "helm": { "repo": repo, "chart": "web", "version": "1.x" },
                "helmSecretName": secret,
                "targets": [{ "clusterName": "prod" }],
            },
        });
        let path = format!("{FLEET}/namespaces/{NAMESPACE}/helmops");
        api.call(Method::POST, &path, helmop).await?;
        Ok(name)
    }

    /// Waits until a HelmOp has its version, and is deployed in the mode that deploys.
    pub async fn until_deployed(&self, api: &Api, name: &str, deadline: Duration) -> Result<()> {
        let (path, pointer) = match self.mode {
            Mode::BesideFleet => (format!("{NAMESPACE}/bundles/{name}"), "/spec/helm/version"),
            Mode::Standalone => (
                format!("{}/bundledeployments/{name}", self.cluster),
                "/spec/options/helm/version",
            ),
        };
        let path = format!("{FLEET}/namespaces/{path}");
        let polling = async {
            loop {
                if let Ok(found) = api.get(&path).await
                    && value_at(&found, pointer) == VERSION
                {
                    return;
                }
                sleep(POLL).await;
            }
        };
        timeout(deadline, polling)
            .await
            .with_context(|| format!("{name} is not deployed after {deadline:?}"))
    }

    /// Creates a HelmOp and returns the time until it is deployed, admission included.
    pub async fn deploy(&mut self, api: &Api, repo: &str, deadline: Duration) -> Result<Duration> {
        let start = Instant::now();
        let name = timeout(deadline, self.create_helmop(api, repo, ACCESS))
            .await
            .context("the HelmOp is not created")??;
        self.until_deployed(api, &name, deadline.saturating_sub(start.elapsed()))
            .await?;
        Ok(start.elapsed())
    }

    /// Deletes its HelmOps.
    pub async fn clear(&self, api: &Api) -> Result<()> {
        let path = format!("{FLEET}/namespaces/{NAMESPACE}/helmops");
        api.call(Method::DELETE, &path, Value::Null).await.map(drop)
    }
}

/// Writes a Secret with the login, as users do: kubectl stores all of it in an annotation too.
pub async fn write_access(kubectl: &Kubectl, name: &str, password: &str) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
        "stringData": { "username": "reader", "password": password },
    });
    kubectl.apply(&secret.to_string()).await?.ok().map(drop)
}

/// Registers a cluster and returns its namespace.
pub async fn create_cluster(api: &Api, namespace: &str, name: &str, deadline: Duration) -> Result<String> {
    let path = format!("{FLEET}/namespaces/{namespace}/clusters");
    let labels = json!({ "name": name });
    let cluster = json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster", "metadata": { "name": name, "labels": labels },
    });
    api.call(Method::POST, &path, cluster).await?;
    eventually("the namespace of a cluster", deadline, async || {
        let cluster = api.get(&format!("{path}/{name}")).await?;
        match value_at(&cluster, "/status/namespace").as_str() {
            Some(namespace) => {
                ensure!(!namespace.is_empty(), "it is empty");
                Ok(namespace.to_owned())
            }
            None => bail!("there is none"),
        }
    })
    .await
}
