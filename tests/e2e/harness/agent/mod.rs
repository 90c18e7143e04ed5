//! Agents on a control plane that tests share. It is both clusters: the management cluster, where the agent has the permissions that
//! the controller gives to the agent of a cluster, and the workload cluster, where it has those of `manifests/agent`. No controller
//! runs; the tests write the BundleDeployments. Each test has namespaces, an agent and a chart repository of its own.

mod charts;
mod deployment;
mod release;
mod start;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use helmops_bed::api::Api;
use helmops_bed::api_proxy::ApiProxy;
use helmops_bed::control_plane::Options;
use helmops_bed::helmops::Part;
use helmops_bed::metrics::Metrics;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::process::Process;
use helmops_bed::random;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use tempfile::TempDir;

pub use self::charts::{CONFIG, Charts, DEPLOYMENT, POD};
use self::release::helm_that_counts;
pub use self::release::records_in;
pub use self::start::kubeconfig;
use super::SOON;

/// The account of the agent, in both clusters.
pub const ACCOUNT: &str = "helmops-agent";

/// The control plane. It ends soon after the last test that uses it.
pub async fn bed() -> InUse<TestBed> {
    static BED: Shared<TestBed> = Shared::new();
    BED.get(start_bed).await.unwrap()
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
        manifests: Part::paths(&[Part::Standalone]),
        ..Options::default()
    };
    TestBed::start(&options).await
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
    pub bed: InUse<TestBed>,
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
    pub async fn on(bed: InUse<TestBed>, prefix: &str, permissions: Permissions) -> Result<Self> {
        let upstream = TestNamespace::create(&bed, &format!("{prefix}-cluster")).await?;
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
        bed: &TestBed,
        prefix: &str,
        cluster: Membership,
        deployments: &str,
    ) -> Result<Self> {
        let upstream = TestNamespace::existing(bed, deployments);
        let bed = bed.clone().into();
        let fixture = Self::installed(bed, prefix, Permissions::ClusterAdmin, upstream, cluster).await?;
        eventually("the account of the cluster", SOON, async || {
            fixture.join_namespace(deployments).await
        })
        .await?;
        Ok(fixture)
    }

    async fn installed(
        bed: InUse<TestBed>,
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
        let namespace = async |kind: &str| TestNamespace::create(&bed, &format!("{prefix}-{kind}")).await;
        let fixture = Self {
            api: Api::new(&bed)?,
            upstream,
            cluster,
            system: namespace("agent").await?,
            apps: namespace("apps").await?,
            charts: Charts::start(&bed, &files).await?,
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
